"""Units as one executable: their instructions behind each other in one kernel, tensors between them inside of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tilewright.tile.isa  # noqa: F401  (fills the table)
from tilewright.ir.core import Graph, Op, Value, clone_ops
from tilewright.programs.units import Unit
from tilewright.tile.memory import HBM, SHARED_HBM, Buffer, BufferType
from tilewright.tile.ops import ALLOC, DEALLOC
from tilewright.tile.record import TABLE
from tilewright.tile.text import TILE
from tilewright.tile.view import whole


class Fusion:
    """One executable's kernel for one core. `inputs` and `outputs`: the values of its tensors, in order.

    held: the tensor of each value. ends: whether the kernel frees the tensors on chip where a unit ends. inside: what
    leaves this kernel, but not the executable that it is a part of.
    """

    def __init__(
        self,
        name: str,
        units: Sequence[Unit],
        leaving: Collection[Value],
        private: bool,
        core: int = 0,
        ends: bool = True,
        inside: Collection[Value] = (),
    ) -> None:
        self.units, self.leaving, self.private, self.core = units, set(leaving), private, core
        self.ends = ends
        self.graph = Graph(name, dialect=TILE, location=units[0].location)
        self.inputs: list[Value] = []
        self.held: dict[Value, Buffer] = {}
        made = [value for unit in units for value in unit.outputs]
        self.outputs = [value for value in dict.fromkeys(made) if value in self.leaving]
        last = {value: place for place, unit in enumerate(units) for value in unit.inputs}
        for place, unit in enumerate(units):
            self._add(unit, place, last)
        self.graph.outputs = [self.held[value] for value in self.outputs]
        if private:
            self._demote(inside)

    def _add(self, unit: Unit, place: int, last: dict[Value, int]) -> None:
        graph = unit.code.graphs[self.core]
        written = dict(zip(graph.outputs, unit.outputs, strict=True))
        mapping: dict[Value, Value] = {}
        for buffer, value in zip(graph.inputs, unit.inputs, strict=True):
            held = self._input(value, buffer)
            needed = value in self.leaving or last[value] > place or unit.inputs.count(value) > 1
            # What a unit changes in place, and others still want as it was, it changes in a copy.
            mapping[buffer] = self._copied(held) if buffer in written and (needed or value in self.inputs) else held
        for buffer in graph.declared:
            assert isinstance(buffer, Buffer)
            made = mapping[buffer] = buffer.fresh()
            self.graph.append(Op(ALLOC, (), (made,), location=made.location))
        start = len(self.graph.ops)
        clone_ops(graph.ops, self.graph.body, mapping)
        for buffer, value in written.items():
            held = mapping[buffer]
            assert isinstance(held, Buffer)
            self.held[value] = held
        if self.ends:
            self._end(start)

    def _input(self, value: Value, buffer: Value) -> Buffer:
        """The tensor that holds a value: one made before, or an input of the executable."""
        held = self.held.get(value)
        if held is None:
            assert isinstance(buffer, Buffer)
            held = self.held[value] = Buffer(buffer.dtype, buffer.shape, buffer.memory, buffer.name)
            self.graph.inputs.append(held)
            self.inputs.append(value)
        return held

    def _copied(self, held: Buffer) -> Buffer:
        copy = Buffer(held.dtype, held.shape, SHARED_HBM, held.name)
        self.graph.append(Op(ALLOC, (), (copy,)))
        record = TABLE["dma_copy"]
        self.graph.append(Op(record, [whole(copy), whole(held)], (), record.attributes({})))
        return copy

    def _end(self, start: int) -> None:
        """On-chip tensors of a unit end with it."""
        made = [op.result for op in self.graph.ops[start:] if op.definition is ALLOC]
        freed = {value for op in self.graph.ops[start:] if op.definition is DEALLOC for value in op.values()}
        ended = [value for value in made if isinstance(value, Buffer) and value.on_chip and value not in freed]
        if ended:
            self.graph.append(Op(DEALLOC, ended))

    def _demote(self, inside: Collection[Value]) -> None:
        """Shared tensors that the executable does not give out are private."""
        given = {self.held[value] for value in self.outputs if value not in inside}
        for op in self.graph.ops:
            buffer = op.result if op.definition is ALLOC else None
            if isinstance(buffer, Buffer) and buffer.memory is SHARED_HBM and buffer not in given:
                buffer.memory = HBM
                buffer.type = BufferType(buffer.dtype, buffer.shape, HBM)


def internal_shared(graph: Graph) -> list[Buffer]:
    """The shared tensors of an executable's kernel that it neither takes nor gives out."""
    outside = {*graph.inputs, *graph.outputs}
    made = [op.result for op in graph.ops if op.definition is ALLOC]
    return [x for x in made if isinstance(x, Buffer) and x.memory is SHARED_HBM and x not in outside]
