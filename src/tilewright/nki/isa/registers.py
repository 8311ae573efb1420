"""nki.isa.register_*: allocate registers and move numbers between them, constants and memory."""

from __future__ import annotations

import operator
from typing import Any

from tilewright.errors import TileAssertionError, TileTypeError, fail
from tilewright.nki.context import require_session
from tilewright.nki.isa.calls import NkiInstruction
from tilewright.nki.register import VirtualRegister
from tilewright.nki.tensor import NkiTensor, view_of
from tilewright.rules import violate
from tilewright.sim.session import Session
from tilewright.tile.record import TABLE


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A new register, unwritten or holding the constant `x`."""
    session = require_session("register_alloc")
    if isinstance(x, NkiTensor):
        violate(
            "R-register-02",
            "register_alloc of a tensor",
            hint="register = nisa.register_alloc(); nisa.register_load(register, tensor)",
            error=TileTypeError,
        )
        made = VirtualRegister()
        register_load(made, x)
        return made
    return VirtualRegister(None if x is None else _constant(session, x, "R-register-02", "register_alloc"))


def register_move(dst: VirtualRegister, src: int | VirtualRegister) -> NkiInstruction:
    """Write a constant, or what another register holds, into a register."""
    session = require_session("register_move")
    _writable(dst, "register_move")
    value = src if isinstance(src, VirtualRegister) else _constant(session, src, "R-register-04", "register_move")
    return _issue(session, "register_move", dst, value)


def register_load(dst: VirtualRegister, src: NkiTensor) -> NkiInstruction:
    """Write the only element of a tensor in SBUF or HBM into a register."""
    session = require_session("register_load")
    _writable(dst, "register_load")
    return _issue(session, "register_load", dst, view_of(src, "src"))


def register_store(dst: NkiTensor, src: VirtualRegister) -> NkiInstruction:
    """Write what a register holds into the only element of a tensor in SBUF or HBM."""
    session = require_session("register_store")
    if not isinstance(src, VirtualRegister):
        raise fail(
            "E114",
            f"register_store: src must be a register, not {type(src).__name__}",
            error=TileTypeError,
            hint="make one with nisa.register_alloc",
        )
    return _issue(session, "register_store", view_of(dst, "dst"), src)


def _issue(session: Session, name: str, dst: Any, src: Any) -> NkiInstruction:
    if isinstance(dst, VirtualRegister):
        dst.writes += 1
    record = TABLE[name]
    return NkiInstruction(session.issue(record, [dst, src], record.attributes({})))


def _writable(dst: object, api: str) -> None:
    if not isinstance(dst, VirtualRegister):
        raise fail(
            "E114",
            f"{api}: dst must be a register, not {type(dst).__name__}",
            error=TileTypeError,
            hint="make one with nisa.register_alloc",
        )
    inner = require_session(api).loops[len(dst.loops) :]
    if len(inner) > 1 and not any(loop.carries for loop in inner):
        violate(
            "R-dynamic_range-05",
            f"{api} in nested nl.dynamic_range loops, into a register from outside of them",
            hint="use nl.fori_loop, or nl.static_range for the outer loop",
        )
    if dst.frozen:
        violate(
            "R-dynamic_range-02",
            f"{api} into the index of a loop, which is frozen",
            hint="a loop on the device ends by its bounds only; copy the index with register_move to change the copy",
            error=TileAssertionError,
            final=True,
        )


def _constant(session: Session, value: object, rule: str, api: str) -> int:
    """A constant that fits a register, signed or unsigned."""
    bits = 8 * session.target["limits.register_bytes"]
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not -(1 << (bits - 1)) <= number < 1 << bits:
        violate(
            rule,
            f"{api} of {value!r}: a register takes a whole number of {bits} bits",
            error=TileTypeError,
            final=True,
            hint="pass an int that fits, or load it from a tile with nisa.register_load",
        )
    assert number is not None
    return number


FUNCTIONS = {each.__name__: each for each in (register_alloc, register_move, register_load, register_store)}

__all__ = ["FUNCTIONS", "register_alloc", "register_load", "register_move", "register_store"]
