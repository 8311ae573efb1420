"""Mutants: correct kernels with one line changed, ten for every error of the reference.

Each correct kernel runs without any diagnostic; each mutant is refused with the code of its class, also where the
profile is lenient.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.legacy.kit import run
from tilewright.errors import ERROR, TileError
from tilewright.nki.legacy.faults import RULES

HEADER = """
import numpy as np
import tilewright.nki.legacy as nki
import tilewright.nki.legacy.compiler as ncc
import tilewright.nki.legacy.isa as nisa
import tilewright.nki.legacy.language as nl
import tilewright.nki.legacy.typing as nt

@nki.trace
def inner(a, out):
    nl.store(out, nl.load(a))

def helper(shape):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)

"""

OPS = ("exp", "tanh", "sigmoid", "relu", "silu", "square", "abs", "gelu", "softplus", "erf")
SIZES = ((128, 512), (64, 256), (32, 128), (128, 64), (96, 96), (16, 512), (128, 256), (8, 64), (48, 200), (100, 300))

PLAIN = """
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    {line}
    nl.store(out, tile)
    return out
"""
PLACED = """
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim({p}), {f}), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    bias = nl.ndarray((nl.par_dim({p}), 1), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=8192))
    small = nl.ndarray((nl.par_dim(8), 8), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=9216))
    tile[...] = nl.load(a)
    bias[...] = 0
    turned = nl.ndarray((nl.par_dim(8), 8), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=10240))
    small[...] = 1
    {line}
    nl.store(out, tile)
    return out
"""
FREE = "{line}"

# Code -> body, the right line, the line that a mutant has instead.
CLASSES: dict[str, tuple[str, str, str]] = {
    "err_1d_arange_not_supported": (
        PLAIN,
        "nl.{op}(tile[nl.arange({p})[:, None], nl.arange(4)[None, :]])",
        "nl.{op}(tile[nl.arange({p}), 0])",
    ),
    "err_activation_bias_invalid_type": (
        PLAIN,
        "nisa.activation(nl.{op}, tile, bias=nisa.memset(({p}, 1), 1, dtype=nl.bfloat16))",
        "nisa.activation(nl.{op}, tile, bias=nisa.memset(({p}, 1), 1, dtype=nl.int8))",
    ),
    "err_activation_scale_invalid_type": (
        PLAIN,
        "nisa.activation(nl.{op}, tile, scale=nisa.memset(({p}, 1), 1, dtype=nl.float32))",
        "nisa.activation(nl.{op}, tile, scale=nisa.memset(({p}, 1), 1, dtype=nl.float16))",
    ),
    "err_activation_scale_scalar_or_vector": (
        PLAIN,
        "nisa.activation(nl.{op}, tile, scale=nisa.memset(({p}, 1), 1, dtype=nl.float32))",
        "nisa.activation(nl.{op}, tile, scale=nisa.memset(({p}, 2), 1, dtype=nl.float32))",
    ),
    "err_annotation_shape_mismatch": (
        PLAIN,
        "made: nt.tensor[{p}, {f}] = nl.{op}(tile)",
        "made: nt.tensor[{p}, {f} + 1] = nl.{op}(tile)",
    ),
    "err_bias_tensor_must_be_specified_in_allocation": (
        PLACED,
        "tile[...] = nisa.activation(nl.{op}, tile[...], bias=bias[...])",
        "tile[...] = nisa.activation(nl.{op}, tile[...])",
    ),
    "err_cannot_assign_to_index": (
        PLAIN,
        "nisa.iota(nl.arange({f})[None, :], dtype=nl.int32)[0, 5] = {p}",
        "nl.arange({f})[None, :][0, 5] = {p}",
    ),
    "err_cannot_update_immutable_parameter": (PLAIN, "nl.store(out, nl.{op}(tile))", "nl.store(a, nl.{op}(tile))"),
    "err_control_flow_condition_depending_on_arange": (
        PLAIN,
        "nl.{op}(tile, mask=nl.arange({p})[:, None] + 0 * nl.arange({f})[None, :] < 4)",
        "nl.{op}(tile) if nl.arange({p})[:, None] < 4 else None",
    ),
    "err_dynamic_control_flow_not_supported": (
        PLAIN,
        "tile[...] = nl.{op}(tile) if tile.shape[0] == {p} else tile",
        "tile[...] = nl.{op}(tile) if tile[0:1, 0:1] else tile",
    ),
    "err_exceed_max_supported_dimension": (
        PLAIN,
        "nl.transpose(tile[:, 0:8])",
        "nl.transpose(nl.{op}(tile[:, 0:8]).reshape(({p}, 4, 2)))",
    ),
    "err_failed_to_infer_tile_from_local_tensor": (
        PLAIN,
        "nl.{op}(nl.zeros((2, nl.par_dim({p}), 8), dtype=nl.float32)[1])",
        "nl.{op}(nl.zeros((2, nl.par_dim({p}), 8), dtype=nl.float32))",
    ),
    "err_indirect_indices_free_dim": (
        PLAIN,
        "nl.load(a[nisa.iota(nl.arange({p})[:, None], dtype=nl.int32), nl.arange({f})[None, :]])",
        "nl.load(a[nl.arange({p})[:, None], nisa.iota(nl.arange({p})[:, None], dtype=nl.int32)])",
    ),
    "err_local_variable_used_out_of_scope": (
        """
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    for i in nl.sequential_range(2):
        {line}
    nl.store(out, tile)
    return out
""",
        "tile[...] = nl.{op}(tile)",
        "tile = nl.{op}(tile)",
    ),
    "err_nested_kernel_with_spmd_grid": (PLAIN, "inner(a, out)", "inner[{p}, 2](a, out)"),
    "err_num_partition_exceed_arch_limit": (
        PLAIN,
        "nl.{op}(nl.zeros(({p}, {f}), dtype=nl.float32))",
        "nl.{op}(nl.zeros(({p} + 128, {f}), dtype=nl.float32))",
    ),
    "err_num_partition_mismatch": (
        PLAIN,
        "nisa.tensor_tensor(tile, nl.{op}(tile), op=nl.add)",
        "nisa.tensor_tensor(tile, nl.{op}(tile[0:4, :]), op=nl.add)",
    ),
    "err_shared_hbm_must_in_kernel_level": (
        PLAIN,
        "nl.ndarray(({p}, {f}), dtype=nl.float32, buffer=nl.shared_hbm)",
        "helper(({p}, {f}))",
    ),
    "err_size_of_dimension_exceed_arch_limit": (
        PLAIN,
        "nl.transpose(nl.{op}(tile)[:, 0:32])",
        "nl.transpose(nl.zeros(({p}, 129 + {f}), dtype=nl.float32))",
    ),
    "err_store_dst_shape_smaller_than_other_shape": (
        PLAIN,
        "tile[:, 0:8] = nl.{op}(tile[:, 0:1])",
        "tile[:, 0:1] = nl.{op}(tile[:, 0:8])",
    ),
    "err_tensor_access_out_of_bound": (
        PLAIN,
        "nl.load(a[nl.arange({p})[:, None], nl.arange(8)[None, :] + {f} - 8])",
        "nl.load(a[nl.arange({p})[:, None], nl.arange(8)[None, :] + {f} - 7])",
    ),
    "err_tensor_creation_on_scratchpad_with_init_value_not_allowed": (
        PLACED,
        "nl.ndarray((nl.par_dim({p}), 8), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=16384))",
        "nl.full((nl.par_dim({p}), 8), {f}, dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=16384))",
    ),
    "err_tensor_output_not_written_to": (
        """
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range({line}):
        nl.store(out, nl.{op}(nl.load(a)))
    return out
""",
        "({p} + 127) // 128",
        "{p} // 129",
    ),
    "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel": (
        PLACED,
        "turned[...] = nisa.nc_transpose(small[...], engine=nisa.vector_engine)",
        "turned[...] = nisa.nc_transpose(small[...])",
    ),
    "err_unexpected_output_dependencies": (
        """
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.{op}(nl.load(a)))
    for i in nl.affine_range(4):
        {line}
    return out
""",
        "nl.store(out[:, nl.ds(i * 8, 8)], nl.load(a[:, 0:8]))",
        "nl.store(out[:, nl.ds(i * 4, 8)], nl.load(a[:, 0:8]))",
    ),
    "err_unsupported_memory": (PLAIN, "nl.{op}(tile)", "nl.{op}(a)"),
    "err_unsupported_mixing_basic_advanced_tensor_indexing": (
        PLAIN,
        "nl.{op}(tile[nl.arange(4)[:, None], nl.arange({f})[None, :]])",
        "nl.{op}(tile[nl.arange(4)[:, None], :])",
    ),
    "err_nki_api_outside_of_nki_kernel": (
        PLAIN,
        "tile[...] = nl.{op}(tile)",
        "OUTSIDE",
    ),
}


def variants(code: str) -> list[tuple[str, str, tuple[int, int]]]:
    """Ten right kernels of a class and their mutants, as the bodies of functions, with the shape of the argument."""
    body, right, wrong = CLASSES[code]
    made: list[tuple[str, str, tuple[int, int]]] = []
    for op, (p, f) in zip(OPS, SIZES, strict=True):
        texts = [body.replace("{line}", line) for line in (right, wrong)]
        right_text, wrong_text = (
            text.replace("{op}", op).replace("{p}", str(p)).replace("{f}", str(f)) for text in texts
        )
        made.append((right_text, wrong_text, (p, f)))
    return made


def load(folder: Path, code: str) -> ModuleType:
    """A module with the kernels of a class: right_0, wrong_0 and so on."""
    text = HEADER
    for number, (right, wrong, _) in enumerate(variants(code)):
        text += f"@nki.jit\ndef right_{number}(a):{right}\n"
        if "OUTSIDE" in wrong:
            text += f"def wrong_{number}(a):\n    nl.{OPS[number]}(nl.zeros((4, 4), dtype=nl.float32))\n"
        else:
            text += f"@nki.jit\ndef wrong_{number}(a):{wrong}\n"
    file = folder / f"{code}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(code, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def refusal(kernel: Any, data: np.ndarray, profile: str) -> str:
    """The code that a mutant is refused with; "none" when it runs."""
    try:
        # What is called outside of a kernel is an ordinary function.
        run(kernel, data, profile=profile) if hasattr(kernel, "layout") else kernel(data)
    except TileError as error:
        return error.diagnostic.code
    return "none"


def test_the_classes_are_those_of_the_reference():
    assert set(CLASSES) == {code for code, rule in RULES.items() if rule.startswith("R-err-")}
    assert sum(len(variants(code)) for code in CLASSES) >= 280


@pytest.mark.req("S2-36")
@pytest.mark.req("S2-31")
@pytest.mark.parametrize("code", CLASSES)
def test_mutants(code: str, tmp_path: Path):
    module = load(tmp_path, code)
    for number, (_, _, (p, f)) in enumerate(variants(code)):
        data = np.random.default_rng(number).uniform(0.1, 1, (p, f)).astype(np.float32)
        done = run(getattr(module, f"right_{number}"), data)
        assert not [found for found in done.diagnostics if found.severity == ERROR], f"false alarm in {code} {number}"
        for profile in ("strict", "lenient"):
            assert refusal(getattr(module, f"wrong_{number}"), data, profile) == code, f"{code} {number} {profile}"
