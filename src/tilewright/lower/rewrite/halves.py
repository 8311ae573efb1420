"""Integers of 32 bits that are searched by their halves: numbers that float32, in which instructions compare, holds."""

from __future__ import annotations

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import Rule, rule
from tilewright.lower.kernels.spans import sorts_wide
from tilewright.target import Target
from tilewright.tensor.build import make, value
from tilewright.tensor.ranges import is_small

HALF_MASK = (1 << 16) - 1
UPPER_MASK = {"int32": -1 - HALF_MASK, "uint32": (1 << 32) - 1 - HALF_MASK}


def by_halves(target: Target) -> Rule:
    """The rule, for a target that may sort integers as they are."""

    @rule("topk")
    def search_by_halves(op: Op) -> list[Value] | None:
        """topk(x) -> ordered by lower halves, then stably by upper halves            x has large integers of 32 bits"""
        (x,) = op.operands
        k, axis, largest = op.attrs["k"], op.attrs["axis"], op.attrs["largest"]
        if x.type.dtype not in ("int32", "uint32") or not op.results[0].type.size or is_small(x):
            return None
        if sorts_wide(target, op):
            return None
        lower = value("cast", value("bitwise_and", x, HALF_MASK), dtype=float32)
        # The rest is a multiple of 2 ** 16, of which float32 has the upper half exactly, sign included.
        upper = value("cast", value("bitwise_and", x, UPPER_MASK[x.type.dtype]), dtype=float32)
        first = make("topk", lower, k=x.type.shape[axis], axis=axis, largest=largest).results[1]
        again = make("topk", value("take_along_axis", upper, first, axis=axis), k=k, axis=axis, largest=largest)
        place = value("take_along_axis", first, again.results[1], axis=axis)
        return [value("take_along_axis", x, place, axis=axis), place]

    return search_by_halves
