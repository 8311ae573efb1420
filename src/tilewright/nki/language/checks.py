"""Rules of nl functions that several of them share."""

from __future__ import annotations

import numpy as np

from tilewright.nki.context import require_session
from tilewright.nki.language.operands import Operand
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate


def require_simulation(api: str, instead: str) -> None:
    """R-nl-02: functions that exist in simulation only."""
    violate("R-nl-02", f"nl.{api} is not supported on hardware, only in simulation", hint=instead)


def require_bits(api: str, *operands: Operand) -> bool:
    """R-nl-10: bit patterns are those of integers. False when the rule is broken and the run goes on."""
    for operand in operands:
        integer = operand.dtype.is_integer if isinstance(operand, NkiTensor) else isinstance(operand, int)
        if not integer:
            what = operand.dtype if isinstance(operand, NkiTensor) else repr(operand)
            notes = [operand._view.note("x")] if isinstance(operand, NkiTensor) else []
            violate(
                "R-nl-10",
                f"nl.{api} works on bit patterns of integers, not of {what}",
                hint="use an integer tile, or .view(nl.int32) for the bits of floats",
                operands=notes,
            )
            return False
    return True


def require_boolean(api: str, *operands: Operand) -> None:
    """R-nl-19: logical functions and conditions take 0 and 1. Looked at in the values that are there when it runs."""
    session = require_session(f"nl.{api}")
    for operand in operands:
        if not isinstance(operand, NkiTensor):
            continue
        view = operand._view
        storage = session.machine.storage[view.buffer]
        if session.options.shapes or view.dynamic is not None or not storage.is_written(view, view.offset):
            continue
        values = storage.array(view, view.offset)
        wrong = np.count_nonzero((values != 0) & (values != 1))
        if wrong:
            violate(
                "R-nl-19",
                f"nl.{api}: {wrong} of {view.size} elements are neither 0 nor 1",
                hint="compare first: nl.not_equal(x, 0)",
                operands=[view.note("x")],
            )
