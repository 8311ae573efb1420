"""Sorting, searching, positions and random bits in terms of primitive ops, for `decompose`. All are exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import DType, float32, int32, uint32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import make, value
from tilewright.tensor.ops.random import mix, rotate_left


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
