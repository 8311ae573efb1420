"""Watching a replay: what happened when, for people to look at.

`watch_graph` times a kernel and keeps its events (a bounded number of them), how full the on-chip memories were, and
what the report needs. All times are in ns from the start of the kernel's first instruction: the launch is not in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tilewright.errors import Location
from tilewright.ir.core import Graph, Op, Value
from tilewright.target import Target
from tilewright.tile.memory import PSUM, MemoryRegion
from tilewright.tile.patterns import byte_dims
from tilewright.tile.record import Cost, Record
from tilewright.tile.view import View
from tilewright.timing.critical import remember
from tilewright.timing.instance import Access, Instance
from tilewright.timing.issue import Queue
from tilewright.timing.node import Kind, Node
from tilewright.timing.occupancy import Gauge, Life
from tilewright.timing.replay import SCHEDULED, Replay
from tilewright.timing.stream import Choice, Plan, Stream
from tilewright.timing.touched import Starts
from tilewright.timing.traffic import Moved, Traffic

MOST_EVENTS = 200_000
"""Events that are kept; of a longer kernel the first ones."""


@dataclass(frozen=True, slots=True)
class Event:
    """One executed instruction.

    engine: "tensor", "vector", "scalar", "gpsimd", "sync" or "dma". queue: what it was issued to: its engine, or for a
    transfer "dma:FILE:LINE", the queue of its source line (further queues of a line have a number, "dma:FILE:LINE#2").
    It starts at start_ns, keeps its engine (or the DMA engines) until busy_end_ns, and its result is seen at end_ns.
    wait: why it did not start earlier ("" when nothing held it up); cause: the index of the event that it waited for,
    -1 when there is none or it was not kept. bytes: moved by a transfer. core: which core of the grid. A transfer that
    found the bandwidth taken moved its first byte at begin_ns, after event `behind`; otherwise these are -1.
    """

    name: str
    engine: str
    queue: str
    line: Location | None
    start_ns: float
    busy_end_ns: float
    end_ns: float
    wait: str
    cause: int
    operands: str
    bytes: int
    core: int = 0
    begin_ns: float = -1.0
    behind: int = -1


@dataclass(frozen=True, slots=True)
class Sample:
    """Mean use of the on-chip memories from time_ns until the next sample."""

    time_ns: float
    sbuf_bytes: float
    psum_banks: float


@dataclass(frozen=True, slots=True)
class Tally:
    """Instructions of one source line that cost the same: one of them, and how many were executed."""

    op: Op
    engine: str
    cost: Cost
    count: int


@dataclass(frozen=True, slots=True)
class Watched:
    """What watching one core's kernel gave: kept events in the order of their start, and sums over all of them."""

    graph: Graph
    replay: Replay
    events: tuple[Event, ...]
    dropped_events: int
    occupancy: tuple[Sample, ...]
    tallies: tuple[Tally, ...]
    traffic: Traffic

    @property
    def end_ns(self) -> float:
        return self.replay.end


class Transfer(NamedTuple):
    """The HBM side of a transfer, for the traffic: which tensor and direction, where the access begins."""

    moved: Moved
    starts: Starts | None
    view: View
    bytes: int


class Watcher(Stream):
    """A stream that notes what its replay does with each instruction."""

    def __init__(
        self,
        target: Target,
        order: str = SCHEDULED,
        choose: Choice | None = None,
        core: int = 0,
        most_events: int = MOST_EVENTS,
        by_line: bool = True,
    ) -> None:
        super().__init__(target, Replay(target, order, self._watch), choose, by_line)
        self.core = core
        self.most_events = most_events
        self.events: list[Event] = []
        self.dropped_events = 0
        self.sbuf, self.psum = Gauge(), Gauge()
        self.traffic = Traffic()
        self._ops: dict[Kind, Op] = {}
        self._bank_bytes = target["memory.psum_bank_bytes"]
        # The last buffers at addresses: first byte, the one after the last.
        self._occupants: dict[MemoryRegion, list[tuple[int, int, Life]]] = {}
        self._index: dict[int, int] = {}
        self._texts: dict[Op, str] = {}
        self._queues: dict[Location | None, dict[Queue, int]] = {}

    def _begin(self, value: Value) -> Instance | None:
        made = super()._begin(value)
        if made is not None and made.buffer.on_chip:
            size = made.buffer.row_bytes
            in_psum = made.buffer.memory is PSUM
            life = Life(self.psum, -(-size // self._bank_bytes)) if in_psum else Life(self.sbuf, size)
            made.life = life
            if made.place is not None:
                self._settle(life, made.buffer.memory, made.place.byte, made.place.byte + size)
        return made

    def _settle(self, life: Life, memory: MemoryRegion, low: int, high: int) -> None:
        """A buffer at an address lies where others were."""
        there = self._occupants.setdefault(memory, [])
        for start, end, earlier in there:
            if start < high and low < end:
                life.follow(earlier)
        there[:] = [each for each in there if each[0] < low or high < each[1]]
        there.append((low, high, life))

    def plan(self, op: Op) -> Plan:
        """What all executions of an op share."""
        plan = super().plan(op)
        self._ops.setdefault(plan.kind, op)
        if "dma" in op.definition.engines:
            plan.tag = [each for accessed in self.accessed(op) for each in self._transfers(*accessed)]
        return plan

    def _transfers(self, view: View, reads: bool, writes: bool) -> list[Transfer]:
        if view.on_chip:
            return []
        found: list[Transfer] = []
        for wanted, written in ((reads, False), (writes, True)):
            if wanted:
                moved = self.traffic.moved(view.buffer, written)
                itemsize = view.dtype.itemsize
                known = None
                if view.dynamic is None:
                    known = moved.of_kind((byte_dims(view.sizes, view.strides, itemsize), itemsize))
                found.append(Transfer(moved, known, view, view.nbytes))
        return found

    def step(self, plan: Plan, accesses: list[Access]) -> None:
        """Hand one execution to the replay."""
        for access in accesses:
            life = access[0].life
            if isinstance(life, Life):
                life.waiting += 1
        if plan.tag is not None:
            for moved, starts, view, size in plan.tag:
                moved.add(starts, self.offset(view) * view.dtype.itemsize, size, plan.kind.line)
        self.replay.step(plan.kind, accesses, (plan, accesses))

    def _watch(self, node: Node) -> None:
        plan, accesses = node.tag
        for access in accesses:
            life = access[0].life
            if isinstance(life, Life):
                life.access(node.start, node.end)
        remember(node)
        if len(self.events) >= self.most_events:
            self.dropped_events += 1
            return
        self._index[node.order] = len(self.events)
        self.events.append(self._event(node, plan.op))

    def _event(self, node: Node, op: Op) -> Event:
        text = self._texts.get(op)
        if text is None:
            text = self._texts[op] = operand_text(op)
        kind = node.kind
        return Event(
            kind.name,
            kind.unit,
            self._queue_name(kind),
            kind.line,
            node.start,
            node.busy_end,
            node.end,
            node.why,
            self._index_of(node.cause),
            text,
            kind.moved,
            self.core,
            node.begin,
            self._index_of(node.behind),
        )

    def _queue_name(self, kind: Kind) -> str:
        """What an instruction was issued to (see `Event`)."""
        if not kind.is_transfer:
            return kind.engine
        number = self._queues.setdefault(kind.line, {}).setdefault(kind.queue, len(self._queues[kind.line]))
        return f"dma:{kind.line}#{number + 1}" if number else f"dma:{kind.line}"

    def _index_of(self, node: Node | None) -> int:
        return -1 if node is None else self._index.get(node.order, -1)

    def tallies(self) -> tuple[Tally, ...]:
        """How often each kind of instruction was executed."""
        return tuple(Tally(op, kind.unit, kind.cost, kind.count) for kind, op in self._ops.items())

    def occupancy(self) -> tuple[Sample, ...]:
        """Samples of both memories at the same times."""
        end = self.replay.end
        for gauge in (self.sbuf, self.psum):
            # Nothing in use until the end: the gauge then reaches that far.
            gauge.add(0.0, end, 0.0)
        width = self.sbuf.width
        assert width == self.psum.width
        return tuple(
            Sample(i * width, float(used), float(banks))
            for i, (used, banks) in enumerate(zip(self.sbuf.mean(end), self.psum.mean(end), strict=True))
        )


def watch_graph(
    graph: Graph,
    target: Target,
    order: str = SCHEDULED,
    choose: Choice | None = None,
    core: int = 0,
    most_events: int = MOST_EVENTS,
    by_line: bool = True,
) -> Watched:
    """Time a kernel and keep what happened; for `by_line` see `Stream`."""
    watcher = Watcher(target, order, choose, core, most_events, by_line)
    watcher.run(graph)
    return Watched(
        graph,
        watcher.replay,
        tuple(watcher.events),
        watcher.dropped_events,
        watcher.occupancy(),
        watcher.tallies(),
        watcher.traffic,
    )


def moved_bytes(cost: Cost) -> int:
    """Bytes that a transfer moves."""
    return sum(size * count for size, count in cost.descriptors)


def operand_text(op: Op) -> str:
    """The operands by name, such as "dst=float32[128, 512] sbuf, src=float32[128, 512] hbm"."""
    record: Record = op.definition
    names = list(record.operands)
    parts: list[str] = []
    for position, operand in enumerate(op.operands):
        if operand is None:
            continue
        name = names[min(position, len(names) - 1)]
        if isinstance(operand, View):
            memory = "hbm" if not operand.on_chip else operand.memory.value
            label = f" {operand.buffer.name}" if operand.buffer.name else ""
            parts.append(f"{name}={operand.dtype}[{', '.join(map(str, operand.sizes))}] {memory}{label}")
        elif isinstance(operand, Value):
            parts.append(f"{name}=register")
        else:
            parts.append(f"{name}={operand}")
    return ", ".join(parts)
