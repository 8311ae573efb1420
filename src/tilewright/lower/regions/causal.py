"""Attention that looks back only: what a mask's own definition makes zero is neither computed nor read.

The mask is a band added to the scores, or one that chooses between them and a number: so far below all others that its
exponential is zero, where a key comes after its query. For a few superblocks of rows the columns end where the mask
leaves nothing, and only the columns near the diagonal are masked at all. A mask that hides what is far back too leaves
a window: columns then begin where some row sees them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.tuning import TUNING

if TYPE_CHECKING:
    from tilewright.lower.regions.fuse import Step
    from tilewright.lower.regions.grouping import Group

FAR_BELOW = -1e8
"""Added to a score, this makes its exponential zero beside any other's."""


@dataclass(frozen=True, slots=True)
class Causal:
    """What of a group is causal: the scores' product, the step that adds the mask, the values whose columns end early.

    low: columns from row number + low on are masked. apart: the mask is a step of its own, after the scores are there.
    back: columns before row number - back are masked too; None: a row sees all that come before it.
    """

    product: Op
    step: Step
    values: frozenset[Value]
    low: int
    rows: int
    columns: int
    apart: bool = False
    back: int | None = None

    def superblocks(self, lanes: int) -> list[tuple[int, int]]:
        """(first, stop) of the blocks of rows that share a row length."""
        blocks = self.rows // lanes
        each = -(-blocks // TUNING.row_lengths)
        return [(first, min(first + each, blocks)) for first in range(0, blocks, each)]

    def end(self, stop: int, lanes: int) -> int:
        """Columns that some row of the blocks before `stop` sees, in whole blocks."""
        return min(self.columns, -(-(stop * lanes + self.low - 1) // lanes) * lanes)

    def begin(self, first: int, lanes: int) -> int:
        """The first column that some row from block `first` on sees, in whole blocks."""
        return 0 if self.back is None else max(first * lanes - self.back, 0) // lanes * lanes

    def near(self, stop: int, lanes: int) -> int:
        """From which column on every row of the blocks before `stop` sees what comes before it, in whole blocks."""
        last = min(stop * lanes, self.rows) - 1
        return 0 if self.back is None else -(-max(last - self.back, 0) // lanes) * lanes

    def open(self, first: int, lanes: int) -> int:
        """Columns that every row from block `first` on sees, in whole blocks."""
        return min(self.columns, (first * lanes + self.low) // lanes * lanes)


@decision("mask: causal blocks", if_found=True)
def find_causal(group: Group, steps: list[Step], lanes: int) -> Causal | None:
    """The causal attention that a group computes, if it is one."""
    for step in steps:
        window = _window(step.op)
        low, back = window if window is not None else (masked_from(step.op), None)
        if low is None or low < 1 or group.rows < lanes:
            continue
        product = _scores(step, group)
        if product is None or group.rows != product.result.type.shape[-2]:
            continue
        values = _columns_of(group, product, step.op)
        if values is not None:
            apart = step.kind == "op" or window is not None
            return Causal(product, step, values, low, group.rows, product.result.type.shape[-1], apart, back)
    return None


def masked_from(op: Op) -> int | None:
    """From which column after its own number on a row of an op's result is masked; None where it is no such mask."""
    if op.name == "add":
        for v in op.values():
            attrs = _band(v, op)
            if attrs is not None and attrs["high"] is None and attrs["inside"] <= FAR_BELOW and attrs["outside"] == 0:
                return attrs["low"]
    elif op.name == "where":
        condition, *chosen = op.operands
        attrs = _band(condition, op)
        if attrs is None:
            return None
        inside, outside = chosen if attrs["inside"] else reversed(chosen)
        if attrs["low"] is None and attrs["high"] is not None and is_far_below(outside):
            return attrs["high"] + 1
        if attrs["high"] is None and attrs["low"] is not None and is_far_below(inside):
            return attrs["low"]
    return None


def _window(op: Op) -> tuple[int, int] | None:
    """From which column after its own number on, and before which one ahead of it, a row is masked; None where no mask
    hides both."""
    shape = op.result.type.shape
    if op.name not in ("where", "add") or shape[-1:] != shape[-2:-1]:
        return None
    attrs = next((found for v in op.values() if (found := _band(v, op)) is not None), None)
    if attrs is None or attrs["low"] is None or attrs["high"] is None:
        return None
    # Every row sees its own column: what it does not see is zero beside that.
    own = attrs["low"] <= 0 <= attrs["high"]
    if op.name == "add":
        far = attrs["inside"] == 0 and is_far_below(attrs["outside"])
    else:
        far = bool(attrs["inside"]) and not attrs["outside"] and is_far_below(op.operands[2])
    return (attrs["high"] + 1, -attrs["low"]) if own and far else None


def is_far_below(x: Value | float) -> bool:
    """True for a number whose exponential is zero beside any other's."""
    if isinstance(x, Value):
        op = x.producer
        return op is not None and op.name == "full" and is_far_below(op.attrs["value"])
    return x <= FAR_BELOW


def _band(x: Value | float, op: Op) -> Mapping[str, Any] | None:
    """What describes a mask of the matrices of an op's result."""
    made = x.producer if isinstance(x, Value) else None
    if not isinstance(x, Value) or made is None or made.name != "band":
        return None
    return made.attrs if x.type.shape[-2:] == op.result.type.shape[-2:] else None


def _scores(step: Step, group: Group) -> Op | None:
    """The product that a mask is put on, perhaps with some function of its elements on the way."""
    if step.kind == "mixed":
        plain = isinstance(step.first, tuple) and step.first[0] == "multiply" and not isinstance(step.first[1], Value)
        value = step.x if plain else None
    elif step.kind == "op":
        value = next((v for v in step.op.values() if v.producer in group.ops), None)
    else:
        value = None
    while isinstance(value, Value) and value.producer in group.ops:
        made, shape = value.producer, value.type.shape
        if made.name in PRODUCTS:
            return made
        if made.definition.family != "elementwise":
            return None
        value = next((v for v in made.values() if v.type.shape == shape and v.producer in group.ops), None)
    return None


BEFORE, MASKED, POWER = range(3)
"""What a value with a column per key is: scores without the mask, with it, and exponentials, zero where it is."""


def _columns_of(group: Group, product: Op, mask: Op) -> frozenset[Value] | None:
    """Values with a column per key, or None where one of them leaves the group or is more than a softmax needs."""
    found, work = {product.result: BEFORE}, [product.result]
    inside = set(group.ops)
    while work:
        value = work.pop()
        for use in value.uses:
            if use not in inside:
                return None
            if use.name in PRODUCTS:
                if found[value] != POWER or use.operands[0] is not value:
                    return None
            elif use.name in ("max", "sum"):
                if found[value] != (MASKED if use.name == "max" else POWER) or use.attrs["axes"] != (
                    value.type.rank - 1,
                ):
                    return None
            else:
                kind = MASKED if use is mask else _after(use, value, found[value])
                if kind is None or use.result.type.shape != value.type.shape or found.get(use.result, kind) != kind:
                    return None
                if use.result not in found:
                    found[use.result] = kind
                    work.append(use.result)
    beside = (v for made in found if made.producer is not product for v in _others(made.producer, found))
    # Of what has a column per key, too, such as a bias, rows read those that they see.
    columns = product.result.type.shape[-1]
    return frozenset(found) if all(v.type.shape[-1:] in ((), (1,), (columns,)) for v in beside) else None


def _others(op: Op | None, found: Mapping[Value, int]) -> list[Value]:
    """Operands beside the columns, and beside a mask."""
    values = [] if op is None else op.values()
    return [v for v in values if v not in found and (v.producer is None or v.producer.name not in ("band", "full"))]


def _after(op: Op, value: Value, kind: int) -> int | None:
    """What an op makes of a value of some kind: columns that a mask makes zero have to stay so."""
    first = op.operands[0] is value
    other = op.operands[1] if first and len(op.operands) == 2 else None
    if op.name == "cast":
        return kind
    if op.name == "exp" and kind != BEFORE:
        return POWER if kind == MASKED else None
    if kind == BEFORE:
        return BEFORE if op.definition.family == "elementwise" else None
    if kind == POWER:
        return POWER if op.name == "multiply" or (op.name == "divide" and first) else None
    if op.name in ("multiply", "divide"):
        return MASKED if isinstance(other, int | float) and other > 0 else None
    return MASKED if op.name == "add" or (op.name == "subtract" and first) else None
