"""Intervals of sums, products and quotients."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from tilewright.diagnose.spread import Order, Spread, spread, watch, with_order, without_ones
from tilewright.diagnose.spread_results import Bounds, lose, made_of, sorted_bounds


def add(x: Spread, y: Spread, what: str = "add") -> Spread:
    """x + y."""
    lo, hi = x.lo + y.lo, x.hi + y.hi
    order = Order()
    if x.logical.kind not in "iub" and y.logical.kind not in "iub":
        below, above, crest = _ordered(x, y)
        hi = np.minimum(hi, 0) if below else hi
        lo = np.maximum(lo, 0) if above else lo
        order = Order(crest=crest)
    lost = ((x.hi == np.inf) & (y.lo == -np.inf)) | ((x.lo == -np.inf) & (y.hi == np.inf))
    lost = lost & ~(np.isnan(lo) & (np.isnan(x.lo) | np.isnan(y.lo)))
    made = made_of((x, y), np.where(lost, -np.inf, lo), np.where(lost, np.inf, hi), what)
    if order.crest > -np.inf:
        own = made.known_order()
        made.order = Order(own.above, own.below, {}, order.crest)
    return lose(made, lost, "infinity minus infinity can give NaN", (x, y))


def _ordered(x: Spread, y: Spread) -> tuple[bool, bool, float]:
    """Whether x + y <= 0, whether x + y >= 0, and how large its largest element along the last axis is at least."""
    if x.order is None and y.order is None:
        return False, False, -np.inf
    a, b = x.known_order(), y.known_order()
    beside = _Beside(x, y)
    below = any(beside.cancels(fact, b.below.get(key)) for key, fact in a.below.items())
    above = any(beside.cancels(fact, b.above.get(key)) for key, fact in a.above.items())
    tops = any(beside.cancels(fact, b.tops.get(key)) for key, fact in a.above.items() if a.below.get(key) == fact)
    tops |= any(beside.cancels(a.tops.get(key), fact) for key, fact in b.above.items() if b.below.get(key) == fact)
    return below, above, 0.0 if tops else -np.inf


class _Beside:
    """How two operands stand beside each other, for facts that hold for arrays that stand as they did once."""

    def __init__(self, x: Spread, y: Spread) -> None:
        self.patterns: list[tuple[Any, Any]] = []
        if x.ndim == y.ndim:
            pairs = list(zip(x.shape, y.shape, strict=True))
            self.patterns.append((without_ones(x.shape), tuple(n for m, n in pairs if m != 1)))
            self.patterns.append((tuple(m for m, n in pairs if n != 1), without_ones(y.shape)))
        self.same = x.shape == y.shape

    def cancels(self, one: tuple[float, Any] | None, other: tuple[float, Any] | None) -> bool:
        """Whether two facts about one array say that the sum is not beyond 0."""
        if one is None or other is None or one[0] != -other[0]:
            return False
        return (one[1], other[1]) in self.patterns or (self.same and one[1] == other[1])


def negative(x: Spread) -> Spread:
    """-x."""
    return with_order(spread(-x.hi, -x.lo, x.logical), x.known_order().scaled(-1.0))


def subtract(x: Spread, y: Spread) -> Spread:
    """x - y; of one array 0, where it is finite."""
    if x is y and np.isfinite(x.lo + x.hi).all():
        return spread(np.zeros(x.shape), np.zeros(x.shape), x.logical)
    return add(x, negative(y), "subtract")


def multiply(x: Spread, y: Spread) -> Spread:
    """x * y."""
    if x is y:
        return square(x)
    for value, factor in ((x, y), (y, x)):
        constant = constant_of(factor)
        if constant is not None and np.isfinite(constant) and constant != 0:
            low, high = sorted_bounds(value.lo * constant, value.hi * constant)
            made = made_of((value, factor), low, high, "multiply", abs(constant) == 1)
            if made.shape == value.shape and value.logical.kind not in "iub":
                made.order = value.known_order().scaled(constant)
            return made
    lo, hi = _products(x, y)
    lost = has_zero(x) & has_infinity(y) | has_zero(y) & has_infinity(x)
    made = made_of((x, y), lo, hi, "multiply")
    return lose(made, lost, "0 times infinity can give NaN", (x, y))


def _products(x: Spread, y: Spread) -> Bounds:
    with np.errstate(all="ignore"):
        every = [x.lo * y.lo, x.lo * y.hi, x.hi * y.lo, x.hi * y.hi]
    # 0 times infinity is 0 as a bound.
    known = ~(np.isnan(x.lo) | np.isnan(y.lo))
    every = [np.where(np.isnan(each) & known, 0.0, each) for each in every]
    return reduce(np.minimum, every), reduce(np.maximum, every)


def constant_of(x: Spread) -> float | None:
    """The one value of all elements."""
    flat = x.lo.reshape(-1)
    return float(flat[0]) if x.size == 1 and flat[0] == x.hi.reshape(-1)[0] else None


def has_zero(x: Spread) -> np.ndarray:
    """Where a value can be 0."""
    return (x.lo <= 0) & (x.hi >= 0)


def has_infinity(x: Spread) -> np.ndarray:
    """Where a value can be infinite."""
    return np.isinf(x.lo) | np.isinf(x.hi)


def square(x: Spread) -> Spread:
    """x * x."""
    low, high = sorted_bounds(np.abs(x.lo), np.abs(x.hi))
    return made_of((x,), np.where(has_zero(x), 0.0, low) ** 2, high**2, "square")


def divide(x: Spread, y: Spread) -> Spread:
    """x / y."""
    zero = has_zero(y)
    if zero.any():
        watch().wrong("division", "the divisor can be 0", zero)
    with np.errstate(all="ignore"):
        lo, hi = np.where(zero, -np.inf, 1 / y.hi), np.where(zero, np.inf, 1 / y.lo)
    inverse = spread(lo, hi, y.logical)
    low, high = _products(x, inverse)
    made = made_of((x, inverse), low, high, "divide")
    lost = zero & has_zero(x) | has_infinity(x) & has_infinity(y)
    return lose(made, np.broadcast_to(lost, made.shape), "0 / 0 can give NaN", (x, y))
