"""The Tensor engine's clock: a window of low use, or many of moderate use, halve it; one of full use brings it back."""

from __future__ import annotations

from tilewright.target import Target


class Clock:
    """Clock state over aligned windows of time. An instruction counts in every window that it runs in."""

    __slots__ = (
        "_activity",
        "_below",
        "_busy",
        "_enough",
        "_fast",
        "_fraction",
        "_hold",
        "_length",
        "_moderate",
        "_release",
        "_until",
        "_window",
    )

    def __init__(self, target: Target) -> None:
        self._length = target["tensor.throttle_window_ns"]
        self._below = target["tensor.throttle_below"]
        self._release = target["tensor.throttle_release"]
        self._enough = target["tensor.throttle_sustained"]
        self._hold = target["tensor.throttle_hold_ns"]
        self._fraction = target["tensor.throttle_fraction"]
        self._window = 0
        self._busy = 0.0
        # How long the use has been too low for the clock to stay for ever.
        self._moderate = 0.0
        # The last instruction: when it ends, and how much of the engine it uses.
        self._until = 0.0
        self._activity = 0.0
        # Cold at the start: the engine has not been used.
        self._fast = self._fraction >= 1

    def factor(self, at: float) -> float:
        """How many times longer an instruction takes that starts then."""
        self._advance(at)
        return 1.0 if self._fast else 1.0 / self._fraction

    def use(self, start: float, duration: float, activity: float) -> None:
        """Note that an instruction keeps a share of the engine busy."""
        self._advance(start)
        self._until, self._activity = start + duration, activity
        self._busy += (min(self._until, (self._window + 1) * self._length) - start) * activity

    def _advance(self, at: float) -> None:
        if self._length <= 0 or self._fraction >= 1:
            return
        window = int(at // self._length)
        while self._window < window:
            used = self._busy / self._length
            self._moderate = 0.0 if used >= self._enough else self._moderate + self._length
            if used >= self._release:
                self._fast = True
            elif used < self._below or self._moderate >= self._hold:
                self._fast = False
            self._window += 1
            rest = self._until - self._window * self._length
            self._busy = max(0.0, min(rest, self._length)) * self._activity
            if self._busy == 0.0 and window - self._window > 2:
                self._window, self._fast = window, self._below <= 0
