"""Attention that looks back only: what a mask's own definition makes zero is neither computed nor read.

The mask is a band added to the scores: a number so far below all others that its exponential is zero, where a key comes
after its query. For a few superblocks of rows the columns end where the mask leaves nothing, and only the columns near
the diagonal are masked at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.core import Op, Value
from tilewright.lower.fuse import Step
from tilewright.lower.grouping import Group
from tilewright.lower.roles import PRODUCTS

FAR_BELOW = -1e8
"""Added to a score, this makes its exponential zero beside any other's."""

SUPERBLOCKS = 16
PANEL_BLOCKS = 2
"""At most so many different row lengths, so that the kernel does not grow with the number of rows."""


@dataclass(frozen=True, slots=True)
class Causal:
    """What of a group is causal: the scores' product, the step that adds the mask, the values whose columns end early.

    low: columns from row number + low on are masked.
    """

    product: Op
    step: Step
    values: frozenset[Value]
    low: int
    rows: int
    columns: int

    def superblocks(self, lanes: int) -> list[tuple[int, int]]:
        """(first, stop) of the blocks of rows that share a row length."""
        blocks = self.rows // lanes
        # Whole panels of columns: their ends then fall together.
        each = -(-blocks // SUPERBLOCKS // PANEL_BLOCKS) * PANEL_BLOCKS
        return [(first, min(first + each, blocks)) for first in range(0, blocks, each)]

    def end(self, stop: int, lanes: int) -> int:
        """Columns that some row of the blocks before `stop` sees."""
        return min(self.columns, stop * lanes + self.low - 1)

    def open(self, first: int, lanes: int) -> int:
        """Columns that every row from block `first` on sees, in whole blocks."""
        return min(self.columns, (first * lanes + self.low) // lanes * lanes)


def find_causal(group: Group, steps: list[Step], lanes: int) -> Causal | None:
    """The causal attention that a group computes, if it is one."""
    for step in steps:
        if step.op.name != "add":
            continue
        band, other = _band(step), _scores(step)
        if band is None or other is None or other.producer not in group.ops:
            continue
        product = other.producer
        if product.name not in PRODUCTS or group.rows % lanes or group.rows != product.result.type.shape[-2]:
            continue
        values = _columns_of(group, product)
        attrs = band.producer.attrs if band.producer is not None else {}
        low = attrs["low"]
        if values is None or low < 1:
            continue
        return Causal(product, step, values, low, group.rows, product.result.type.shape[-1])
    return None


def _band(step: Step) -> Value | None:
    """The mask among the operands of an addition."""
    for v in step.op.values():
        op = v.producer
        if op is None or op.name != "band" or op.attrs["high"] is not None or op.attrs["low"] is None:
            continue
        if (
            op.attrs["inside"] <= FAR_BELOW
            and op.attrs["outside"] == 0
            and v.type.shape[-2:] == step.op.result.type.shape[-2:]
        ):
            return v
    return None


def _scores(step: Step) -> Value | None:
    """What the mask is added to: the product, perhaps scaled by a number on the way."""
    if (
        step.kind == "mixed"
        and isinstance(step.first, tuple)
        and step.first[0] == "multiply"
        and not isinstance(step.first[1], Value)
    ):
        return step.x
    return None


def _columns_of(group: Group, product: Op) -> frozenset[Value] | None:
    """Values with a column per key, or None where one of them leaves the group or is more than a softmax needs."""
    found, work = {product.result}, [product.result]
    allowed = ("multiply", "add", "subtract", "exp", "divide", "cast")
    inside = set(group.ops)
    while work:
        value = work.pop()
        for use in value.uses:
            if use not in inside:
                return None
            if use.name in PRODUCTS:
                if use.operands[0] is not value:
                    return None
            elif use.name in ("max", "sum"):
                if use.attrs["axes"] != (value.type.rank - 1,):
                    return None
            elif use.name in allowed and use.result.type.shape == value.type.shape:
                if use.result not in found:
                    found.add(use.result)
                    work.append(use.result)
            else:
                return None
    return frozenset(found)
