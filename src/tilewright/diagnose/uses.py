"""What the inputs of a program in tensor IR can sensibly hold, and in which order, by what the program uses them for.

A program says of an index how large the dim is that it counts into, of a count what it is compared with, of a divisor
that it is not zero. These demands are followed from where they arise back to the inputs, through casts, moves and
arithmetic with numbers. What nothing is known of has no demand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.bounds.operands import ROWS
from tilewright.ir.core import Graph, Op, Value
from tilewright.tensor.record import TABLE

INDEX, MASK, COUNT, SHIFT, DIVISOR = "an index", "a mask", "a count", "a shift", "a divisor"
_FIRM = (INDEX, SHIFT, DIVISOR)
"""Uses that fail with other numbers; the rest only say which numbers are interesting."""
_COMPARED = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_NEAR = 2
"""How far around a number that a value is compared with numbers are interesting."""
_DIVISOR = 9


@dataclass(frozen=True, slots=True)
class Demand:
    """Numbers from `low` to `high`, both included, and what for."""

    low: float
    high: float
    use: str

    def __and__(self, other: Demand) -> Demand:
        """What suits both; where nothing does, the firmer one."""
        firm, soft = (other, self) if other.use in _FIRM and self.use not in _FIRM else (self, other)
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Demand(low, high, firm.use) if low <= high else firm if firm.use in _FIRM else soft

    def moved(self, back: Callable[[float], float]) -> Demand:
        """The demand on what a monotonous function made this number of, by its inverse."""
        ends = sorted((back(self.low), back(self.high)))
        return Demand(math.ceil(ends[0]), math.floor(ends[1]), self.use)


def demands(graph: Graph) -> dict[Value, Demand]:
    """What is asked of the values of a program, its inputs among them."""
    found: dict[Value, Demand] = {}

    def ask(value: Any, demand: Demand) -> None:
        if isinstance(value, Value) and (demand.use in _FIRM or not value.type.dtype.is_float):
            found[value] = found[value] & demand if value in found else demand

    for op in reversed(graph.ops):
        for value, demand in _arising(op):
            ask(value, demand)
        wanted = found.get(op.results[0]) if op.results else None
        back = _backwards(op) if wanted is not None else None
        if wanted is not None and back is not None:
            value, inverse = back
            ask(value, wanted.moved(inverse))
    return found


def orders(graph: Graph) -> dict[Value, int]:
    """The values of a program that have to be in order, since something is looked up in them: 1 rising, -1 falling."""
    found: dict[Value, int] = {}
    for op in reversed(graph.ops):
        if op.name == "searchsorted":
            found[op.operands[0]] = 1
        elif op.results and op.results[0] in found and (back := _ordered_operand(op)) is not None:
            value, turned = back
            found[value] = found[op.results[0]] * turned
    return found


def _ordered_operand(op: Op) -> tuple[Value, int] | None:
    """The operand that rises where the result of an op does (1), or falls there (-1)."""
    if not op.operands:
        return None
    first = op.operands[0]
    if op.name in ("cast", "negative"):
        return first, 1 if op.name == "cast" else -1
    if op.name == "slice" and len(op.attrs["steps"]) == 1:
        return first, 1 if op.attrs["steps"][0] > 0 else -1
    if op.name not in ("add", "subtract", "multiply", "divide") or not _has_number(op):
        return None
    value, number = op.operands if isinstance(first, Value) else op.operands[::-1]
    if op.name in ("add", "subtract"):
        return value, -1 if op.name == "subtract" and value is not first else 1
    return (value, 1 if number > 0 else -1) if number and (op.name == "multiply" or value is first) else None


def _arising(op: Op) -> list[tuple[Any, Demand]]:
    """What an op itself asks of its operands."""
    if op.name in ("checked_index", "bounded_index"):
        return [(op.operands[0], Demand(0, op.attrs["size"] - 1, INDEX))]
    if op.name in ROWS:
        size = op.operands[0].type.shape[op.attrs.get("axis", 0)]
        return [(op.operands[1], Demand(0, size - 1, INDEX))]
    if op.name in _COMPARED:
        pairs = (op.operands, op.operands[::-1])
        return [(x, _around(y)) for x, y in pairs if isinstance(x, Value) and _is_known(y)]
    if op.name == "cast" and op.attrs["dtype"].kind == "b":
        return [(op.operands[0], Demand(0, 1, MASK))]
    if op.name in ("left_shift", "right_shift"):
        return [(op.operands[1], Demand(0, op.result.type.dtype.itemsize * 8 - 1, SHIFT))]
    if op.name in ("floor_divide", "mod", "fmod", "divide") and op.result.type.dtype.is_integer:
        return [(op.operands[1], Demand(1, _DIVISOR, DIVISOR))]
    return []


def _is_known(y: Any) -> bool:
    return not isinstance(y, Value) or _counting(y) is not None


def _around(y: Any) -> Demand:
    """What is interesting to compare with a number, or with numbers that count up."""
    if not isinstance(y, Value):
        return Demand(y - _NEAR, y + _NEAR, MASK)
    counting = _counting(y)
    assert counting is not None
    attrs = counting.attrs
    ends = sorted((attrs["start"], attrs["start"] + attrs["step"] * attrs["shape"][attrs["axis"]]))
    return Demand(ends[0], ends[1], COUNT)


def _counting(value: Value) -> Op | None:
    """The op that counts up, where moves of its result alone lead to a value."""
    op = value.producer
    while op is not None and op.name != "iota":
        if not _is_move(op) or not isinstance(op.operands[0], Value):
            return None
        op = op.operands[0].producer
    return op


def _is_move(op: Op) -> bool:
    return op.name == "cast" or (TABLE[op.name].family == "shape" and len(op.operands) == 1)


def _backwards(op: Op) -> tuple[Any, Callable[[float], float]] | None:
    """The operand that decides an op's result, and that operand from the result; None where several do."""
    if op.name == "checked_index" or _is_move(op):
        return op.operands[0], lambda y: y
    if len(op.operands) != 2 or not _has_number(op):
        return None
    first, second = op.operands
    value, number = (first, second) if isinstance(first, Value) else (second, first)
    if op.name == "add":
        return value, lambda y: y - number
    if op.name == "subtract":
        return value, (lambda y: y + number) if value is first else (lambda y: number - y)
    if op.name == "multiply" and number:
        return value, lambda y: y / number
    if op.name == "floor_divide" and value is first and number:
        return value, lambda y: y * number
    if op.name in ("minimum", "maximum"):
        return value, lambda y: y
    return None


def _has_number(op: Op) -> bool:
    return sum(isinstance(x, Value) for x in op.operands) == 1
