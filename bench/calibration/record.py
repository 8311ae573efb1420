"""python -m bench.calibration.record FOLDER [GROUP ...] [--most N]: what `make calibrate` needs to leave groups out.

For up to N points of each group (8 unless said), spread over it: the prediction, and that with each other value of each
fitted figure (`leave.FITTED`), added to recorded.jsonl. FOLDER holds checkouts, for kernels that others published.
Points that are recorded already are passed over; kernels of more than `LARGEST` instructions are left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tilewright as tw
from bench.calibration.cases import CASES, Case
from bench.calibration.leave import Seen, choices
from bench.calibration.predict import build
from bench.calibration.public import beyond_us
from bench.calibration.published import Point, launches, points
from tilewright.nki.kernel import Run, run_kernel
from tilewright.report.timing import time_run
from tilewright.sim.session import Options
from tilewright.target import Target
from tilewright.timing.compilers import LEFT_OUT, compiled_by
from tilewright.timing.merge import Merged
from tilewright.timing.transfers import shared_by

FILE = Path(__file__).parent / "recorded.jsonl"
MOST = 8
LARGEST = 50_000
MOVED = 0.005
"""Predictions that lie further apart than this share are not of the same model."""


class Measured(NamedTuple):
    """A point of either kind: published kernels run from checkouts, or a kernel written again here."""

    id: str
    group: str
    target: str
    us: float
    source: Point | Case


def measured() -> list[Measured]:
    """All points whose latency can be predicted."""
    here = [
        Measured(case.entry.id, case.entry.group, case.entry.target, case.entry.us, case)
        for case in CASES.values()
        if case.quantity == "latency" and case.order == "scheduled"
    ]
    return here + [Measured(point.id, point.group, point.target, point.us, point) for point in points()]


def spread(found: Sequence[Measured], most: int) -> list[Measured]:
    """At most so many of each group, evenly over it."""
    groups: dict[str, list[Measured]] = {}
    for each in found:
        groups.setdefault(each.group, []).append(each)
    return [each for own in groups.values() for each in own[:: -(-len(own) // most)]]


def runs(point: Measured, checkouts: Path) -> list[Run]:
    """The kernels of a point, run on shapes alone; none where they are not to be had."""
    if isinstance(point.source, Case):
        return [build(point.source)]
    options = Options(shapes=True)
    return [
        run_kernel(kernel, args, {}, point.target, "lenient", options, collect=True)
        for kernel, args in launches(point.source, checkouts)
    ]


def headline_us(run: Run, target: Target) -> float:
    """`latency_us` of a run with the figures of another target, in one replay."""
    compiler = run.session.compiler
    target = compiled_by(shared_by(target, len(run.sessions)), compiler)
    ends: list[float] = []
    for session in run.sessions:
        merged = Merged(target, kinds=LEFT_OUT[compiler])
        merged.find(session.graph)
        merged.run(session.graph)
        ends.append(merged.replay.end)
    spill_us = 0.0 if run.occupancy is None else sum(spill.us for spill in run.occupancy.spills)
    return target["launch.first_instruction_us"] + max(ends) / 1e3 + target["launch.after_last_dma_us"] + spill_us


def seen(point: Measured, made: Sequence[Run]) -> Seen:
    """A point with its predictions."""
    target = tw.get_target(point.target)
    metric = point.source.entry.metric if isinstance(point.source, Case) else point.source.metric
    around = beyond_us(metric, target) * len(made)
    timed = [time_run(run)[0] for run in made]
    us = sum(each.latency_us for each in timed) + around
    centre = sum(headline_us(run, target) for run in made) + around
    others = {choice: sum(headline_us(run, other) for run in made) + around for choice, other in choices(target)}
    # Beside the same replay: only what the choice changes counts.
    moved = {choice: us * other / centre for choice, other in others.items() if abs(other / centre - 1) > 1e-6}
    regime = max(timed, key=lambda each: each.latency_us).regime
    return Seen(point.id, point.group, point.target, regime, point.us, us, target["timing.error_us"] * len(made), moved)


def recorded() -> list[Seen]:
    """The points of recorded.jsonl."""
    found: list[Seen] = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        others = {(key, value): us for key, value, us in row.pop("others")}
        found.append(Seen(**row, others_us=others))
    return found


def outdated(known: Sequence[Seen], found: Mapping[str, float]) -> str:
    """Whether the record is of the model as it is: recorded predictions beside those just made, microseconds by id."""
    both = [point for point in known if point.id in found]
    moved = [point.id for point in both if abs(found[point.id] / point.predicted_us - 1) > MOVED]
    if not moved:
        return f"groups left out: {len(both)} recorded predictions made again, all as recorded"
    return (
        f"groups left out: {len(moved)} of {len(both)} recorded predictions are of an earlier model ({moved[0]}, ...): "
        "delete recorded.jsonl and make it anew (python -m bench.calibration.record)"
    )


def line(point: Seen) -> str:
    """A point as a line of the file."""
    row = {key: value for key, value in point._asdict().items() if key != "others_us"}
    row["predicted_us"] = round(point.predicted_us, 3)
    row["others"] = [[*choice, round(us, 3)] for choice, us in point.others_us.items()]
    return json.dumps(row)


def main(arguments: Sequence[str]) -> None:
    """Record the points of the groups that are not recorded yet."""
    most = int(arguments[arguments.index("--most") + 1]) if "--most" in arguments else MOST
    plain = [a for i, a in enumerate(arguments) if not a.startswith("--") and (not i or arguments[i - 1] != "--most")]
    checkouts, groups = Path(plain[0]), tuple(plain[1:])
    tw.activate(force=True)
    known = {point.id for point in recorded()} if FILE.exists() else set[str]()
    for point, found in _made(spread(measured(), most), groups, known, checkouts):
        with FILE.open("a", encoding="utf-8") as file:
            print(line(found), file=file)
        off = found.predicted_us / found.measured_us - 1
        print(f"{point.id:38} {off:+6.1%}  {len(found.others_us)} figures matter", flush=True)


def _made(
    wanted: Sequence[Measured], groups: tuple[str, ...], known: set[str], checkouts: Path
) -> Iterator[tuple[Measured, Seen]]:
    for point in wanted:
        if point.id in known or (groups and not point.group.startswith(groups)):
            continue
        try:
            made = runs(point, checkouts)
        except tw.TileError as error:
            print(f"{point.id:38} refused: {error.diagnostic.message}", flush=True)
            continue
        if not made:
            continue
        size = sum(len(session.graph.body.ops) for run in made for session in run.sessions)
        if size > LARGEST:
            print(f"{point.id:38} left out: {size} instructions", flush=True)
            continue
        yield point, seen(point, made)


if __name__ == "__main__":
    main(sys.argv[1:])
