"""Instruction streams: a recorded kernel or tile IR with loops, as steps that a replay can take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.ir.walk import walk
from tilewright.target import Target
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC, DEALLOC, FOR, trips
from tilewright.tile.record import Call, Cost, Record
from tilewright.tile.view import View
from tilewright.timing.overlap import Pattern
from tilewright.timing.replay import Access, Instance, Replay

Choice = Callable[[Op], str | None]
"""A what-if: the engine for an op, or None for the one that the kernel or the target chooses."""


class Stream:
    """Walks a kernel, computes each distinct instruction's cost once, and feeds a replay."""

    def __init__(self, target: Target, replay: Replay, choose: Choice | None = None) -> None:
        self.target = target
        self.replay = replay
        self.choose = choose
        self._costs: dict[tuple, tuple[str, Cost]] = {}
        self._instances: dict[Buffer, Instance] = {}
        self._values: dict[Value, int] = {}
        self._ordered: set[Value] = set()
        self._loops = 0

    def run(self, graph: Graph) -> None:
        """Replay a whole kernel."""
        self._ordered = _read_and_written(graph)
        for value in (*graph.inputs, *graph.declared):
            self._begin(value)
        self.region(graph.body)
        self.replay.finish()

    def region(self, region: Region) -> None:
        """Replay the ops of a region; buffers allocated in it end with it at the latest."""
        allocated: list[Buffer] = []
        for op in region.ops:
            if op.definition is ALLOC:
                buffer = op.result
                assert isinstance(buffer, Buffer)
                self._begin(buffer)
                allocated.append(buffer)
            elif op.definition is FOR:
                (index,) = op.regions[0].arguments
                self._loops += 1
                for position in trips(op):
                    self._values[index] = position
                    self.region(op.regions[0])
                self._loops -= 1
            elif op.definition is not DEALLOC:
                self.instruction(op)
        for buffer in allocated:
            instance = self._instances.pop(buffer, None)
            if instance is not None and instance.remaining != 0:
                self.replay.release(instance)

    def _begin(self, value: Value) -> None:
        assert isinstance(value, Buffer)
        if not value.on_chip and value not in self._ordered:
            # Only read, or only written: no access of it waits for another.
            return
        # In a straight line every use is one access; inside loops the end of the region releases.
        home = value.producer.parent if value.producer else None
        nested = any(use.parent is not home for use in value.uses)
        # A loop's own buffer has as many instances as its depth says; elsewhere the compiler decides.
        depth = value.depth if value.on_chip and self._loops else None
        self._instances[value] = Instance(value, -1 if nested else len(value.uses), depth)

    def instruction(self, op: Op) -> None:
        """Replay one instruction."""
        engine, cost = self.cost(op)
        self.replay.step(op.name, engine, cost, list(self._accesses(op)), op.location)

    def cost(self, op: Op) -> tuple[str, Cost]:
        """The engine and cost of an instruction; equal signatures share one."""
        record: Record = op.definition
        key = (
            record.name,
            tuple([x.signature if isinstance(x, View) else x for x in op.operands]),
            tuple(op.attrs.values()),
            None if self.choose is None else self.choose(op),
        )
        known = self._costs.get(key)
        if known is None:
            call = Call(record, op.operands, op.attrs, self.target)
            call.resolve_engine()
            call.engine = key[-1] or call.engine
            known = self._costs[key] = (call.engine, record.cost(call))
        return known

    def _accesses(self, op: Op) -> Iterator[Access]:
        record: Record = op.definition
        specs = list(record.operands.values())
        for position, operand in enumerate(op.operands):
            if not isinstance(operand, View):
                continue
            spec = specs[min(position, len(specs) - 1)]
            # Accumulation into PSUM is pipelined: a write that follows an earlier one of the same engine, not a read.
            reads = spec.reads
            instance = self._instances.get(operand.buffer)
            if instance is not None:
                yield Access(instance, self._pattern(operand), reads, spec.writes)
            if operand.dynamic is not None and isinstance(operand.dynamic.index, View):
                index = operand.dynamic.index
                yield Access(self._instances[index.buffer], self._pattern(index), True, False)

    def _pattern(self, view: View) -> Pattern:
        return pattern_of(view, self._values)


def pattern_of(view: View, values: dict[Value, Any]) -> Pattern:
    """The elements of an access as partitions and bytes within them."""
    offset = view.offset
    for value, factor in view.terms:
        offset += values[value] * factor
    itemsize = view.dtype.itemsize
    if view.dynamic is not None:
        # Which elements a run-time index reaches is not known: all that it may reach.
        buffer = view.buffer
        return 0, buffer.partitions, 0, ((buffer.row_bytes, 1),), 1
    if view.on_chip:
        partition, byte = divmod(offset * itemsize, view.buffer.row_bytes)
        dims = zip(view.sizes[1:], view.strides[1:], strict=True)
        return partition, view.sizes[0], byte, tuple([(n, s * itemsize) for n, s in dims if n != 1]), itemsize
    dims = zip(view.sizes, view.strides, strict=True)
    return 0, 1, offset * itemsize, tuple([(n, s * itemsize) for n, s in dims if n != 1]), itemsize


def _read_and_written(graph: Graph) -> set[Value]:
    """Buffers that some instruction reads and some instruction writes."""
    read: set[Value] = set()
    written: set[Value] = set()
    for op in walk(graph.body):
        record = op.definition
        if not isinstance(record, Record):
            continue
        specs = list(record.operands.values())
        for position, operand in enumerate(op.operands):
            if isinstance(operand, View):
                spec = specs[min(position, len(specs) - 1)]
                (written if spec.writes else read).add(operand.buffer)
                if spec.reads and spec.writes:
                    read.add(operand.buffer)
    return read & written
