"""Loops: ranges that unroll while the kernel is built, and loops that run on the device.

Loops on the device take bounds that only the device knows (registers). Kernels run eagerly here, so that such a loop
simply runs; in shape mode, where no number is known, its body runs once.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any

from tilewright.errors import TileAssertionError, TileTypeError, TileValueError, fail
from tilewright.nki.context import require_session
from tilewright.nki.register import UNKNOWN, VirtualRegister
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate
from tilewright.sim.session import Session


def _static_range(api: str, start: Any, stop: Any, step: Any) -> range:
    bounds = (0, start, step) if stop is None else (start, stop, step)
    on_device = (VirtualRegister, NkiTensor)
    wrong = [bound for bound in bounds if isinstance(bound, on_device) or not hasattr(bound, "__index__")]
    if wrong:
        what = "a register" if isinstance(wrong[0], VirtualRegister) else repr(wrong[0])
        violate(
            "R-affine_range-01",
            f"nl.{api}: {what} is not an integer known at compile time",
            hint="loop over run-time bounds with nl.fori_loop(lower, upper, body)",
            error=TileTypeError,
            final=True,
        )
    first, last, stride = [operator.index(bound) for bound in bounds]
    if stride == 0:
        violate(
            "R-affine_range-01",
            f"nl.{api} with step 0 never ends",
            error=TileValueError,
            final=True,
            hint="count by a step that is not 0",
        )
    return range(first, last, stride)


def affine_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """An alias of range: a loop that is unrolled."""
    return _static_range("affine_range", start, stop, step)


def sequential_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """An alias of range: a loop that is unrolled."""
    return _static_range("sequential_range", start, stop, step)


def static_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """An alias of range: a loop that is unrolled."""
    return _static_range("static_range", start, stop, step)


def dynamic_range(
    start: int | VirtualRegister, stop: int | VirtualRegister | None = None, step: int = 1
) -> Iterator[VirtualRegister]:
    """for i in nl.dynamic_range(...): a loop on the device; i is a frozen register that may index tensors."""
    session = require_session("nl.dynamic_range")
    violate(
        "R-dynamic_range-06",
        "nl.dynamic_range is deprecated",
        hint="write nl.fori_loop(lower, upper, body) with the body as a function of the index",
    )
    _refuse_no_reorder(session, "R-dynamic_range-04", "nl.dynamic_range")
    bounds = (0, start) if stop is None else (start, stop)
    trips = _trips(session, "nl.dynamic_range", "R-dynamic_range-01", *bounds, step)
    return _indices(session, trips)


def _indices(session: Session, trips: Iterator[Any]) -> Iterator[VirtualRegister]:
    with session.looping(carries=False):
        for number in trips:
            yield VirtualRegister(number, frozen=True)


def fori_loop(
    lower: int | VirtualRegister,
    upper: int | VirtualRegister,
    body_fun: Callable[[VirtualRegister], None],
    step: int = 1,
) -> None:
    """body_fun(i) for i from `lower` up to `upper` (exclusive), on the device.

    Each call gets a register of its own, so that writing it has no effect on the loop (R-fori_while-05).
    """
    session = require_session("nl.fori_loop")
    _refuse_no_reorder(session, "R-fori_while-04", "nl.fori_loop")
    _require_body("nl.fori_loop", body_fun, "the index")
    with session.looping():
        for number in _trips(session, "nl.fori_loop", "R-fori_while-01", lower, upper, step):
            with session.machine.scope():
                returned = body_fun(VirtualRegister(number))
            if returned is not None:
                violate(
                    "R-fori_while-01",
                    f"the body of nl.fori_loop returns {type(returned).__name__}; it returns nothing",
                    hint="carry values from one iteration to the next in SBUF or HBM tensors",
                )


def while_loop(init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]) -> None:
    """r = init, then r = body_fun(r) while r is not zero, on the device; r is passed by value."""
    session = require_session("nl.while_loop")
    _refuse_no_reorder(session, "R-fori_while-04", "nl.while_loop")
    _require_body("nl.while_loop", body_fun, "the condition")
    condition = _condition(init, "init is")
    with session.looping():
        _repeat(session, condition, body_fun)


def _require_body(api: str, body: Any, argument: str) -> None:
    try:
        inspect.signature(body).bind(None)
    except TypeError:
        raise fail(
            "E108",
            f"{api}: the body is no function of one argument, {argument}",
            hint=f"write def body(register): ..., and pass body to {api}",
            error=TileTypeError,
        ) from None


def _repeat(
    session: Session, condition: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]
) -> None:
    entered = False
    session.follows_data = True
    while True:
        held = session.machine.number(condition, None)
        if held == 0 or (held is None and entered):
            return
        entered = True
        current = VirtualRegister(UNKNOWN if held is None else held)
        with session.machine.scope():
            condition = _condition(body_fun(current), "the body returns")
        if condition is current and not current.writes:
            raise fail(
                "E110",
                "nl.while_loop never ends: its body returns the condition as it was",
                hint="return the condition that the body has computed, in a register",
            )


def _condition(register: object, what: str) -> VirtualRegister:
    if not isinstance(register, VirtualRegister):
        violate(
            "R-fori_while-02",
            f"nl.while_loop: {what} {type(register).__name__}, not a register",
            hint="load the next condition with nisa.register_load(r, tile) and return r",
            error=TileTypeError,
            final=True,
        )
    assert isinstance(register, VirtualRegister)
    return register


def _refuse_no_reorder(session: Session, rule: str, api: str) -> None:
    if session.no_reorder:
        violate(rule, f"{api} inside nl.no_reorder", hint="put the no_reorder block into the body of the loop")


def _trips(session: Session, api: str, rule: str, start: Any, stop: Any, step: Any) -> Iterator[Any]:
    """The numbers of a loop on the device; one unknown number where a bound is not known."""
    if isinstance(step, bool) or not isinstance(step, int) or step < 1:
        what = "a register" if isinstance(step, VirtualRegister) else repr(step)
        violate(
            rule,
            f"{api}: step {what} is not a positive integer known at compile time",
            hint="the loop instruction encodes its step; count up, and compute other indices in the body",
            error=TileAssertionError,
            final=True,
        )
    first, last = _bound(session, api, start), _bound(session, api, stop)
    session.follows_data |= first is None or last is None
    return iter((UNKNOWN,) if first is None or last is None else range(first, last, step))


def _bound(session: Session, api: str, bound: object) -> int | None:
    if isinstance(bound, VirtualRegister):
        machine = session.machine
        return None if machine.number(bound, None) is None else machine.whole_number(bound, None)
    try:
        return operator.index(bound)  # type: ignore[arg-type]
    except TypeError:
        tensor = isinstance(bound, NkiTensor)
        raise fail(
            "E110" if tensor else "E108",
            f"{api}: a bound is {'a tensor' if tensor else repr(bound)}; it must be an integer or a register",
            rule="R-language-09" if tensor else None,
            hint="load it first: register = nisa.register_alloc(); nisa.register_load(register, tensor)",
            error=TileTypeError,
        ) from None


__all__ = [
    "affine_range",
    "dynamic_range",
    "fori_loop",
    "sequential_range",
    "static_range",
    "while_loop",
]
