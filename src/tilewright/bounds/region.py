"""Sets of elements of an array that are known at compile time: what of it is needed, or where it is not a known number.

A region has an index set for each axis and perhaps a band of diagonals in two of them. Where neither describes it, only
a number of elements is known. Every operation gives a subset of the true result: counts never are too great.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

Indices = np.ndarray | None
"""Which indices of an axis, as truth values; None: all."""


@dataclass(frozen=True, slots=True)
class Band:
    """low <= index along `column` - index along `row` <= high; None is no limit."""

    row: int
    column: int
    low: int | None
    high: int | None

    def without(self) -> tuple[int | None, int | None] | None:
        """The limits of all other diagonals; None where these are no band."""
        if self.low is None and self.high is not None:
            return self.high + 1, None
        if self.high is None and self.low is not None:
            return None, self.low - 1
        return None


class Region:
    """Some elements of an array of `shape`. `number`: so many at least, of which nothing else is known but that there
    are some in every line along the axis `lines`, where that is given."""

    __slots__ = ("_count", "band", "lines", "number", "sets", "shape")

    def __init__(
        self,
        shape: tuple[int, ...],
        sets: Sequence[Indices] | None = None,
        band: Band | None = None,
        number: int | None = None,
        lines: int | None = None,
    ) -> None:
        self.shape = shape
        self.lines = lines
        self.sets: tuple[Indices, ...] = (None,) * len(shape)
        if sets is not None:
            self.sets = tuple([None if s is None or bool(s.all()) else s for s in sets])
        self.band = None if band is None or (band.low is None and band.high is None) else band
        self.number = None if number is None else max(0, min(number, prod(shape)))
        self._count: int | None = self.number

    @property
    def size(self) -> int:
        """Elements of the whole array."""
        return prod(self.shape)

    @property
    def count(self) -> int:
        """Elements of the region."""
        if self._count is None:
            self._count = self._counted()
        return self._count

    @property
    def share(self) -> float:
        """The part of the array that it is."""
        return self.count / self.size if self.size else 0.0

    @property
    def is_all(self) -> bool:
        """True for the whole array."""
        return self.count == self.size

    def _counted(self) -> int:
        band = self.band
        sizes = [n if s is None else int(s.sum()) for n, s in zip(self.shape, self.sets, strict=True)]
        if band is None:
            return prod(sizes)
        others = prod(n for axis, n in enumerate(sizes) if axis not in (band.row, band.column))
        return others * int(self._columns_of_rows(band).sum())

    def _columns_of_rows(self, band: Band) -> np.ndarray:
        """How many columns each row of the band has; 0 for rows outside of the region."""
        rows, columns = self.shape[band.row], self.shape[band.column]
        here = self.indices(band.column)
        before = np.concatenate([[0], np.cumsum(here)])
        at = np.arange(rows)
        first = np.zeros(rows, int) if band.low is None else np.clip(at + band.low, 0, columns)
        last = np.full(rows, columns) if band.high is None else np.clip(at + band.high + 1, 0, columns)
        found = np.maximum(before[last] - before[np.minimum(first, last)], 0)
        return np.where(self.indices(band.row), found, 0)

    def indices(self, axis: int) -> np.ndarray:
        """The index set of an axis, by itself."""
        found = self.sets[axis]
        return np.ones(self.shape[axis], bool) if found is None else found

    def along(self, axis: int) -> Indices:
        """Indices of an axis at which the region has elements; none of a region that is only counted."""
        if self.number is not None:
            return None if self.is_all else np.zeros(self.shape[axis], bool)
        band = self.band
        if band is None or axis not in (band.row, band.column):
            return self.sets[axis]
        if axis == band.row:
            return self._columns_of_rows(band) > 0
        return self.permuted(_swapped(len(self.shape), band.row, band.column)).along(band.row)

    def permuted(self, perm: Sequence[int]) -> Region:
        """The region of the transposed array."""
        shape = tuple(self.shape[a] for a in perm)
        if self.number is not None:
            return Region(shape, number=self.number)
        band = self.band
        if band is not None:
            row, column = list(perm).index(band.row), list(perm).index(band.column)
            band = Band(row, column, band.low, band.high)
        if band is not None and band.row > band.column:
            band = Band(band.column, band.row, _negated(band.high), _negated(band.low))
        return Region(shape, [self.sets[a] for a in perm], band)

    def both(self, other: Region) -> Region:
        """Elements of both regions."""
        if self.is_all or not other.count:
            return other
        if other.is_all or not self.count:
            return self
        bands = {region.band for region in (self, other) if region.band is not None}
        pairs = {(band.row, band.column) for band in bands}
        if self.number is not None or other.number is not None or len(pairs) > 1:
            return Region(self.shape, number=self.count + other.count - self.size)
        sets = [_and(a, b) for a, b in zip(self.sets, other.sets, strict=True)]
        return Region(self.shape, sets, _narrowest(bands))

    def either(self, other: Region) -> Region:
        """Elements of either region; the greater one where both together are not a region."""
        large, small = (self, other) if self.count >= other.count else (other, self)
        if large.is_all or not small.count or large.number is not None or small.number is not None:
            return large
        differing = [axis for axis, (a, b) in enumerate(zip(large.sets, small.sets, strict=True)) if not _same(a, b)]
        if large.band != small.band or len(differing) > 1:
            return large
        sets = list(large.sets)
        for axis in differing:
            sets[axis] = large.indices(axis) | small.indices(axis)
        return Region(self.shape, sets, large.band)

    def hull(self, other: Region) -> Region | None:
        """A region that has all elements of both; None where that is everything."""
        sets = [
            None if a is None or b is None else a if a is b else a | b
            for a, b in zip(self.sets, other.sets, strict=True)
        ]
        return None if all(s is None for s in sets) else Region(self.shape, sets)

    def outside(self, other: Region) -> Region:
        """Elements of this region that the other has not."""
        if not other.count or not self.count:
            return self
        plain = self.number is None and self.band is None and other.number is None and other.band is None
        cut = [axis for axis, s in enumerate(other.sets) if not _covers(s, self.sets[axis])]
        if plain and len(cut) <= 1:
            sets = list(self.sets)
            for axis in cut or range(1 if self.shape else 0):
                sets[axis] = self.indices(axis) & ~other.indices(axis)
            return Region(self.shape, sets) if self.shape else nothing(self.shape)
        return Region(self.shape, number=self.count - other.count)

    def apart(self, other: Region) -> bool:
        """True when the two certainly have no element in common."""
        if not self.count or not other.count:
            return True
        if self.number is not None or other.number is not None:
            return False
        pairs = zip(self.sets, other.sets, strict=True)
        return any(a is not None and b is not None and not (a & b).any() for a, b in pairs)


@lru_cache(maxsize=1 << 12)
def everything(shape: tuple[int, ...]) -> Region:
    """The whole array."""
    return Region(shape)


@lru_cache(maxsize=1 << 12)
def nothing(shape: tuple[int, ...]) -> Region:
    """No element."""
    return Region(shape, number=0)


def at_least(shape: tuple[int, ...], number: int, lines: int | None = None) -> Region:
    """So many elements, it is not known which; some in every line along an axis, where one is given."""
    return everything(shape) if number >= prod(shape) else Region(shape, number=number, lines=lines)


def box(shape: tuple[int, ...], starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Region:
    """The elements of a slice."""
    sets: list[Indices] = []
    for n, start, size, step in zip(shape, starts, sizes, steps, strict=True):
        chosen = np.zeros(n, bool)
        chosen[start + step * np.arange(size)] = True
        sets.append(chosen)
    return Region(shape, sets)


def _and(a: Indices, b: Indices) -> Indices:
    return b if a is None else a if b is None else a & b


def _same(a: Indices, b: Indices) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


def _covers(a: Indices, b: Indices) -> bool:
    """True when `a` has every index of `b`."""
    return a is None or (b is not None and bool((a | ~b).all()))


def _narrowest(bands: set[Band]) -> Band | None:
    """The diagonals that all of some bands in the same axes have."""
    if not bands:
        return None
    first = next(iter(bands))
    lows = [band.low for band in bands if band.low is not None]
    highs = [band.high for band in bands if band.high is not None]
    return Band(first.row, first.column, max(lows, default=None), min(highs, default=None))


def _negated(x: int | None) -> int | None:
    return None if x is None else -x


def _swapped(rank: int, a: int, b: int) -> list[int]:
    perm = list(range(rank))
    perm[a], perm[b] = b, a
    return perm
