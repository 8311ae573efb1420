"""Error bars made from the points that fits may use alone, and how many of the others they cover.

The bars that targets state were set with held-out points in view, so that their cover proves little. These were not:
for each target, and for kernels that spill, the share `QUANTILE` of the points that fits may use lies within the bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

import tilewright as tw
from bench.calibration.groups import fold
from bench.calibration.measured import by_id

QUANTILE = 0.8
SHORT_US = 100.0
"""Shorter kernels tell about the part of a bar that is in microseconds, which stays as it is."""


class Predicted(NamedTuple):
    """A prediction, and whether the kernel is predicted to spill."""

    us: float
    spills: bool


def within(points: Mapping[str, Predicted], quantile: float = QUANTILE) -> dict[str, bool]:
    """Whether each held-out point is within a bar that was made without any of them."""
    known: dict[str, list[float]] = {}
    for id, point in points.items():
        if fold(by_id()[id]) == "fit" and point.us > SHORT_US:
            known.setdefault(_kind(id, point), []).append(_off(id, point))
    bars = {kind: float(np.quantile(found, quantile)) for kind, found in known.items()}
    return {
        id: _off(id, point) <= bars[_kind(id, point)] + _fixed(id, point)
        for id, point in points.items()
        if fold(by_id()[id]) == "held out" and _kind(id, point) in bars
    }


def _kind(id: str, point: Predicted) -> str:
    """Points that share a bar: spills have one for all targets, as they do in the targets' files."""
    return "spills" if point.spills else by_id()[id].target


def _off(id: str, point: Predicted) -> float:
    return abs(by_id()[id].us / point.us - 1)


def _fixed(id: str, point: Predicted) -> float:
    """The part of a bar in microseconds, relative to the prediction."""
    return tw.get_target(by_id()[id].target)["timing.error_us"] / point.us
