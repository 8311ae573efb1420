"""python -m bench.calibration.refit: figures fitted again without a part of the measurements, which they then predict.

Figures that were fitted on measurements (`FITTED`) are fitted again, each with the others as stated, on all points but
those of one part: a shape of the grid, or a kernel of trn1. The tutorial matmuls of trn2 are never fitted on here. How
much worse figures that never saw a part predict it tells whether the model has learned its points by heart.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import Any, NamedTuple

import tilewright as tw
from bench.calibration.cases import CASES
from bench.calibration.compare import error, mean_error, summary
from bench.calibration.goals import WORSE, verdict
from bench.calibration.groups import is_clean
from bench.calibration.measured import Entry, by_id
from bench.calibration.predict import build, total_us
from tilewright.target import Target
from tilewright.timing.replay import Replay
from tilewright.timing.stream import Stream

Values = tuple[Any, ...]
"""One value for each fitted figure of a target."""


def _descriptors(shortest_ns: float) -> tuple[tuple[float, float], ...]:
    """Times of descriptors on trn1 when a short one takes this long: long ones, and the slope up to them, are given."""
    (least, old), (knee, _), longest = tw.get_target("trn1")["dma.descriptor_ns"]
    return (least, shortest_ns), (knee / old * shortest_ns, shortest_ns), longest


FITTED: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "trn2": {
        "tensor.issue_overhead_float32_cycles": (11, 16, 21, 26, 31),
        "dma.core_interval_ns": (500, 550, 600, 650, 700),
        "memory.compiler_ring_depth": (2, 3, 4, 6),
    },
    "trn1": {"dma.descriptor_ns": tuple(_descriptors(ns) for ns in (75, 100, 146))},
}
"""The fitted figures of each target, and the values that are tried."""


NEVER = "sdk-kernelopt-trn2"
"""A group that no fit uses here. It is predicted with what the other parts give."""


def part(entry: Entry) -> str | None:
    """What is left out together with a point; None of points that no figure was fitted on."""
    if is_clean(entry):
        return "grid " + "x".join(map(str, entry.shape.values()))
    if entry.group == "sdk-matmul-trn1":
        return f"trn1 {entry.kernel}"
    return NEVER if entry.group == NEVER else None


class Left(NamedTuple):
    """A part that was left out: figures fitted without it, errors of its points with the stated ones and with these."""

    name: str
    values: Values
    stated: list[float]
    without: list[float]


def predicted(id: str, choices: Sequence[Values]) -> dict[Values, float]:
    """Microseconds that the model predicts for a measurement with each choice of the fitted figures."""
    case = CASES[id]
    target = tw.get_target(case.entry.target)
    run = build(case)
    spill_us = 0.0 if run.occupancy is None else sum(spill.us for spill in run.occupancy.spills)
    made: dict[Values, float] = {}
    for values in choices:
        other = target.replace(dict(zip(FITTED[target.name], values, strict=True)))
        replay = Replay(other, case.order, None)
        Stream(other, replay).run(run.session.graph)
        made[values] = total_us(other, replay, case.entry.metric) + spill_us
    return made


def stated(target: Target) -> Values:
    """What the target's file says of its fitted figures."""
    return tuple(target[key] for key in FITTED[target.name])


def star(target: Target) -> list[Values]:
    """The stated values, and each figure's other ones with the rest as stated."""
    centre = stated(target)
    found = [centre]
    for index, candidates in enumerate(FITTED[target.name].values()):
        found += [(*centre[:index], value, *centre[index + 1 :]) for value in candidates if value != centre[index]]
    return found


def fit(target: Target, table: Mapping[str, Mapping[Values, float]], points: Iterable[str]) -> Values:
    """Each figure's value with the least mean error over the points, the others as stated; the stated one at a tie."""
    points, centre = list(points), stated(target)
    best: list[Any] = []
    for index in range(len(centre)):
        rest = (*centre[:index], *centre[index + 1 :])
        tried = [each for each in star(target) if (*each[:index], *each[index + 1 :]) == rest]
        best.append(min(tried, key=lambda each: mean_error(_errors(table, points, each)))[index])
    return tuple(best)


def leave_out(name: str, pool: ProcessPoolExecutor) -> tuple[list[Left], list[float]]:
    """Every part of a target left out in turn; and the errors of all points with figures fitted on all they may see."""
    target = tw.get_target(name)
    parts: dict[str, list[str]] = {}
    for id, case in CASES.items():
        of = part(case.entry)
        if case.entry.target == name and of is not None:
            parts.setdefault(of, []).append(id)
    seen = [id for each, members in parts.items() if each != NEVER for id in members]
    table = dict(zip(seen, pool.map(predicted, seen, repeat(star(target))), strict=True))
    everything = fit(target, table, seen)
    fits = {each: fit(target, table, [id for id in seen if id not in members]) for each, members in parts.items()}
    # Beside the star: fits that moved several figures at once, and the points that no fit uses.
    wanted: dict[str, list[Values]] = {}
    for each, members in parts.items():
        for id in members:
            choices = dict.fromkeys((stated(target), everything, fits[each]))
            wanted[id] = [values for values in choices if values not in table.get(id, {})]
    again = [id for id, choices in wanted.items() if choices]
    for id, more in zip(again, pool.map(predicted, again, [wanted[id] for id in again]), strict=True):
        table[id] = {**table.get(id, {}), **more}
    left = [
        Left(each, fits[each], _errors(table, members, stated(target)), _errors(table, members, fits[each]))
        for each, members in parts.items()
    ]
    return left, _errors(table, [id for members in parts.values() for id in members], everything)


def _errors(table: Mapping[str, Mapping[Values, float]], points: Iterable[str], values: Values) -> list[float]:
    return [error(by_id()[id], table[id][values]) for id in points]


def main(targets: tuple[str, ...]) -> None:
    """Print every part with the figures fitted without it and its errors."""
    with ProcessPoolExecutor(2) as pool:
        for name in targets or tuple(FITTED):
            left, inside = leave_out(name, pool)
            print(f"{name}: {', '.join(FITTED[name])}")
            print(f"{'left out':34} {'as stated':^28}   {'fitted without it':^28}")
            for each in left:
                print(f"{each.name:34} {summary(each.stated)}   {summary(each.without)}   {_shown(each.values)}")
            sys.stdout.flush()
            without = [size for each in left for size in each.without]
            print(f"{'all, as fitted on all':34} {summary(inside)}\n{'all, each part left out':34} {summary(without)}")
            times = mean_error(without) / mean_error(inside)
            print(f"{verdict(times <= WORSE)} mean error of left-out parts of {name}: {times:.2f} of {WORSE}\n")


def _shown(values: Values) -> str:
    """Figures in short: of a table its first value."""
    return ", ".join(f"{value[0][1] if isinstance(value, tuple) else value:g}" for value in values)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
