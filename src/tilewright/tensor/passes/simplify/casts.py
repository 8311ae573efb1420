"""Casts that change nothing, and chains of casts."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.dtypes import DType, bool_, int32, tfloat32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import maker


@cache
def holds(wide: DType, narrow: DType) -> bool:
    """Whether `wide` has every value of `narrow`, infinities and NaN included."""
    if wide is narrow:
        return True
    if tfloat32 in (wide, narrow) or "p" in (wide.kind, narrow.kind) or not _has_zero(wide):
        return False
    if wide.is_integer:
        return narrow is bool_ or (narrow.is_integer and wide.min <= narrow.min and narrow.max <= wide.max)
    if narrow.is_integer:
        return narrow.max <= 2 ** (ml_dtypes.finfo(wide.np).nmant + 1)
    a, b = ml_dtypes.finfo(wide.np), ml_dtypes.finfo(narrow.np)
    finer = a.nmant >= b.nmant and float(a.smallest_subnormal) <= float(b.smallest_subnormal)
    return finer and wide.max >= narrow.max and (_has_infinity(wide) or not _has_infinity(narrow))


def _has_infinity(dtype: DType) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.isinf(np.array(np.inf, np.float32).astype(dtype.np).astype(np.float32)))


def _has_zero(dtype: DType) -> bool:
    return float(np.zeros((), np.float32).astype(dtype.np)) == 0


@rule("cast")
def cast_to_itself(op: Op) -> Any:
    """cast(x, its own type) -> x"""
    (x,) = op.operands
    return x if x.type.dtype is op.attrs["dtype"] else None


@rule("cast")
def cast_of_cast(op: Op) -> Any:
    """cast(cast(x, wide), t) -> cast(x, t)        where wide has every value of x's type"""
    inner = maker(op.operands[0], "cast")
    if inner is None or not holds(inner.attrs["dtype"], inner.operands[0].type.dtype):
        return None
    return value("cast", inner.operands[0], dtype=op.attrs["dtype"])


@rule("cast")
def cast_of_rounded(op: Op) -> Any:
    """cast(rint(x), t) -> nearest(x, t), cast(trunc(x), t) -> cast(x, t)        t is an integer type"""
    rounded, dtype = maker(op.operands[0], "rint", "trunc"), op.attrs["dtype"]
    if rounded is None or not _is_near(dtype):
        return None
    return value("cast" if rounded.name == "trunc" else "nearest", rounded.operands[0], dtype=dtype)


@rule("cast")
def cast_of_bound(op: Op) -> Any:
    """cast(floor(x), t) -> nearest(n - (1 where n > x), t) with n = nearest(x)        ceil: n + (1 where n < x)"""
    rounded, dtype = maker(op.operands[0], "floor", "ceil"), op.attrs["dtype"]
    if rounded is None or not _is_near(dtype):
        return None
    (x,) = rounded.operands
    near = value("cast", value("nearest", x, dtype=int32), dtype=x.type.dtype)
    down = rounded.name == "floor"
    over = value("cast", value("greater" if down else "less", near, x), dtype=x.type.dtype)
    return value("nearest", value("subtract" if down else "add", near, over), dtype=dtype)


def _is_near(dtype: DType) -> bool:
    """True for integer types whose numbers all are between those of int32."""
    return dtype.is_integer and dtype is not bool_ and holds(int32, dtype)


@rule("maximum", "minimum", "relu")
def bound_before_rounding(op: Op) -> Any:
    """maximum(rint(x), n) -> rint(maximum(x, n))        n is a whole number; also minimum and relu"""
    for i, x in enumerate(op.operands):
        rounded, others = maker(x, "rint"), (*op.operands[:i], *op.operands[i + 1 :])
        known = all(not isinstance(n, Value) and float(n).is_integer() for n in others)
        if rounded is not None and known and len(x.uses) == 1:
            return value("rint", value(op.name, rounded.operands[0], *others))
    return None


@rule("bitcast")
def bitcast_of_bitcast(op: Op) -> Any:
    """bitcast(bitcast(x)) -> bitcast(x), bitcast(x, its own type) -> x"""
    (x,) = op.operands
    dtype = op.attrs["dtype"]
    if x.type.dtype is dtype:
        return x
    inner = maker(x, "bitcast")
    return None if inner is None else value("bitcast", inner.operands[0], dtype=dtype)
