"""Measurements of kernels that others published, run as they are from checkouts of their repositories.

published.json has the facts. `launches` says which kernel on which arguments a point stands for; a folder of checkouts,
each named as its repository, holds the kernels (`git clone`, then the stated commit). Nothing of them is kept here.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import tilewright as tw

FILE = Path(__file__).parent / "published.json"
Launch = tuple[Any, Sequence[Any]]
"""A kernel and its arguments."""

BF16 = "bfloat16"


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One measurement: `us` microseconds by `metric` (see published.json); shares: busy engines over the whole."""

    id: str
    group: str
    target: str
    metric: str
    repository: str
    cores: int
    kernel: str
    dtype: str
    us: float
    variant: str = ""
    sizes: tuple[int, ...] = ()
    shape: Mapping[str, int] = field(default_factory=dict[str, int])
    shares: Mapping[str, float] = field(default_factory=dict[str, float])
    hbm_read: int = 0
    missing: bool = False

    @property
    def dialect(self) -> str:
        """Which compiler made its executable."""
        return "current" if self.group.startswith(("qwen3", "samples")) else "legacy"


@functools.cache
def points() -> tuple[Point, ...]:
    """All published measurements."""
    found: list[Point] = []
    for group in json.loads(FILE.read_text(encoding="utf-8"))["groups"]:
        common = {name: group[name] for name in ("group", "target", "metric", "repository", "cores")}
        for each in group["points"]:
            facts = {**each, "id": f"{group['group']}/{each['id']}", "sizes": tuple(each.get("sizes", ()))}
            found.append(Point(**common, **facts))
    return tuple(found)


def launches(point: Point, checkouts: Path) -> list[Launch]:
    """The kernels that were measured together, with their arguments; none where the kernel is not to be had."""
    if point.missing:
        return []
    if not point.repository:
        from bench.calibration.kernels.tilings import made

        k, m, n = (point.shape[dim] for dim in "KMN")
        hoisted = point.kernel.endswith("hoist")
        return [(made(hoisted, *point.sizes), _specs(point.dtype, (k, m), (k, n)))]
    root = checkouts / point.repository.rpartition("/")[2]
    if not root.is_dir():
        return []
    makers = {
        "fusion": _fusion,
        "qwen3": _megakernel,
        "kda": _kda,
        "nkibench": _nkibench,
        "samples": _samples,
        "flashlib": _flashlib,
    }
    return makers[point.group.partition("-")[0]](point, root, checkouts)


def _specs(dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
    return [tw.spec(shape, dtype) for shape in shapes]


@functools.cache
def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"published_{abs(hash(path))}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _fusion(point: Point, root: Path, _: Path) -> list[Launch]:
    kernels, fused = root / "kernels", not point.kernel.endswith("baseline")
    if point.kernel.startswith("attention"):
        module = _module(kernels / ("fused" if fused else "baseline") / "attention.py")
        shape = (point.shape["d_head"], point.shape["seq"])
        return [(module.fused_attention if fused else module.baseline_attention, _specs(point.dtype, *[shape] * 3))]
    m, k, n = (point.shape[dim] for dim in "MKN")
    args = _specs(point.dtype, (k, m), (k, n), (1, n))
    if not fused:
        module = _module(kernels / "baseline" / "mlp_gemm.py")
        return [(module.gemm_kernel, args), (module.gelu_kernel, _specs(point.dtype, (m, n)))]
    module = _module(kernels / "fused" / "mlp.py")
    return [(module.fused_mlp_taylor if point.kernel.endswith("taylor") else module.fused_mlp_pwl, args)]


def _megakernel(point: Point, root: Path, checkouts: Path) -> list[Launch]:
    if "moe" in point.group:
        library = str(checkouts / "nki-library" / "src" / "nkilib_src")
        if library not in sys.path:
            sys.path.append(library)
        path = root / "kernels" / "moe_fused_tkg" / "versions" / f"kernel_{point.variant}.py"
        text = path.read_text(encoding="utf-8")
        flat = re.search(r"gate_up_w,\s*#.*(2\*I|384)", text)
        padded = re.search(r"gate_up_w,\s*#.*I=256", text)
        up = (128, 2048, 384) if flat else (128, 2048, 2, 256 if padded else 192)
        down = (128, 256 if re.search(r"down_w,\s*#.*256,", text) else 192, 2048)
        args = _specs(BF16, (1, 1, 2048), (1, 2048), (2048, 128), up, down)
        return [(_module(path).qwen3_moe_fused_tkg[2], args)]
    agents = root / "kernels" / "attn_tkg" / "agents"
    name = {"v1": "v1_direct_layout", "v3": "v3_reduce_replace"}.get(point.variant, point.variant)
    bench = (agents / f"bench_{point.variant}.py").read_text(encoding="utf-8")
    found = re.search(rf"^from {name} import (\w+)", bench, re.MULTILINE)
    assert found is not None
    heads = 4 if point.variant in ("v1", "v3") else 1
    shapes = [(1, 1, 2048), (1024, 2048), (128 * heads, 2048), (128 * heads, 2048)]
    if heads == 1:
        shapes.append((2048, 1024) if "Wo = torch.tensor(rng.random((H, Hq_out" in bench else (1024, 2048))
    shapes += [(128,), (128,), (1, heads, 640, 128), (1, heads, 640, 128), (1, 128), (1, 128)]
    return [(getattr(_module(agents / f"{name}.py"), found[1]), [*_specs(BF16, *shapes), tw.spec((1, 1), "int32")])]


def _kda(point: Point, root: Path, checkouts: Path) -> list[Launch]:
    if not (checkouts / "AccelOpt").is_dir():
        return []
    args, own = _case(point.kernel, checkouts / "AccelOpt" / "NKIBench")
    path = root / "workspaces" / point.kernel / point.variant if point.variant else own
    return [(_module(path).kernel, args)]


def _nkibench(point: Point, root: Path, _: Path) -> list[Launch]:
    if point.kernel not in _summary(root / "NKIBench"):
        return []
    args, path = _case(point.kernel, root / "NKIBench")
    return [(_module(path).kernel, args)]


def _samples(point: Point, root: Path, _: Path) -> list[Launch]:
    shape, contributed = point.shape, root / "contributed"
    if point.kernel == "exact top-k mask":
        rows, columns, pieces = shape["rows"], shape["columns"], 1
        while 2 * rows * pieces <= 128 and columns % (2 * pieces) == 0:
            pieces *= 2
        scores = _specs(point.dtype, (rows * pieces, columns // pieces))
        numbers = (shape["keep"], pieces, pieces.bit_length() - 1, columns.bit_length())
        return [(_module(contributed / "exact_topk_mask.py").topk_mask_fwd, [*scores, *numbers])]
    heads, steps, by_channel = shape["heads"], shape["T"], point.kernel.endswith("KDA")
    tokens, gates = (steps, heads, 128), (steps, heads)
    args = _specs(point.dtype, *[tokens] * 3, tokens if by_channel else gates, gates, (heads, 128, 128), (128, 11, 128))
    return [(_module(contributed / "chunked_delta_rule.py").chunked_delta_rule_fwd, [*args, int(by_channel)])]


def _flashlib(point: Point, root: Path, _: Path) -> list[Launch]:
    import neuronxcc.nki as nki  # only there once tilewright stands in for it

    n, d, k = (point.shape[dim] for dim in "NDK")
    module = _module(root / "flashlib" / "primitives" / "kmeans" / "nki" / "assign_kernel.py")
    args = [*_specs(point.dtype, (d, n), (d, k)), *_specs("float32", (1, k))]
    return [(nki.jit(module._flash_assign_kernel), args)]


@functools.cache
def _summary(folder: Path) -> Any:
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def _case(operator: str, folder: Path) -> tuple[list[Any], Path]:
    """Arguments of a kernel of NKIBench, from its reference without its random numbers, and its file."""
    case = next(iter(_summary(folder)[operator]["cases"].values()))["impls"][0]
    reference = _module(folder / case["task"])
    with patch.object(np.random, "normal", lambda loc=0, scale=1, size=(): np.broadcast_to(np.zeros(()), size)):
        arrays = reference.transform_to_nki_inputs(reference.get_inputs())
    args = [tw.spec(each.shape, str(each.dtype)) if np.ndim(each) else each for each in arrays]
    return args, folder / case["kernel"]
