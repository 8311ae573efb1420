"""python -m bench.calibration.public FOLDER [GROUP ...] [--every N]: published kernels against the model.

FOLDER holds checkouts (bench.calibration.published). Per group: errors of the headline, as written and without all that
may be left out; how many lie within their bars; busy engines and bytes against published ones. Then what is meant to
hold, and whether it does: errors by dialect, pairs in order, fused against unfused kernels, bars.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tilewright as tw
from bench.calibration.published import Point, launches, points
from bench.calibration.truth import goals, truth
from tilewright.nki.kernel import Run, run_kernel
from tilewright.report.timing import time_run
from tilewright.sim.session import Options
from tilewright.target import Target
from tilewright.timing.summary import Timing

CALL_US = 55.0
"""What a call takes beyond the kernel: floor of the tiled matmuls, 45 to 60 us."""


class Predicted(NamedTuple):
    """A point with what the model says of it. read: bytes from HBM, but for loads that are left out."""

    point: Point
    us: float
    written_us: float
    merged_us: float
    bar: float
    regime: str
    busy: dict[str, float]
    read: int


def run(point: Point, checkouts: Path) -> list[Run]:
    """The kernels of a point on shapes alone; rules that published kernels break are noted, not enforced."""
    options = Options(shapes=True)
    return [
        run_kernel(kernel, args, {}, point.target, "lenient", options, collect=True)
        for kernel, args in launches(point, checkouts)
    ]


def predict(point: Point, runs: Sequence[Run]) -> Predicted:
    """The model's word on a point."""
    timed = [time_run(each)[0] for each in runs]
    around = beyond_us(point.metric, tw.get_target(point.target)) * len(timed)
    us = sum(each.latency_us for each in timed) + around
    return Predicted(
        point,
        us,
        sum(each.latency_as_written_us for each in timed) + around,
        sum(each.latency_if_merged_us for each in timed) + around,
        sum(each.error_bar * each.latency_us for each in timed) / us,
        max(timed, key=lambda each: each.latency_us).regime,
        _busy(timed),
        sum(session.counts.hbm_read_bytes for each in runs for session in each.sessions)
        - sum(each.removable_bytes for each in timed if each.latency_us < each.latency_as_written_us),
    )


def _busy(timed: Sequence[Timing]) -> dict[str, float]:
    return {name: sum(each.engine_busy_us.get(name, 0.0) for each in timed) for name in timed[0].engine_busy_us}


def beyond_us(metric: str, target: Target) -> float:
    """What a metric counts beyond the predicted latency, which is that of a profile."""
    if metric == "benchmark":
        return -target["launch.profile_minus_core_latency_us"]
    launch = target["launch.first_instruction_us"] + target["launch.after_last_dma_us"]
    return CALL_US - launch if metric == "call" else 0.0


def off(each: Predicted, us: float) -> float:
    """How far a prediction is off, relative to what was measured."""
    return us / each.point.us - 1


def row(name: str, found: Sequence[Predicted]) -> str:
    """Errors of some points."""
    texts: list[str] = []
    for times in ([e.us for e in found], [e.written_us for e in found], [e.merged_us for e in found]):
        errors = np.abs([off(each, us) for each, us in zip(found, times, strict=True)])
        texts.append(f"{np.median(errors):6.1%} {np.quantile(errors, 0.9):7.1%}")
    inside = np.mean([abs(each.us - each.point.us) <= each.bar * each.us for each in found])
    width = np.median([each.bar for each in found])
    return f"{name:34} {len(found):4d}   {'   '.join(texts)}   {inside:4.0%} within ± {width:.0%}"


def in_order(found: Sequence[Predicted], gap: float = 0.15) -> tuple[int, int]:
    """Pairs of one group and target that differ by more than a gap: how many the model has in order, and how many."""
    pairs = [
        (a, b)
        for a, b in combinations(found, 2)
        if a.point.group == b.point.group and max(a.point.us, b.point.us) > (1 + gap) * min(a.point.us, b.point.us)
    ]
    return sum((a.us < b.us) == (a.point.us < b.point.us) for a, b in pairs), len(pairs)


FORMS = (
    ("attention fused", "attention baseline"),
    ("mlp fused_pwl", "mlp baseline"),
    ("mlp fused_taylor", "mlp baseline"),
)
"""Kernels that do the same, fused and not."""


def choices(found: Sequence[Predicted]) -> tuple[int, int]:
    """Fused against unfused kernels of one size and metric: how many the model has in order, and how many there are."""
    by = {(e.point.kernel, _case(e.point)): e for e in found}
    pairs = [
        (each, by[other, case])
        for (kernel, case), each in by.items()
        for fused, other in FORMS
        if kernel == fused and (other, case) in by
    ]
    return sum((a.us < b.us) == (a.point.us < b.point.us) for a, b in pairs), len(pairs)


def _case(point: Point) -> tuple[object, ...]:
    return point.dtype, point.metric, *point.shape.items()


def main(arguments: Sequence[str]) -> None:
    """Predict every point of the groups that a checkout has the kernel of, and print the comparison."""
    every = int(arguments[arguments.index("--every") + 1]) if "--every" in arguments else 1
    plain = [
        each
        for i, each in enumerate(arguments)
        if not each.startswith("--") and (not i or arguments[i - 1] != "--every")
    ]
    checkouts, groups = Path(plain[0]), tuple(plain[1:])
    tw.activate(force=True)
    found: list[Predicted] = []
    for point in points()[::every]:
        if groups and not point.group.startswith(groups):
            continue
        try:
            runs = run(point, checkouts)
        except tw.TileError as error:
            print(f"{point.id:38} refused: {error.diagnostic.message}")
            continue
        if not runs:
            continue
        each = predict(point, runs)
        found.append(each)
        print(_line(each), flush=True)
    if not found:
        print(f"no kernel of these groups is in {checkouts}")
        return
    print(f"\n{'':34}    n   {'headline':^14}   {'as written':^14}   {'all left out':^14}")
    for name in dict.fromkeys(each.point.group for each in found):
        print(row(name, [each for each in found if each.point.group == name]))
    for dialect in dict.fromkeys(each.point.dialect for each in found):
        print(row(f"{dialect} dialect", [each for each in found if each.point.dialect == dialect]))
    print(row("all", found))
    print(f"\n{truth(found)}\n\n{goals(found, in_order(found), choices(found))}")


def _line(each: Predicted) -> str:
    point = each.point
    shares = ", ".join(
        f"{name} {each.busy.get(name, 0.0):.0f} of {share * point.us:.0f} us" for name, share in point.shares.items()
    )
    return (
        f"{point.id:38} {point.variant[-24:] or point.kernel[:24]:24} {point.us:9.1f} us  "
        f"predicted {each.us:9.1f} {off(each, each.us):+6.0%}  written {off(each, each.written_us):+6.0%}  {shares}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
