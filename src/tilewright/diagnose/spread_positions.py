"""Positions in intervals, remainders and other functions of two variables: what surely holds of them."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from tilewright.diagnose.spread import Spread, Unfollowed, lifted, spread, watch
from tilewright.diagnose.spread_arithmetic import divide, has_infinity, has_zero
from tilewright.diagnose.spread_functions import function_of
from tilewright.diagnose.spread_order import BOOL, negated
from tilewright.diagnose.spread_results import EPSILON, floating, lose, made_of


def hypot(x: Spread, y: Spread) -> Spread:
    """The length of a pair, which rises with both lengths."""
    a, b = function_of("absolute", x), function_of("absolute", y)
    return made_of((x, y), np.hypot(a.lo, b.lo), np.hypot(a.hi, b.hi), "hypot")


def angle(x: Spread, y: Spread) -> Spread:
    """np.arctan2."""
    turn = np.full(np.broadcast_shapes(x.shape, y.shape), pi * (1 + EPSILON))
    return lose(spread(-turn, turn, floating(x, y)), np.isnan(x.lo + y.lo), "", (x, y))


def remainder(x: Spread, y: Spread) -> Spread:
    """x % y: between 0 and y."""
    lo, hi = np.broadcast_arrays(np.minimum(y.lo, 0.0), np.maximum(y.hi, 0.0), x.lo)[:2]
    return _of_quotient(x, y, spread(lo, hi, floating(x, y)))


def fmod(x: Spread, y: Spread) -> Spread:
    """Of the sign of x, and no longer than either."""
    length = np.minimum(np.maximum(np.abs(x.lo), np.abs(x.hi)), np.maximum(np.abs(y.lo), np.abs(y.hi)))
    made = spread(np.where(x.lo < 0, -length, 0.0), np.where(x.hi > 0, length, 0.0), floating(x, y))
    return _of_quotient(x, y, made)


def _of_quotient(x: Spread, y: Spread, made: Spread) -> Spread:
    zero = has_zero(y)
    if zero.any():
        watch().wrong("division", "the divisor can be 0", zero)
    lost = np.broadcast_to(zero | has_infinity(x) | np.isnan(x.lo) | np.isnan(y.lo), made.shape)
    return lose(made, lost, "what is left of infinity, or by 0, is NaN", (x, y))


def floor_divide(x: Spread, y: Spread) -> Spread:
    """x // y."""
    made = function_of("floor", divide(x, y))
    return lose(made, np.broadcast_to(has_infinity(x), made.shape), "a part of infinity is NaN", (x, y))


def has_sign(x: Spread) -> Spread:
    """np.signbit: of 0 either."""
    lost = np.isnan(x.lo)
    return spread(np.where(lost, False, x.hi < 0), np.where(lost, True, x.lo <= 0), BOOL)


def inverted(x: Spread) -> Spread:
    """~x of truth values."""
    if x.logical.kind != "b":
        raise Unfollowed("bits of intervals")
    return negated(x)


RULES: dict[str, Callable[..., Spread]] = {
    **{"hypot": hypot, "arctan2": angle, "remainder": remainder, "fmod": fmod, "floor_divide": floor_divide},
    **{"signbit": has_sign, "invert": inverted},
}


def place_of(x: Spread, axis: int | None = None, keepdims: bool = False) -> Spread:
    """np.argmax and the like: any place along the axis."""
    if axis is None:
        raise Unfollowed("a place among all elements")
    shape = x.lo.min(axis, keepdims=keepdims).shape
    return spread(np.zeros(shape), np.full(shape, float(x.shape[axis] - 1)), np.dtype(np.int64))


def places_of(x: Spread, axis: int = -1, **_: Any) -> Spread:
    """np.argsort: any order."""
    return spread(np.zeros(x.shape), np.full(x.shape, float(x.shape[axis] - 1)), np.dtype(np.int64))


def taken(x: Any, indices: Spread, axis: int) -> Spread:
    """Elements along an axis at places that are not known: anything from the least to the greatest of them."""
    value = lifted(x)
    count = value.shape[axis]
    if (indices.lo < -count).any() or (indices.hi >= count).any() or np.isnan(indices.lo).any():
        raise Unfollowed("a place that may be outside")
    lo = np.broadcast_to(value.lo.min(axis, keepdims=True), indices.shape)
    hi = np.broadcast_to(value.hi.max(axis, keepdims=True), indices.shape)
    return spread(lo, hi, value.logical)


def padded(x: Spread, width: Any, constant_values: Any = 0) -> Spread:
    """np.pad with numbers."""
    lo, hi = (np.pad(each, width, constant_values=constant_values) for each in (x.lo, x.hi))
    return spread(lo, hi, x.logical)


FUNCTIONS: dict[Any, Callable[..., Spread]] = {
    **dict.fromkeys((np.argmax, np.argmin), place_of),
    **{np.argsort: places_of, np.pad: padded},
}
