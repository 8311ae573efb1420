"""Causal masks on scores that are there: only the columns near the diagonal are touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dtypes import uint8
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.move.described import mask, near_diagonal
from tilewright.lower.regions.causal import is_far_below
from tilewright.lower.regions.fuse import Step
from tilewright.lower.write.block import flat
from tilewright.lower.write.views import sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.nest.steps import StepWriter


@decision("mask: columns")
def mask_columns(e: StepWriter, step: Step) -> None:
    """Put a causal mask on scores that are there: on the columns near the diagonal alone."""
    op, block, causal = step.op, e.block, e.causal
    assert causal is not None
    scores = step.x if step.kind == "mixed" else next(v for v in op.values() if v in causal.values)
    tile = e.operand(scores, op)
    dst = e.destination(step.result)
    last = dst.ndim - 1
    assert isinstance(tile, View)
    if step.kind == "mixed":
        assert step.first is not None and not isinstance(step.first[1], Value)
        e.select.scalars(dst, tile, "multiply", step.first[1])
    else:
        e.copy(dst, tile)
    numbers = e.numbers(op.result, op.result.type.rank - 1)
    sides = [(block.open, block.columns - block.open, "greater_equal", causal.low)]
    if causal.back is not None:
        sides.append((0, block.near, "less", -causal.back))
    for first, count, name, bound in sides:
        if not count:
            continue
        part = flat(sliced(dst, last, first, count))
        hidden = near_diagonal(e, block.begin + first, count, name, float(bound), 1.0, uint8)
        if hidden is None:
            hidden = mask(e, sliced(numbers, 1, block.begin + first, count), [(name, bound)], True)
        e.b.op("tensor_copy_predicated", part, _number(op), hidden)


def _number(op: Op) -> float:
    """What stands where a mask leaves nothing: beside any other score its exponential is zero."""
    if op.name == "add":
        return float("-inf")
    far = next(x for x in op.operands[1:] if is_far_below(x))
    if isinstance(far, Value):
        assert far.producer is not None
        return float(far.producer.attrs["value"])
    return float(far)
