"""What the timing model predicts for each measurement: the case's kernel in shape mode, replayed on its target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import tilewright as tw
from bench.calibration.cases import CASES, Case
from tilewright.nki.kernel import Run, run_kernel
from tilewright.sim.capacity import occupancy_of
from tilewright.sim.session import Options
from tilewright.target import Target
from tilewright.timing.bars import error_bar, regime
from tilewright.timing.compilers import LEFT_OUT, MAY_LEAVE_OUT, compiled_by
from tilewright.timing.merge import Merged
from tilewright.timing.node import Node
from tilewright.timing.replay import Replay
from tilewright.timing.stream import Stream


class Prediction(NamedTuple):
    """Predicted microseconds, and how far off they may be, relative to them (None for parts of a timeline).

    merged_us: without what the compiler may leave out, None where that is nothing. spills: some of it is for spills.
    """

    us: float
    error_bar: float | None
    merged_us: float | None = None
    spills: bool = False


def predictions(groups: tuple[str, ...] = ()) -> Iterator[tuple[Case, Prediction]]:
    """Each case with its prediction; all groups unless some are named."""
    for case in CASES.values():
        if not groups or case.entry.group in groups:
            yield case, predict(case)


def predict(case: Case) -> Prediction:
    """What the model says of the case."""
    run = build(case)
    target = compiled_by(tw.get_target(case.entry.target), run.session.compiler)
    nodes: list[Node] = []
    keep = nodes.append if case.quantity != "latency" else None
    replay = Replay(target, case.order, keep)
    Stream(target, replay).run(run.session.graph)
    if case.quantity != "latency":
        return Prediction(_part(case, nodes) / 1000, None)
    spill_us = 0.0 if run.occupancy is None else sum(spill.us for spill in run.occupancy.spills)
    written_us = total_us(target, replay, case.entry.metric) + spill_us
    merged_us = _without(case, run, MAY_LEAVE_OUT[run.session.compiler], target)
    compiled_us = None if merged_us is None else _without(case, run, LEFT_OUT[run.session.compiler], target)
    us = written_us if compiled_us is None else compiled_us + spill_us
    removable = 0.0 if merged_us is None else 1 - (merged_us + spill_us) / written_us
    of = regime(run.session.compiler, spill_us > 0, removable, False)
    merged_us = None if merged_us is None else merged_us + spill_us
    return Prediction(us, error_bar(target, us, of), merged_us, spill_us > 0)


def _without(case: Case, run: Run, kinds: tuple[str, ...], target: Target) -> float | None:
    """Microseconds without what compilers may leave out of these kinds; None where that is nothing."""
    merged = Merged(target, case.order, kinds=kinds)
    merged.find(run.session.graph)
    merged.run(run.session.graph)
    return total_us(target, merged.replay, case.entry.metric) if merged.removed() else None


def build(case: Case) -> Run:
    """The case's kernel, run without arithmetic; as the compiler is believed to have made it where that differs."""
    options = dict(case.options) | dict(case.compiled)
    run = run_kernel(case.load(), case.args, options, case.entry.target, "lenient", Options(shapes=True))
    if case.compiler == run.session.compiler:
        return run
    for session in run.sessions:
        session.compiler = case.compiler
    return replace(run, occupancy=occupancy_of(run.session))


def total_us(target: Target, replay: Replay, metric: str) -> float:
    """Launch, the replay, completion; a benchmark leaves out what a profile shows before and after the core's work."""
    total = target["launch.first_instruction_us"] + replay.end / 1000 + target["launch.after_last_dma_us"]
    return total - target["launch.profile_minus_core_latency_us"] if metric == "benchmark" else total


def _part(case: Case, nodes: list[Node]) -> float:
    """Nanoseconds of a part of a timeline."""
    transfer = next((node for node in nodes if node.kind.is_transfer), None)
    if case.quantity == "transfer":
        assert transfer is not None
        return transfer.kind.cost.busy_ns + case_tail(case)
    if case.quantity == "engine_share":
        assert transfer is not None
        return transfer.kind.cost.busy_ns
    chain = [node for node in nodes if not node.kind.is_transfer]
    if case.quantity == "interval":
        return (chain[-1].start - chain[0].start) / (len(chain) - 1)
    return chain[-1].end - chain[-1].start


def case_tail(case: Case) -> float:
    """How long a transfer stays active beyond its descriptors."""
    return tw.get_target(case.entry.target)["dma.tail_ns"]
