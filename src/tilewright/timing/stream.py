"""Instruction streams: a recorded kernel or tile IR with loops, as steps that a replay can take.

What every execution of an op shares (its engine and cost, which buffers it accesses) is worked out once, as its
`Plan`; inside loops plans are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any

from tilewright.errors import Location
from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.ir.walk import walk
from tilewright.target import Target
from tilewright.tile.costed import cost_of
from tilewright.tile.memory import PSUM, SBUF, Buffer, MemoryRegion
from tilewright.tile.ops import ALLOC, DEALLOC
from tilewright.tile.overlap import Extent, extent
from tilewright.tile.patterns import at_address, extent_of, pattern_of
from tilewright.tile.record import Attributes, Cost, Record
from tilewright.tile.view import View
from tilewright.tile.visit import Visitor
from tilewright.timing.balance import Balance, is_open
from tilewright.timing.index import Shelves
from tilewright.timing.instance import Access, Instance
from tilewright.timing.node import Kind
from tilewright.timing.phases import Phases
from tilewright.timing.pin import is_transfer, pinned_attribute
from tilewright.timing.replay import Replay

Choice = Callable[[Op], str | None]
"""A what-if: the engine for an op (for a transfer, who writes its descriptors), or None to leave that as it is."""

_MOST_EXTENTS = 1 << 16


class Operand:
    """A tensor that an instruction accesses: which elements, the same ones each time unless `moves`."""

    __slots__ = ("buffer", "extent", "moves", "reads", "view", "writes")

    def __init__(self, view: View, reads: bool, writes: bool) -> None:
        self.view = view
        self.buffer = view.buffer
        self.reads = reads
        self.writes = writes
        self.moves = bool(view.terms) or (view.buffer.address is not None and view.buffer.depth > 1)
        self.extent: Extent | None = None


class Plan:
    """What every execution of an op has in common. operands: those that other accesses may have to wait for."""

    __slots__ = ("kind", "op", "operands", "tag")

    def __init__(self, op: Op, kind: Kind, operands: list[Operand]) -> None:
        self.op = op
        self.kind = kind
        self.operands = operands
        self.tag: Any = None


class Stream(Visitor):
    """Walks a kernel, computes each distinct instruction's cost once, and feeds a replay.

    by_line: transfers of one tensor that a source line issues share a queue, and buffers that it allocates a ring, as
    in a recorded kernel, whose lines stand for what the programmer wrote; otherwise each op has its own.
    """

    def __init__(self, target: Target, replay: Replay, choose: Choice | None = None, by_line: bool = True) -> None:
        self.target = target
        self.replay = replay
        self.choose = choose
        self.by_line = by_line
        self._kinds: dict[Hashable, Kind] = {}
        self._plans: dict[Op, Plan] = {}
        self._instances: dict[Buffer, Instance] = {}
        self._lives: dict[Buffer, tuple[int, int | None, Buffer | None]] = {}
        self._values: dict[Value, int] = {}
        self._ordered: set[Value] = set()
        self._specs: dict[str, list[tuple[bool, bool]]] = {}
        self._lines: dict[int, tuple[Location, Location]] = {}
        self._same_lines: dict[Location, Location] = {}
        self._extents: dict[Hashable, Extent] = {}
        # Last accesses of buffers at addresses, which may overlap: one table for each memory.
        self._addressed: dict[MemoryRegion, Shelves] = {memory: Shelves() for memory in (SBUF, PSUM)}
        self._turns: dict[Buffer, int] = {}
        self._own: dict[Region, list[Value]] = {}
        self._loops = 0
        self._balance = Balance(target, partial(cost_on, target))
        self._arguments: set[Value] = set()
        self._phases: Phases | None = None

    def run(self, graph: Graph) -> None:
        """Replay a whole kernel."""
        self._ordered = _read_and_written(graph.body.ops)
        if self.target["compiler.arguments_in_line"]:
            self._arguments = {*graph.inputs, *graph.outputs}
        if self.target["compiler.hbm_by_tensor"]:
            self._phases = Phases(graph, {value for value in self._ordered if not _is_on_chip(value)})
        for value in (*graph.inputs, *graph.declared):
            self._begin(value)
        self.region(graph.body)
        self.replay.finish()

    def run_ops(self, ops: Sequence[Op]) -> None:
        """Replay some ops of a kernel's body."""
        self._ordered = _read_and_written(ops)
        self.ops(ops)
        self.replay.finish()

    def region(self, region: Region) -> None:
        """Replay the ops of a region; buffers allocated in it end with it at the latest."""
        super().region(region)
        own = self._own.get(region)
        if own is None:
            own = self._own[region] = [op.result for op in region.ops if op.definition is ALLOC]
        for buffer in own:
            assert isinstance(buffer, Buffer)
            self._end(buffer)

    def alloc(self, op: Op, buffer: Buffer) -> None:
        self._begin(buffer)

    def dealloc(self, op: Op, buffer: Buffer) -> None:
        self._end(buffer)

    def loop(self, op: Op, index: Value, positions: range) -> None:
        self._loops += 1
        super().loop(op, index, positions)
        self._loops -= 1

    def trip(self, index: Value, position: int) -> None:
        self._values[index] = position

    def register(self, op: Op) -> None:
        """Registers take no time: they hold what instructions computed."""

    def _end(self, buffer: Buffer) -> None:
        """A buffer's life is over."""
        instance = self._instances.pop(buffer, None)
        if instance is not None and instance.remaining != 0:
            self.replay.release(instance)

    def _begin(self, value: Value) -> Instance | None:
        """A buffer's life starts."""
        assert isinstance(value, Buffer)
        if not value.on_chip and value not in self._ordered:
            # Only read, or only written: no access of it waits for another.
            return None
        known = self._lives.get(value)
        if known is None:
            known = self._lives[value] = self._life(value)
        made = self._instances[value] = Instance(value, *known)
        if value.address is not None and value.on_chip:
            self._put_at_address(made)
        return made

    def _put_at_address(self, instance: Instance) -> None:
        """Its place is given; the instances of a loop's buffer follow each other, `depth` of them in turn."""
        buffer = instance.buffer
        turn = self._turns[buffer] = self._turns.get(buffer, -1) + 1
        place = buffer.place_of(turn)
        instance.put_at(place, self._addressed[buffer.memory])
        if buffer.memory is SBUF:
            self.replay.room.reserve(place.byte + buffer.row_bytes)

    def _life(self, buffer: Buffer) -> tuple[int, int | None, Buffer | None]:
        """Accesses, depth and site of every instance of a buffer (see `Instance`)."""
        # In a straight line every use is one access; inside loops the end of the region releases.
        home = buffer.producer.parent if buffer.producer else None
        uses = [use for use in buffer.uses if use.definition is not DEALLOC]
        nested = any(use.parent is not home for use in uses)
        # A loop's own buffer has as many instances as its depth says; elsewhere the compiler decides.
        depth = buffer.depth if buffer.on_chip and self._loops else None
        site = buffer if depth is not None or not self.by_line else None
        return -1 if nested else len(uses), depth, site

    def instruction(self, op: Op) -> None:
        """Replay one instruction."""
        plan = self._plans.get(op) if self._loops else None
        if plan is None:
            plan = self.plan(op)
            if self._loops and not is_open(op):
                self._plans[op] = plan
        self._balance.add(plan.kind.engine, plan.kind.cost.interval_ns)
        self.step(plan, self._accesses(plan))

    def step(self, plan: Plan, accesses: list[Access]) -> None:
        """Hand one execution to the replay."""
        self.replay.step(plan.kind, accesses)

    def plan(self, op: Op) -> Plan:
        """What all executions of an op share."""
        operands: list[Operand] = []
        for view, reads, writes in self.accessed(op):
            # Accumulation into PSUM is pipelined: a write that follows an earlier one of the same engine, not a read.
            if view.buffer in self._instances:
                operands.append(Operand(view, reads, writes))
        return Plan(op, self.kind(op), operands)

    def accessed(self, op: Op) -> list[tuple[View, bool, bool]]:
        """Every tensor of an op with whether it is read and written; index tiles of run-time offsets are read."""
        record: Record = op.definition
        specs = self._specs.get(record.name)
        if specs is None:
            specs = self._specs[record.name] = [(spec.reads, spec.writes) for spec in record.operands.values()]
        found: list[tuple[View, bool, bool]] = []
        last = len(specs) - 1
        for position, view in enumerate(op.operands):
            if not isinstance(view, View):
                continue
            reads, writes = specs[position if position < last else last]
            found.append((view, reads, writes))
            if view.dynamic is not None and isinstance(view.dynamic.index, View):
                found.append((view.dynamic.index, True, False))
        return found

    def _accesses(self, plan: Plan) -> list[Access]:
        instances = self._instances
        made: list[Access] = []
        for each in plan.operands:
            touched = each.extent
            instance = instances[each.buffer]
            if touched is None:
                if each.moves:
                    touched = self._extent(each.view)
                else:
                    touched = each.extent = extent_of(each.view, instance.place)
            made.append((instance, touched, each.reads, each.writes))
        return made

    def kind(self, op: Op) -> Kind:
        """The engine and cost of an instruction of this line; equal signatures share one."""
        record: Record = op.definition
        attrs = op.attrs
        line = self._line(op.location)
        chosen = None if self.choose is None else self.choose(op)
        site = self._site(op, line)
        facts = self._facts(op)
        in_line = self._is_in_line(op)
        if chosen is None and is_open(op):
            chosen = self._balance.choose(op, facts) or None
        elif chosen is None and in_line and attrs.get("dge_mode") == "unknown":
            chosen = self.target["compiler.dge_arguments"]
        key = (id(line), chosen, site, *facts)
        known = self._kinds.get(key)
        if known is None:
            known = self._kinds[key] = self.replay.kind(record.name, *self.cost(op, chosen), line, site)
            known.in_line = in_line
            if self._phases is not None and known.is_transfer:
                known.after, known.joins = self._phases.of(op)
        return known

    def _facts(self, op: Op) -> tuple[Hashable, ...]:
        """What the kind of an instruction depends on, besides its line; where each op has its own, the op says all."""
        if not self.by_line:
            return (op,)
        attrs = op.attrs
        return (
            op.definition.name,
            attrs.number if attrs.__class__ is Attributes else tuple(attrs.values()),  # type: ignore[attr-defined]
            *[x.signature if isinstance(x, View) else x for x in op.operands],
        )

    def _is_in_line(self, op: Op) -> bool:
        """True for a transfer of an argument or a result, where one engine issues all of those in order."""
        return bool(self._arguments) and any(
            isinstance(view, View) and view.buffer in self._arguments for view in op.operands
        )

    def _site(self, op: Op, line: Location | None) -> Hashable:
        """What has a DMA queue of its own: an op, or what a source line moves of one tensor in HBM.

        A line of a function that is called for several tensors stands for as many lines of the kernel.
        """
        if not self.by_line:
            return op
        if not is_transfer(op):
            return None
        outside = (view.buffer for view in op.operands if isinstance(view, View) and not view.on_chip)
        return id(line), next(outside, None)

    def kinds(self) -> Iterable[Kind]:
        """All kinds of instructions that were replayed."""
        return self._kinds.values()

    def cost(self, op: Op, chosen: str | None = None) -> tuple[str, Cost]:
        """The engine of an instruction and its cost there, with what a pin chose."""
        return cost_on(self.target, op, chosen)

    def _line(self, line: Location | None) -> Location | None:
        """The one object that stands for a source line, so that lines can be told apart as objects."""
        if line is None:
            return None
        known = self._lines.get(id(line))
        if known is None:
            # The line itself is kept too: no other object gets its id meanwhile.
            known = self._lines[id(line)] = (self._same_lines.setdefault(line, line), line)
        return known[0]

    def offset(self, view: View) -> int:
        """Where an access begins, in elements, at the present loop indices."""
        offset = view.offset
        for value, factor in view.terms:
            offset += self._values[value] * factor
        return offset

    def _extent(self, view: View) -> Extent:
        offset, buffer = self.offset(view), view.buffer
        place = self._instances[buffer].place
        key = (view.signature, offset, buffer.row_bytes, place)
        known = self._extents.get(key) if view.dynamic is None else None
        if known is None:
            pattern = pattern_of(view, offset)
            known = extent(pattern if place is None else at_address(pattern, place))
            if view.dynamic is None:
                if len(self._extents) >= _MOST_EXTENTS:
                    self._extents.clear()
                self._extents[key] = known
        return known


def cost_on(target: Target, op: Op, chosen: str | None) -> tuple[str, Cost]:
    """The engine of an instruction and its cost there, with what a pin chose."""
    record: Record = op.definition
    attrs = op.attrs if chosen is None else record.attributes({**op.attrs, pinned_attribute(op): chosen})
    return cost_of(record, op.operands, attrs, target)


def _is_on_chip(value: Value) -> bool:
    assert isinstance(value, Buffer)
    return value.on_chip


def _read_and_written(ops: Sequence[Op]) -> set[Value]:
    """Buffers that some instruction reads and some instruction writes."""
    read: set[Value] = set()
    written: set[Value] = set()
    into: dict[str, list[tuple[set[Value], ...]]] = {}
    for op in ops:
        # Most ops of a recorded kernel have no regions, and there are many.
        for inner in walk(op) if op.regions else (op,):
            record = inner.definition
            if not isinstance(record, Record):
                continue
            places = into.get(record.name)
            if places is None:
                places = into[record.name] = [
                    (written, read) if spec.writes and spec.reads else (written,) if spec.writes else (read,)
                    for spec in record.operands.values()
                ]
            last = len(places) - 1
            for position, operand in enumerate(inner.operands):
                if isinstance(operand, View):
                    for found in places[position if position < last else last]:
                        found.add(operand.buffer)
    return read & written
