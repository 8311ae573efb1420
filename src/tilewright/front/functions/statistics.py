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
from tilewright.front.functions.operands import is_inexact
from tilewright.front.functions.reduction import NoValue, reduce, stored
from tilewright.front.promote import cast, result_type
from tilewright.front.refusal import ask, axes_in, numpy_error
from tilewright.front.registry import implements

Array = Any
"""A traced array, or a number."""


def kept(keepdims: Any) -> bool:
    """The argument keepdims as a bool."""
    return keepdims is not NoValue and bool(keepdims)


def _all(where: Any) -> bool:
    return where is NoValue or where is True


def sum_of(x: Array, axis: Any, dtype: Any, keepdims: bool, where: Any) -> TracedArray:
    """A sum over an axis of where a mask holds."""
    return reduce(np.add, x, axis, dtype, None, keepdims, NoValue, True if _all(where) else where)


def _count(x: TracedArray, axis: Any, keepdims: bool, where: Any) -> Array:
    """How many elements each result is made of."""
    if _all(where):
        return math.prod(x.shape[a] for a in axes_in(axis, x.ndim))
    mask = np.broadcast_to(as_traced(where), x.shape)  # type: ignore[arg-type]
    return reduce(np.add, mask, axis, np.int64, None, keepdims)


def over(total: TracedArray, count: Array) -> TracedArray:
    """total / count in the type of the total."""
    return as_type(np.divide(total, count), total.type.dtype)


def as_type(x: Array, dtype: DType) -> TracedArray:
    """x as another element type."""
    return returned(cast(as_traced(x).value, dtype))


def _widened(x: TracedArray) -> TracedArray:
    """bfloat16 and float8 in float32."""
    return as_type(x, float32) if x.type.dtype.is_float and not is_inexact(x.dtype) else x


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
    keep = kept(keepdims)
    found = over(sum_of(x, axis, within, keep, where), _count(x, axis, keep, where))
    if dtype is None and x.type.dtype.is_float:
        found = as_type(found, x.type.dtype)
    return stored(found.value, out, "mean")


def _squares(x: TracedArray, axis: Any, dtype: Any, ddof: Any, keep: bool, where: Any, mean: Any) -> TracedArray:
    """The sum of squared distances to the mean, over the number of elements less ddof."""
    if dtype is None and x.dtype.kind in "biu":
        dtype = np.float64
    if mean is NoValue:
        center = over(sum_of(x, axis, dtype, True, where), _count(x, axis, True, where))
    else:
        center = as_traced(mean)
    distance = np.subtract(x, center)
    count = _count(x, axis, keep, where)
    left = np.maximum(count - ddof, 0) if isinstance(count, TracedArray) else max(count - ddof, 0)
    return over(sum_of(np.square(distance), axis, dtype, keep, where), left)


def ddof_of(ddof: Any, correction: Any) -> Any:
    """The argument ddof, or correction, which is the same."""
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
    found = _squares(_widened(x), axis, dtype, ddof_of(ddof, correction), kept(keepdims), where, mean)
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
    found = _squares(_widened(x), axis, dtype, ddof_of(ddof, correction), kept(keepdims), where, mean)
    return stored(_narrowed(np.sqrt(found), x, dtype).value, out, "std")


def _narrowed(found: Array, x: TracedArray, dtype: Any) -> TracedArray:
    return (
        as_type(found, x.type.dtype)
        if dtype is None and x.type.dtype.is_float and not is_inexact(x.dtype)
        else as_traced(found)
    )


@implements(np.average, note="weights that sum to 0 give NaN or infinity instead of ZeroDivisionError")
def average(a: Any, axis: Any = None, weights: Any = None, returned: Any = False, *, keepdims: Any = NoValue) -> Any:
    """np.average"""
    x = as_traced(a)
    axes = None if axis is None else axes_in(axis, x.ndim)
    keep = kept(keepdims)
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
        scale = sum_of(given, axes, within, keep, True)
        found = np.divide(sum_of(np.multiply(x, given, dtype=within), axes, None, keep, True), scale)
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
