"""nki.isa: one function per instruction of the table, and the enums they take."""

from __future__ import annotations

from typing import Any

import tilewright.tile.isa  # noqa: F401  (fills the table)
from tilewright.errors import NkiValidationError
from tilewright.nki.binding import bound
from tilewright.nki.context import require_session
from tilewright.nki.isa import registers
from tilewright.nki.isa.calls import NkiInstruction, make_functions
from tilewright.nki.missing import missing_instruction
from tilewright.nki.tensor import NkiTensor, VirtualRegister
from tilewright.sim.session import running_session
from tilewright.target import get_target
from tilewright.tile.attrs import dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd
from tilewright.tile.record import TABLE

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown


def get_nc_version() -> nc_version:
    """The generation the kernel runs on (outside a kernel: the default target's)."""
    session = running_session()
    target = session.target if session is not None else get_target(None)
    return nc_version(target.generation)


def get_nc_sub_version() -> int:
    """The silicon revision within a generation; 0 is the first."""
    require_session("get_nc_sub_version")
    return 0


# The register functions check what a kernel does with registers before they issue.
globals().update(make_functions() | {name: bound(each, name) for name, each in registers.FUNCTIONS.items()})

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "NkiInstruction",
    "NkiTensor",
    "NkiValidationError",
    "VirtualRegister",
    "dge_mode",
    "dma_engine",
    "engine",
    "get_nc_sub_version",
    "get_nc_version",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    *dict.fromkeys([*TABLE, *registers.FUNCTIONS]),
]


def __getattr__(name: str) -> Any:
    """Names that are not in the table. (Type checkers do not read the table: to them every name is possible.)"""
    if name.startswith("__"):
        raise AttributeError(name)
    raise missing_instruction(name)
