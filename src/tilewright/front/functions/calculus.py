"""Differences, sums and interpolation along an axis; polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import float64
from tilewright.front.array import TracedArray, as_traced, holds_traced, new
from tilewright.front.functions.shape import array_of
from tilewright.front.promote import cast
from tilewright.front.refusal import ask, axis_in, numpy_error, unsupported
from tilewright.front.registry import implements


def _cut(x: Any, axis: int, start: int | None, stop: int | None = None) -> Any:
    """x[start:stop] along an axis."""
    return x[(*(slice(None),) * axis, slice(start, stop))]


@implements(np.gradient, note="coordinates are known while tracing")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """np.gradient: central differences inside, one-sided ones at the ends"""
    x = array_of(f)
    axes = range(x.ndim) if axis is None else ask(np.lib.array_utils.normalize_axis_tuple, axis, x.ndim)
    if holds_traced(varargs):
        raise unsupported("np.gradient", "varargs", "distances that are known at run time only")
    if edge_order > 2:
        raise numpy_error(ValueError, "'edge_order' greater than 2 not supported")
    steps = _distances(varargs, x.shape, tuple(axes))
    if x.type.dtype.kind in "iu":
        x = new(cast(x.value, float64))
    found = [_slope(x, place, step, edge_order) for place, step in zip(axes, steps, strict=True)]
    if not np.issubdtype(x.dtype, np.inexact):  # to NumPy small floats are no floats
        found = [new(cast(each.value, float64)) for each in found]
    return found[0] if len(found) == 1 else tuple(found)


def _distances(given: tuple[Any, ...], shape: tuple[int, ...], axes: tuple[int, ...]) -> list[Any]:
    """The distance of neighbours along each axis: one number, or one for each pair."""
    if not given:
        return [1.0] * len(axes)
    if len(given) == 1 and np.ndim(given[0]) == 0:
        return [given[0]] * len(axes)
    if len(given) != len(axes):
        raise numpy_error(TypeError, "invalid number of arguments")
    return [_distance(each, shape[axis]) for each, axis in zip(given, axes, strict=True)]


def _distance(places: Any, size: int) -> Any:
    if np.ndim(places) == 0:
        return places
    places = np.asarray(places)
    if places.ndim != 1:
        raise numpy_error(ValueError, "distances must be either scalars or 1d")
    if len(places) != size:
        raise numpy_error(ValueError, "when 1d, distances must match the length of the corresponding dimension")
    steps = np.diff(places.astype(np.float64) if places.dtype.kind in "iu" else places)
    return steps[0] if (steps == steps[0]).all() else steps


def _slope(x: Any, axis: int, step: Any, edge_order: int) -> TracedArray:
    size = x.shape[axis]
    if size < edge_order + 1:
        raise numpy_error(
            ValueError,
            "Shape of array too small to calculate a numerical gradient, "
            "at least (edge_order + 1) elements are required.",
        )
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    before, middle, after = (_cut(x, axis, i, size - 2 + i) for i in range(3))
    if np.ndim(step) == 0:
        inner = (after - before) / (2.0 * step)
    else:
        h, k = (part.reshape([-1 if a == axis else 1 for a in range(x.ndim)]) for part in (step[:-1], step[1:]))
        weights = -k / (h * (h + k)), (k - h) / (h * k), h / (k * (h + k))
        inner = weights[0] * before + weights[1] * middle + weights[2] * after
    first, last = _ends(x, axis, step, edge_order)
    return np.concatenate([each.astype(dtype) for each in (first, inner, last)], axis=axis)  # type: ignore[return-value]


def _ends(x: Any, axis: int, step: Any, edge_order: int) -> tuple[Any, Any]:
    """The slopes at both ends, by two elements or by three."""
    front = [_cut(x, axis, i, i + 1) for i in range(edge_order + 1)]
    size = x.shape[axis]
    back = [_cut(x, axis, i, i + 1) for i in range(size - edge_order - 1, size)]
    uniform = np.ndim(step) == 0
    if edge_order == 1:
        h, k = (step, step) if uniform else (step[0], step[-1])
        return (front[1] - front[0]) / h, (back[1] - back[0]) / k
    if uniform:
        left, right = (-3 / 2 / step, 2.0 / step, -0.5 / step), (0.5 / step, -2.0 / step, 3 / 2 / step)
    else:
        h, k = step[0], step[1]
        left = -(2.0 * h + k) / (h * (h + k)), (h + k) / (h * k), -h / (k * (h + k))
        h, k = step[-2], step[-1]
        right = k / (h * (h + k)), -(k + h) / (h * k), (2.0 * k + h) / (k * (h + k))
    ends = [w[0] * part[0] + w[1] * part[1] + w[2] * part[2] for w, part in ((left, front), (right, back))]
    return ends[0], ends[1]


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """np.trapezoid"""
    heights = array_of(y)
    place = axis_in(axis, heights.ndim)
    widths = dx
    if x is not None:
        widths = np.diff(array_of(x), axis=-1 if np.ndim(x) == 1 else place)  # type: ignore[arg-type]
        if np.ndim(x) == 1:
            widths = np.reshape(widths, [-1 if a == place else 1 for a in range(heights.ndim)])
    pairs = _cut(heights, place, 1) + _cut(heights, place, None, -1)
    return np.sum(widths * pairs / 2.0, axis=place)


@implements(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    """np.unwrap: jumps of more than half a period are taken back"""
    x = array_of(p)
    place = axis_in(axis, x.ndim)
    jumps: Any = np.diff(x, axis=place)  # type: ignore[call-overload]
    limit = period / 2 if discont is None else discont
    dtype = ask(np.result_type, jumps.dtype, period)
    whole = np.issubdtype(dtype, np.integer)
    half, rest = divmod(period, 2) if whole else (period / 2, 0)
    within = np.mod(jumps + half, period) - half
    if rest == 0:
        within = np.where((within == -half) & (jumps > 0), half, within)
    turns = np.where(np.abs(jumps) < limit, 0, within - jumps)
    start = _cut(x, place, None, 1)
    later = _cut(x, place, 1) + np.cumsum(turns, axis=place)
    return np.concatenate([start.astype(dtype), later.astype(dtype)], axis=place)


def _in_float64(x: Any) -> Any:
    return new(cast(array_of(x).value, float64))


@implements(np.interp, note="period is known while tracing")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """np.interp: xp rising, or in any order within a period"""
    if period is not None:
        return interp(*_within_period(x, xp, fp, period))
    given, places, heights = map(_in_float64, (x, xp, fp))
    if places.ndim != 1 or heights.ndim != 1:
        raise numpy_error(ValueError, "object of too small depth for desired array")
    if places.shape != heights.shape:
        raise numpy_error(ValueError, "fp and xp are not of the same length.")
    if not places.size:
        raise numpy_error(ValueError, "array of sample points is empty")
    flat: Any = np.ravel(given)  # type: ignore[call-overload]
    low = heights[0] if left is None else left
    high = heights[-1] if right is None else right
    if places.size > 1:
        at = np.clip(np.searchsorted(places, flat, side="right") - 1, 0, places.size - 2)  # type: ignore[call-overload]
        start, end, bottom, top = places[at], places[at + 1], heights[at], heights[at + 1]
        inside = (top - bottom) / (end - start) * (flat - start) + bottom
    else:
        inside = heights[0] + 0 * flat
    found = np.where(flat > places[-1], high, np.where(flat < places[0], low, inside))
    found = np.where(flat == places[-1], heights[-1], found)
    found = np.where(np.isnan(flat), flat, found)
    shaped = np.reshape(found, given.shape)
    return shaped if given.ndim else shaped[()]


def _within_period(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """The arguments of np.interp with places in their order within a period, one more before and behind them."""
    if holds_traced(period):
        raise unsupported("np.interp", "period", "it is known at run time only", "give it as a Python number")
    if period == 0:
        raise numpy_error(ValueError, "period must be a non-zero value")
    places, heights = (_in_float64(each) if holds_traced(each) else ask(np.asarray, each, float) for each in (xp, fp))
    if places.ndim != 1 or heights.ndim != 1:
        raise numpy_error(ValueError, "Data points must be 1-D sequences")
    if places.shape != heights.shape:
        raise numpy_error(ValueError, "fp and xp are not of the same length")
    period = abs(period)
    places = places % period
    order = np.argsort(places)
    places, heights = places[order], heights[order]
    ends = (places[-1:] - period, places, places[:1] + period), (heights[-1:], heights, heights[:1])
    return _in_float64(x) % period, *map(np.concatenate, ends)


# Polynomials


@implements(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    """np.polyval"""
    coefficients, at = array_of(p), array_of(x)
    found: Any = np.zeros_like(at)  # type: ignore[call-overload]
    for i in range(coefficients.shape[0]):
        found = found * at + coefficients[i]
    return found


@implements(np.vander)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """np.vander"""
    base = array_of(x)
    if base.ndim != 1:
        raise numpy_error(ValueError, "x must be a one-dimensional array or sequence.")
    count = base.shape[0] if N is None else N
    dtype = np.promote_types(base.dtype, int)
    ones = as_traced(np.ones((base.shape[0], min(count, 1)), dtype))
    column: Any = np.reshape(base.astype(dtype), (-1, 1))  # type: ignore[attr-defined]
    columns: list[Any] = [ones]
    if count > 1:
        columns.append(np.cumprod(np.repeat(column, count - 1, axis=1), axis=1))
    found: Any = np.concatenate(columns, axis=1)
    return found if increasing else np.flip(found, 1)
