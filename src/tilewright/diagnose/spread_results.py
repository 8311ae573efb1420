"""Results of functions on intervals: rounded outward, and what can go wrong said once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from tilewright.diagnose.spread import FLOAT32, Spread, spread, watch

EPSILON = float(np.finfo(np.float32).eps)
_NORMAL = float(np.finfo(np.float32).tiny)
Bounds = tuple[np.ndarray, np.ndarray]


def made_of(inputs: Sequence[Spread], lo: np.ndarray, hi: np.ndarray, what: str, exact: bool = False) -> Spread:
    """A result of floats, rounded outward; says where finite inputs can give infinity."""
    logical = next((each.logical for each in inputs if each.logical.kind not in "iub"), inputs[0].logical)
    if logical.kind in "iub":
        return spread(lo, hi, logical)
    if not exact and watch().rounds:
        slack = EPSILON if logical.itemsize <= FLOAT32.itemsize else EPSILON * EPSILON
        lo, hi = outward(lo, hi, np.abs(lo) * slack, np.abs(hi) * slack)
        if slack == EPSILON:
            # What is too small for float32 may be 0.
            lo = np.where((lo > 0) & (lo < _NORMAL), 0.0, lo)
            hi = np.where((hi < 0) & (hi > -_NORMAL), 0.0, hi)
    most = float(np.finfo(logical if logical.itemsize > FLOAT32.itemsize else FLOAT32).max)
    over, under = hi > most * (1 + EPSILON), lo < -most * (1 + EPSILON)
    if over.any() or under.any():
        finite = reduce(np.logical_and, [np.isfinite(each.lo) & np.isfinite(each.hi) for each in inputs])
        fresh = (over | under) & np.broadcast_to(finite, over.shape)
        if fresh.any():
            watch().wrong("overflow", f"{what} can overflow to infinity", fresh)
        lo, hi = np.where(under, -np.inf, lo), np.where(over, np.inf, hi)
    return spread(lo, hi, logical)


def outward(lo: np.ndarray, hi: np.ndarray, below: np.ndarray, above: np.ndarray) -> Bounds:
    """Bounds that are wider by what rounding may be off; infinite ones are as wide as they can be."""
    return np.where(np.isinf(lo), lo, lo - below), np.where(np.isinf(hi), hi, hi + above)


def lose(made: Spread, lost: np.ndarray, message: str, inputs: Sequence[Spread]) -> Spread:
    """Say that NaN can come out where `lost`, unless something that went in was lost already."""
    if lost.any():
        known = reduce(np.logical_and, [~np.isnan(each.lo) for each in inputs])
        fresh = lost & np.broadcast_to(known, lost.shape)
        if fresh.any():
            watch().wrong("nan", message, fresh)
        pairs = made.pairs
        pairs["lo"][lost] = pairs["hi"][lost] = np.nan
    return made


def floating(*values: Spread) -> np.dtype:
    """The type of a result: that of the first which is not of integers."""
    return next((each.logical for each in values if each.logical.kind not in "iub"), values[0].logical)


def sorted_bounds(a: np.ndarray, b: np.ndarray) -> Bounds:
    """Two bounds, the lower one first."""
    return np.minimum(a, b), np.maximum(a, b)
