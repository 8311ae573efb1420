"""How long the buffers of a kernel are needed, and how many copies of each: for measuring and laying them out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from tilewright.ir.core import Op, Value
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View
from tilewright.tile.visit import Visitor

Span = tuple[int, int]
"""The first and the last position in the text at which something is needed."""


@dataclass(frozen=True, slots=True, eq=False)
class Extent:
    """A buffer on chip.

    copies: as many as its depth says and trips of its loops can use; most: as many as they could use at all. life: from
    its first to its last access; what a loop uses from outside lives as long as the loop. loop: the innermost loop that
    allocates it, nest: the outermost one.
    """

    buffer: Buffer
    copies: int
    most: int
    life: Span
    loop: Span
    nest: Span

    @property
    def span(self) -> Span:
        """How long its place is taken: copies take turns until their loop ends."""
        return self.life if self.copies == 1 else self.loop


def extents(ops: Iterable[Op]) -> list[Extent]:
    """Every on-chip buffer that some ops access, in the order of first accesses."""
    return extents_of_parts([ops])[0]


def extents_of_parts(parts: Iterable[Iterable[Op]]) -> tuple[list[Extent], list[int]]:
    """The same for parts that follow each other, and the position at which each of them ends."""
    walk = _Walk()
    ends: list[int] = []
    for part in parts:
        walk.ops(part)
        ends.append(walk.at)
    made: list[Extent] = []
    for buffer, (first, last) in walk.lives.items():
        life, most = (first, last), walk.trips.get(buffer, 1)
        loop = walk.loops.get(buffer, life)
        made.append(Extent(buffer, min(buffer.depth, most), most, life, loop, walk.nests.get(buffer, loop)))
    return made, ends


class _Walk(Visitor):
    """Goes through the text once. A position is that of an instruction, or of the beginning or end of a loop."""

    def __init__(self) -> None:
        self.lives: dict[Buffer, list[int]] = {}
        self.loops: dict[Buffer, Span] = {}
        self.nests: dict[Buffer, Span] = {}
        self.trips: dict[Buffer, int] = {}
        self.at = 0
        self._around: list[range] = []
        # Buffers that the present loop allocates, loops inside of it included, and those that it uses.
        self._own: set[Buffer] = set()
        self._used: dict[Buffer, None] = {}

    def alloc(self, op: Op, buffer: Buffer) -> None:
        if buffer.on_chip:
            self._own.add(buffer)
            self.trips[buffer] = max(1, prod(map(len, self._around)))

    def loop(self, op: Op, index: Value, positions: range) -> None:
        outer_own, outer_used = self._own, self._used
        self._own, self._used = set(), {}
        self.at += 1
        start = self.at
        self._around.append(positions)
        self.region(op.regions[0])
        self._around.pop()
        self.at += 1
        for buffer in self._used:
            if buffer in self._own:
                self.nests[buffer] = (start, self.at)
                self.loops.setdefault(buffer, (start, self.at))
            else:
                self._note(buffer, start)
                self._note(buffer, self.at)
        self._own |= outer_own
        self._used |= outer_used

    def instruction(self, op: Op) -> None:
        self.at += 1
        for operand in op.operands:
            if isinstance(operand, View):
                index = None if operand.dynamic is None else operand.dynamic.index
                for view in (operand, index):
                    if isinstance(view, View) and view.on_chip:
                        self._note(view.buffer, self.at)
                        self._used[view.buffer] = None

    def _note(self, buffer: Buffer, at: int) -> None:
        life = self.lives.get(buffer)
        if life is None:
            self.lives[buffer] = [at, at]
        else:
            life[0], life[1] = min(life[0], at), max(life[1], at)

    def dealloc(self, op: Op, buffer: Buffer) -> None:
        """The last access says when a life ends."""

    def register(self, op: Op) -> None:
        """Registers take no room on chip."""

    def trip(self, index: Value, position: int) -> None:
        """Loops are walked once."""
