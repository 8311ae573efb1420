"""What a kernel's function must be as a whole: pure, with its shared tensors created at its top level."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from tilewright.errors import Location, is_internal
from tilewright.rules import violate
from tilewright.sim.session import Session

_ANYWHERE = "skip-non-top-level-shared-hbm-check"  # An experimental flag of nki.jit.


def check_pure(function: Callable[..., Any]) -> None:
    """R-jit-09: a kernel assigns no variable outside of itself. (What it does to objects out there is not seen.)"""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return
    for line, name in _outer_assignments(code, frozenset(code.co_freevars)):
        violate(
            "R-jit-09",
            f"the kernel assigns {name}, a variable outside of it",
            hint="pass values in as arguments and return results: compiled kernels are cached by their arguments",
            location=Location(code.co_filename, line),
        )
        return


def _outer_assignments(code: CodeType, outer: frozenset[str]) -> Iterator[tuple[int, str]]:
    """(line, name) of assignments to globals, and to the variables of the functions around the kernel."""
    # Most functions have none; the opcodes alone are quick to look at.
    if _STORES.intersection(code.co_code[::2]):
        line = code.co_firstlineno
        starts = dict(dis.findlinestarts(code))
        for each in dis.get_instructions(code):
            line = starts.get(each.offset) or line
            if each.opcode in _GLOBAL or (each.opcode in _STORES and each.argval in outer):
                yield line, each.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _outer_assignments(constant, outer & frozenset(constant.co_freevars))


_GLOBAL = {dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"]}
_STORES = _GLOBAL | {dis.opmap["STORE_DEREF"], dis.opmap["DELETE_DEREF"]}


def watch_top_level(session: Session, function: Callable[..., Any], flags: dict[str, Any]) -> None:
    """Have the session know the function whose loops create no shared tensors, unless a flag allows it."""
    if _ANYWHERE not in str(flags.get("experimental_flags", "")):
        session.entry = getattr(function, "__code__", None)


def require_top_level(session: Session) -> None:
    """R-tensor-19: each call in the kernel's function creates one shared tensor, and none is in a loop on the device.

    Functions that the kernel calls may create them: published kernels do, and compile.
    """
    if session.entry is None:
        return
    frame = sys._getframe(1)
    while is_internal(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    own = frame.f_code is session.entry
    if session.machine.scopes or (own and frame.f_lasti in session.sharing):
        violate(
            "R-tensor-19",
            "a tensor in shared_hbm is created in a loop",
            hint="create it once before the loop, with a dim for the iterations, and use a part of it in each",
        )
    if own:
        session.sharing.add(frame.f_lasti)
