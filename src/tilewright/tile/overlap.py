"""Do two accesses of one buffer share an element? Exact for small patterns; for large ones never a missed overlap."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np

Pattern = tuple[int, int, int, tuple[tuple[int, int], ...], int]
"""First partition, partitions, first byte in the partition, (size, byte stride) of the free dims, element bytes.

A tensor in HBM is one partition."""

Elements = tuple[tuple[tuple[int, int], ...], int]
"""(size, byte stride) of the free dims, element bytes: a pattern, wherever it begins."""

_EXACT_UP_TO = 1 << 14  # elements: beyond it the divisor test decides
_MOST_LOOKS = 1 << 13  # partial sums that the search for a common byte looks at
_REMEMBERED = 1 << 12  # other extents that one knows whether it meets


class Extent:
    """The elements of an access, made by `extent`: equal ones are nearly always one object, and compared as objects.

    low, high: first byte, and the one after the last. runs: the bytes within a partition as equal runs, None where they
    are not.
    """

    __slots__ = ("_known", "high", "is_run", "low", "pattern", "runs")

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.low, self.high = span(pattern)
        self.runs = runs(pattern[3], pattern[4])
        self.is_run = _is_run(pattern)
        self._known: dict[Extent, bool] = {}

    def covers(self, other: Extent) -> bool:
        """True when it certainly has every byte of the other."""
        if not self.is_run:
            return self.pattern == other.pattern
        if self.low > other.low or self.high < other.high:
            return False
        a, b = self.pattern, other.pattern
        return a[0] <= b[0] and a[0] + a[1] >= b[0] + b[1]

    def meets(self, other: Extent) -> bool:
        """True when the two share a byte."""
        if self.low >= other.high or other.low >= self.high:
            return False
        a, b = self.pattern, other.pattern
        if a[0] >= b[0] + b[1] or b[0] >= a[0] + a[1]:
            return False
        if self.runs is not None and other.runs is not None:
            met = runs_meet(a[2], self.runs, b[2], other.runs)
            if met is not None:
                return met
        known = self._known.get(other)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[other] = overlaps(self.pattern, other.pattern)
        return known


@lru_cache(maxsize=1 << 16)
def extent(pattern: Pattern) -> Extent:
    """The extent of a pattern."""
    return Extent(pattern)


def overlaps(a: Pattern, b: Pattern) -> bool:
    """True when the accesses touch a common byte."""
    if a[0] >= b[0] + b[1] or b[0] >= a[0] + a[1]:
        return False
    a_low, a_high = span(a)
    b_low, b_high = span(b)
    if a_low >= b_high or b_low >= a_high:
        return False
    if _is_run(a) and _is_run(b):
        return True
    first, second = runs(a[3], a[4]), runs(b[3], b[4])
    met = None if first is None or second is None else runs_meet(a[2], first, b[2], second)
    if met is not None:
        return met
    if _count(a) <= _EXACT_UP_TO and _count(b) <= _EXACT_UP_TO:
        return _share_an_element(a[3:], b[3:], b[2] - a[2])
    return _may_meet(a, b)


def span(pattern: Pattern) -> tuple[int, int]:
    """The first byte of an access, and the one after its last."""
    _, _, start, dims, itemsize = pattern
    low = start + sum((n - 1) * s for n, s in dims if s < 0)
    high = start + sum((n - 1) * s for n, s in dims if s > 0) + itemsize
    return low, high


Runs = tuple[int, int, int]
"""How many runs of bytes, bytes from the start of one to that of the next, bytes of each."""


def runs(dims: tuple[tuple[int, int], ...], itemsize: int) -> Runs | None:
    """An access as equal runs of bytes at equal distances, if it is such."""
    count, pitch, length = 1, 0, itemsize
    for size, stride in reversed(dims):
        if stride == length and count == 1:
            length *= size
        elif stride > length and count == 1:
            count, pitch = size, stride
        elif count > 1 and stride == count * pitch:
            count *= size
        elif stride:
            return None
    return count, pitch, length


def runs_meet(a: int, first: Runs, b: int, second: Runs) -> bool | None:
    """Do runs that begin at byte a share a byte with runs that begin at b? None when their distances differ.

    a + i * pitch and b + j * pitch are closer than a run is long for some i and j: only i - j matters.
    """
    (count, pitch, length), (other_count, other_pitch, other_length) = first, second
    if count > 1 and other_count > 1 and pitch != other_pitch:
        return None
    step = max(pitch if count > 1 else 0, other_pitch if other_count > 1 else 0, 1)
    apart = b - a
    low = max((apart - length) // step + 1, 1 - other_count)
    high = min(-((-apart - other_length) // step) - 1, count - 1)
    return low <= high


def _count(pattern: Pattern) -> int:
    total = 1
    for size, _ in pattern[3]:
        total *= size
    return total


def _is_run(pattern: Pattern) -> bool:
    """The free dims cover one run of bytes without gaps, some of them perhaps more than once."""
    length = pattern[4]
    for stride, size in sorted([(abs(stride), size) for size, stride in pattern[3]]):
        if stride > length and size > 1:
            return False
        length += (size - 1) * stride
    return True


def offsets(pattern: Pattern) -> np.ndarray:
    offsets = np.array([pattern[2]], np.int64)
    for size, stride in pattern[3]:
        offsets = (offsets[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return offsets


@lru_cache(maxsize=1 << 14)
def _share_an_element(first: Elements, second: Elements, apart: int) -> bool:
    """Do elements share a byte where the second pattern begins `apart` bytes after the first? Loops ask it often."""
    a, b = (0, 1, 0, *first), (0, 1, apart, *second)
    met = search(a, b)
    return _compared(a, b) if met is None else met


def _compared(a: Pattern, b: Pattern) -> bool:
    """Compare the bytes where each element begins; elements of different sizes are cut to the smaller."""
    unit = min(a[4], b[4])
    first, second = (_units(pattern, unit) for pattern in (a, b))
    return bool(np.isin(first, second).any())


def _units(pattern: Pattern, unit: int) -> np.ndarray:
    starts = offsets(pattern)
    return (starts[:, None] + np.arange(0, pattern[4], unit)).reshape(-1) // unit


def _may_meet(a: Pattern, b: Pattern) -> bool:
    """Two arithmetic patterns can meet only if their distance is a multiple of the strides' greatest divisor."""
    divisor = 0
    for size, stride in (*a[3], *b[3]):
        if size > 1:
            divisor = gcd(divisor, abs(stride))
    reach = max(a[4], b[4])
    distance = abs(a[2] - b[2])
    return divisor == 0 or distance % divisor < reach or divisor - distance % divisor < reach


def search(a: Pattern, b: Pattern) -> bool | None:
    """Do two accesses of the same partitions share a byte? Exact whatever their size; None when it takes too long.

    An element of b lies `apart` bytes after one of a, where apart is a sum of steps with bounded factors; greatest
    steps first, the others can only make up for what these leave.
    """
    factors: dict[int, list[int]] = {}
    for sign, (_, _, _, dims, _) in ((-1, a), (1, b)):
        for size, stride in dims:
            bounds = factors.setdefault(abs(stride), [0, 0])
            bounds[0 if sign * stride < 0 else 1] += (size - 1) * (-1 if sign * stride < 0 else 1)
    steps = sorted(((step, low, high) for step, (low, high) in factors.items() if step), reverse=True)
    # What the steps after each can make up for.
    rest = [
        (sum(s * low for s, low, _ in steps[i:]), sum(s * high for s, _, high in steps[i:]))
        for i in range(len(steps) + 1)
    ]
    pending = [(b[2] - a[2], 0)]
    looked_at = 0
    while pending:
        apart, place = pending.pop()
        looked_at += 1
        if looked_at > _MOST_LOOKS:
            return None
        if apart + rest[place][0] >= a[4] or apart + rest[place][1] <= -b[4]:
            continue
        if place == len(steps):
            return True
        step, low, high = steps[place]
        least = -(-(1 - b[4] - apart - rest[place + 1][1]) // step)
        most = (a[4] - 1 - apart - rest[place + 1][0]) // step
        pending += [(apart + step * factor, place + 1) for factor in range(max(low, least), min(high, most) + 1)]
    return False
