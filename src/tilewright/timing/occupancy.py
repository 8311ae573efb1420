"""How full a memory is over time, in a bounded number of samples whatever the length of the kernel."""

from __future__ import annotations

import numpy as np

SAMPLES = 512
"""Bins of a gauge. Each holds the mean over its time, so that a sample never shows more than was live at once."""


class Gauge:
    """Adds up intervals of use in equal bins of time; bins double their width when time runs past the last."""

    __slots__ = ("_area", "width")

    def __init__(self, width_ns: float = 1.0) -> None:
        self.width = width_ns
        self._area = np.zeros(SAMPLES)

    def add(self, start: float, end: float, amount: float) -> None:
        """`amount` is in use from `start` to `end` (ns)."""
        if end <= start:
            return
        while end > self.width * SAMPLES:
            self._double()
        width, area = self.width, self._area
        first, last = int(start / width), min(int(end / width), SAMPLES - 1)
        if first == last:
            area[first] += amount * (end - start)
            return
        area[first] += amount * ((first + 1) * width - start)
        area[first + 1 : last] += amount * width
        area[last] += amount * (end - last * width)

    def widen(self, width: float) -> None:
        """Double the bins until they are this wide."""
        while self.width < width:
            self._double()

    def _double(self) -> None:
        self._area = np.concatenate([self._area.reshape(-1, 2).sum(axis=1), np.zeros(SAMPLES // 2)])
        self.width *= 2

    def mean(self, end: float) -> np.ndarray:
        """Mean use in each bin up to `end`; the last bin's over the time that it has."""
        count = max(1, int(np.ceil(end / self.width)))
        assert count <= SAMPLES, "the gauge was not brought to the end"
        widths = np.full(count, self.width)
        widths[-1] = max(end - (count - 1) * self.width, np.finfo(float).tiny)
        return self._area[:count] / widths
