"""When the buffers of a kernel in tile IR live, in the order of execution, without running it.

Trips of a loop are alike: what is alive at once is seen in the first, one in between and the last.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.core import Graph, Op, Value
from tilewright.sim.capacity import Occupancy, measure
from tilewright.sim.machine import Life
from tilewright.target import Target
from tilewright.tile.memory import PSUM, SBUF, Address, Buffer
from tilewright.tile.record import Record
from tilewright.tile.visit import Visitor

_TRIPS = 3


def use_of_memory(graph: Graph, target: Target) -> Occupancy:
    """The peaks of the on-chip memories; buffers are counted as often as they are allocated."""
    walk = _Lives()
    walk.region(graph.body)
    spans = walk.spans()
    found = [Life(each.buffer, each.first, each.last, each.place) for each in spans for _ in range(each.copies)]
    sbuf = [each for each in spans if each.buffer.memory is SBUF]
    return replace(
        measure(found, target),
        sbuf_total_bytes=sum(each.times * each.buffer.row_bytes for each in sbuf),
        sbuf_buffers=sum(each.times for each in sbuf),
        psum_buffers=sum(each.times for each in spans if each.buffer.memory is PSUM),
    )


class _Lives(Visitor):
    """From first write to last access, as in a run. Copies without addresses are there as long as any of them."""

    def __init__(self) -> None:
        self._done: list[_Span] = []
        self._open: dict[Buffer, _Span] = {}
        self._turns: dict[Buffer, int] = {}
        self._clock = 0
        self._times = 1

    def spans(self) -> list[_Span]:
        """Of every buffer that was ever written."""
        return [span for span in [*self._done, *self._open.values()] if span.first >= 0]

    def loop(self, op: Op, index: Value, positions: range) -> None:
        if not positions:
            return
        seen = [*positions[: _TRIPS - 1], positions[-1]] if len(positions) >= _TRIPS else [*positions]
        before = self._times
        for number in range(len(seen)):
            # One of the trips stands for all that are left out.
            self._times = before * (len(positions) - len(seen) + 1 if number == 1 else 1)
            self.region(op.regions[0])
        self._times = before

    def alloc(self, op: Op, buffer: Buffer) -> None:
        if not buffer.on_chip:
            return
        known = self._open.get(buffer)
        turn = self._turns[buffer] = self._turns.get(buffer, -1) + 1
        if known is not None and known.place is None and buffer.depth > 1:
            # The copies of a buffer are as many as it says, however many trips there are.
            known.copies = known.times = min(known.copies + self._times, buffer.depth)
            return
        if known is not None:
            self._done.append(known)
        place = None if buffer.address is None else buffer.place_of(turn)
        self._open[buffer] = _Span(buffer, place, self._times)

    def dealloc(self, op: Op, buffer: Buffer) -> None:
        """The last access says when a life ends."""

    def register(self, op: Op) -> None:
        """Registers take no room on chip."""

    def trip(self, index: Value, position: int) -> None:
        """Trips are alike."""

    def instruction(self, op: Op) -> None:
        self._clock += 1
        record: Record = op.definition
        for view, _, writes in record.accesses(op.operands):
            if view.on_chip:
                self._access(view.buffer, writes)

    def _access(self, buffer: Buffer, writes: bool) -> None:
        span = self._open[buffer]
        span.last = self._clock
        if span.first < 0 and writes:
            span.first = self._clock


class _Span:
    """A life. times: how many like it there are, one after the other; copies: how many at once."""

    __slots__ = ("buffer", "copies", "first", "last", "place", "times")

    def __init__(self, buffer: Buffer, place: Address | None, times: int) -> None:
        self.buffer = buffer
        self.place = place
        self.times = times
        self.copies = 1
        self.first = self.last = -1
