"""Loop indices: integers that remember the loop they count, so that errors name ranges and conditions know their kind.

Kernels run eagerly: in arithmetic and indexing a loop index is the number of the present iteration. What it adds is the
affine form `constant + sum of factor * loop`, from which the range over all iterations follows.
"""

from __future__ import annotations

from typing import Any


class Loop:
    """A loop, or an axis of the launch grid, while it runs."""

    __slots__ = ("first", "iteration", "kind", "last", "outcome")

    def __init__(self, kind: str, values: range) -> None:
        self.kind = kind
        self.first = values[0] if values else 0
        self.last = values[-1] if values else 0
        self.iteration = self.first
        # What the loop keeps about itself while it runs (nki.legacy.independence).
        self.outcome: Any = None


class LoopIndex(int):
    """The number of the present iteration. `terms` is None for what is not affine in the loops."""

    terms: tuple[tuple[Loop, int], ...] | None
    const: int

    def __new__(cls, value: int, terms: tuple[tuple[Loop, int], ...] | None, const: int) -> LoopIndex:
        self = int.__new__(cls, value)
        self.terms = terms
        self.const = const
        return self

    def span(self) -> tuple[int, int]:
        """The least and the greatest value over all iterations (the present one where that is not known)."""
        if self.terms is None:
            return int(self), int(self)
        low = high = self.const
        for loop, factor in self.terms:
            ends = (factor * loop.first, factor * loop.last)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def __add__(self, other: Any) -> Any:
        if other.__class__ is int:
            return LoopIndex(int.__add__(self, other), self.terms, self.const + other)
        if isinstance(other, LoopIndex):
            return LoopIndex(int.__add__(self, other), _sum(self.terms, other.terms), self.const + other.const)
        return int.__add__(self, other)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        if other.__class__ is int:
            terms = None if self.terms is None else tuple((loop, factor * other) for loop, factor in self.terms)
            return LoopIndex(int.__mul__(self, other), terms, self.const * other)
        if isinstance(other, LoopIndex):
            return LoopIndex(int.__mul__(self, other), None, 0)
        return int.__mul__(self, other)

    __rmul__ = __mul__

    def __neg__(self) -> LoopIndex:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, int) else int.__sub__(self, other)

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other if isinstance(other, int) else int.__rsub__(self, other)

    def __floordiv__(self, other: Any) -> Any:
        return _not_affine(int.__floordiv__(self, other))

    def __mod__(self, other: Any) -> Any:
        return _not_affine(int.__mod__(self, other))

    def __lt__(self, other: Any) -> Any:
        return _condition(int.__lt__(self, other), self, other)

    def __le__(self, other: Any) -> Any:
        return _condition(int.__le__(self, other), self, other)

    def __gt__(self, other: Any) -> Any:
        return _condition(int.__gt__(self, other), self, other)

    def __ge__(self, other: Any) -> Any:
        return _condition(int.__ge__(self, other), self, other)

    def __eq__(self, other: Any) -> Any:
        return _condition(int.__eq__(self, other), self, other)

    def __ne__(self, other: Any) -> Any:
        return _condition(int.__ne__(self, other), self, other)

    __hash__ = int.__hash__

    def __reduce__(self) -> Any:
        return int, (int(self),)


def _sum(a: tuple[tuple[Loop, int], ...] | None, b: tuple[tuple[Loop, int], ...] | None) -> Any:
    if a is None or b is None:
        return None
    merged = dict(a)
    for loop, factor in b:
        merged[loop] = merged.get(loop, 0) + factor
    return tuple(merged.items())


def _not_affine(value: Any) -> Any:
    return LoopIndex(value, None, 0) if isinstance(value, int) else value


def _condition(holds: Any, *sides: Any) -> Any:
    if holds is NotImplemented:
        return NotImplemented
    return Condition(holds, all(not isinstance(side, LoopIndex) or side.terms is not None for side in sides))


class Condition:
    """A comparison of loop indices: true or false now, and known to differ between iterations.

    As a mask it runs an instruction whole or not at all; what is not `affine` cannot be a mask.
    """

    __slots__ = ("affine", "holds")

    def __init__(self, holds: bool, affine: bool = True) -> None:
        self.holds = bool(holds)
        self.affine = affine

    def __bool__(self) -> bool:
        return self.holds

    def __and__(self, other: Any) -> Any:
        if isinstance(other, Condition):
            return Condition(self.holds and other.holds, self.affine and other.affine)
        return Condition(self.holds and bool(other), self.affine) if isinstance(other, (bool, int)) else NotImplemented

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        if isinstance(other, Condition):
            return Condition(self.holds or other.holds, self.affine and other.affine)
        return Condition(self.holds or bool(other), self.affine) if isinstance(other, (bool, int)) else NotImplemented

    __ror__ = __or__

    def __invert__(self) -> Condition:
        return Condition(not self.holds, self.affine)

    def __eq__(self, other: object) -> bool:
        return self.holds == bool(other)

    def __hash__(self) -> int:
        return hash(self.holds)

    def __repr__(self) -> str:
        return repr(self.holds)


def span(value: int) -> tuple[int, int]:
    """The range of an index over all iterations of the loops it counts."""
    return value.span() if isinstance(value, LoopIndex) else (int(value), int(value))
