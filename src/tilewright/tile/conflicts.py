"""R-engine-16: an instruction does not write over what it still reads.

Engines stream elements and DMA splits a transfer into descriptors, so that all one can rely on is that element i of a
source is read before element i of the destination is written. A destination may therefore coincide with a source,
element for element, where the record says so, and else shares no element with what the instruction reads, the tiles of
its run-time indices included, nor with another destination.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.errors import OperandNote
from tilewright.ir.core import Value
from tilewright.tile.record import Record
from tilewright.tile.relation import COLUMNS, OVER, SAME, WITHIN, Relation, relation
from tilewright.tile.view import View

RULE = "R-engine-16"


class Pair(NamedTuple):
    """A written operand, by position in the op, and another that may lie in the same memory.

    coincides: the two may be the same access; across: also of other partitions; folds: elements of the first may lie
    within the runs of the second that they are made of. indexed: it is not the other itself, but the tile of its
    indices.
    placed: both have addresses, so that they may share storage though they are two buffers.
    """

    written: int
    other: int
    coincides: bool
    across: bool
    folds: bool
    indexed: bool
    placed: bool

    def views(self, operands: Sequence[Any]) -> tuple[View, View]:
        """The two accesses in an instruction."""
        other: View = operands[self.other]
        return operands[self.written], index_tile(other) if self.indexed else other  # type: ignore[return-value]


class Conflict(NamedTuple):
    """What is wrong with an instruction that writes over what it reads, and how to mend it."""

    message: str
    hint: str
    operands: tuple[OperandNote, ...]


def index_tile(view: object) -> View | None:
    """The tile that holds an operand's run-time indices."""
    dynamic = view.dynamic if isinstance(view, View) else None
    return dynamic.index if dynamic is not None and isinstance(dynamic.index, View) else None


def pairs_of(record: Record, operands: Sequence[Any]) -> tuple[Pair, ...]:
    """Operands of an instruction of which one is written and the other is not to be overwritten by it."""
    return tuple(_pairs(record, operands))


def _pairs(record: Record, operands: Sequence[Any]) -> Iterator[Pair]:
    names = [*record.operands]
    if record.many is not None:
        names += [record.many] * (len(operands) - len(names))
    for position in record.written:
        first = operands[position]
        if not isinstance(first, View):
            continue
        for other, (name, operand) in enumerate(zip(names, operands, strict=True)):
            spec = record.operands[name]
            again = spec.writes and (other < position or {name, names[position]} & {*record.survives})
            if other != position and (spec.reads or (spec.writes and not again)) and isinstance(operand, View):
                coincides = name in record.coincides[names[position]]
                yield from _pair(
                    first, operand, position, other, coincides, name in record.across, name in record.folds
                )
            tile = index_tile(operand)
            if tile is not None:
                yield from _pair(first, tile, position, other, indexed=True)


def _pair(
    a: View,
    b: View,
    first: int,
    second: int,
    coincides: bool = False,
    across: bool = False,
    folds: bool = False,
    indexed: bool = False,
) -> Iterator[Pair]:
    if a.memory is b.memory:
        placed = a.on_chip and a.buffer.address is not None and b.buffer.address is not None
        yield Pair(first, second, coincides, across, folds, indexed, placed)


def breaks(pair: Pair, found: Relation) -> bool:
    """Two operands that lie like this to each other break the rule."""
    if found is SAME:
        return not pair.coincides
    if found is WITHIN:
        return not pair.folds
    return found is OVER or (found is COLUMNS and not pair.across)


def conflicts(record: Record, operands: Sequence[Any], ranges: Mapping[Value, range]) -> Iterator[Conflict]:
    """Where an instruction breaks the rule in all its executions; what depends on the trip a run finds."""
    for pair in pairs_of(record, operands):
        found = relation(*pair.views(operands), ranges)
        if breaks(pair, found):
            yield conflict(record, operands, pair, found)


def conflict(record: Record, operands: Sequence[Any], pair: Pair, found: Relation) -> Conflict:
    """The rule's words about two operands."""
    a, b = pair.views(operands)
    first, second = _name(record, pair.written), _name(record, pair.other)
    if pair.indexed:
        second = f"the indices of {second}"
    both_written = not pair.indexed and not [*record.operands.values()][min(pair.other, len(record.operands) - 1)].reads
    where = a.buffer.name if a.buffer is b.buffer else f"{a.buffer.name} and {b.buffer.name} at one address"
    if both_written:
        what = f"{first} and {second}, both written, share elements of {where}: which of the two stays is not defined"
    elif found is SAME:
        what = f"{first} is {second} itself ({where}), and what it writes is not of the elements that it just read"
    else:
        what = (
            f"{first} overlaps {second} in {where}, but not element for element: "
            f"elements are overwritten that are still to be read"
        )
    return Conflict(
        f"{record.name}: {what}",
        f"write {first} to a second tile" + ("" if both_written else ", and copy it from there if it must end here"),
        (a.note(first), b.note(second)),
    )


def _name(record: Record, position: int) -> str:
    names = [*record.operands]
    if record.many is None or position < len(names) - 1:
        return names[position]
    return f"{record.many}[{position - len(names) + 1}]"
