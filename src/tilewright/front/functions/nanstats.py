"""Reductions that leave NaN out. NumPy knows no NaN in bfloat16 and float8 here, but for the extremes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.front.array import TracedArray, as_traced
from tilewright.front.functions.extremes import ignoring_nan
from tilewright.front.functions.operands import is_inexact
from tilewright.front.functions.reduction import NoValue, axes_of, reduce, stored
from tilewright.front.functions.statistics import Array, as_type, ddof_of, kept, mean, over, std, sum_of, var
from tilewright.front.refusal import numpy_error
from tilewright.front.registry import implements
from tilewright.tensor.ops.reduction import reduced_shape


def _replaced(x: TracedArray, value: float) -> tuple[Array, Array]:
    """x with another number for NaN, and where NaN was; None if the type has no NaN in NumPy's eyes."""
    if not is_inexact(x.dtype):
        return x, None
    missing = np.isnan(x)
    return np.where(missing, x.dtype.type(value), x), missing  # type: ignore[arg-type]


def _nan_total(ufunc: np.ufunc, neutral: float) -> Any:
    def total(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = NoValue,
        initial: Any = NoValue,
        where: Any = NoValue,
    ) -> TracedArray:
        filled, _ = _replaced(as_traced(a), neutral)
        return reduce(ufunc, filled, axis, dtype, out, keepdims, initial, where)

    return total


implements(np.nansum)(_nan_total(np.add, 0.0))
implements(np.nanprod)(_nan_total(np.multiply, 1.0))


def _nan_extreme(ufunc: np.ufunc) -> Any:
    def extreme(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = NoValue,
        initial: Any = NoValue,
        where: Any = NoValue,
    ) -> TracedArray:
        return ignoring_nan(ufunc, a, axis, out, keepdims, initial, where)

    return extreme


implements(np.nanmax)(_nan_extreme(np.maximum))
implements(np.nanmin)(_nan_extreme(np.minimum))


def _nan_position(function: Any, worst: float) -> Any:
    def position(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NoValue) -> TracedArray:
        filled, _ = _replaced(as_traced(a), worst)
        return function(filled, axis=axis, out=out, keepdims=keepdims)

    return position


_ALL_NAN = "0 where all elements are NaN, instead of ValueError"
implements(np.nanargmax, note=_ALL_NAN)(_nan_position(np.argmax, -math.inf))
implements(np.nanargmin, note=_ALL_NAN)(_nan_position(np.argmin, math.inf))


def _inexact(dtype: Any, out: Any) -> None:
    if dtype is not None and not np.issubdtype(dtype, np.inexact):
        raise numpy_error(TypeError, "If a is inexact, then dtype must be inexact")
    if out is not None and not np.issubdtype(out.dtype, np.inexact):
        raise numpy_error(TypeError, "If a is inexact, then out must be inexact")


@implements(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NoValue, *, where: Any = NoValue
) -> TracedArray:
    """np.nanmean"""
    x = as_traced(a)
    filled, missing = _replaced(x, 0.0)
    if missing is None:
        return mean(x, axis, dtype, out, keepdims, where=where)
    _inexact(dtype, out)
    keep = kept(keepdims)
    count = sum_of(~missing, axis, np.int64, keep, where)
    return stored(over(sum_of(filled, axis, dtype, keep, where), count).value, out, "nanmean")


def _nan_squares(
    x: TracedArray, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: Any, where: Any, center: Any
) -> TracedArray:
    filled, missing = _replaced(x, 0.0)
    _inexact(dtype, out)
    keep = kept(keepdims)
    count = sum_of(~missing, axis, np.int64, True, where)
    if center is NoValue:
        center = over(sum_of(filled, axis, dtype, True, where), count)
    distance = np.where(missing, x.dtype.type(0), as_type(np.subtract(filled, center), x.type.dtype))
    total = sum_of(np.multiply(distance, distance), axis, dtype, keep, where)
    left = np.reshape(count, reduced_shape(x.shape, axes_of(axis, x), keep)) - ddof
    found = over(total, left)
    return np.where(left <= 0, found.dtype.type(np.nan), found)  # type: ignore[return-value]


@implements(np.nanvar)
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = NoValue,
    *,
    where: Any = NoValue,
    mean: Any = NoValue,
    correction: Any = NoValue,
) -> TracedArray:
    """np.nanvar"""
    x = as_traced(a)
    if not is_inexact(x.dtype):
        return var(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    found = _nan_squares(x, axis, dtype, out, ddof_of(ddof, correction), keepdims, where, mean)
    return stored(found.value, out, "nanvar")


@implements(np.nanstd)
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = NoValue,
    *,
    where: Any = NoValue,
    mean: Any = NoValue,
    correction: Any = NoValue,
) -> TracedArray:
    """np.nanstd"""
    x = as_traced(a)
    if not is_inexact(x.dtype):
        return std(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    found = _nan_squares(x, axis, dtype, out, ddof_of(ddof, correction), keepdims, where, mean)
    return stored(as_traced(np.sqrt(found)).value, out, "nanstd")
