"""Ramps stay ramps: whole numbers that go up by a step along one dim, moved, shifted, scaled or cast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes

from tilewright.dtypes import DType
from tilewright.ir.core import Op
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import maker, number


def _ramp(x: Any) -> dict[str, Any] | None:
    """The attributes of a ramp of whole numbers."""
    op = maker(x, "iota")
    if op is None or not isinstance(op.attrs["start"], int) or not isinstance(op.attrs["step"], int):
        return None
    return dict(op.attrs) if _is_held(op.attrs) else None


def _is_held(attrs: Mapping[str, Any]) -> bool:
    """Whether the type of a ramp holds each of its numbers."""
    dtype: DType = attrs["dtype"]
    ends = attrs["start"], attrs["start"] + attrs["step"] * max(attrs["shape"][attrs["axis"]] - 1, 0)
    if dtype.is_integer:
        return dtype.min <= min(ends) and max(ends) <= dtype.max
    return max(map(abs, ends)) <= 2 ** (ml_dtypes.finfo(dtype.np).nmant + 1)


def _made(attrs: dict[str, Any]) -> Any:
    return value("iota", **attrs) if _is_held(attrs) else None


@rule("transpose")
def transpose_ramp(op: Op) -> Any:
    """transpose(iota, p) -> iota along p's place of its axis"""
    attrs = _ramp(op.operands[0])
    if attrs is None:
        return None
    return _made({**attrs, "shape": op.result.type.shape, "axis": op.attrs["perm"].index(attrs["axis"])})


@rule("broadcast_to")
def broadcast_ramp(op: Op) -> Any:
    """broadcast_to(iota, shape) -> iota of that shape"""
    attrs = _ramp(op.operands[0])
    if attrs is None:
        return None
    axis = attrs["axis"] + len(op.attrs["shape"]) - len(attrs["shape"])
    same = op.attrs["shape"][axis] == attrs["shape"][attrs["axis"]]
    return _made({**attrs, "shape": op.attrs["shape"], "axis": axis}) if same else None


@rule("reshape")
def reshape_ramp(op: Op) -> Any:
    """reshape(iota, shape) -> iota of that shape        where all dims but one have size 1"""
    attrs, shape = _ramp(op.operands[0]), op.attrs["shape"]
    if attrs is None or any(n != 1 for a, n in enumerate(attrs["shape"]) if a != attrs["axis"]):
        return None
    long = [a for a, n in enumerate(shape) if n != 1]
    return _made({**attrs, "shape": shape, "axis": long[0]}) if len(long) == 1 else None


@rule("add", "subtract", "multiply")
def shift_ramp(op: Op) -> Any:
    """iota(a, s) + c -> iota(a + c, s), iota(a, s) * c -> iota(a * c, s * c)        of numbers that the type holds"""
    attrs, by = _ramp(op.operands[0]), number(op.operands[1])
    if attrs is None or by is None or by != by or abs(by) == float("inf") or by != int(by):
        return None
    if op.result.type.shape != attrs["shape"]:
        return None
    by = int(by)
    if op.name == "multiply":
        # 0 times a negative float is -0.0.
        fits = by > 0 or (by < 0 and attrs["dtype"].is_integer)
        return _made({**attrs, "start": attrs["start"] * by, "step": attrs["step"] * by}) if fits else None
    return _made({**attrs, "start": attrs["start"] + (by if op.name == "add" else -by)})


@rule("cast")
def cast_ramp(op: Op) -> Any:
    """cast(iota, t) -> iota of t        where t holds each of its numbers"""
    attrs, dtype = _ramp(op.operands[0]), op.attrs["dtype"]
    if attrs is None or dtype.kind not in "iuf":
        return None
    return _made({**attrs, "dtype": dtype})


@rule("take")
def take_of_ramp(op: Op) -> Any:
    """take(iota(a, s), checked_index(i)) -> a + s * checked_index(i)        of one dim"""
    x, index = op.operands
    attrs, checked = _ramp(x), maker(index, "checked_index", "bounded_index")
    if attrs is None or checked is None or len(attrs["shape"]) != 1 or checked.attrs["size"] > attrs["shape"][0]:
        return None
    if attrs["dtype"].is_float:
        return None
    found = index if index.type.dtype is attrs["dtype"] else value("cast", index, dtype=attrs["dtype"])
    found = found if attrs["step"] == 1 else value("multiply", found, attrs["step"])
    return found if attrs["start"] == 0 else value("add", found, attrs["start"])


@rule("take")
def take_of_band(op: Op) -> Any:
    """take(band, checked_index(i)) -> where(low <= j - i <= high, inside, outside)        of a band of two dims

    Rows of the identity by index, as in `np.eye(n)[labels]`, are comparisons then, not a gather.
    """
    x, index = op.operands
    found, checked = maker(x, "band"), maker(index, "checked_index", "bounded_index")
    if found is None or checked is None or x.type.rank != 2 or not index.type.dtype.is_integer:
        return None
    axis, attrs = op.attrs["axis"], found.attrs
    size, others = x.type.shape[axis], x.type.shape[1 - axis]
    limits = [a for a in (attrs["low"], attrs["high"]) if a is not None]
    reach = max(size, others) + max(map(abs, limits), default=0)
    if checked.attrs["size"] > size or reach > index.type.dtype.max or index.type.dtype.kind != "i":
        return None
    picked = value("reshape", index, shape=(1,) * axis + index.type.shape + (1,) * (1 - axis))
    rank = picked.type.rank
    line = tuple(others if a == (rank - 1) * (1 - axis) else 1 for a in range(rank))
    ramp = value("iota", shape=line, dtype=index.type.dtype, axis=(rank - 1) * (1 - axis), start=0, step=1)
    row, column = (picked, ramp) if axis == 0 else (ramp, picked)
    return _within(row, column, attrs["low"], attrs["high"], attrs["inside"], attrs["outside"], op)


def _within(row: Any, column: Any, low: int | None, high: int | None, inside: Any, outside: Any, op: Op) -> Any:
    """Elements of a band at these places."""
    dtype, shape = op.result.type.dtype, op.result.type.shape
    if low is not None and low == high:
        holds = value("equal", column, value("add", row, low))
    else:
        below = None if low is None else value("greater_equal", column, value("add", row, low))
        above = None if high is None else value("less_equal", column, value("add", row, high))
        parts = [each for each in (below, above) if each is not None]
        if not parts:
            return value("full", shape=shape, dtype=dtype, value=inside)
        holds = parts[0] if len(parts) == 1 else value("bitwise_and", *parts)
    if (inside, outside) == (1, 0):
        return value("cast", holds, dtype=dtype) if dtype is not holds.type.dtype else holds
    return value("where", holds, value("full", shape=shape, dtype=dtype, value=inside), outside)
