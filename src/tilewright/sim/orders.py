"""Other orders of a kernel's instructions: which are legal, and whether the results are the same in them.

NKI's scheduler may reorder what is independent. What it keeps are the dependencies through tensors and registers, the
order inside `nl.no_reorder`, and those that `depends_on` and `with_schedule` add. What instructions share beside their
operands it does not see: accumulators and random generators of an engine, for example.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.errors import TileError
from tilewright.ir.core import Op, Value
from tilewright.rules import Reporter
from tilewright.sim.execute import execute
from tilewright.sim.machine import Machine
from tilewright.sim.session import Session
from tilewright.sim.storage import EVERYTHING
from tilewright.tile.conflicts import index_tile
from tilewright.tile.memory import Buffer, MemoryRegion
from tilewright.tile.ops import ALLOC, DEALLOC
from tilewright.tile.overlap import Extent, extent
from tilewright.tile.patterns import at_address, pattern_of
from tilewright.tile.record import Record
from tilewright.tile.verdict import Verifier
from tilewright.tile.view import View

Given = Mapping[Buffer, np.ndarray]
Edge = tuple[Op, Op]
"""An instruction, and one that must come after it."""


@dataclass(slots=True)
class _Known:
    """Accesses of one tensor, or of one memory, that later ones may depend on."""

    accesses: list[tuple[Extent, bool, int]] = field(default_factory=list)

    def after(self, new: Extent, writes: bool, place: int) -> Iterator[int]:
        """The instructions that an access has to follow; it is remembered."""
        kept: list[tuple[Extent, bool, int]] = []
        for known, wrote, other in self.accesses:
            if (writes or wrote) and other != place and known.meets(new):
                yield other
                if writes and new.covers(known):
                    continue
            kept.append((known, wrote, other))
        kept.append((new, writes, place))
        self.accesses = kept


def dependencies(ops: Sequence[Op], edges: Sequence[Edge]) -> list[set[int]]:
    """For each instruction, by place, those that come before it in every legal order."""
    before: list[set[int]] = []
    tensors: dict[Buffer | MemoryRegion, _Known] = {}
    written: dict[Value, int] = {}
    read: dict[Value, list[int]] = {}
    for place, op in enumerate(ops):
        found: set[int] = set()
        for view, writes in _accesses(op):
            key, where = _located(view)
            found.update(tensors.setdefault(key, _Known()).after(where, writes, place))
        for value, writes in _registers(op):
            if value in written:
                found.add(written[value])
            if writes:
                found.update(read.pop(value, []))
                written[value] = place
            else:
                read.setdefault(value, []).append(place)
        before.append(found - {place})
    places = {id(op): place for place, op in enumerate(ops)}
    for first, second in edges:
        if id(first) in places and id(second) in places:
            before[places[id(second)]].add(places[id(first)])
    return before


def _accesses(op: Op) -> Iterator[tuple[View, bool]]:
    specs = [*op.definition.operands.values()] if isinstance(op.definition, Record) else []
    for position, operand in enumerate(op.operands):
        if isinstance(operand, View):
            tile = index_tile(operand)
            if tile is not None:
                yield tile, False
            # A list of tensors ends the operands. What accumulates reads what it writes, which counts as written.
            yield operand, specs[min(position, len(specs) - 1)].writes


def _located(view: View) -> tuple[Buffer | MemoryRegion, Extent]:
    """Where an access lies: in its tensor, or in the memory where that was given; all that it may reach."""
    buffer = view.buffer
    if view.terms:
        return buffer, extent((0, buffer.partitions, 0, ((buffer.row_bytes, 1),), 1))
    pattern = pattern_of(view, view.offset)
    if buffer.address is None or not view.on_chip:
        return buffer, extent(pattern)
    return buffer.memory, extent(at_address(pattern, buffer.address))


def _registers(op: Op) -> Iterator[tuple[Value, bool]]:
    specs = [*op.definition.operands.values()] if isinstance(op.definition, Record) else []
    for position, operand in enumerate(op.operands):
        if isinstance(operand, View):
            yield from ((value, False) for value, _ in operand.terms)
            if operand.dynamic is not None and isinstance(operand.dynamic.index, Value):
                yield operand.dynamic.index, False
        elif isinstance(operand, Value):
            yield operand, bool(specs) and specs[min(position, len(specs) - 1)].writes
    yield from ((value, True) for value in op.results if not isinstance(value, Buffer))


def any_order(before: Sequence[set[int]], chance: random.Random) -> list[int]:
    """A legal order of the instructions, as good as any other."""
    after: list[list[int]] = [[] for _ in before]
    waiting = [len(each) for each in before]
    for place, each in enumerate(before):
        for other in each:
            after[other].append(place)
    ready = [place for place, count in enumerate(waiting) if not count]
    order: list[int] = []
    while ready:
        chosen = chance.randrange(len(ready))
        ready[chosen], ready[-1] = ready[-1], ready[chosen]
        place = ready.pop()
        order.append(place)
        for other in after[place]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    assert len(order) == len(before), "program order is legal"
    return order


class Replays:
    """The instructions of a run in other orders, on what the run was given."""

    def __init__(self, session: Session, given: Given, edges: Sequence[Edge]) -> None:
        self.session = session
        self.given = given
        self.ops = [op for op in session.graph.body.ops if op.definition not in (ALLOC, DEALLOC)]
        self.before = dependencies(self.ops, [*session.ordered_edges(), *edges])
        self._wanted = self.run(range(len(self.ops)))

    def find(self, count: int) -> tuple[Op, Op] | None:
        """Two instructions, in program order, that give other results the other way round; None if none is found."""
        for seed in range(count):
            order = any_order(self.before, random.Random(seed))
            if not self._same(order):
                return self._narrowed(order)
        return None

    def _same(self, order: Sequence[int]) -> bool:
        found = self.run(order)
        return found is not None and self._wanted is not None and found == self._wanted

    def _narrowed(self, order: list[int]) -> tuple[Op, Op]:
        """The two that it takes, one moved before the other.

        Any number of instructions of a legal order first and then the others in program order is legal as well; so is
        the next of them moved only part of the way.
        """
        least, most = 0, len(order)
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if self._same(_begun(order, middle)) else (least, middle)
        base = _begun(order, least)
        moved = order[least]
        start = base.index(moved)
        near, far = 0, start - least
        while far - near > 1:
            middle = (near + far) // 2
            near, far = (middle, far) if self._same(_moved(base, start, middle)) else (near, middle)
        return self.ops[base[start - far]], self.ops[moved]

    def run(self, order: Sequence[int]) -> tuple[bytes, ...] | None:
        """What the kernel leaves behind; None when it breaks a rule in this order."""
        reporter = Reporter(self.session.reporter.profile, severities=dict(self.session.reporter.severities))
        machine = Machine(self.session.target, reporter, self.session.name, self.session.options.illegal_accumulate)
        machine.precise = self.session.options.precise
        machine.values.update(self._constants())
        for buffer, array in self.given.items():
            machine.allocate(buffer, np.array(array).reshape(-1).view(np.uint8)).written = EVERYTHING
        verifier = Verifier(self.session.target, reporter)
        try:
            for place in order:
                self._perform(machine, verifier, self.ops[place])
        except TileError:
            return None
        outputs = [value for value in self.session.graph.outputs if isinstance(value, Buffer)]
        kept = [machine.storage.get(value) for value in (*self.given, *outputs)]
        return tuple(storage.data.tobytes() for storage in kept if storage is not None)

    def _perform(self, machine: Machine, verifier: Verifier, op: Op) -> None:
        for view in _views(op.operands):
            if view.buffer not in machine.storage:
                machine.allocate(view.buffer)
        if isinstance(op.definition, Record):
            execute(machine, op, verifier.check(op.definition, op.operands, op.attrs, op.location))
        else:
            machine.define_register(op)

    def _constants(self) -> Iterator[tuple[Value, Any]]:
        """Registers that no instruction writes: indices of loops, for example."""
        written = {value for op in self.ops for value, writes in _registers(op) if writes}
        return ((value, held) for value, held in self.session.machine.values.items() if value not in written)


def _views(operands: Sequence[Any]) -> Iterator[View]:
    for operand in operands:
        if isinstance(operand, View):
            yield operand
            tile = index_tile(operand)
            if tile is not None:
                yield tile


def _begun(order: Sequence[int], count: int) -> list[int]:
    first = order[:count]
    return [*first, *sorted(order[count:])]


def _moved(base: Sequence[int], start: int, by: int) -> list[int]:
    """One instruction so many places earlier."""
    return [*base[: start - by], base[start], *base[start - by : start], *base[start + 1 :]]
