"""Timing a run: every core's recorded instructions are replayed, watched and summarised."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import fail
from tilewright.ir.core import Graph
from tilewright.nki.kernel import Run
from tilewright.sim.garbage import seldom_collected
from tilewright.target import Target
from tilewright.timing.compilers import CURRENT, LEFT_OUT, MAY_LEAVE_OUT, compiled_by
from tilewright.timing.merge import Merged, merge
from tilewright.timing.pin import Pinned
from tilewright.timing.profile import Watched, watch_graph
from tilewright.timing.replay import SCHEDULED, WRITTEN
from tilewright.timing.summary import Timing, summarise
from tilewright.timing.transfers import shared_by

ORDERS = (SCHEDULED, WRITTEN)


def time_run(
    run: Run, order: str = SCHEDULED, pinned: Pinned | None = None, most_events: int = 0
) -> tuple[Timing, list[Watched]]:
    """Predict a run's times; also what was watched on each core, with at most so many events."""
    session = run.session
    if not session.options.record:
        raise fail(
            "E108",
            f"{session.name} was run without keeping its instructions, so that it cannot be timed",
            hint="run it with record=True",
        )
    spill_us = 0.0 if run.occupancy is None else sum(spill.us for spill in run.occupancy.spills)
    graphs = [each.graph for each in run.sessions]
    return time_graphs(graphs, session.target, order, pinned, most_events, spill_us, compiler=session.compiler)


def time_graphs(
    graphs: Sequence[Graph],
    target: Target,
    order: str = SCHEDULED,
    pinned: Pinned | None = None,
    most_events: int = 0,
    spill_us: float = 0.0,
    merging: bool = True,
    by_line: bool = True,
    compiler: str = CURRENT,
) -> tuple[Timing, list[Watched]]:
    """Predict the times of a kernel in tile IR, one graph per core; also what was watched on each.

    merging: time it also without what compilers may leave out. by_line: see `Stream`. compiler: whose (see
    `timing.compilers`).
    """
    if order not in ORDERS:
        raise fail("E108", f"order is {order!r}", hint=f"one of: {', '.join(ORDERS)}")
    target = compiled_by(shared_by(target, len(graphs)), compiler)
    with seldom_collected():
        return _timed(graphs, target, order, pinned, most_events, spill_us, merging, by_line, compiler)


def _timed(
    graphs: Sequence[Graph],
    target: Target,
    order: str,
    pinned: Pinned | None,
    most_events: int,
    spill_us: float,
    merging: bool,
    by_line: bool,
    compiler: str,
) -> tuple[Timing, list[Watched]]:
    """Predict the times on a target as the compiler drives it."""
    cores = [
        watch_graph(graph, target, order, pinned, number, most_events, by_line) for number, graph in enumerate(graphs)
    ]
    nothing: list[Merged | None] = [None] * len(cores)
    merged = chosen = nothing
    if merging:
        kinds = MAY_LEAVE_OUT[compiler]
        merged = [merge(core.graph, core.traffic, target, order, pinned, by_line, kinds) for core in cores]
        if any(merged):
            chosen = [
                _as_compiled(core, each, target, order, pinned, by_line, compiler)
                for core, each in zip(cores, merged, strict=True)
            ]
    pins = () if pinned is None else tuple(map(str, pinned.pins))
    return summarise(cores, target, order, pins, spill_us, merged, chosen, compiler), cores


def _as_compiled(
    core: Watched,
    merged: Merged | None,
    target: Target,
    order: str,
    pinned: Pinned | None,
    by_line: bool,
    compiler: str,
) -> Merged | None:
    """A core's kernel as its compiler will run it; None where that is as it is written."""
    kinds = LEFT_OUT[compiler]
    if merged is None or {each.what for each in merged.removed()} <= set(kinds):
        return merged
    return merge(core.graph, core.traffic, target, order, pinned, by_line, kinds)
