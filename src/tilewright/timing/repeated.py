"""Instructions that compute again what is known: the same, of the same operands, as an earlier one did.

Loops are where they come from: what does not depend on a loop's index is computed in every trip of the source, and
compilers move it out of the loop. Published kernels of the legacy dialect were measured so: state space models on trn1
(bench/calibration, sdk-mamba-trn1), and a nearest-centroid search on trn2 that broadcasts a row in every trip. Others
were not, MLPs that broadcast their bias for every tile: in an inner loop it is another in each trip.

Only tiles that one instruction writes count, computed of such tiles and of arguments that are never written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from tilewright.ir.core import Graph, Op, Value
from tilewright.tile.memory import Buffer
from tilewright.tile.record import Attributes, Record
from tilewright.tile.view import View


def repeats(graph: Graph) -> dict[Op, Op]:
    """Instructions of a kernel's body that repeat an earlier one, with the first of their kind."""
    writers = _writers(graph)
    values: dict[Buffer, Hashable] = {}
    firsts: dict[Hashable, Op] = {}
    found: dict[Op, Op] = {}
    for op in graph.body.ops:
        if not isinstance(op.definition, Record):
            continue
        value = _value(op, op.definition, writers, values)
        if value is None:
            continue
        first = firsts.setdefault(value, op)
        values[result_of(op).buffer] = (first,)
        if first is not op and "dma" not in op.definition.engines:
            found[op] = first
    return found


def _writers(graph: Graph) -> Counter[Buffer]:
    """How many instructions write each tensor; one within a loop counts as several."""
    counts: Counter[Buffer] = Counter()

    def count(ops: list[Op], times: int) -> None:
        for op in ops:
            for region in op.regions:
                count(region.ops, 2)
            if isinstance(op.definition, Record):
                for view, _, writes in op.definition.accesses(op.operands):
                    counts[view.buffer] += times * writes

    count(graph.body.ops, 1)
    return counts


def result_of(op: Op) -> View:
    """What an instruction writes first of all."""
    view = op.operands[0]
    assert isinstance(view, View)
    return view


def _value(op: Op, record: Record, writers: Counter[Buffer], values: dict[Buffer, Hashable]) -> Hashable:
    """What an instruction computes, equal for equal results; None where that is not told."""
    numbers = tuple([x for x in op.operands if not isinstance(x, View)])
    if "state" in record.asked or record.survives or any(isinstance(x, Value) for x in numbers):
        return None
    facts: list[Hashable] = []
    for position, (view, name, writes) in enumerate(record.accesses(op.operands)):
        if view.dynamic is not None or view.terms:
            return None
        buffer = view.buffer
        known: Hashable = buffer if not writers[buffer] else values.get(buffer)
        if writes:
            if position or record.operands[name].reads or not _is_own(buffer, writers):
                return None
            known = (buffer.memory, buffer.dtype, buffer.row_bytes)
        if known is None:
            return None
        facts.append((view.signature, view.offset, known))
    attrs = op.attrs
    what = attrs.number if attrs.__class__ is Attributes else tuple(attrs.values())  # type: ignore[attr-defined]
    return record.name, what, tuple(facts), numbers


def _is_own(buffer: Buffer, writers: Counter[Buffer]) -> bool:
    """A tile that one instruction writes, at a place that the compiler chooses."""
    return buffer.on_chip and buffer.address is None and writers[buffer] == 1
