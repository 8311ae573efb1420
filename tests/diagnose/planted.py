"""Failing programs with a planted cause: kernels of random harmless steps, one of which is wrong in a chosen way.

Which step is planted where is drawn at random; what looks for it is told only the kernel and its arguments.
"""

from __future__ import annotations

import importlib.util
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HEADER = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n@nki.jit\ndef kernel(x, indices, table):\n"
PLANTED = "  # planted"


@dataclass(frozen=True)
class Planted:
    """A kernel in a file, its arguments, the line of the cause, and how it is launched."""

    kernel: Any
    arguments: tuple[np.ndarray, ...]
    line: int
    target: str = "trn2"


HARMLESS = (
    "nisa.tensor_scalar(dst={t}, data={t}, op0=nl.multiply, operand0={a})",
    "nisa.tensor_scalar(dst={t}, data={t}, op0=nl.add, operand0={b})",
    "nisa.activation(dst={t}, op=nl.tanh, data={t})",
    "nisa.tensor_tensor(dst={t}, data1={t}, data2={t}, op=nl.maximum)",
)
LOAD = "t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf); nisa.dma_copy(dst=t, src=x)"
INDEX = "index = nl.ndarray((128, 1), dtype=nl.int32, buffer=nl.sbuf); nisa.dma_copy(dst=index, src=indices)"
GATHER = (
    "rows = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)",
    "nisa.dma_copy(dst=rows, src=table.ap(pattern=[[64, 128], [1, 64]], offset=0, vector_offset=index))",
    "nisa.tensor_tensor(dst=t, data1=t, data2=rows, op=nl.add)",
)
STORE = (
    "out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)",
    "nisa.dma_copy(dst=out, src=t)",
    "return out",
)
TILE = "u = nl.ndarray((128, {n}), dtype=nl.{dtype}, buffer=nl.{memory})"

# By class: variants, each lines of which the marked one is the cause; {} are drawn.
CAUSES: dict[str, list[list[str]]] = {
    "wrong index": [
        ["nisa.tensor_scalar(dst=index, data=index, op0=nl.multiply, operand0={factor})" + PLANTED],
        ["nisa.tensor_scalar(dst=index, data=index, op0=nl.add, operand0={shift})" + PLANTED],
        ["nisa.tensor_scalar(dst=index, data=index, op0=nl.subtract, operand0={shift})" + PLANTED],
    ],
    "stale buffer": [
        [
            "u = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)" + PLANTED,
            "nisa.memset(u[:, 0:{part}], value=0)",
            "nisa.tensor_tensor(dst=t, data1=t, data2=u, op=nl.add)",
        ],
        [
            "u = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)" + PLANTED,
            "nisa.tensor_copy(dst=u[0:{half}, :], src=t[0:{half}, :])",
            "nisa.tensor_copy(dst=t, src=u)",
        ],
        [
            "p = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)",
            "nisa.nc_matmul(dst=p, stationary=t, moving=t, accumulate=True)" + PLANTED,
            "nisa.tensor_copy(dst=t[0:64, :], src=p)",
        ],
    ],
    "overflow": [
        ["nisa.activation(dst=t, op=nl.exp, data=t, scale={large})" + PLANTED],
        [
            "nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=3e38, op1=nl.multiply, operand1={large})"
            + PLANTED
        ],
        ["nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0={large}, op1=nl.power, operand1=30.0)" + PLANTED],
    ],
    "capacity": [
        ["u = nl.ndarray((128, {huge}), dtype=nl.float32, buffer=nl.sbuf)" + PLANTED, "nisa.memset(u, value=0)"],
        ["u = nl.ndarray((128, {wide}), dtype=nl.float32, buffer=nl.psum)" + PLANTED, "nisa.memset(u, value=0)"],
        [
            "banks = [nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range({banks})]" + PLANTED,
            "for bank in banks: nisa.memset(bank, value=0)",
            "for bank in banks: nisa.tensor_tensor(dst=t, data1=t, data2=bank[:, 0:64], op=nl.add)",
        ],
    ],
    "generation": [
        ["nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0={a}, engine=nisa.engine.scalar)" + PLANTED],
        ["nisa.activation(dst=t, op=nl.tanh, data=t, bias={b})" + PLANTED],
        [
            "r = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)",
            "nisa.activation_reduce(dst=t, op=nl.tanh, data=t, reduce_op=nl.maximum, reduce_res=r)" + PLANTED,
        ],
    ],
    "dtype": [
        [
            "h = nl.ndarray((128, 64), dtype=nl.float16, buffer=nl.sbuf)",
            "nisa.tensor_scalar(dst=h, data=t, op0=nl.add, operand0=7e4)" + PLANTED,
            "nisa.tensor_copy(dst=t, src=h)",
        ],
        [
            "h = nl.ndarray((128, 64), dtype=nl.float8_e5m2, buffer=nl.sbuf)",
            "nisa.tensor_scalar(dst=h, data=t, op0=nl.add, operand0={many})" + PLANTED,
            "nisa.tensor_copy(dst=t, src=h)",
        ],
        [
            "h = nl.ndarray((128, 64), dtype=nl.float16, buffer=nl.sbuf)",
            "nisa.tensor_scalar(dst=h, data=t, op0=nl.add, operand0=1.0, op1=nl.multiply, operand1=9e4)" + PLANTED,
            "nisa.tensor_copy(dst=t, src=h)",
        ],
    ],
    "race": [
        [
            "shared = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm, name='shared')",
            "nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=float(nl.program_id(0)))",
            "nisa.dma_copy(dst=shared, src=t)" + PLANTED,
            "nisa.dma_copy(dst=t, src=shared)",
        ],
        [
            "shared = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm, name='shared')",
            "if nl.program_id(0) == 0: nisa.dma_copy(dst=shared, src=t)" + PLANTED,
            "if nl.program_id(0) == 1: nisa.dma_copy(dst=t, src=shared)",
        ],
        [
            "shared = nl.ndarray((256, 64), dtype=nl.float32, buffer=nl.shared_hbm, name='shared')",
            "start = nl.program_id(0) * {half}",
            "nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=float(nl.program_id(0)))",
            "nisa.dma_copy(dst=shared[start:start + 128, :], src=t)" + PLANTED,
            "nisa.dma_copy(dst=t, src=shared[64:192, :])",
        ],
    ],
}


def plant(cause: str, variant: int, seed: int, folder: Path) -> Planted:
    """A kernel with this cause at a random place."""
    draw = random.Random(f"{cause} {variant} {seed}")
    drawn = {
        "factor": float(draw.randint(3, 9)), "shift": float(draw.randint(64, 90)), "part": draw.randint(8, 56),
        "half": draw.choice((32, 64)), "large": float(draw.randint(200, 900)), "huge": draw.randint(60_000, 90_000),
        "wide": draw.choice((4608, 8192)), "banks": draw.randint(9, 12), "many": float(draw.randint(70, 90) * 1000),
        "a": round(draw.uniform(0.5, 1.5), 3), "b": round(draw.uniform(0.1, 0.9), 3),
    }  # fmt: skip
    index = ["nisa.tensor_scalar(dst=index, data=index, op0=nl.add, operand0=0.0)"]
    # What is out of range stays so only where nothing bounds it.
    steps = [step for step in HARMLESS if "tanh" not in step or cause not in ("overflow", "dtype")]
    tile = [draw.choice(steps).format(t="t", a=drawn["a"], b=drawn["b"]) for _ in range(draw.randint(2, 6))]
    planted = [line.format(**drawn) for line in CAUSES[cause][variant]]
    if cause == "wrong index":
        place = draw.randint(0, len(index))
        index[place:place] = planted
    else:
        place = draw.randint(0, len(tile))
        tile[place:place] = planted
    lines = [*LOAD.split("; "), *INDEX.split("; "), *index, *tile, *GATHER, *STORE]
    text = HEADER + "".join(f"    {line}\n" for line in lines)
    file = folder / "planted.py"
    file.write_text(text)
    marked = next(i for i, line in enumerate(text.splitlines(), 1) if line.endswith(PLANTED))
    module = _loaded(file)
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 1, size=(128, 64)).astype(np.float32)
    indices = rng.integers(40, 64, size=(128, 1)).astype(np.int32)
    if cause == "wrong index" and variant == 2:
        indices -= 30
    kernel = module.kernel[2] if cause == "race" else module.kernel
    return Planted(
        kernel, (x, indices, np.zeros((64, 64), np.float32)), marked, "trn1" if cause == "generation" else "trn2"
    )


def _loaded(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location("planted", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
