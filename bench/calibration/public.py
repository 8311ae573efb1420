"""python -m bench.calibration.public FOLDER [GROUP ...] [--every N]: published kernels, predicted against measured.

FOLDER holds checkouts (bench.calibration.published). Per group: errors of the headline, as written and without all that
may be left out; how many lie within their bars; with figures that were fitted on it as they would be without it; busy
engines against published shares; pairs in order.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tilewright as tw
from bench.calibration.published import Point, launches, points
from tilewright.nki.kernel import Run, run_kernel
from tilewright.report.timing import time_run
from tilewright.sim.session import Options
from tilewright.target import Target
from tilewright.timing.summary import Timing

CALL_US = 55.0
"""What a call takes beyond the kernel: floor of the tiled matmuls, 45 to 60 us."""

WITHOUT: Mapping[str, Mapping[str, object]] = {
    "qwen3-megakernel-attn": {"dma.queue_descriptor_ns": ((4, 107), (2048, 107), (4096, 183), (32768, 1464))},
    "qwen3-megakernel-moe": {"dma.swdge_indirect_block_ns": 600, "hbm.kernel_bandwidth": 724},
    "fusion-mlp": {},
    "labs-tilings": {},
    "kda": {"vector.elements_per_cycle.two_inputs": 0.5, "vector.elements_per_cycle.scalar_tensor_tensor": 0.5},
    "fusion-bench": {},
    "fusion-profile": {"compiler.shared_engines": ("vector",)},
    "nkibench": {"compiler.copies_as_activations": False},
}
"""Figures that rest on a group, as documents have them: what the model would say had the group not been seen.

The interval of transfers rests on MLPs and tiled matmuls together; either gives the same.
"""


class Predicted(NamedTuple):
    """A point with what the model says of it."""

    point: Point
    us: float
    written_us: float
    merged_us: float
    bar: float
    unseen_us: float
    busy: dict[str, float]


def run(point: Point, checkouts: Path) -> list[Run]:
    """The kernels of a point on shapes alone; rules that published kernels break are noted, not enforced."""
    options = Options(shapes=True)
    return [
        run_kernel(kernel, args, {}, point.target, "lenient", options, collect=True)
        for kernel, args in launches(point, checkouts)
    ]


def predict(point: Point, runs: Sequence[Run]) -> Predicted:
    """The model's word on a point, also without what was learned from its group."""
    target = tw.get_target(point.target)
    timed = [time_run(each)[0] for each in runs]
    changes = next((values for name, values in WITHOUT.items() if point.group.startswith(name)), {})
    for each in runs:
        each.session.target = target.replace(changes, target.name) if changes else target
    unseen = [time_run(each)[0] for each in runs] if changes else timed
    around = [_beyond(point, target)] * len(timed)
    us = sum(each.latency_us for each in timed) + sum(around)
    return Predicted(
        point,
        us,
        sum(each.latency_as_written_us for each in timed) + sum(around),
        sum(each.latency_if_merged_us for each in timed) + sum(around),
        sum(each.error_bar * each.latency_us for each in timed) / us,
        sum(each.latency_us for each in unseen) + sum(around),
        _busy(timed),
    )


def _busy(timed: Sequence[Timing]) -> dict[str, float]:
    return {name: sum(each.engine_busy_us.get(name, 0.0) for each in timed) for name in timed[0].engine_busy_us}


def _beyond(point: Point, target: Target) -> float:
    """What a metric counts beyond the predicted latency, which is that of a profile."""
    if point.metric == "benchmark":
        return -target["launch.profile_minus_core_latency_us"]
    launch = target["launch.first_instruction_us"] + target["launch.after_last_dma_us"]
    return CALL_US - launch if point.metric == "call" else 0.0


def off(each: Predicted, us: float) -> float:
    """How far a prediction is off, relative to what was measured."""
    return us / each.point.us - 1


def row(name: str, found: Sequence[Predicted]) -> str:
    """Errors of some points."""
    texts: list[str] = []
    for times in ([e.us for e in found], [e.written_us for e in found], [e.merged_us for e in found]):
        errors = np.abs([off(each, us) for each, us in zip(found, times, strict=True)])
        texts.append(f"{np.median(errors):6.1%} {np.quantile(errors, 0.9):7.1%}")
    unseen = np.median(np.abs([off(each, each.unseen_us) for each in found]))
    inside = np.mean([abs(each.us - each.point.us) <= each.bar * each.us for each in found])
    width = np.median([each.bar for each in found])
    return f"{name:34} {len(found):4d}   {'   '.join(texts)}   {unseen:6.1%}   {inside:4.0%} within ± {width:.0%}"


def in_order(found: Sequence[Predicted], gap: float = 0.15) -> tuple[int, int]:
    """Pairs of one group and target that differ by more than a gap: how many the model has in order, and how many."""
    pairs = [
        (a, b)
        for a, b in combinations(found, 2)
        if a.point.group == b.point.group and max(a.point.us, b.point.us) > (1 + gap) * min(a.point.us, b.point.us)
    ]
    return sum((a.us < b.us) == (a.point.us < b.point.us) for a, b in pairs), len(pairs)


def main(arguments: Sequence[str]) -> None:
    """Predict every point of the groups that a checkout has the kernel of, and print the comparison."""
    every = int(arguments[arguments.index("--every") + 1]) if "--every" in arguments else 1
    plain = [each for i, each in enumerate(arguments) if each != "--every" and arguments[i - 1] != "--every"]
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
        if runs:
            each = predict(point, runs)
            found.append(each)
            shares = ", ".join(
                f"{name} {each.busy.get(name, 0.0):.0f} of {share * point.us:.0f} us"
                for name, share in point.shares.items()
            )
            print(
                f"{point.id:38} {point.variant[-24:] or point.kernel[:24]:24} {point.us:9.1f} us  "
                f"predicted {each.us:9.1f} {off(each, each.us):+6.0%}  "
                f"written {off(each, each.written_us):+6.0%}  {shares}",
                flush=True,
            )
    print(f"\n{'':34}    n   {'headline':^14}   {'as written':^14}   {'all left out':^14}   unseen")
    for name in dict.fromkeys(each.point.group for each in found):
        print(row(name, [each for each in found if each.point.group == name]))
    for dialect in dict.fromkeys(each.point.dialect for each in found):
        print(row(f"{dialect} dialect", [each for each in found if each.point.dialect == dialect]))
    right, count = in_order(found)
    print(f"pairs of a group 15% apart in order: {right} of {count}")


if __name__ == "__main__":
    main(sys.argv[1:])
