"""Reductions of intervals along axes, and running ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from tilewright.diagnose.spread import Order, Spread, spread, watch, without_ones
from tilewright.diagnose.spread_arithmetic import multiply, negative
from tilewright.diagnose.spread_order import BOOL
from tilewright.diagnose.spread_results import EPSILON, made_of, outward


def reduced(name: str, x: Spread, rest: Sequence[Any], keywords: dict[str, Any]) -> Spread:
    """A reduction along an axis."""
    axis = rest[0] if rest else keywords.get("axis", 0)
    keep = bool(keywords.get("keepdims", False))
    return REDUCTIONS[name](x, axis, keep)


def _sum(x: Spread, axis: Any, keep: bool) -> Spread:
    lo, hi = x.lo.sum(axis, keepdims=keep), x.hi.sum(axis, keepdims=keep)
    if x.logical.kind in "iub":
        return spread(lo, hi, np.dtype(np.int64) if x.logical.kind == "b" else x.logical)
    count = x.size // max(1, lo.size)
    slack = np.maximum(np.abs(x.lo), np.abs(x.hi)).sum(axis, keepdims=keep) * EPSILON * count * watch().rounds
    # A sum of what is not negative is off by a part of itself, and no less than one of them.
    least = np.where((x.lo >= 0).all(axis, keepdims=keep), np.maximum(lo, max(0.0, _crest(x, axis))), -np.inf)
    least = least * (1 - EPSILON * count * watch().rounds)
    inputs = (spread(x.lo.min(axis, keepdims=keep), x.hi.max(axis, keepdims=keep), x.logical),)
    lo, hi = outward(lo, hi, slack, slack)
    return made_of(inputs, np.maximum(lo, least), hi, "the sum", True)


def _crest(x: Spread, axis: Any) -> float:
    along = axis in (-1, x.ndim - 1, (x.ndim - 1,), (-1,))
    return x.order.crest if along and x.order is not None else -np.inf


def _greatest(x: Spread, axis: Any, keep: bool) -> Spread:
    made = spread(x.lo.max(axis, keepdims=keep), x.hi.max(axis, keepdims=keep), x.logical)
    order, own = x.known_order(), made.known_order()
    kept = x.lo.max(axis, keepdims=True).shape
    pattern = tuple(n for m, n in zip(x.shape, kept, strict=True) if m != 1)
    whole = without_ones(x.shape)
    above = {key: (factor, pattern) for key, (factor, shape) in order.above.items() if shape == whole}
    along = axis in (-1, x.ndim - 1, (x.ndim - 1,), (-1,))
    tops = {key: fact for key, fact in above.items() if along and order.below.get(key) == order.above[key]}
    made.order = Order({**above, **own.above}, own.below, tops)
    return made


def _least(x: Spread, axis: Any, keep: bool) -> Spread:
    return negative(_greatest(negative(x), axis, keep))


def _product(x: Spread, axis: Any, keep: bool) -> Spread:
    moved = np.moveaxis(x, axis, 0)
    made = reduce(multiply, [moved[i] for i in range(len(moved))])
    return np.expand_dims(made, axis) if keep else made  # type: ignore[return-value]


REDUCTIONS: dict[str, Callable[[Spread, Any, bool], Spread]] = {
    **{"add": _sum, "maximum": _greatest, "minimum": _least, "multiply": _product},
    "logical_or": lambda x, axis, keep: spread(x.lo.max(axis, keepdims=keep), x.hi.max(axis, keepdims=keep), BOOL),
    "logical_and": lambda x, axis, keep: spread(x.lo.min(axis, keepdims=keep), x.hi.min(axis, keepdims=keep), BOOL),
}


def products_so_far(x: Spread, axis: int = 0, dtype: Any = None) -> Any:
    """A running product, one factor after the other."""
    factors = np.split(x, x.shape[axis], axis)
    made = factors[:1]
    for factor in factors[1:]:
        made.append(made[-1] * factor)
    return np.concatenate(made, axis)


def accumulated(ufunc: np.ufunc, x: Spread, axis: int = 0, dtype: Any = None) -> Spread:
    """A running sum or extreme."""
    lo, hi = ufunc.accumulate(x.lo, axis), ufunc.accumulate(x.hi, axis)
    if ufunc is not np.add:
        return spread(lo, hi, x.logical)
    slack = np.add.accumulate(np.maximum(np.abs(x.lo), np.abs(x.hi)), axis) * EPSILON * x.shape[axis] * watch().rounds
    return made_of((x,), *outward(lo, hi, slack, slack), "the running sum", True)
