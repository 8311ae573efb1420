"""Means, variances and their kin, step by step as NumPy computes them.

float16 is summed in float32 for means and in its own type for variances, as in NumPy. bfloat16 and float8, whose sums
NumPy rounds after every element, are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.dtypes import DType, float32
from tilewright.front.array import TracedArray, as_traced, returned
from tilewright.front.functions.elementwise import is_inexact
from tilewright.front.functions.reduction import NoValue, axes_of, ignoring_nan, reduce, stored
from tilewright.front.promote import cast, result_type
from tilewright.front.refusal import ask, axes_in, numpy_error
from tilewright.front.registry import implements
from tilewright.tensor.ops.reduction import reduced_shape

Array = Any
"""A traced array, or a number."""


def _kept(keepdims: Any) -> bool:
    return keepdims is not NoValue and bool(keepdims)


def _all(where: Any) -> bool:
    return where is NoValue or where is True


def _sum(x: Array, axis: Any, dtype: Any, keepdims: bool, where: Any) -> TracedArray:
    return reduce(np.add, x, axis, dtype, None, keepdims, NoValue, True if _all(where) else where)


def _count(x: TracedArray, axis: Any, keepdims: bool, where: Any) -> Array:
    """How many elements each result is made of."""
    if _all(where):
        return math.prod(x.shape[a] for a in axes_in(axis, x.ndim))
    mask = np.broadcast_to(as_traced(where), x.shape)  # type: ignore[arg-type]
    return reduce(np.add, mask, axis, np.int64, None, keepdims)


def _over(total: TracedArray, count: Array) -> TracedArray:
    """total / count in the type of the total."""
    return _as(np.divide(total, count), total.type.dtype)


def _as(x: Array, dtype: DType) -> TracedArray:
    return returned(cast(as_traced(x).value, dtype))


def _widened(x: TracedArray) -> TracedArray:
    """bfloat16 and float8 in float32."""
    return _as(x, float32) if x.type.dtype.is_float and not is_inexact(x.dtype) else x


@implements(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NoValue, *, where: Any = NoValue
) -> TracedArray:
    """np.mean"""
    x = as_traced(a)
    within = dtype
    if dtype is None and x.dtype.kind in "biu":
        within = np.float64
    elif dtype is None and x.type.dtype.itemsize < float32.itemsize:
        within = np.float32
    keep = _kept(keepdims)
    found = _over(_sum(x, axis, within, keep, where), _count(x, axis, keep, where))
    if dtype is None and x.type.dtype.is_float:
        found = _as(found, x.type.dtype)
    return stored(found.value, out, "mean")


def _squares(x: TracedArray, axis: Any, dtype: Any, ddof: Any, keep: bool, where: Any, mean: Any) -> TracedArray:
    """The sum of squared distances to the mean, over the number of elements less ddof."""
    if dtype is None and x.dtype.kind in "biu":
        dtype = np.float64
    if mean is NoValue:
        center = _over(_sum(x, axis, dtype, True, where), _count(x, axis, True, where))
    else:
        center = as_traced(mean)
    distance = np.subtract(x, center)
    count = _count(x, axis, keep, where)
    left = np.maximum(count - ddof, 0) if isinstance(count, TracedArray) else max(count - ddof, 0)
    return _over(_sum(np.square(distance), axis, dtype, keep, where), left)


def _ddof(ddof: Any, correction: Any) -> Any:
    if correction is NoValue:
        return ddof
    if ddof != 0:
        raise numpy_error(ValueError, "ddof and correction can't be provided simultaneously.")
    return correction


@implements(np.var)
def var(
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
    """np.var"""
    x = as_traced(a)
    found = _squares(_widened(x), axis, dtype, _ddof(ddof, correction), _kept(keepdims), where, mean)
    return stored(_narrowed(found, x, dtype).value, out, "var")


@implements(np.std)
def std(
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
    """np.std"""
    x = as_traced(a)
    found = _squares(_widened(x), axis, dtype, _ddof(ddof, correction), _kept(keepdims), where, mean)
    return stored(_narrowed(np.sqrt(found), x, dtype).value, out, "std")


def _narrowed(found: Array, x: TracedArray, dtype: Any) -> TracedArray:
    return (
        _as(found, x.type.dtype)
        if dtype is None and x.type.dtype.is_float and not is_inexact(x.dtype)
        else as_traced(found)
    )


@implements(np.average, note="weights that sum to 0 give NaN or infinity instead of ZeroDivisionError")
def average(a: Any, axis: Any = None, weights: Any = None, returned: Any = False, *, keepdims: Any = NoValue) -> Any:
    """np.average"""
    x = as_traced(a)
    axes = None if axis is None else axes_in(axis, x.ndim)
    keep = _kept(keepdims)
    if weights is None:
        found = mean(x, axis, keepdims=keep)
        scale: Array = as_traced(found.dtype.type(x.size / found.size if found.size else math.nan))
    else:
        given = as_traced(weights)
        if given.shape != x.shape:
            given = _along(
                given, x, axes if axes is None else ask(np.lib.array_utils.normalize_axis_tuple, axis, x.ndim)
            )
        within = result_type(x, given, *([np.float64(0)] if x.dtype.kind in "biu" else [])).np
        scale = _sum(given, axes, within, keep, True)
        found = np.divide(_sum(np.multiply(x, given, dtype=within), axes, None, keep, True), scale)
    if not returned:
        return found
    return found, np.copy(np.broadcast_to(scale, found.shape)) if scale.shape != found.shape else scale


def _along(weights: TracedArray, x: TracedArray, axes: tuple[int, ...] | None) -> Any:
    """Weights of the reduced axes alone, in a shape that broadcasts with x."""
    if axes is None:
        raise numpy_error(TypeError, "Axis must be specified when shapes of a and weights differ.")
    if weights.shape != tuple(x.shape[a] for a in axes):
        raise numpy_error(ValueError, "Shape of weights must be consistent with shape of a along specified axis.")
    ordered = np.transpose(weights, np.argsort(axes))  # type: ignore[arg-type]
    return np.reshape(ordered, tuple(n if a in axes else 1 for a, n in enumerate(x.shape)))


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
    keep = _kept(keepdims)
    count = _sum(~missing, axis, np.int64, keep, where)
    return stored(_over(_sum(filled, axis, dtype, keep, where), count).value, out, "nanmean")


def _nan_squares(
    x: TracedArray, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: Any, where: Any, center: Any
) -> TracedArray:
    filled, missing = _replaced(x, 0.0)
    _inexact(dtype, out)
    keep = _kept(keepdims)
    count = _sum(~missing, axis, np.int64, True, where)
    if center is NoValue:
        center = _over(_sum(filled, axis, dtype, True, where), count)
    distance = np.where(missing, x.dtype.type(0), _as(np.subtract(filled, center), x.type.dtype))
    total = _sum(np.multiply(distance, distance), axis, dtype, keep, where)
    left = np.reshape(count, reduced_shape(x.shape, axes_of(axis, x), keep)) - ddof
    found = _over(total, left)
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
    found = _nan_squares(x, axis, dtype, out, _ddof(ddof, correction), keepdims, where, mean)
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
    found = _nan_squares(x, axis, dtype, out, _ddof(ddof, correction), keepdims, where, mean)
    return stored(as_traced(np.sqrt(found)).value, out, "nanstd")
