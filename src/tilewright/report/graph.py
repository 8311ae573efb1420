"""Timing a kernel in tile IR, as a compiler makes it, without running it."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.core import Graph, Op, Region
from tilewright.report.profile import Profile, joined_profile
from tilewright.report.resources import IssuedAt, Report, counted, shown_place
from tilewright.report.timing import time_graphs
from tilewright.sim.capacity import Occupancy, measure
from tilewright.sim.machine import Life
from tilewright.target import Target, get_target
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import DEALLOC
from tilewright.timing.pin import Pinned, Pins, read_pins
from tilewright.timing.profile import Watched
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
    occupancy = measure(list(_lives(graph)), target)
    spill_us = sum(spill.us for spill in occupancy.spills)
    timing, cores = time_graphs([graph], target, order, pinned, most_events, spill_us, merging, by_line=False)
    if pinned is not None:
        pinned.check_used()
    return joined_profile(_counted(graph, cores[0], occupancy, target), timing, cores, target)


def _counted(graph: Graph, core: Watched, occupancy: Occupancy, target: Target) -> Report:
    """What a kernel executes, moves and holds."""
    executed: dict[tuple[str, str, str | None], int] = {}
    for tally in core.tallies:
        key = (tally.engine, tally.op.name, shown_place(tally.op.location))
        executed[key] = executed.get(key, 0) + tally.count
    places = tuple(IssuedAt(*key, count) for key, count in executed.items())
    traffic = core.traffic
    read, written = (sum(moved.bytes for moved in table.values()) for table in (traffic.reads, traffic.writes))
    transfers = core.replay.transfers.moved.transfers
    return counted(graph.name, target, places, occupancy, transfers, (read, written))


def _lives(graph: Graph) -> Iterator[Life]:
    """Every on-chip buffer from its first to its last use in the text; a loop's as often as its depth says."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    _Uses(first, last).region(graph.body)
    for buffer, start in first.items():
        yield from (Life(buffer, start, last[buffer]) for _ in range(buffer.depth))


class _Uses:
    """Where buffers are used, as positions in the text. One that is used in a loop is held until the loop ends."""

    def __init__(self, first: dict[Buffer, int], last: dict[Buffer, int]) -> None:
        self.first = first
        self.last = last
        self.at = 0

    def region(self, region: Region) -> set[Buffer]:
        """Note the uses in a region; the buffers that were used there."""
        used: set[Buffer] = set()
        for op in region.ops:
            self.at += 1
            inside = self._used(op)
            for buffer in inside:
                self.first.setdefault(buffer, self.at)
            for inner in op.regions:
                inside |= self.region(inner)
            for buffer in inside:
                self.last[buffer] = self.at
            used |= inside
        # A buffer of the region itself is done with; the next trip has another one.
        own = {value for op in region.ops for value in op.results}
        return used - own  # type: ignore[return-value]

    def _used(self, op: Op) -> set[Buffer]:
        if op.definition is DEALLOC or op.results:
            return set()
        return {value for value in op.values() if isinstance(value, Buffer) and value.on_chip}
