"""Leave-one-group-out: figures fitted again, and error bars made, without a group, which they then are judged by.

`FITTED` has the figures that rest on measured kernels, with the groups that spoke for each and the values that are
tried. A point knows its prediction with the stated figures, and with each other value of one figure at a time; several
figures at once are taken to act each for itself, their ratios multiplied. A fit takes figure by figure the value with
the least error, every group weighing the same, until nothing changes. A figure of which the points say nothing stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.target import Target, get_target

DOCUMENTED_QUEUE_NS = ((4, 107), (2048, 107), (4096, 183), (32768, 1464))


def _short_descriptors(shortest_ns: float) -> tuple[tuple[float, float], ...]:
    """Times of descriptors on trn1 when a short one takes this long: long ones, and the slope up to them, are given."""
    (least, old), (knee, _), longest = get_target("trn1")["dma.descriptor_ns"]
    return (least, shortest_ns), (knee / old * shortest_ns, shortest_ns), longest


class Fitted(NamedTuple):
    """Values of a figure that are tried besides the stated one, and the groups that it was fitted on."""

    values: tuple[Any, ...]
    groups: tuple[str, ...]
    targets: tuple[str, ...] = ("trn1", "trn2")


_GRID = ("labs-grid-fp32", "sdk-kernelopt-trn2")
_LEGACY = ("fusion-mlp-sweep-trn2", "fusion-bench-trn2", "labs-tilings-bf16")
_PROFILES = ("fusion-profile-trn2",)
_MOE = ("qwen3-megakernel-moe-trn2", "qwen3-megakernel-moe-trn2-log")

FITTED: Mapping[str, Fitted] = {
    "tensor.issue_overhead_float32_cycles": Fitted((11, 31), _GRID, ("trn2",)),
    "dma.core_interval_ns": Fitted((500, 700), _GRID, ("trn2",)),
    "memory.compiler_ring_depth": Fitted((3, 6), _GRID, ("trn2",)),
    "dma.descriptor_ns": Fitted((_short_descriptors(75), _short_descriptors(146)), ("sdk-matmul-trn1",), ("trn1",)),
    "compiler.legacy_core_interval_ns": Fitted((150, 220, 600), _LEGACY),
    "compiler.legacy_ring_depth": Fitted((4, 6, 8), _LEGACY),
    "compiler.legacy_arguments_in_line": Fitted((False,), (*_PROFILES, "fusion-bench-trn2"), ("trn2",)),
    "compiler.legacy_hbm_by_tensor": Fitted((False,), _PROFILES),
    "compiler.legacy_dma_by_partition": Fitted((False,), ("kda-trn2",), ("trn2",)),
    "compiler.legacy_reciprocal_on_scalar_from": Fitted((0,), ("nkibench-trn1",), ("trn1",)),
    "compiler.shared_engines": Fitted((("vector",), ("vector", "scalar")), (*_PROFILES, "nkibench-trn1")),
    "dma.queue_descriptor_ns": Fitted((DOCUMENTED_QUEUE_NS,), ("qwen3-megakernel-attn-trn2",), ("trn2",)),
    "dma.swdge_indirect_block_ns": Fitted((600, 1200), _MOE, ("trn2",)),
    "hbm.kernel_bandwidth": Fitted((600, 724), _MOE, ("trn2",)),
    "vector.elements_per_cycle.two_inputs": Fitted((0.5,), ("kda-trn2",), ("trn2",)),
    "tensor.throttle_release": Fitted((0.6, 0.9), (*_PROFILES, "labs-tilings-bf16"), ("trn2",)),
    "tensor.throttle_hold_ns": Fitted((150_000, 1e12), ("kda-trn2",), ("trn2",)),
}
"""The figures that rest on measured kernels."""

WORSE, ENOUGH = 2.0, 0.15
"""A group left out may be this many times as far off as when it was seen, or this far in any case."""

MADE = 0.9
"""The share of the points that a bar is made of which lie within it: of points that it was not made of, fewer do."""

Choice = tuple[str, str]
"""A figure and another value than the stated one, as text."""


class Seen(NamedTuple):
    """A point: its group, what its bar goes by, measured microseconds, those predicted, and those by other choices.

    fixed_us: the part of its bar in microseconds.
    """

    id: str
    group: str
    target: str
    regime: str
    measured_us: float
    predicted_us: float
    fixed_us: float
    others_us: Mapping[Choice, float]

    def with_choices(self, choices: Mapping[str, str]) -> float:
        """Microseconds with some figures otherwise, each acting for itself."""
        ratios = [self.others_us.get(choice, self.predicted_us) / self.predicted_us for choice in choices.items()]
        return self.predicted_us * float(np.prod(ratios))

    def off(self, choices: Mapping[str, str]) -> float:
        """How far off the prediction is with these figures, either way."""
        return abs(self.with_choices(choices) / self.measured_us - 1)

    @property
    def beside(self) -> float:
        """The error that the share of a bar has to cover: relative to the prediction, without the microseconds."""
        return max(0.0, abs(self.measured_us / self.predicted_us - 1) - self.fixed_us / self.predicted_us)


class Left(NamedTuple):
    """A group that was left out: what the fit without it changes, median errors as stated and without it."""

    group: str
    points: int
    choices: Mapping[str, str]
    stated: float
    without: float

    @property
    def holds(self) -> bool:
        return self.without <= max(ENOUGH, WORSE * self.stated)


def choices(target: Target) -> Iterator[tuple[Choice, Target]]:
    """Every other value of every fitted figure of a target, and the target with it."""
    for key, fitted in FITTED.items():
        if target.name in fitted.targets:
            for value in fitted.values:
                if value != target[key]:
                    yield (key, shown_value(value)), target.replace({key: value}, target.name)


def shown_value(value: Any) -> str:
    """A value in short: of a table its first row."""
    first = value[0] if isinstance(value, tuple) and value and isinstance(value[0], tuple) else value
    return str(first)


def fit(points: Sequence[Seen]) -> dict[str, str]:
    """The choices with the least error over the points, every group weighing the same; none where that is no better."""
    found: dict[str, str] = {}
    tried = sorted({choice for point in points for choice in point.others_us})
    for _ in range(len(FITTED)):
        best, least = found, _mean_error(points, found)
        for key in sorted({key for key, _ in tried}):
            rest = {name: value for name, value in found.items() if name != key}
            for other in (rest, *({**rest, key: value} for name, value in tried if name == key)):
                error = _mean_error(points, other)
                if error < least * (1 - 1e-6):
                    best, least = other, error
        if best == found:
            break
        found = best
    return found


def _mean_error(points: Sequence[Seen], chosen: Mapping[str, str]) -> float:
    groups: dict[str, list[float]] = {}
    for point in points:
        groups.setdefault(point.group, []).append(point.off(chosen))
    return float(np.mean([np.mean(each) for each in groups.values()]))


def without(points: Sequence[Seen]) -> list[Left]:
    """Every group left out in turn: figures are fitted on all other groups of its target."""
    found: list[Left] = []
    for group in dict.fromkeys(point.group for point in points):
        own = [point for point in points if point.group == group]
        others = [point for point in points if point.group != group and point.target == own[0].target]
        chosen = fit(others) if others else {}
        before, after = (float(np.median([point.off(each) for point in own])) for each in ({}, chosen))
        found.append(Left(group, len(own), chosen, before, after))
    return found


def bars(points: Sequence[Seen]) -> dict[str, float]:
    """The bar of each regime: the error within which `MADE` of its points lie, every group weighing the same."""
    by_regime: dict[str, list[Seen]] = {}
    for point in points:
        by_regime.setdefault(point.regime, []).append(point)
    return {regime: _quantile(each) for regime, each in by_regime.items()}


def _quantile(points: Sequence[Seen]) -> float:
    counts = {group: sum(point.group == group for point in points) for group in {point.group for point in points}}
    ordered = sorted(points, key=lambda point: point.beside)
    weights = np.cumsum([1 / counts[point.group] for point in ordered])
    return ordered[int(np.searchsorted(weights, MADE * weights[-1] - 1e-9))].beside


def covered(points: Sequence[Seen]) -> dict[str, tuple[int, int, float]]:
    """Of each group: points within bars made of all other groups, points, and the median half-width of these bars.

    Where no other group has a point of a regime, its bar is the widest of the others'.
    """
    found: dict[str, tuple[int, int, float]] = {}
    for group in dict.fromkeys(point.group for point in points):
        others = bars([point for point in points if point.group != group])
        if not others:
            continue
        own = [point for point in points if point.group == group]
        widths = [others.get(point.regime, max(others.values())) for point in own]
        inside = sum(point.beside <= width for point, width in zip(own, widths, strict=True))
        half = [width + point.fixed_us / point.predicted_us for point, width in zip(own, widths, strict=True)]
        found[group] = (inside, len(own), float(np.median(half)))
    return found


def within_stated(points: Sequence[Seen]) -> int:
    """How many points lie within the bars that their targets state."""
    return sum(point.beside <= get_target(point.target)[f"timing.error_bar.{point.regime}"] for point in points)


def shown(points: Sequence[Seen]) -> str:
    """The figures and their groups; each group left out: errors, what a fit without it changes, whether it holds."""
    lines = ["fitted figures and the groups that they were fitted on:"]
    lines += [f"  {key:38} {', '.join(each.groups)}" for key, each in FITTED.items()]
    lines += ["", f"{'left out':34}    n   stated  without           figures that the others would choose"]
    for each in without(points):
        moved = ", ".join(f"{key} {value}" for key, value in each.choices.items())
        verdict = "holds " if each.holds else "MISSES"
        lines.append(
            f"{each.group:34} {each.points:4d}   {each.stated:6.1%}  {each.without:6.1%}   {verdict}  {moved}".rstrip()
        )
    lines += ["", f"{'bars made of the other groups':34}   within   half-width   within the stated bars"]
    counts = covered(points)
    for group, (inside, count, width) in counts.items():
        stated = within_stated([point for point in points if point.group == group])
        lines.append(f"{group:34} {inside:4d} of {count:3d}    ± {width:3.0%}   {stated:12d} of {count}")
    total = sum(count for _, count, _ in counts.values())
    if total:
        inside, stated = sum(inside for inside, _, _ in counts.values()), within_stated(points)
        here, there = f"({inside / total:.0%})", f"({stated / total:.0%})"
        lines.append(f"{'all':34} {inside:4d} of {total:3d} {here:7} {stated:13d} of {total} {there}")
    lines += ["", "bars made of all groups: " + ", ".join(f"{key} {bar:.0%}" for key, bar in bars(points).items())]
    return "\n".join(lines)
