"""Comparisons, truth and choices of intervals."""

from __future__ import annotations

from functools import reduce

import numpy as np

from tilewright.diagnose.spread import Order, Spread, spread
from tilewright.diagnose.spread_arithmetic import negative
from tilewright.diagnose.spread_results import floating

BOOL = np.dtype(np.bool_)


def maximum(x: Spread, y: Spread) -> Spread:
    """The larger of both."""
    a, b = x.known_order(), y.known_order()
    made = spread(np.maximum(x.lo, y.lo), np.maximum(x.hi, y.hi), floating(x, y))
    if x.shape == y.shape:
        own = made.known_order()
        made.order = Order({**b.above, **a.above, **own.above}, own.below, {}, max(a.crest, b.crest))
    return made


def minimum(x: Spread, y: Spread) -> Spread:
    """The smaller of both."""
    return negative(maximum(negative(x), negative(y)))


def _truth(lo: np.ndarray, hi: np.ndarray, *inputs: Spread) -> Spread:
    """Of a comparison: lo: it holds for all values; hi: for some. What is lost may be either."""
    lost = reduce(np.logical_or, [np.isnan(each.lo) for each in inputs])
    return spread(np.where(lost, False, lo), np.where(lost, True, hi), BOOL)


def less(x: Spread, y: Spread) -> Spread:
    """x < y."""
    return _truth(x.hi < y.lo, x.lo < y.hi, x, y)


def less_equal(x: Spread, y: Spread) -> Spread:
    """x <= y."""
    return _truth(x.hi <= y.lo, x.lo <= y.hi, x, y)


def equal(x: Spread, y: Spread) -> Spread:
    """x == y."""
    same = (x.lo == x.hi) & (y.lo == y.hi) & (x.lo == y.lo)
    return _truth(same, (x.lo <= y.hi) & (y.lo <= x.hi), x, y)


def both(x: Spread, y: Spread) -> Spread:
    """Whether both are true."""
    return spread(np.minimum(x.lo, y.lo), np.minimum(x.hi, y.hi), BOOL)


def either(x: Spread, y: Spread) -> Spread:
    """Whether one is true."""
    return spread(np.maximum(x.lo, y.lo), np.maximum(x.hi, y.hi), BOOL)


def negated(x: Spread) -> Spread:
    """Whether it is not true."""
    return spread(1 - x.hi, 1 - x.lo, BOOL)


def one_of_both(x: Spread, y: Spread) -> Spread:
    """Whether one is true and the other is not."""
    return either(both(x, negated(y)), both(negated(x), y))


def chosen_of(chosen: Spread, x: Spread, y: Spread) -> Spread:
    """np.where."""
    always, never = chosen.lo != 0, chosen.hi == 0
    if chosen.logical.kind != "b":
        always, never = (chosen.lo > 0) | (chosen.hi < 0), (chosen.lo == 0) & (chosen.hi == 0)
    lo = np.where(always, x.lo, np.where(never, y.lo, np.minimum(x.lo, y.lo)))
    hi = np.where(always, x.hi, np.where(never, y.hi, np.maximum(x.hi, y.hi)))
    return spread(lo, hi, floating(x, y))
