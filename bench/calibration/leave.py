"""Leave-one-group-out: figures fitted again, and error bars made, without a group, which they then are judged by.

`FITTED` has the figures that rest on published kernels, each with the values that are tried. `star` has them one at a
time, the others as stated; `without` takes for each figure the value with the least mean error over all other groups,
and predicts the group with these. A figure of which the points say nothing stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.target import Target

Values = tuple[Any, ...]
"""One value for each of the figures in `FITTED`."""

DOCUMENTED_QUEUE_NS = ((4, 107), (2048, 107), (4096, 183), (32768, 1464))

FITTED: Mapping[str, tuple[Any, ...]] = {
    "compiler.legacy_core_interval_ns": (150, 290, 600),
    "compiler.legacy_ring_depth": (4, 6, 8),
    "compiler.legacy_hbm_by_tensor": (False, True),
    "compiler.shared_engines": (("vector",), ("vector", "scalar")),
    "dma.queue_descriptor_ns": (DOCUMENTED_QUEUE_NS,),
    "dma.swdge_indirect_block_ns": (600, 950, 1200),
    "hbm.kernel_bandwidth": (500, 600, 724),
    "vector.elements_per_cycle.two_inputs": (0.5, 1),
    "tensor.throttle_release": (0.6, 0.75, 0.9),
}
"""The figures that rest on published kernels, and values that are tried besides the stated ones."""

WORSE, ENOUGH = 2.0, 0.15
"""A group left out may be this many times as far off as when it was seen, or this far in any case."""

COVER = 0.8
"""The share of points that lie within their bars."""


class Seen(NamedTuple):
    """A point: its group, what its bar goes by, measured and predicted microseconds by choice of the figures."""

    group: str
    regime: str
    measured_us: float
    predicted_us: Mapping[Values, float]

    def off(self, values: Values) -> float:
        """How far off the prediction is with these figures, either way."""
        return abs(self.predicted_us[values] / self.measured_us - 1)


class Left(NamedTuple):
    """A group that was left out: its figures, median errors as stated and without it, and whether that is enough."""

    group: str
    points: int
    values: Values
    stated: float
    without: float

    @property
    def holds(self) -> bool:
        return self.without <= max(ENOUGH, WORSE * self.stated)


def stated(target: Target) -> Values:
    """What the target says of the figures."""
    return tuple(target[key] for key in FITTED)


def star(target: Target) -> list[Values]:
    """The stated values, and each figure's other ones with the rest as stated."""
    centre = stated(target)
    found = [centre]
    for place, candidates in enumerate(FITTED.values()):
        found += [(*centre[:place], value, *centre[place + 1 :]) for value in candidates if value != centre[place]]
    return found


def changed(target: Target, values: Values) -> Target:
    """The target with these figures."""
    changes = {key: value for key, value in zip(FITTED, values, strict=True) if value != target[key]}
    return target.replace(changes, target.name) if changes else target


def fit(points: Sequence[Seen], centre: Values) -> Values:
    """Each figure's value with the least mean error over the points, the others as stated; the stated one at a tie."""
    best: list[Any] = []
    for place, own in enumerate(centre):
        tried = [each for each in points[0].predicted_us if _differs_at(each, centre) in (None, place)]
        error = {each: float(np.mean([point.off(each) for point in points])) for each in tried}
        least = min(error.values())
        best.append(own if error[centre] <= least * (1 + 1e-6) else min(error, key=lambda each: error[each])[place])
    return tuple(best)


def _differs_at(values: Values, centre: Values) -> int | None:
    """The one place at which values differ from the stated ones, -1 for several."""
    places = [place for place, (a, b) in enumerate(zip(values, centre, strict=True)) if a != b]
    return None if not places else places[0] if len(places) == 1 else -1


def without(points: Sequence[Seen], centre: Values, again: Callable[[str, Values], Sequence[float]]) -> list[Left]:
    """Every group left out in turn; `again` predicts a group with figures that moved several at once."""
    found: list[Left] = []
    for group in dict.fromkeys(point.group for point in points):
        own = [point for point in points if point.group == group]
        others = [point for point in points if point.group != group]
        values = fit(others, centre) if others else centre
        if values in own[0].predicted_us:
            errors = [point.off(values) for point in own]
        else:
            made = again(group, values)
            errors = [abs(us / point.measured_us - 1) for us, point in zip(made, own, strict=True)]
        at = float(np.median([point.off(centre) for point in own]))
        found.append(Left(group, len(own), values, at, float(np.median(errors))))
    return found


def covered(points: Sequence[Seen], centre: Values) -> dict[str, tuple[float, float]]:
    """Of each group: how many points lie within bars made of all other groups, and the median half-width of these.

    A bar is the error within which `COVER` of the points of its regime lie; of all points where no other group has any.
    """
    found: dict[str, tuple[float, float]] = {}
    for group in dict.fromkeys(point.group for point in points):
        others = [point for point in points if point.group != group]
        if not others:
            continue
        own = [point for point in points if point.group == group]
        bars = [_bar([each for each in others if each.regime == point.regime] or others, centre) for point in own]
        inside = [_beside(point, centre) <= bar for point, bar in zip(own, bars, strict=True)]
        found[group] = (float(np.mean(inside)), float(np.median(bars)))
    return found


def _beside(point: Seen, centre: Values) -> float:
    """The error relative to the prediction, as bars are."""
    return abs(point.measured_us / point.predicted_us[centre] - 1)


def _bar(points: Sequence[Seen], centre: Values) -> float:
    return float(np.quantile([_beside(point, centre) for point in points], COVER))


def shown(left: Sequence[Left], centre: Values) -> str:
    """A line for each group: errors, what the fit without it would change, whether it holds."""
    lines = [f"{'left out':34}    n   stated  without   figures that would be other"]
    for each in left:
        moved = [
            f"{key} {value if not isinstance(value, tuple) else '...'}"
            for key, value, own in zip(FITTED, each.values, centre, strict=True)
            if value != own
        ]
        verdict = "holds " if each.holds else "MISSES"
        lines.append(
            f"{each.group:34} {each.points:4d}   {each.stated:6.1%}  {each.without:6.1%}   {verdict} {', '.join(moved)}"
        )
    return "\n".join(lines)
