"""Intervals of products of matrices."""

from __future__ import annotations

import numpy as np

from tilewright.diagnose.spread import Spread, spread, watch
from tilewright.diagnose.spread_arithmetic import has_infinity
from tilewright.diagnose.spread_results import EPSILON, Bounds, made_of


def matmul(x: Spread, y: Spread) -> Spread:
    """The product of matrices."""
    bad = ~np.isfinite(x.lo) | ~np.isfinite(x.hi), ~np.isfinite(y.lo) | ~np.isfinite(y.hi)
    a, b = _finite(x, bad[0]), _finite(y, bad[1])
    lo, hi = _by_signs(a, b)
    wide = np.maximum(np.abs(a[0]), np.abs(a[1])) @ np.maximum(np.abs(b[0]), np.abs(b[1]))
    slack = wide * EPSILON * x.shape[-1] * watch().rounds
    rows = spread(x.lo.min(-1, keepdims=True), x.hi.max(-1, keepdims=True), x.logical)
    columns = spread(y.lo.min(-2, keepdims=True), y.hi.max(-2, keepdims=True), y.logical)
    # A sum of what is not negative is off by a part of itself.
    least = np.where((a[0].min() >= 0) & (b[0].min() >= 0), lo * (1 - EPSILON * x.shape[-1] * watch().rounds), -np.inf)
    made = made_of((rows, columns), np.maximum(lo - slack, least), hi + slack, "the sum of products", True)
    spoilt, infinite = _reached(bad[0], bad[1]), _reached(has_infinity(x), has_infinity(y))
    return _lose_products(made, np.broadcast_to(spoilt, made.shape), np.broadcast_to(infinite, made.shape), x, y)


def _lose_products(made: Spread, spoilt: np.ndarray, infinite: np.ndarray, x: Spread, y: Spread) -> Spread:
    """Sums of products with infinity: as much as NaN, for 0 is among what it is multiplied with."""
    lost_before = _reached(np.isnan(x.lo), np.isnan(y.lo))
    fresh = infinite & ~lost_before
    if fresh.any():
        watch().wrong("nan", "a sum of products with infinity can give NaN", fresh)
    pairs = made.pairs
    pairs["lo"][spoilt] = pairs["hi"][spoilt] = np.nan
    return made


def _reached(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which sums some of these elements of either operand go into."""
    return np.asarray(x.any(axis=-1, keepdims=True) | y.any(axis=-2, keepdims=True))


def _finite(x: Spread, bad: np.ndarray) -> Bounds:
    return np.where(bad, 0.0, x.lo), np.where(bad, 0.0, x.hi)


def _by_signs(a: Bounds, b: Bounds) -> Bounds:
    """Bounds of a product of matrices: by signs, and by middle and radius; the narrower ones."""
    if (a[0] == a[1]).all() and (b[0] == b[1]).all():
        product = a[0] @ b[0]
        return product, product
    a_plus, a_minus = (np.maximum(a[0], 0), np.maximum(a[1], 0)), (np.maximum(-a[1], 0), np.maximum(-a[0], 0))
    b_plus, b_minus = (np.maximum(b[0], 0), np.maximum(b[1], 0)), (np.maximum(-b[1], 0), np.maximum(-b[0], 0))
    lo = a_plus[0] @ b_plus[0] + a_minus[0] @ b_minus[0] - a_plus[1] @ b_minus[1] - a_minus[1] @ b_plus[1]
    hi = a_plus[1] @ b_plus[1] + a_minus[1] @ b_minus[1] - a_plus[0] @ b_minus[0] - a_minus[0] @ b_plus[0]
    middle = (a[0] + a[1]) / 2, (b[0] + b[1]) / 2
    radius = (a[1] - a[0]) / 2, (b[1] - b[0]) / 2
    centre = middle[0] @ middle[1]
    around = np.abs(middle[0]) @ radius[1] + radius[0] @ (np.abs(middle[1]) + radius[1])
    return np.maximum(lo, centre - around), np.minimum(hi, centre + around)
