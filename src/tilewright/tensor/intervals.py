"""Between which numbers the elements of integer values lie: one rule per op, on Python's integers, which never wrap.

Floats are not followed: an integer made of one may be anything. What no rule tells has the range of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import DType
from tilewright.ir.core import Op, Value
from tilewright.ir.dense import Dense

_BITS = np.iinfo(np.int64).bits
_MANY = 1 << 4 * _BITS
"""Beyond every type; what is larger is not told apart."""


class Interval(NamedTuple):
    """low <= element <= high for every element."""

    low: int
    high: int

    def is_inside(self, other: Interval) -> bool:
        """True when all of it lies in the other."""
        return other.low <= self.low and self.high <= other.high

    def within(self, other: Interval) -> Interval:
        """What of it lies in the other; all of that where nothing does."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else other


ANY = Interval(-_MANY, _MANY)
NOTHING = Interval(0, 0)


def interval_of_type(dtype: DType) -> Interval:
    """What an element type holds."""
    if dtype.kind == "b":
        return Interval(0, 1)
    if dtype.is_integer:
        info = np.iinfo(dtype.np)
        return Interval(int(info.min), int(info.max))
    return ANY


def interval_of_array(array: np.ndarray) -> Interval:
    """The least and the greatest element of integers or truth values."""
    if array.dtype.kind not in "biu":
        return ANY
    return Interval(int(array.min()), int(array.max())) if array.size else NOTHING


def intervals_of(op: Op, operands: Sequence[Any]) -> list[Interval]:
    """The intervals of an op's results; operands are intervals, or Python numbers."""
    found: tuple[Interval, ...] = ()
    integer = all(value.type.dtype.is_integer or value.type.dtype.kind == "b" for value in op.values())
    if integer and op.name in RULES:
        ends = [x if isinstance(x, Interval) else Interval(int(x), int(x)) for x in operands]
        found = (RULES[op.name](op, *ends),)
    elif op.name in POSITIONS:
        found = (ANY,) * (len(op.results) - 1) + (_position(op),)
    results: list[Interval] = []
    for place, value in enumerate(op.results):
        whole = interval_of_type(value.type.dtype)
        given = found[place] if place < len(found) else ANY
        # NumPy's own types wrap where a number does not fit them.
        results.append(given if given.is_inside(whole) else whole)
    return results


STEPS = 12
"""Ops that `interval_of` goes back."""


def interval_of(x: Value, steps: int = STEPS, known: dict[tuple[Value, int], Interval] | None = None) -> Interval:
    """The interval of a value from the ops that make it, so many of them back; `known` keeps what was found out."""
    known = {} if known is None else known
    found = known.get((x, steps))
    if found is None:
        op = x.producer
        found = interval_of_type(x.type.dtype)
        if op is not None and steps and found != ANY:
            ends = [interval_of(v, steps - 1, known) if isinstance(v, Value) else v for v in op.operands]
            found = intervals_of(op, ends)[op.results.index(x)]
        known[x, steps] = found
    return found


def _position(op: Op) -> Interval:
    """Places along an axis, or in a row."""
    x = op.operands[0].type
    axis = op.attrs.get("axis", -1)
    count = x.shape[axis] if x.shape else 1
    return Interval(0, count if op.name == "searchsorted" else max(count - 1, 0))


def _corners(function: Callable[[int, int], int]) -> Callable[..., Interval]:
    def rule(op: Op, x: Interval, y: Interval) -> Interval:
        found = [function(a, b) for a in x for b in y]
        return Interval(min(found), max(found))

    return rule


def _union(op: Op, *parts: Interval) -> Interval:
    return Interval(min(x.low for x in parts), max(x.high for x in parts)) if parts else NOTHING


def _first(op: Op, x: Interval, *others: Interval) -> Interval:
    return x


def _times(x: Interval, count: int) -> Interval:
    return Interval(x.low * count, x.high * count)


def _with_zero(x: Interval) -> Interval:
    return Interval(min(x.low, 0), max(x.high, 0))


def _sum(op: Op, x: Interval) -> Interval:
    return _times(x, prod(op.operands[0].type.shape[a] for a in op.attrs["axes"]))


def _running_sum(op: Op, x: Interval) -> Interval:
    count = op.operands[0].type.shape[op.attrs["axis"]]
    return _union(op, x, _times(x, count))


def _power(x: Interval, count: int) -> Interval:
    most = max(abs(x.low), abs(x.high))
    if most <= 1:
        return _with_zero(Interval(-1 if x.low < 0 else 0, 1))
    if count * most.bit_length() > 2 * _BITS:
        return ANY
    return Interval(-(most**count) if x.low < 0 else 0, max(most**count, 1))


def _product(op: Op, x: Interval) -> Interval:
    return _power(x, prod(op.operands[0].type.shape[a] for a in op.attrs["axes"]))


def _running_product(op: Op, x: Interval) -> Interval:
    return _power(x, op.operands[0].type.shape[op.attrs["axis"]])


def _multiply(op: Op, x: Interval, y: Interval) -> Interval:
    return _corners(lambda a, b: a * b)(op, x, y)


def _matmul(op: Op, x: Interval, y: Interval) -> Interval:
    return _times(_multiply(op, x, y), op.operands[0].type.shape[-1])


def _abs(op: Op, x: Interval) -> Interval:
    ends = sorted((abs(x.low), abs(x.high)))
    return Interval(0 if x.low <= 0 <= x.high else ends[0], ends[1])


def _square(op: Op, x: Interval) -> Interval:
    size = _abs(op, x)
    return Interval(size.low**2, size.high**2)


def _cast(op: Op, x: Interval) -> Interval:
    return Interval(int(bool(x.low > 0 or x.high < 0)), 1) if op.result.type.dtype.kind == "b" else x


def _mod(op: Op, x: Interval, y: Interval) -> Interval:
    """The sign of the divisor; 0 where that is 0."""
    low = min(y.low + 1, 0) if y.low < 0 else 0
    high = max(y.high - 1, 0) if y.high > 0 else 0
    if y.low > 0 and x.low >= 0:
        high = min(high, x.high)
    return Interval(low, high)


def _floor_divide(op: Op, x: Interval, y: Interval) -> Interval:
    if y.low > 0 or y.high < 0:
        return _corners(lambda a, b: a // b)(op, x, y)
    # By -1 at worst, or 0, which gives 0.
    return Interval(min(x.low, -x.high, 0), max(x.high, -x.low, 0))


def _bits(op: Op, x: Interval, y: Interval) -> Interval:
    if x.low >= 0 and y.low >= 0:
        if op.name == "bitwise_and":
            return Interval(0, min(x.high, y.high))
        return Interval(0, (1 << max(x.high, y.high).bit_length()) - 1)
    size = max((end if end >= 0 else ~end).bit_length() for end in (*x, *y))
    return Interval(-(1 << size), (1 << size) - 1)


def _shift_left(op: Op, x: Interval, y: Interval) -> Interval:
    if y.low < 0 or y.high >= _BITS:
        return ANY
    return _corners(lambda a, b: a << b)(op, x, y)


def _shift_right(op: Op, x: Interval, y: Interval) -> Interval:
    return _with_zero(x) if y.low >= 0 else ANY


def _described(op: Op) -> Interval:
    if op.name == "constant":
        dense = op.attrs["value"]
        assert isinstance(dense, Dense)
        return interval_of_array(dense.array)
    if not op.result.type.dtype.is_integer and op.result.type.dtype.kind != "b":
        return ANY
    if op.name == "full":
        return Interval(int(op.attrs["value"]), int(op.attrs["value"]))
    if op.name == "iota":
        start, step = op.attrs["start"], op.attrs["step"]
        last = start + step * (op.attrs["shape"][op.attrs["axis"]] - 1)
        return Interval(int(min(start, last)), int(max(start, last)))
    ends = int(op.attrs["inside"]), int(op.attrs["outside"])
    return Interval(min(ends), max(ends))


def _pad(op: Op, x: Interval) -> Interval:
    number = int(op.attrs["value"])
    return _union(op, x, Interval(number, number))


def _combined(op: Op, x: Interval, index: Interval, part: Interval) -> Interval:
    """Any number of the rows may be combined with one row."""
    if op.attrs["combine"] not in ("add", "subtract"):
        return ANY if op.attrs["combine"] == "multiply" else _union(op, x, part)
    part = part if op.attrs["combine"] == "add" else Interval(-part.high, -part.low)
    count = op.operands[1].type.shape[0] if isinstance(op.operands[1], Value) and op.operands[1].type.shape else 1
    more = _times(_with_zero(part), count)
    return Interval(x.low + more.low, x.high + more.high)


def _places(op: Op, index: Interval) -> Interval:
    """Indices that were checked, counted from the first element."""
    all_of_them = Interval(0, max(op.attrs["size"] - 1, 0))
    return all_of_them if index.low < 0 else index.within(all_of_them)


def _nonzero(op: Op, x: Interval) -> Interval:
    fill = int(op.attrs["fill"])
    return _union(op, Interval(0, max(op.operands[0].type.shape[0] - 1, 0)), Interval(fill, fill))


def _raised(op: Op, x: Interval, y: Interval) -> Interval:
    return ANY if y.low < 0 or y.high > _BITS else _power(x, y.high)


def _remainder(op: Op, x: Interval, y: Interval) -> Interval:
    """The sign of what is divided; 0 where the divisor is 0."""
    most = max(abs(y.low), abs(y.high), 1) - 1
    return Interval(-min(most, -x.low) if x.low < 0 else 0, min(most, x.high) if x.high > 0 else 0)


POSITIONS = {"argmax", "argmin", "argsort", "topk", "searchsorted", "count_before"}
"""Ops whose last result is a place along an axis."""

RULES: dict[str, Callable[..., Interval]] = {
    **dict.fromkeys(("constant", "full", "iota", "band"), _described),
    **dict.fromkeys(("reshape", "transpose", "slice", "broadcast_to", "windows", "max", "min", "sort"), _first),
    **dict.fromkeys(("take", "take_along_axis"), _first),
    **dict.fromkeys(("concatenate", "update_slice"), _union),
    **dict.fromkeys(("put_rows", "put_along_axis"), lambda op, x, index, part: _union(op, x, part)),
    **dict.fromkeys(("checked_index", "bounded_index"), _places),
    "nonzero": _nonzero,
    "combine_rows": _combined,
    "pad": _pad,
    "cast": _cast,
    "where": lambda op, condition, x, y: _union(op, x, y),
    "add": _corners(lambda a, b: a + b),
    "subtract": _corners(lambda a, b: a - b),
    "multiply": _multiply,
    "maximum": _corners(max),
    "minimum": _corners(min),
    "negative": lambda op, x: Interval(-x.high, -x.low),
    "abs": _abs,
    "sign": lambda op, x: Interval(-1 if x.low < 0 else 0, 1),
    "square": _square,
    "relu": lambda op, x: Interval(max(x.low, 0), max(x.high, 0)),
    "mod": _mod,
    "fmod": _remainder,
    "power": _raised,
    "floor_divide": _floor_divide,
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), _bits),
    "invert": lambda op, x: Interval(~x.high, ~x.low),
    "left_shift": _shift_left,
    "right_shift": _shift_right,
    "sum": _sum,
    "prod": _product,
    "cumsum": _running_sum,
    "cumprod": _running_product,
    "matmul": _matmul,
}
"""Integer ops by name: the interval of the result, given those of the operands."""
