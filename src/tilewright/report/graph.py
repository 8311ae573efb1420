"""Timing a kernel in tile IR, as a compiler makes it, without running it."""

from __future__ import annotations

from tilewright.ir.core import Graph
from tilewright.progress import working
from tilewright.report.lives import use_of_memory
from tilewright.report.profile import Profile, joined_profile
from tilewright.report.resources import IssuedAt, Report, counted, shown_place
from tilewright.report.timing import time_graphs
from tilewright.sim.capacity import Occupancy
from tilewright.target import Target, get_target
from tilewright.tile.record import Call
from tilewright.timing.pin import Pinned, Pins, read_pins
from tilewright.timing.profile import Tally, Watched
from tilewright.timing.replay import SCHEDULED


def profile_graph(
    graph: Graph,
    target: str | Target | None = None,
    order: str = SCHEDULED,
    pin: Pins | None = None,
    most_events: int = 0,
    merging: bool = True,
) -> Profile:
    """Predict how long a kernel in tile IR takes on one core.

    Every op stands for a line of its own: each transfer has a queue, each buffer a place (in a loop `depth` of them).
    merging: time it also without what the compiler of the emitted kernel may leave out, which takes as long again.
    """
    target = get_target(target)
    pins = read_pins(pin)
    pinned = Pinned(pins, target) if pins else None
    occupancy = use_of_memory(graph, target)
    spill_us = sum(spill.us for spill in occupancy.spills)
    with working(f"timing {graph.name} on {target.name}"):
        timing, cores = time_graphs([graph], target, order, pinned, most_events, spill_us, merging, by_line=False)
    if pinned is not None:
        pinned.check_used()
    return joined_profile(_counted(graph, cores[0], occupancy, target), timing, cores, target)


def _counted(graph: Graph, core: Watched, occupancy: Occupancy, target: Target) -> Report:
    """What a kernel executes, moves and holds."""
    executed: dict[tuple[str, str, str | None], int] = {}
    for tally in core.tallies:
        key = (_engine(tally, target), tally.op.name, shown_place(tally.op.location))
        executed[key] = executed.get(key, 0) + tally.count
    places = tuple(IssuedAt(*key, count) for key, count in executed.items())
    traffic = core.traffic
    read, written = (sum(moved.bytes for moved in table.values()) for table in (traffic.reads, traffic.writes))
    transfers = core.replay.transfers.moved.transfers
    return counted(graph.name, target, places, occupancy, transfers, (read, written))


def _engine(tally: Tally, target: Target) -> str:
    """Where a run counts an instruction: the engine that its record names, whoever else the compiler may give it to."""
    if tally.cost.descriptors:
        return tally.engine
    call = Call(tally.op.definition, tally.op.operands, tally.op.attrs, target)
    call.resolve_engine()
    return call.engine
