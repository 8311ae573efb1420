"""Casts that change nothing, and chains of casts."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.dtypes import DType, bool_, tfloat32
from tilewright.ir.core import Op
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


@rule("bitcast")
def bitcast_of_bitcast(op: Op) -> Any:
    """bitcast(bitcast(x)) -> bitcast(x), bitcast(x, its own type) -> x"""
    (x,) = op.operands
    dtype = op.attrs["dtype"]
    if x.type.dtype is dtype:
        return x
    inner = maker(x, "bitcast")
    return None if inner is None else value("bitcast", inner.operands[0], dtype=dtype)
