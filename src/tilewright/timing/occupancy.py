"""How full a memory is over time, in a bounded number of samples whatever the length of the kernel."""

from __future__ import annotations

import numpy as np

SAMPLES = 512
"""Bins of a gauge. Each holds the mean over its time, so that a sample never shows more than was live at once."""


class Gauge:
    """Adds up intervals of use in equal bins of time; bins double their width when time runs past the last.

    _partial: what a change of level adds to the bin that it falls into; _change: what it adds to the level of all later
    bins. So an interval costs the same whatever its length.
    """

    __slots__ = ("_change", "_partial", "width")

    def __init__(self, width_ns: float = 1.0) -> None:
        self.width = width_ns
        self._partial = [0.0] * SAMPLES
        self._change = [0.0] * SAMPLES

    def add(self, start: float, end: float, amount: float) -> None:
        """`amount` is in use from `start` to `end` (ns)."""
        if end <= start:
            return
        while end >= self.width * SAMPLES:
            self._double()
        width = self.width
        first = int(start / width)
        self._partial[first] += amount * ((first + 1) * width - start)
        self._change[first] += amount
        last = int(end / width)
        self._partial[last] -= amount * ((last + 1) * width - end)
        self._change[last] -= amount

    def _double(self) -> None:
        partial, change = np.array(self._partial).reshape(-1, 2), np.array(self._change).reshape(-1, 2)
        # What changes in the first of two bins goes on through the second.
        joined = partial.sum(axis=1) + change[:, 0] * self.width
        self._partial = [*joined.tolist(), *[0.0] * (SAMPLES // 2)]
        self._change = [*change.sum(axis=1).tolist(), *[0.0] * (SAMPLES // 2)]
        self.width *= 2

    def mean(self, end: float) -> np.ndarray:
        """Mean use in each bin up to `end`; the last bin's over the time that it has."""
        count = max(1, int(np.ceil(end / self.width)))
        assert count <= SAMPLES, "the gauge was not brought to the end"
        before = np.concatenate([[0.0], np.cumsum(self._change)[:-1]])
        area = np.array(self._partial) + before * self.width
        widths = np.full(count, self.width)
        widths[-1] = max(end - (count - 1) * self.width, np.finfo(float).tiny)
        # Rounding may leave a trace where nothing is in use.
        return np.maximum(area[:count] / widths, 0.0)


class Life:
    """The time in which a buffer holds something: from the start of its first access to the end of its last.

    One that lies in the place of another takes it over part by part: the place is counted once.
    """

    __slots__ = ("amount", "earlier", "end", "gauge", "over", "start", "waiting")

    def __init__(self, gauge: Gauge, amount: int) -> None:
        self.gauge = gauge
        self.amount = amount
        self.start, self.end = float("inf"), 0.0
        # Accesses that are not issued yet; over: there will be no further ones.
        self.waiting = 0
        self.over = False
        self.earlier: list[Life] = []

    def follow(self, earlier: Life) -> None:
        """This buffer lies where an earlier one was."""
        self.earlier.append(earlier)

    def access(self, start: float, end: float) -> None:
        """An access was issued."""
        if start < self.start:
            self.start = start
        if end > self.end:
            self.end = end
        self.waiting -= 1
        if self.over and not self.waiting:
            self._count()

    def finish(self) -> None:
        """The buffer's last access has been admitted."""
        self.over = True
        if not self.waiting:
            self._count()

    def _count(self) -> None:
        start = max([self.start, *[each.end for each in self.earlier]])
        self.earlier = []
        self.gauge.add(start, self.end, self.amount)
