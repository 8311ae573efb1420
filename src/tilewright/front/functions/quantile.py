"""Medians and quantiles, from the sorted array: which elements they lie between is known while tracing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.front.array import TracedArray, as_traced, new, returned
from tilewright.front.functions.index import flat
from tilewright.front.functions.moves import transposed
from tilewright.front.refusal import ask, axes_in, numpy_error, unsupported
from tilewright.front.registry import call, implements
from tilewright.front.storage import reshaped
from tilewright.front.trace import emit
from tilewright.front.ufunc import store

_DISCRETE = frozenset({"inverted_cdf", "closest_observation", "lower", "higher", "nearest"})
"""Methods that give an element; the others interpolate, also where an element is hit (infinity - infinity is NaN)."""


_PARAMETERS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
"""alpha and beta of the methods in the paper of Hyndman and Fan."""

_SHARES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "averaged_inverted_cdf": lambda share: np.where(share == 0, 0.5, 1.0),
    "midpoint": lambda share: np.where(share == 0, 0.0, 0.5),
}
"""What methods make of the share of the upper element."""


def _sorted_rows(a: Any, axis: Any) -> tuple[TracedArray, tuple[int, ...], tuple[int, ...]]:
    """The array sorted along all of the axes as one, which comes first; the kept shape, with and without them."""
    x = as_traced(a)
    axes = axes_in(axis, x.ndim)
    kept = [d for d in range(x.ndim) if d not in axes]
    shape = tuple(x.shape[d] for d in kept)
    if axis is None:
        value = flat(x.value)
    else:
        value = transposed(x.value, (*axes, *kept))
        value = reshaped(value, (int(np.prod([x.shape[d] for d in axes], dtype=int)), *shape))
    kept_shape = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    return new(emit("sort", value, axis=0, descending=False)), shape, kept_shape


def _ask_of_nothing(function: Any, a: Any, *args: Any, **kwargs: Any) -> None:
    """NumPy's errors for arrays without elements, of which it refuses some."""
    x = as_traced(a)
    if not x.size:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            ask(function, np.empty(x.shape, x.dtype), *args, **kwargs)


def _given(result: Any, out: Any, keepdims: bool, name: str) -> Any:
    if out is None:
        return result if keepdims else returned(as_traced(result).value)
    if out.shape != result.shape:
        raise numpy_error(
            ValueError, f"Wrong shape of argument 'out', shape={result.shape} is required; got {out.shape}"
        )
    return store(out, as_traced(result).value, result.shape, None, "unsafe", name)


def _with_nans(result: Any, rows: TracedArray) -> Any:
    """NaN wherever there is a NaN, which sorts last."""
    if rows.dtype.kind in "biu" or not rows.shape[0]:
        return result
    last: Any = rows[-1]
    return np.where(last == last, result, last.astype(result.dtype))


@implements(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """np.median"""
    _ask_of_nothing(np.median, a, axis)
    rows, _, kept = _sorted_rows(a, axis)
    middle = rows.shape[0] // 2
    near: Any = rows[middle : middle + 1] if rows.shape[0] % 2 else rows[max(middle - 1, 0) : middle + 1]
    found = _with_nans(np.mean(near, axis=0), rows)
    if keepdims:
        found = np.reshape(found, kept)
    return _given(found, out, keepdims, "np.median")


@implements(np.quantile, refuses=("weights",), note="q is known while tracing")
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """np.quantile"""
    return _quantile("np.quantile", np.quantile, a, q, axis, out, method, keepdims)


@implements(np.percentile, refuses=("weights",), note="q is known while tracing")
def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """np.percentile"""
    return _quantile("np.percentile", np.percentile, a, q, axis, out, method, keepdims)


def _quantile(name: str, function: Any, a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: bool) -> Any:
    if isinstance(q, TracedArray):
        raise unsupported(name, "q", "it is known only at run time", "sort the array and interpolate")
    _ask_of_nothing(function, a, q, axis, method=method)
    rows, _, kept = _sorted_rows(a, axis)
    count = rows.shape[0]
    ask(function, np.zeros(1), q, method=method)
    if not count:
        raise numpy_error(IndexError, "index -1 is out of bounds for axis 0 with size 0")
    fraction = np.asarray(q, np.float64) / (100 if function is np.percentile else 1)
    whole = method == "linear" and function is np.quantile and np.asarray(q).dtype.kind in "biu"
    if whole or method in _DISCRETE:
        # NumPy says which of 0, 1, 2, ... it takes.
        place = np.asarray(function(np.arange(count), q, method=method)).astype(np.int64)
        found: Any = np.take(rows, place, axis=0)
    else:
        place = _place(method, count, fraction)
        low = np.clip(np.floor(place), 0, count - 1).astype(np.int64)
        high = np.where(place < 0, 0, np.minimum(low + 1, count - 1))
        share = _SHARES[method](place - low) if method in _SHARES else place - low
        found = _between(np.take(rows, low, axis=0), np.take(rows, high, axis=0), share, q, rows.ndim)
    found = _with_nans(found, rows)
    if keepdims:
        found = np.reshape(found, (*place.shape, *kept))
    return _given(found, out, keepdims, name)


def _place(method: str, count: int, q: np.ndarray) -> np.ndarray:
    """Where a quantile lies between the elements of a sorted array; those beyond its ends are the ends."""
    if method == "averaged_inverted_cdf":
        return count * q - 1
    if method == "linear":
        return (count - 1) * q
    if method == "midpoint":
        return 0.5 * (np.floor((count - 1) * q) + np.ceil((count - 1) * q))
    alpha, beta = _PARAMETERS[method]
    return count * q + (alpha + q * (1 - alpha - beta)) - 1


def _between(low: Any, high: Any, share: np.ndarray, q: Any, rank: int) -> Any:
    """low + share * (high - low), from the nearer end as NumPy does."""
    weak = isinstance(q, (int, float)) and not isinstance(q, np.generic)
    t: Any = float(share) if weak else share.reshape(share.shape + (1,) * (rank - 1))
    difference = high - low
    up, down = low + difference * t, high - difference * (1 - t)
    return np.where(np.asarray(t) >= 0.5, down, up)


# Without NaN


def _counted_rows(a: Any, axis: Any) -> tuple[TracedArray, Any, tuple[int, ...]]:
    """Sorted rows, how many of each are numbers (the first ones), and the shape with keepdims."""
    rows, _, kept = _sorted_rows(a, axis)
    return rows, np.sum(call(np.equal, rows, rows), axis=0, keepdims=True), kept


def _picked(rows: TracedArray, place: Any) -> Any:
    """The elements of each row at a place known at run time, which is not before the first one."""
    return call(np.take_along_axis, rows, np.maximum(place, 0).astype(np.int64), 0)


@implements(np.nanmedian)
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = np._NoValue
) -> Any:
    """np.nanmedian"""
    rows, count, kept = _counted_rows(a, axis)
    keep = keepdims is not np._NoValue and bool(keepdims)
    if rows.dtype.kind in "biu" or not rows.size:
        return median(a, axis, out, overwrite_input, keep)
    near = np.concatenate([_picked(rows, (count - 1) // 2), _picked(rows, count // 2)], axis=0)
    middle: Any = np.mean(near, axis=0)
    found: Any = np.where(count[0] > 0, middle, np.full((), np.nan, middle.dtype))
    # Short rows are masked arrays in NumPy, whose median of bfloat16 is float64; others are not.
    alone = np.zeros(rows.shape[0] if axis is None or np.ndim(a) == 1 else (1, rows.shape[0]), rows.dtype)
    found = found.astype(ask(np.nanmedian, alone, axis=-1).dtype, copy=False)
    return _given(np.reshape(found, kept) if keep else found, out, keep, "np.nanmedian")


def _nan_quantile(function: Any, plain: Any, a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: Any) -> Any:
    name = f"np.{function.__name__}"
    keep = keepdims is not np._NoValue and bool(keepdims)
    if not as_traced(a).size:
        return call(np.nanmean, a, axis=axis, out=out, keepdims=keep)  # as NumPy does, however many q there are
    if as_traced(a).dtype.kind in "biu":
        return _quantile(name, plain, a, q, axis, out, method, keep)
    if isinstance(q, TracedArray):
        raise unsupported(name, "q", "it is known only at run time", "sort the array and interpolate")
    given = ask(function, np.zeros(1, as_traced(a).dtype), q, method=method)
    if method != "linear":
        raise unsupported(name, "method", "places of other methods depend on the number of NaNs", 'use "linear"')
    rows, count, kept = _counted_rows(a, axis)
    fraction = np.asarray(q, np.float64) / (100 if plain is np.percentile else 1)
    share = fraction.reshape((*fraction.shape, *(1,) * (rows.ndim - 1)))
    place = (count[0] - 1) * share
    flat_place = np.reshape(place, (-1, *rows.shape[1:]))
    low = np.floor(flat_place)
    between = flat_place - low
    first = _picked(rows, low)
    last = _picked(rows, np.minimum(low + 1, (count - 1).astype(np.float64)))
    t, difference = between.astype(given.dtype), last - first
    found = np.where(t >= 0.5, last - difference * (1 - t), first + difference * t)
    found = np.where(count > 0, found, np.full((), np.nan, found.dtype))
    found = np.reshape(found, (*fraction.shape, *(kept if keep else rows.shape[1:])))
    return _given(found, out, keep, name)


@implements(np.nanquantile, refuses=("weights",), note='q is known while tracing, method is "linear"')
def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = np._NoValue,
    *,
    weights: Any = None,
) -> Any:
    """np.nanquantile"""
    return _nan_quantile(np.nanquantile, np.quantile, a, q, axis, out, method, keepdims)


@implements(np.nanpercentile, refuses=("weights",), note='q is known while tracing, method is "linear"')
def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = np._NoValue,
    *,
    weights: Any = None,
) -> Any:
    """np.nanpercentile"""
    return _nan_quantile(np.nanpercentile, np.percentile, a, q, axis, out, method, keepdims)
