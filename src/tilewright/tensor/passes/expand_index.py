"""Sorting, searching, positions and random bits in terms of primitive ops, for `decompose`. All are exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dtypes import DType, float32, int32, uint32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import make, value
from tilewright.tensor.ops.random import mix, rotate_left
from tilewright.tensor.passes.decompose.rounding import MIDDLE

MOST_PLACES = 2**22
"""Numbers of a line, at most: float32 holds its places and what lies halfway between."""


@rule("sort")
def expand_sort(op: Op) -> Any:
    """sort(x) -> the values of topk(x) for k = the size of the axis"""
    (x,) = op.operands
    axis = op.attrs["axis"]
    return make("topk", x, k=x.type.shape[axis], axis=axis, largest=op.attrs["descending"]).results[0]


@rule("argsort")
def expand_argsort(op: Op) -> Any:
    """argsort(x) -> the indices of topk(x) for k = the size of the axis"""
    (x,) = op.operands
    axis = op.attrs["axis"]
    index = make("topk", x, k=x.type.shape[axis], axis=axis, largest=op.attrs["descending"]).results[1]
    return _as(index, op.attrs["dtype"])


def _as(x: Value, dtype: DType) -> Value:
    return x if x.type.dtype is dtype else value("cast", x, dtype=dtype)


_COMPARED = 16
"""Elements up to which a value is compared with all of them."""


@rule("searchsorted")
def expand_searchsorted(op: Op) -> Any:
    """searchsorted(x, v) -> number of x[i] < v (or <= v), and of all numbers where v is NaN; of many x count_before"""
    x, v = op.operands
    shape, right = v.type.shape, op.attrs["right"]
    small = v.type.dtype.is_integer and v.type.dtype.itemsize < int32.itemsize
    if (line := even_line(x)) is not None and v.type.dtype is float32:
        return _as(value("nearest", _place_on(line, x, v, right), dtype=int32), op.attrs["dtype"])
    if x.type.size > _COMPARED and (v.type.dtype.is_float or small or v.type.dtype is int32):
        x, v = (value("cast", y, dtype=int32) if small else y for y in (x, v))
        return _as(value("count_before", x, v, right=right), op.attrs["dtype"])
    if (known := _known_numbers(x)) is not None and v.type.dtype is float32:
        return value("cast", _count(known, v, right), dtype=op.attrs["dtype"])
    column = value("reshape", v, shape=(*shape, 1))
    before = value("less_equal" if right else "less", x, column)
    if v.type.dtype.is_float:
        last = value("not_equal", column, column)
        if not right:
            last = value("bitwise_and", last, value("equal", x, x))
        before = value("bitwise_or", before, last)
    counted = value("cast", before, dtype=int32)
    return _as(value("sum", counted, axes=(len(shape),), keepdims=False), op.attrs["dtype"])


def _known_numbers(x: Value) -> list[float] | None:
    """The numbers of a constant, none of which is NaN."""
    if x.producer is None or x.producer.name != "constant":
        return None
    known = x.producer.attrs["value"].array
    return None if np.isnan(known).any() else [float(each) for each in known]


_LINE = 8
"""Elements from which on a value's place is computed: it takes about as long as that many comparisons."""

_ROUNDED = 2.0**-20
"""More than the roundings of a product and a sum change either of them, however they are computed."""


@dataclass(frozen=True, slots=True)
class Line:
    """Numbers so even that number i is within half of `slope * x + offset = i`; start + step * i if that is exact."""

    count: int
    slope: float
    offset: float
    exact: tuple[float, float] | None


def even_line(x: Value) -> Line | None:
    """The line on which known float32 numbers lie, in ascending order."""
    op = x.producer
    if op is None or op.name not in ("constant", "iota") or x.type.dtype is not float32:
        return None
    count = x.type.size
    if not _LINE <= count <= MOST_PLACES:
        return None
    numbers = op.definition.meaning(**op.attrs).astype(np.float64)
    reach = numbers[-1] - numbers[0]
    if not np.isfinite(numbers).all() or not (np.diff(numbers) > 0).all() or reach > float32.max:
        return None
    slope = np.float32((count - 1) / reach)
    offset = np.float32(-numbers[0] * float(slope))
    if not np.isfinite([slope, offset]).all():
        return None
    wanted = np.arange(count)
    products = numbers * float(slope)
    off = np.abs(products + float(offset) - wanted) + _ROUNDED * (np.abs(products) + abs(float(offset)))
    if off.max() >= 0.5:
        return None
    start, step = float(numbers[0]), float(numbers[1] - numbers[0])
    parts = (wanted * step, wanted * step + start)
    exact = all((part.astype(np.float32) == part).all() for part in parts) and (parts[1] == numbers).all()
    return Line(count, float(slope), float(offset), (start, step) if exact else None)


def _place_on(line: Line, x: Value, v: Value, right: bool) -> Value:
    """How many numbers of a line come before each element of v: all up to the nearest one, which is compared.

    What lies between two numbers of the line is nearest to one of the two by the line's own measure, because that
    grows with v. NaN goes behind the last, which is not before it.
    """
    last = float(line.count - 1)
    along = value("add", value("multiply", v, line.slope), line.offset)
    along = value("where", value("not_equal", v, v), last, along)
    along = value("minimum", value("maximum", along, 0.0), last)
    if line.exact is not None:
        start, step = line.exact
        near = value("subtract", value("add", along, MIDDLE), MIDDLE)
        number = value("add", value("multiply", near, step), start)
    else:
        index = value("nearest", along, dtype=int32)
        near, number = value("cast", index, dtype=float32), value("take", x, index, axis=0)
    beyond = value("cast", value("greater" if right else "greater_equal", number, v), dtype=float32)
    return value("add", value("subtract", near, beyond), 1.0)


def _count(known: list[float], v: Value, right: bool) -> Value:
    """How many of some numbers are less than each element of v, or are no greater; all of them where it is NaN."""
    total: Any = 0.0
    for number in known:
        found = value("cast", value("greater_equal" if right else "greater", v, number), dtype=float32)
        total = found if total == 0.0 else value("add", found, total)
    return value("where", value("not_equal", v, v), float(len(known)), total)


@rule("nonzero")
def expand_nonzero(op: Op) -> Any:
    """nonzero(x) -> each position put where the count of those before it says; what is too many goes to a last slot"""
    (x,) = op.operands
    length, size, dtype = x.type.shape[0], op.attrs["size"], op.attrs["dtype"]
    start = value("full", shape=(size + 1,), dtype=dtype, value=op.attrs["fill"])
    found = value("not_equal", x, False if x.type.dtype.kind == "b" else 0)
    count = value("cumsum", value("cast", found, dtype=int32), axis=0)
    slot = value("minimum", value("subtract", count, 1), size)
    slot = value("where", found, slot, size)
    position = value("iota", shape=(length,), dtype=dtype, axis=0, start=0, step=1)
    put = value("put_rows", start, slot, position)
    return value("slice", put, starts=(0,), sizes=(size,), steps=(1,))


class _Word:
    """A value of uint32 with the operators that the rounds use."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def _with(self, name: str, other: _Word | int) -> _Word:
        return _Word(value(name, self.value, other.value if isinstance(other, _Word) else other))

    def __add__(self, other: _Word | int) -> _Word:
        return self._with("add", other)

    def __xor__(self, other: _Word | int) -> _Word:
        return self._with("bitwise_xor", other)

    def __or__(self, other: _Word | int) -> _Word:
        return self._with("bitwise_or", other)

    def __lshift__(self, bits: int) -> _Word:
        return self._with("left_shift", bits)

    def __rshift__(self, bits: int) -> _Word:
        return self._with("right_shift", bits)


@rule("threefry2x32")
def expand_threefry(op: Op) -> Any:
    """threefry2x32(key, x0, x1) -> 20 rounds of x0 + x1, x1 rotated ^ x0, with the key added after every fourth"""
    key, x0, x1 = op.operands
    assert key.type.dtype is uint32
    words = [value("slice", key, starts=(i,), sizes=(1,), steps=(1,)) for i in range(2)]
    k0, k1 = (_Word(value("reshape", word, shape=())) for word in words)
    *_, (out0, out1) = mix(k0, k1, _Word(x0), _Word(x1), rotate_left)
    return [out0.value, out1.value]
