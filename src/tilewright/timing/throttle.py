"""The Tensor engine's clock: it halves after a window of low use and returns after a window of full use."""

from __future__ import annotations

from tilewright.target import Target


class Clock:
    """Clock state over aligned windows of time."""

    __slots__ = ("_below", "_busy", "_fast", "_fraction", "_length", "_release", "_window")

    def __init__(self, target: Target) -> None:
        self._length = target["tensor.throttle_window_ns"]
        self._below = target["tensor.throttle_below"]
        self._release = target["tensor.throttle_release"]
        self._fraction = target["tensor.throttle_fraction"]
        self._window = 0
        self._busy = 0.0
        # Cold at the start: the engine has not been used.
        self._fast = self._fraction >= 1

    def factor(self, at: float) -> float:
        """How many times longer an instruction takes that starts then."""
        self._advance(at)
        return 1.0 if self._fast else 1.0 / self._fraction

    def use(self, start: float, duration: float) -> None:
        """Note that the engine is busy."""
        self._advance(start)
        self._busy += duration

    def _advance(self, at: float) -> None:
        if self._length <= 0 or self._fraction >= 1:
            return
        window = int(at // self._length)
        while self._window < window:
            used = self._busy / self._length
            if used >= self._release:
                self._fast = True
            elif used < self._below:
                self._fast = False
            self._busy = max(0.0, self._busy - self._length)
            self._window += 1
            if self._busy == 0.0 and window - self._window > 2:
                self._window, self._fast = window, self._below <= 0
