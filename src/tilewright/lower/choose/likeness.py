"""Groups that are alike: what is known of one tells how to write the other.

Layers of a model, steps of an unrolled loop, other forms of a program and a way that is written again once it has won
bring the same group again and again. All that ways are chosen by is in its likeness: what it computes, in which layout,
where its operands lie, where its results go, and how much room there is. Names, lines and the place in the program are
not, and neither is where in HBM something begins.

Steps of an unrolled loop may differ a little: state that shrinks, slices that move on, other constants, a few more
values on chip. Such groups are similar: what several of them were best written as will do for the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir.core import Op, Value
from tilewright.ir.fingerprint import constant_text
from tilewright.lower.regions.grouping import Group
from tilewright.lower.write.homes import Chip
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def likeness(low: Lowering, group: Group) -> Hashable:
    """What is equal for groups that are best written in the same way."""
    return _Likeness(low, group).all()


def similarity(low: Lowering, group: Group) -> Hashable:
    """What is equal for groups that differ in sizes, up to about twice, offsets and constants at most."""
    return _Similarity(low, group).all()


class _Likeness:
    """Values and buffers have numbers, in the order in which they are met."""

    def __init__(self, low: Lowering, group: Group) -> None:
        self.low, self.group = low, group
        self._numbers: dict[Value, str] = {}

    def all(self) -> Hashable:
        """Everything."""
        group = self.group
        ops = tuple(self._op(op) for op in (*group.shared, *group.ops, *group.totals))
        layouts = tuple(self._layout(each) for each in (group, *group.twins))
        reads = tuple(self._read(value) for value in group.reads)
        results = tuple(self._result(value) for value in group.results)
        return ops, layouts, reads, results, self._beside()

    def _beside(self) -> Hashable:
        low = self.low
        return low.room(), low.frugal, bool(low.dividing), tuple(low.resident.values()), len(low.kept())

    def _number(self, value: Value) -> str:
        return self._numbers.setdefault(value, f"%{len(self._numbers)}")

    def _op(self, op: Op) -> Hashable:
        attrs = tuple((name, self._constant(x)) for name, x in op.attrs.items())
        types = tuple((self._number(value), value.type.shape, value.type.dtype) for value in op.results)
        return op.name, attrs, tuple(self._constant(x) for x in op.operands), types

    def _constant(self, x: Any) -> str:
        return constant_text(x, self._number)

    def _layout(self, group: Group) -> Hashable:
        roles = tuple((self._number(value), each) for value, each in group.roles.items())
        stencil = group.stencil and (group.stencil.rank, tuple(group.stencil.rolled.items()))
        return group.rows, group.batch, roles, group.tall, stencil, len(group.shared), len(group.totals)

    def _read(self, value: Value) -> Hashable:
        low, made, home = self.low, value.producer, self.low.homes.get(value)
        creation = self._op(made) if made is not None and made.definition.family == "creation" else None
        where = None if home is None else (self._view(home.view), home.rows if isinstance(home, Chip) else None)
        also = tuple(rows for known, rows in low.moved if known is value)
        return self._number(value), value.type.shape, creation, where, also, value in low.given, value in low.signed

    def _result(self, value: Value) -> Hashable:
        low, known = self.low, self.low.draft.residents.get(value)
        outputs = tuple(self._view(view) for view in low.outputs.get(value, ()))
        kept = known is not None, low.draft.is_kept(value), low.draft.later_reads(value), value in low.signed
        return self._number(value), outputs, kept, tuple(self._readers(value))

    def _readers(self, value: Value) -> Iterator[str]:
        inside = self.group.inside
        yield from (use.name for use in value.uses if use not in inside and use not in self.low.done)

    def _view(self, view: View) -> Hashable:
        buffer: Buffer = view.buffer
        begin = view.offset if view.on_chip else 0
        return self._number(buffer), buffer.memory, view.dtype, begin, view.sizes, view.strides


class _Similarity(_Likeness):
    """Sizes count by their powers of two."""

    def _op(self, op: Op) -> Hashable:
        operands = tuple(self._number(x) if isinstance(x, Value) else type(x).__name__ for x in op.operands)
        types = tuple((self._number(value), _about(value.type.shape), value.type.dtype) for value in op.results)
        attrs = tuple((name, self._constant(x)) for name, x in op.attrs.items() if name in _DIMS)
        return op.name, attrs, operands, types

    def _layout(self, group: Group) -> Hashable:
        roles = tuple((self._number(value), each) for value, each in group.roles.items())
        tall = group.tall and (group.tall.behind, group.tall.channels > 1)
        stencil = group.stencil and (group.stencil.rank, len(group.stencil.ops))
        return _about((group.rows, *group.batch)), roles, tall, stencil, len(group.shared), len(group.totals)

    def _read(self, value: Value) -> Hashable:
        made, home = value.producer, self.low.homes.get(value)
        creation = made.name if made is not None and made.definition.family == "creation" else None
        where = None if home is None else (home.view.buffer.memory, home.rows if isinstance(home, Chip) else None)
        return self._number(value), _about(value.type.shape), creation, where, value in self.low.signed

    def _result(self, value: Value) -> Hashable:
        low, known = self.low, self.low.draft.residents.get(value)
        kept = known is not None, low.draft.is_kept(value), value in low.signed
        return self._number(value), len(low.outputs.get(value, ())), kept, tuple(dict.fromkeys(self._readers(value)))

    def _beside(self) -> Hashable:
        low = self.low
        return low.frugal, bool(low.dividing), bool(low.resident or low.shared)


_DIMS = ("axis", "axes", "perm", "keepdims", "dtype")
"""Attributes that say what an op does, rather than to how many elements."""


def _about(sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes, those beyond a few by the power of two below."""
    return tuple(n if n < 4 else 1 << (n.bit_length() - 1) for n in sizes)
