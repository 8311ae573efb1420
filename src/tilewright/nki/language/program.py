"""The kernel's place in the launch grid, and what it says to the scheduler and to the person who debugs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.errors import TileTypeError, fail
from tilewright.nki.context import require_session
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate
from tilewright.sim.session import Session
from tilewright.tile.memory import PSUM


def program_id(axis: int = 0) -> int:
    """This core's number in the launch grid; 0 without a grid."""
    return _grid("program_id", axis).program_id


def num_programs(axes: Any = 0) -> int:
    """Cores in the launch grid; 1 without a grid."""
    return _grid("num_programs", axes).num_programs


def program_ndim() -> int:
    """Dims of the launch grid: 1, or 0 without one."""
    return 1 if require_session("nl.program_ndim").has_grid else 0


def _grid(api: str, axis: Any) -> Session:
    """The session; the grid has one dim, so that axis 0 is the only one (R-LNC-01)."""
    session = require_session(f"nl.{api}")
    if axis not in (0, (0,), [0], None):
        violate(
            "R-LNC-01",
            f"nl.{api}({axis!r}): the launch grid has one dim, axis 0",
            final=True,
            error=TileTypeError,
            hint="write axis 0; loop over others in the kernel",
        )
    return session


@contextmanager
def no_reorder() -> Iterator[None]:
    """Instructions inside run in program order. The simulator always does; loops with run-time bounds are refused."""
    with require_session("nl.no_reorder").in_order():
        yield


def device_print(print_prefix: str, tensor: NkiTensor) -> None:
    """Print a tensor of SBUF or HBM to standard output as it is now."""
    session = require_session("nl.device_print")
    if not isinstance(print_prefix, str):
        violate(
            "R-nl-17",
            f"nl.device_print: the prefix {print_prefix!r} is not a string",
            final=True,
            error=TileTypeError,
            hint='pass the text first: nl.device_print("x", tile)',
        )
    if not isinstance(tensor, NkiTensor):
        raise fail(
            "E108",
            f"nl.device_print of {type(tensor).__name__}, which is not a tensor",
            error=TileTypeError,
            hint="print numbers of the host with print()",
        )
    view = tensor._view
    if view.memory is PSUM:
        violate(
            "R-nl-17",
            "nl.device_print: the tensor is in psum",
            hint="copy it to sbuf with nl.copy",
            operands=[view.note("tensor")],
        )
    if session.options.shapes:
        return
    values, _ = session.machine.read(view, True, None)
    print(f"{print_prefix} {view.dtype}{list(view.sizes)}\n{values}")


__all__ = [
    "device_print",
    "no_reorder",
    "num_programs",
    "program_id",
    "program_ndim",
]
