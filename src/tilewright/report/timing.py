"""Timing a run: every core's recorded instructions are replayed, watched and summarised."""

from __future__ import annotations

from tilewright.errors import fail
from tilewright.nki.kernel import Run
from tilewright.timing.pin import Pinned
from tilewright.timing.profile import Watched, watch_graph
from tilewright.timing.replay import SCHEDULED, WRITTEN
from tilewright.timing.summary import Timing, summarise

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
    if order not in ORDERS:
        raise fail("E108", f"order is {order!r}", hint=f"one of: {', '.join(ORDERS)}")
    cores = [
        watch_graph(each.graph, session.target, order, pinned, number, most_events)
        for number, each in enumerate(run.sessions)
    ]
    moved = sum(each.counts.hbm_read_bytes + each.counts.hbm_write_bytes for each in run.sessions)
    pins = () if pinned is None else tuple(map(str, pinned.pins))
    spill_us = 0.0 if run.occupancy is None else sum(spill.us for spill in run.occupancy.spills)
    return summarise(cores, session.target, order, pins, moved, spill_us), cores
