"""Checks of indices that cost nothing, as their readers make them."""

from __future__ import annotations

from math import prod

from numpy import ogrid

from tilewright.dtypes import float32, int32
from tilewright.ir.core import Op, Value
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import is_view
from tilewright.target import Target
from tilewright.tensor.interpret import run_op
from tilewright.tensor.ranges import EXACT

CHECKS = ("checked_index", "bounded_index")
"""Ops that give indices unchanged but for those that count from the end, and refuse others."""

TRANSFERRING = {"take": 1, "put_rows": 1, "combine_rows": 1}
"""Ops that check their indices, mostly by their transfers: the position of that operand."""


def looks_up(op: Op) -> bool:
    """True for a take of many single numbers from a table so small that every partition has it for itself."""
    return op.operands[0].type.rank == 1 and is_table(op) and known_windows(op) is None


def is_table(op: Op) -> bool:
    """True for a take of so many rows that to bring what they are taken from to every partition takes less time than
    to fetch each of them, if there is room for it."""
    x, index = op.operands
    count = index.type.size
    return count >= TUNING.looked_up and 0 < x.type.size <= min(TUNING.table, TUNING.table_share * count)


def counts(op: Op, target: Target) -> bool:
    """True for sums of numbers by places that are products with marks: of floats, and of integers that are counted."""
    x, _, part = op.operands
    if op.attrs["combine"] != "add" or prod(x.type.shape[1:]) != 1 or part.type.size < target["limits.partitions"]:
        return False
    known = part.producer
    counted = x.type.dtype is int32 and known is not None and known.name == "full"
    return (counted or x.type.dtype is float32) and x.type.shape[0] <= EXACT


def known_windows(op: Op) -> tuple[int, tuple[int, ...]] | None:
    """Known indices that are windows, a + s i + t j: the first, and the steps along each dim."""
    (x, index), axis = op.operands, op.attrs["axis"]
    made, shape = index.producer, index.type.shape
    if made is None or made.definition.family != "creation" or len(shape) < 2 or not index.type.size:
        return None
    known = run_op(made, {})[0].astype("int64")
    first = int(known.flat[0])
    steps = tuple(
        int(known[tuple(int(d == e and n > 1) for e in range(len(shape)))]) - first for d, n in enumerate(shape)
    )
    total = sum(step * ramp for step, ramp in zip(steps, ogrid[tuple(slice(n) for n in shape)], strict=True))
    if min(first, *steps) < 0 or known.max() >= x.type.shape[axis] or (known != first + total).any():
        return None
    return first, steps


def checked_by_readers(op: Op) -> bool:
    """True for a check whose readers all are transfers along a dim of that very size, perhaps through views."""
    return _transferred(op.result, op.attrs["size"])


def _transferred(value: Value, size: int) -> bool:
    for use in value.uses:
        if is_view(use):
            if not _transferred(use.result, size):
                return False
            continue
        at = TRANSFERRING.get(use.name)
        if at is None or any(x is value for i, x in enumerate(use.operands) if i != at):
            return False
        if use.name == "take" and looks_up(use):
            return False
        if use.operands[0].type.shape[use.attrs.get("axis", 0)] != size:
            return False
    return bool(value.uses)
