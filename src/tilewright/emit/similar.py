"""What two ops have in common: everything but the tensors they use and where their accesses start."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from tilewright.emit.affine import Terms
from tilewright.emit.places import moves
from tilewright.ir.core import Op, Value
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC, FOR, trips
from tilewright.tile.record import Record
from tilewright.tile.view import View

OUTSIDE = -1
"""Where a value is made that no op of the list makes."""


class Item:
    """An op of a list.

    kind: equal for ops that differ only in `uses` and `places`. uses: the values from outside that it uses, in order,
    each with the position in the list of the op that makes it. places: where its views, and buffers with addresses,
    start. last_use: the position of
    the last op that uses what it makes.
    """

    __slots__ = ("kind", "last_use", "op", "places", "uses")

    def __init__(self, op: Op, kind: Hashable, uses: list[tuple[Value, int]], places: list[int]) -> None:
        self.op = op
        self.kind = kind
        self.uses = uses
        self.places = places
        self.last_use = OUTSIDE

    def steps(self, other: Item) -> list[int]:
        """How far each view starts from where that of another op of this kind does."""
        return [mine - theirs for mine, theirs in zip(self.places, other.places, strict=True)]


def similar_items(ops: Sequence[Op]) -> list[Item]:
    """The ops of a region as items."""
    numbers: dict[Hashable, int] = {}
    made: dict[Value, int] = {}
    items: list[Item] = []
    for position, op in enumerate(ops):
        kind = _Kind()
        described = kind.op(op)
        uses = [(value, made.get(value, OUTSIDE)) for value in kind.uses]
        number = numbers.setdefault(described if kind.known else (position,), len(numbers))
        items.append(Item(op, number, uses, kind.places))
        for _, home in uses:
            if home != OUTSIDE:
                items[home].last_use = position
        made.update(dict.fromkeys(op.results, position))
    return items


class _Kind:
    """Describes one op, and the ops inside of it; `known` is False for what has no description."""

    def __init__(self) -> None:
        self.uses: list[Value] = []
        self.places: list[int] = []
        self.known = True
        self._inside: dict[Value, int] = {}

    def op(self, op: Op) -> Hashable:
        if op.definition is ALLOC:
            buffer = op.result
            assert isinstance(buffer, Buffer)
            self._inside[buffer] = len(self._inside)
            copies: Hashable = None
            if buffer.address is not None:
                self.places.append(buffer.address.byte)
                copies = (buffer.address.partition, buffer.address.apart, buffer.depth, self._terms(moves(op)))
            return "alloc", buffer.type, buffer.name, copies, op.location
        if op.definition is FOR:
            region = op.regions[0]
            self._inside[region.arguments[0]] = len(self._inside)
            return "for", trips(op), tuple([self.op(each) for each in region.ops]), op.location
        record = op.definition
        if not isinstance(record, Record):
            self.known = False
            return None
        operands = tuple([self._operand(operand) for operand in op.operands])
        return record.name, operands, tuple(map(repr, op.attrs.values())), op.location

    def _operand(self, operand: Any) -> Hashable:
        if isinstance(operand, View):
            self.places.append(operand.offset)
            return self._view(operand)
        return self._value(operand) if isinstance(operand, Value) else repr(operand)

    def _view(self, view: View) -> Hashable:
        terms = self._terms(view.terms)
        chosen: Hashable = None
        if view.dynamic is not None:
            index, dynamic = view.dynamic.index, view.dynamic
            held = (self._view(index), index.offset) if isinstance(index, View) else self._value(index)
            chosen = (dynamic.kind, dynamic.stride, dynamic.limit, held)
        return self._value(view.buffer), view.dtype, view.sizes, view.strides, terms, chosen

    def _terms(self, terms: Terms) -> Hashable:
        return tuple([(self._value(value), factor) for value, factor in terms])

    def _value(self, value: Value) -> int | None:
        """The number of what is made inside; None for what comes from outside."""
        if value in self._inside:
            return self._inside[value]
        self.uses.append(value)
        return None
