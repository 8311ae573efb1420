"""Which bytes of a tensor in HBM were accessed at least once, counted from where accesses of each kind began."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tilewright.tile.overlap import runs

Kind = tuple[tuple[tuple[int, int], ...], int]
"""(size, byte stride) of the dims of an access, and the bytes of an element."""

_MOST_PLACES = 1 << 16
"""Places that are remembered for one kind of access of a tensor."""

_EXACT_UP_TO = 1 << 28
"""Bytes of different accesses up to which irregular overlaps are counted; beyond it they count as if there were none.
Also the cells of a grid on which regular ones are."""


class Starts:
    """Where accesses of one kind began: each place once, in bounded memory. added: how many accesses began at these."""

    __slots__ = ("_full", "_limit", "_places", "added")

    def __init__(self) -> None:
        self._places = array("q")
        self._limit = 1 << 10
        self._full = False
        self.added = 0

    def add(self, start: int) -> bool:
        """Remember a place; False when it is a new one and there are too many."""
        if self._full:
            at = bisect_left(self._places, start)
            known = at < len(self._places) and self._places[at] == start
            self.added += known
            return known
        self.added += 1
        self._places.append(start)
        if len(self._places) >= self._limit:
            self._sort()
            self._full = len(self._places) >= _MOST_PLACES
            self._limit = min(max(self._limit, 2 * len(self._places)), 2 * _MOST_PLACES)
        return True

    def places(self) -> Sequence[int]:
        """Each place once, in order."""
        self._sort()
        return self._places

    def _sort(self) -> None:
        self._places = array("q", np.unique(np.frombuffer(self._places, np.int64)).tobytes())


def bytes_of(kind: Kind) -> int:
    """Different bytes of one access; a dim that is broadcast adds none."""
    dims, itemsize = kind
    return itemsize * prod(size for size, stride in dims if stride)


def union(accesses: Mapping[Kind, Sequence[int]], tensor_bytes: int) -> int:
    """Different bytes of several accesses of a tensor, given where those of each kind began."""
    if not accesses:
        return 0
    total = sum(bytes_of(kind) * len(starts) for kind, starts in accesses.items())
    if sum(map(len, accesses.values())) == 1:
        return total
    rectangles = _rectangles(accesses, tensor_bytes)
    area = None if rectangles is None else _area(rectangles)
    if area is not None:
        return area
    return _count(accesses, tensor_bytes) if total <= _EXACT_UP_TO else total


def _rectangles(accesses: Mapping[Kind, Sequence[int]], tensor_bytes: int) -> np.ndarray | None:
    """Accesses as rows (first row, end row, first byte, end byte) of a matrix of bytes; None when they are not such."""
    shapes = {kind: runs(*kind) for kind in accesses}
    pitches = {shape[1] for shape in shapes.values() if shape is not None and shape[0] > 1}
    if None in shapes.values() or len(pitches) > 1:
        return None
    pitch = pitches.pop() if pitches else tensor_bytes
    found: list[np.ndarray] = []
    for kind, starts in accesses.items():
        shape = shapes[kind]
        assert shape is not None
        rows, _, run = shape
        row, byte = np.divmod(np.asarray(starts, np.int64), pitch)
        if run > pitch and run % pitch == 0 and rows == 1 and not byte.any():
            rows, run = run // pitch, pitch
        if (byte + run > pitch).any():
            return None
        found.append(np.stack([row, row + rows, byte, byte + run], axis=1))
    return np.concatenate(found)


def _area(rectangles: np.ndarray) -> int | None:
    """Area of a union of rectangles, on the grid of their own edges; None when that is too large."""
    rows, columns = np.unique(rectangles[:, :2]), np.unique(rectangles[:, 2:])
    if len(rows) * len(columns) > _EXACT_UP_TO:
        return None
    first_row, end_row = np.searchsorted(rows, rectangles[:, :2]).T
    first_column, end_column = np.searchsorted(columns, rectangles[:, 2:]).T
    inside = np.zeros((len(rows), len(columns)), bool)
    single = (end_row - first_row == 1) & (end_column - first_column == 1)
    inside[first_row[single], first_column[single]] = True
    others = (first_row[~single], end_row[~single], first_column[~single], end_column[~single])
    for top, bottom, left, right in zip(*others, strict=True):
        inside[top:bottom, left:right] = True
    heights, widths = np.diff(rows), np.diff(columns)
    return int(heights @ inside[:-1, :-1] @ widths)


def _count(accesses: Mapping[Kind, Sequence[int]], tensor_bytes: int) -> int:
    """The same by marking every element, in units of the smallest."""
    unit = min(itemsize for _, itemsize in accesses)
    mask = np.zeros(-(-tensor_bytes // unit), bool)
    for (dims, itemsize), starts in accesses.items():
        sizes = (*[size for size, _ in dims], itemsize // unit)
        strides = (*[stride // unit for _, stride in dims], 1)
        for start in starts:
            np.ndarray(sizes, bool, mask, start // unit, strides)[...] = True
    return int(np.count_nonzero(mask)) * unit
