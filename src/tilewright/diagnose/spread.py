"""Spreads: arrays of intervals, through which the records' own NumPy meanings run.

A spread looks like an array of its logical dtype, but each element is a pair of float64: all values that it can have
lie between them (NaN: nothing is known, and what went wrong has been said). Bounds are rounded outward by what an
engine that computes in float32 may be off. Besides bounds it knows order: m = max(x) is not less than x, so x - m is
not positive, whatever the bounds of both (`Order`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

PAIR = np.dtype([("lo", "f8"), ("hi", "f8")])
FLOAT32 = np.dtype(np.float32)
_numbers = count(1)


class Unfollowed(Exception):
    """A function that is not known on intervals."""


Pattern = tuple[int, ...]
Facts = dict[int, tuple[float, Pattern]]
"""Number of an array -> factor, and the shape of this one beside that array, whose dims of size 1 are left out."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a spread is never less than (`above`) and never more than (`below`): factor times the array of a number.

    tops: it is exactly the greatest of that array along its last axis. crest: along its own last axis some element is
    at least that large.
    """

    above: Facts = field(default_factory=dict)
    below: Facts = field(default_factory=dict)
    tops: Facts = field(default_factory=dict)
    crest: float = -np.inf

    def scaled(self, factor: float) -> Order:
        """The order of factor times the values."""
        if factor == 0:
            return Order()
        above, below, tops = (
            {key: (value * factor, pattern) for key, (value, pattern) in facts.items()}
            for facts in (self.above, self.below, self.tops)
        )
        if factor < 0:
            above, below = below, above
        crest = self.crest * factor if factor > 0 and np.isfinite(self.crest) else -np.inf
        return Order(above, below, tops, crest)


class Spread(np.ndarray):
    """An array of intervals."""

    logical: np.dtype
    order: Order | None

    def __array_finalize__(self, parent: Any) -> None:
        self.logical = getattr(parent, "logical", FLOAT32)
        self.order = None

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.logical

    @property
    def pairs(self) -> np.ndarray:
        """The intervals as a plain array."""
        return np.ndarray.view(self, np.ndarray)

    @property
    def lo(self) -> np.ndarray:
        return self.pairs["lo"]

    @property
    def hi(self) -> np.ndarray:
        return self.pairs["hi"]

    @property
    def is_point(self) -> bool:
        """Whether every element is one known value."""
        return bool((self.lo == self.hi).all())

    def known_order(self) -> Order:
        """Its order; at least that it is itself."""
        if self.order is None:
            itself: Facts = {next(_numbers): (1.0, without_ones(self.shape))}
            self.order = Order(itself, dict(itself))
        return self.order

    # What meanings do with arrays besides calling NumPy.

    def astype(self, dtype: Any, *_args: Any, **_keywords: Any) -> Spread:  # type: ignore[override]
        """The same values under another dtype; rounding is looked at where they are stored."""
        wanted = np.dtype(dtype)
        if wanted.kind in "iu" and self.logical.kind not in "iub":
            made = spread(np.rint(self.lo), np.rint(self.hi), wanted)
        elif wanted.kind == "b" and self.logical.kind != "b":
            return np.not_equal(self, 0)  # type: ignore[return-value]
        else:
            made = spread(self.lo, self.hi, wanted)
            made.order = self.order
        if self.logical.kind in "iu" and self.logical.itemsize >= 4 and wanted == FLOAT32:
            watch().integers(self)
        return made

    def view(self, *_args: Any, **_keywords: Any) -> Any:
        raise Unfollowed("bits are looked at as another type")

    def copy(self, *_args: Any) -> Spread:  # type: ignore[override]
        made = spread(self.lo.copy(), self.hi.copy(), self.logical)
        made.order = self.order
        return made

    def reshape(self, *shape: Any, **keywords: Any) -> Spread:  # type: ignore[override]
        made: Any = np.ndarray.reshape(self, *shape, **keywords)
        if [n for n in made.shape if n != 1] == [n for n in self.shape if n != 1]:
            made.order = self.order
        return made

    def __getitem__(self, key: Any) -> Any:
        found = np.ndarray.__getitem__(self, key)
        return spread(found["lo"], found["hi"], self.logical) if isinstance(found, np.void) else found

    def __eq__(self, other: Any) -> Any:
        return np.equal(self, other)

    def __ne__(self, other: Any) -> Any:
        return np.not_equal(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        if self.size == 1 and self.is_point:
            return bool(self.lo.reshape(-1)[0])
        raise Unfollowed("what happens depends on a value that is not known")

    def __float__(self) -> float:
        if self.size == 1 and self.is_point:
            return float(self.lo.reshape(-1)[0])
        raise Unfollowed("a number is asked for that is not known")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        from tilewright.diagnose.spread_rules import call_ufunc

        return call_ufunc(ufunc, method, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        from tilewright.diagnose.spread_rules import call_function

        return call_function(function, args, keywords)

    def activated(self, name: str) -> Spread:
        """A function of the Scalar engine, which a meaning would compute in several steps."""
        from tilewright.diagnose.spread_functions import function_of

        return function_of(name, self)

    def check_range(self, name: str, limits: tuple[float, float]) -> None:
        """Look whether arguments of a function can be outside its valid range."""
        watch().arguments(name, self, limits)


def spread(lo: Any, hi: Any, logical: np.dtype = FLOAT32) -> Spread:
    """A spread of these bounds."""
    low, high = np.broadcast_arrays(np.asarray(lo, np.float64), np.asarray(hi, np.float64))
    pairs = np.empty(low.shape, PAIR)
    pairs["lo"], pairs["hi"] = low, high
    made = pairs.view(Spread)
    made.logical = np.dtype(logical)
    return made


def lifted(value: Any) -> Spread:
    """A spread of known values, where it is not one already."""
    if isinstance(value, Spread):
        return value
    array = np.asarray(value)
    seen = array.astype(np.float64)
    return spread(seen, seen, array.dtype if isinstance(value, (np.ndarray, np.generic)) else FLOAT32)


def without_ones(shape: tuple[int, ...]) -> Pattern:
    """A shape without its dims of size 1."""
    return tuple(size for size in shape if size != 1)


def with_order(value: Spread, order: Order | None) -> Spread:
    """The same spread with this order."""
    value.order = order
    return value


class Watch:
    """Who is told what can go wrong; the one that does nothing.

    rounds: bounds are rounded outward. Without, known values stay known: they are computed in float64.
    """

    rounds = True

    def wrong(self, kind: str, message: str, where: Any) -> None:
        """Something of `kind` can happen at the elements that `where` marks."""

    def integers(self, value: Spread) -> None:
        """32-bit integers are computed with in float32."""

    def arguments(self, name: str, value: Spread, limits: tuple[float, float]) -> None:
        """A function with a valid range gets these arguments."""


_watch: list[Watch] = [Watch()]


def watch() -> Watch:
    """Who watches now."""
    return _watch[-1]


def watched(by: Watch, action: Callable[[], Any]) -> Any:
    """Do something while `by` watches."""
    _watch.append(by)
    try:
        return action()
    finally:
        _watch.pop()
