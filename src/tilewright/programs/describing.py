"""Units of a program as planning sees them: tensors by number, what each unit reads, writes and asks for."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.core import Graph, Value
from tilewright.ir.walk import walk
from tilewright.programs.facts import Facts, Tensor
from tilewright.programs.units import Unit, Units
from tilewright.tile.memory import OFF_CHIP, SHARED_HBM, Buffer
from tilewright.tile.ops import ALLOC
from tilewright.tile.view import View


class Described:
    """Tensors and units of a program as facts."""

    def __init__(self, units: Units) -> None:
        self.values: list[Value] = []
        self.tensors: list[Tensor] = []
        self._number: dict[Value, int] = {}
        kept = {*units.outputs, *units.graph.inputs, *units.constants}
        makers = {value: (unit, place) for unit in units.units for place, value in enumerate(unit.outputs)}
        for unit in units.units:
            for value in (*unit.inputs, *unit.outputs):
                if value not in self._number:
                    self._number[value] = len(self.values)
                    self.values.append(value)
                    self.tensors.append(_tensor(value, makers.get(value), value in kept))
        self.facts = [self._facts(unit) for unit in units.units]

    def _facts(self, unit: Unit) -> Facts:
        reads = tuple(dict.fromkeys(self._number[value] for value in unit.inputs))
        writes = tuple(dict.fromkeys(self._number[value] for value in unit.outputs))
        if unit.exchange is not None:
            return Facts(unit.name, reads, writes, cores=0, groups=frozenset({unit.exchange.attrs["world"]}))
        graph = unit.code.graph
        held = {
            **dict(zip(graph.inputs, unit.inputs, strict=True)),
            **dict(zip(graph.outputs, unit.outputs, strict=True)),
        }
        computed: dict[int, int] = {}
        for buffer, reach in computed_reach(graph).items():
            if buffer in held:
                number = self._number[held[buffer]]
                computed[number] = max(computed.get(number, 0), reach)
        scratch = tuple(
            Tensor(buffer.name or "scratch", buffer.row_bytes, buffer.memory is SHARED_HBM, unit.code.cores == 1)
            for buffer in _made(graph)
            if buffer not in held
        )
        return Facts(unit.name, reads, writes, scratch, tuple(computed.items()), unit.code.cores)


def _tensor(value: Value, maker: tuple[Unit, int] | None, kept: bool) -> Tensor:
    nbytes = value.type.nbytes
    if maker is None:
        return Tensor(value.name or "input", nbytes, kept=True)
    unit, place = maker
    if unit.exchange is not None:
        return Tensor(f"{unit.name}.out", nbytes, kept=kept)
    buffer = unit.code.graph.outputs[place]
    assert isinstance(buffer, Buffer)
    name = f"{unit.name}.{buffer.name or place}"
    return Tensor(name, nbytes, buffer.memory is SHARED_HBM, unit.code.cores == 1, kept)


def _made(graph: Graph) -> Iterator[Buffer]:
    """The tensors in HBM that a kernel makes."""
    for op in walk(graph):
        if op.definition is ALLOC and isinstance(op.result, Buffer) and op.result.memory in OFF_CHIP:
            yield op.result


def _computed(graph: Graph) -> Iterator[View]:
    """Accesses of HBM by offsets that are computed on the device."""
    for op in walk(graph):
        for operand in op.operands:
            if isinstance(operand, View) and operand.dynamic is not None and not operand.on_chip:
                yield operand


def computed_reach(graph: Graph) -> dict[Value, int]:
    """Tensors in HBM that offsets reach which the device computes: the last byte of each."""
    return {view.buffer: view.buffer.row_bytes - 1 for view in _computed(graph)}
