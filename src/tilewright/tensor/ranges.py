"""Between which numbers the elements of a value lie, as far as the ops that make it tell. NaN may always be there."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, log, nan, prod, sqrt
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import int32
from tilewright.ir.core import Op, Value
from tilewright.ir.dense import Dense

DEPTH = 24
"""Ops that are looked through, at most."""


class Range(NamedTuple):
    """low <= element <= high for every element that is a number."""

    low: float
    high: float

    def is_inside(self, low: float, high: float) -> bool:
        """True when it lies between two numbers."""
        return low <= self.low and self.high <= high


ANY = Range(-inf, inf)


class Depth(NamedTuple):
    """How many more ops are looked through, and what is known by then: values may be reached in many ways."""

    left: int
    known: dict[Value, tuple[int, Range]]
    """Of each value, through how many ops it was looked."""


def range_of(x: Any, depth: Depth | None = None) -> Range:
    """The range of a value or number."""
    if not isinstance(x, Value):
        return Range(float(x), float(x))
    left, known = depth or Depth(DEPTH, {})
    seen = known.get(x)
    if seen is None or seen[0] < left:
        seen = known[x] = left, _found(x, Depth(left - 1, known))
    return seen[1]


EXACT = 1 << 24
"""Integers up to which float32 has all."""


def is_small(x: Any) -> bool:
    """True for integers that float32 holds, and that no greater one is rounded to."""
    if isinstance(x, Value) and not x.type.dtype.is_integer:
        return False
    return range_of(x).is_inside(1 - EXACT, EXACT - 1)


def unwrapped(op: Op) -> Range:
    """The range of what an op of integers makes before it wraps around to its type."""
    rule = _RULES.get(op.name)
    return ANY if rule is None else rule(op, Depth(DEPTH, {}))


def wraps_around(op: Op) -> bool:
    """True for an op of integers whose results may leave their type, and are others then."""
    return not unwrapped(op).is_inside(*range_of_type(op.result))


def rounds_to(op: Op) -> bool:
    """True where an engine that writes the result of `nearest` in its type does what the op means."""
    dtype = op.result.type.dtype
    return dtype is int32 or range_of(op.operands[0]).is_inside(dtype.min, dtype.max)


def _found(x: Value, deeper: Depth) -> Range:
    op = x.producer
    if op is not None and op.name == "topk":
        return _places(op) if x is op.results[1] else range_of(op.operands[0], deeper)
    rule = None if op is None or deeper.left < 0 else _RULES.get(op.name)
    if op is None or rule is None:
        return range_of_type(x)
    found, of_type = rule(op, deeper), range_of_type(x)
    # Integers beyond their type are others.
    wraps = x.type.dtype.is_integer and not found.is_inside(*of_type)
    return of_type if wraps or found.low != found.low or found.high != found.high else found


def range_of_type(x: Value) -> Range:
    """What an array of a type may hold."""
    dtype = x.type.dtype
    if dtype.kind == "b":
        return Range(0, 1)
    if dtype.is_integer:
        info = np.iinfo(dtype.np)
        return Range(float(info.min), float(info.max))
    return ANY


def _one(function: Callable[[Range], Range]) -> Callable[[Op, Depth], Range]:
    return lambda op, depth: function(range_of(op.operands[0], depth))


def _two(function: Callable[[Range, Range], Range]) -> Callable[[Op, Depth], Range]:
    return lambda op, depth: function(range_of(op.operands[0], depth), range_of(op.operands[1], depth))


def _rising(function: Callable[[float], float]) -> Callable[[Op, Depth], Range]:
    return _one(lambda x: Range(function(x.low), function(x.high)))


def _product(x: Range, y: Range) -> Range:
    corners = [0.0 if a == 0 or b == 0 else a * b for a in x for b in y]
    return Range(min(corners), max(corners))


def _quotient(x: Range, y: Range) -> Range:
    if y.low <= 0 <= y.high:
        return ANY
    return _product(x, Range(1 / y.high, 1 / y.low))


def _square(x: Range) -> Range:
    ends = sorted((abs(x.low), abs(x.high)))
    return Range(0.0 if x.low <= 0 <= x.high else ends[0] ** 2, ends[1] ** 2 if ends[1] < 1e150 else inf)


def _sum(op: Op, depth: Depth) -> Range:
    (x,) = op.operands
    inner, count = range_of(x, depth), prod(x.type.shape[a] for a in op.attrs["axes"])
    total = _product(inner, Range(count, count))
    # The greatest of the exponentials is 1.
    return Range(max(total.low, 1.0), total.high) if _is_shifted(x, op.attrs["axes"]) else total


def _is_shifted(x: Value, axes: tuple[int, ...]) -> bool:
    """True for e ** (y - max(y)) with the maximum over the same axes."""
    power = x.producer
    inner = power.operands[0].producer if power is not None and power.name == "exp" else None
    if inner is None or inner.name != "subtract" or not isinstance(inner.operands[1], Value):
        return False
    most = inner.operands[1].producer
    if most is None or most.name != "max" or most.operands[0] is not inner.operands[0]:
        return False
    return most.attrs["axes"] == axes


def _difference(op: Op, depth: Depth) -> Range:
    x, y = (range_of(each, depth) for each in op.operands)
    found, most = Range(_added(x.low, -y.high), _added(x.high, -y.low)), op.operands[1]
    greatest = most.producer if isinstance(most, Value) else None
    if greatest is not None and greatest.name == "max" and greatest.operands[0] is op.operands[0]:
        # Nothing is greater than the greatest.
        return Range(min(found.low, 0.0), min(found.high, 0.0))
    return found


def _exp(op: Op, depth: Depth) -> Range:
    if _is_shifted(op.result, _axes_of(op)):
        return Range(0.0, 1.0)
    x = range_of(op.operands[0], depth)
    return Range(_e(x.low), _e(x.high))


def _axes_of(op: Op) -> tuple[int, ...]:
    inner = op.operands[0].producer
    most = inner.operands[1].producer if inner is not None and inner.name == "subtract" and inner.values()[1:] else None
    return most.attrs["axes"] if most is not None and most.name == "max" else ()


def _e(x: float) -> float:
    return 0.0 if x < -120 else inf if x > 88 else exp(x)


def _bits(op: Op, depth: Depth) -> Range:
    """(x & mask | one) as float32: what the two constants leave."""
    inner = op.operands[0].producer
    if op.result.type.dtype != "float32" or inner is None or inner.name != "bitwise_or":
        return ANY
    masked, one = inner.operands
    first = masked.producer if isinstance(masked, Value) else None
    if first is None or first.name != "bitwise_and" or isinstance(one, Value) or isinstance(first.operands[1], Value):
        return ANY
    low, high = int(one), int(one) | int(first.operands[1])
    if low < 0 or int(first.operands[1]) < 0:
        return ANY
    ends = np.array([low, high], np.int32).view(np.float32)
    return Range(float(ends[0]), float(ends[1]))


def _constant(op: Op, depth: Depth) -> Range:
    dense = op.attrs["value"]
    assert isinstance(dense, Dense)
    array = dense.array
    if not array.size or array.dtype.kind not in "biuf":
        return ANY
    low, high = float(np.nanmin(array)), float(np.nanmax(array))
    return ANY if low != low else Range(low, high)


def _described(op: Op, depth: Depth) -> Range:
    if op.name == "full":
        number = float(op.attrs["value"])
        return Range(number, number)
    if op.name == "iota":
        ends = op.attrs["start"], op.attrs["start"] + op.attrs["step"] * (op.attrs["shape"][op.attrs["axis"]] - 1)
        return Range(float(min(ends)), float(max(ends)))
    ends = float(op.attrs["inside"]), float(op.attrs["outside"])
    return Range(min(ends), max(ends))


def _mod(op: Op, depth: Depth) -> Range:
    """Between 0 and the divisor, which a sum may be rounded to."""
    y = range_of(op.operands[1], depth)
    return Range(min(y.low, 0.0), max(y.high, 0.0))


def _union(values: list[Range]) -> Range:
    return Range(min(v.low for v in values), max(v.high for v in values))


def _same(op: Op, depth: Depth) -> Range:
    return _union([range_of(x, depth) for x in op.operands])


def _pad(op: Op, depth: Depth) -> Range:
    number = float(op.attrs["value"])
    return _union([range_of(op.operands[0], depth), Range(number, number)])


def _cast(op: Op, depth: Depth) -> Range:
    to, of_type = op.result.type.dtype, range_of_type(op.result)
    found = range_of(op.operands[0], depth)
    whole = not op.operands[0].type.dtype.is_float
    return found if (to.is_float and to.itemsize == 4) or (whole and found.is_inside(*of_type)) else of_type


def _places(op: Op) -> Range:
    """Positions along an axis."""
    return Range(0.0, float(max(op.operands[0].type.shape[op.attrs["axis"]] - 1, 0)))


def _between(low: float, high: float) -> Callable[[Op, Depth], Range]:
    return lambda op, depth: Range(low, high)


def _added(x: float, y: float) -> float:
    return x + y if abs(x + y) < 3e38 else nan if x + y != x + y else inf if x + y > 0 else -inf


_RULES: dict[str, Callable[[Op, Depth], Range]] = {
    "constant": _constant,
    **dict.fromkeys(("full", "iota", "band"), _described),
    **dict.fromkeys(
        ("reshape", "transpose", "slice", "broadcast_to", "concatenate", "update_slice", "max", "min"), _same
    ),
    "pad": _pad,
    "cast": _cast,
    "copy": _same,
    "where": lambda op, depth: _union([range_of(x, depth) for x in op.operands[1:]]),
    "add": _two(lambda x, y: Range(_added(x.low, y.low), _added(x.high, y.high))),
    "subtract": _difference,
    "log": _rising(lambda x: log(x) if 0 < x < inf else x if x > 0 else -inf),
    "multiply": _two(_product),
    **dict.fromkeys(("divide", "quotient"), _two(_quotient)),
    "mod": _mod,
    "maximum": _two(lambda x, y: Range(max(x.low, y.low), max(x.high, y.high))),
    "minimum": _two(lambda x, y: Range(min(x.low, y.low), min(x.high, y.high))),
    "negative": _one(lambda x: Range(-x.high, -x.low)),
    "reciprocal": _one(lambda x: _quotient(Range(1, 1), x)),
    "abs": _one(lambda x: Range(0.0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high)), max(-x.low, x.high))),
    "square": _one(_square),
    "exp": _exp,
    "sqrt": _rising(lambda x: sqrt(x) if 0 < x < inf else max(x, 0.0)),
    "relu": _rising(lambda x: max(x, 0.0)),
    "rint": _rising(lambda x: float(round(x)) if abs(x) < inf else x),
    **dict.fromkeys(("sigmoid",), _between(0, 1)),
    **dict.fromkeys(("tanh", "erf", "sign", "sin_near", "sin", "cos"), _between(-1, 1)),
    **dict.fromkeys(("arctan", "arcsin", "arccos", "arctan2"), _between(-3.15, 3.15)),
    "sum": _sum,
    "bitcast": _bits,
    **dict.fromkeys(("take", "take_along_axis"), _one(lambda x: x)),
    **dict.fromkeys(("argmax", "argmin"), lambda op, depth: _places(op)),
}
