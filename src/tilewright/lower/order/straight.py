"""Loops as straight code, so that their instructions can be put between others, and others between them.

Where steps follow from each other, a small loop is a wall: what comes after it is done after it on every engine, though
nothing there may depend on it. Written out, its instructions are put in the order in which they start (`order.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.ir.core import CONSTANTS, Op, Region, Value, clone_op
from tilewright.ir.walk import walk
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC, FOR, trips
from tilewright.tile.record import Record
from tilewright.tile.view import View


class StraightLoops:
    """The loops of a kernel's body that are known before they run, and what takes their place."""

    def __init__(self, body: Region) -> None:
        self.body, self.before = body, body.ops
        self.made = {op: list(_trips(op, {}, {})) for op in body.ops if op.definition is FOR and is_known(op)}
        results = [x for ops in self.made.values() for op in ops for x in op.results]
        self.tiles = [x for x in results if isinstance(x, Buffer)]
        self._inside = [(op, op.parent) for loop in self.made for op in (loop, *walk(loop.regions[0]))]

    def replace(self) -> None:
        """Put the straight code in place of the loops."""
        for op, _ in self._inside:
            op.unregister()
        self.body.ops = [new for op in self.before for new in self.made.get(op, (op,))]
        for ops in self.made.values():
            for op in ops:
                op.register(self.body)

    def undo(self) -> None:
        """Put the loops back."""
        for ops in self.made.values():
            for op in ops:
                op.unregister()
        self.body.ops = self.before
        for op, region in self._inside:
            assert region is not None
            op.register(region)


def executed(ops: Sequence[Op]) -> int:
    """How many instructions some ops execute."""
    return sum(
        len(trips(op)) * executed(op.regions[0].ops) if op.definition is FOR else isinstance(op.definition, Record)
        for op in ops
    )


def is_known(op: Op) -> bool:
    """True for a loop of instructions and tiles all of whose operands depend on nothing but its index."""
    if op.definition is FOR:
        return all(is_known(inner) for inner in op.regions[0].ops)
    if op.definition is not ALLOC and not isinstance(op.definition, Record):
        return False
    return all(x.__class__ in CONSTANTS or (isinstance(x, View) and x.dynamic is None) for x in op.operands)


def _trips(loop: Op, at: dict[Value, int], tiles: dict[Value, Value]) -> Iterator[Op]:
    """Every op of every trip, as it is with the indices of the loops around it."""
    (index,) = loop.regions[0].arguments
    for number in trips(loop):
        at[index] = number
        for op in loop.regions[0].ops:
            if op.definition is FOR:
                yield from _trips(op, at, tiles)
            elif op.definition is ALLOC:
                made = clone_op(op, tiles)
                assert isinstance(made.result, Buffer)
                # Nothing repeats it.
                made.result.depth = 1
                yield made
            else:
                operands = [_placed(x, at, tiles) if isinstance(x, View) else x for x in op.operands]
                yield Op(op.definition, operands, (), op.attrs, (), op.location)


def _placed(view: View, at: dict[Value, int], tiles: dict[Value, Value]) -> View:
    """A view where indices have these values."""
    buffer = tiles.get(view.buffer, view.buffer)
    assert isinstance(buffer, Buffer)
    offset = view.offset + sum(factor * at[value] for value, factor in view.terms)
    return View(buffer, view.dtype, offset, view.sizes, view.strides)
