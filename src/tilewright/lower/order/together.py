"""Several trips of a loop at a time, their instructions in the order in which they could start.

Every engine takes its instructions in the order of the program. Where the steps of a block of rows follow from each
other on different engines, as in attention, an engine that waits for one block has the next one's work behind what it
waits for. With a few blocks written side by side, their instructions are put in the order in which they can start
(`order.py`): while one block's exponentials are made, the Tensor engine has the scores of the next. What starts last
may come with the next trip (software pipelining).

Expects a kernel before its tiles have places; guarantees the same results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from tilewright.ir.core import Op, Region, Value, clone_op
from tilewright.ir.walk import walk
from tilewright.lower.order.order import Node, in_order, scheduled, straight_ns
from tilewright.lower.order.straight import executed, is_known
from tilewright.target import Target
from tilewright.tile.memory import PSUM, Buffer
from tilewright.tile.ops import ALLOC, FOR, loop, trips
from tilewright.tile.view import View


@dataclass(frozen=True, slots=True)
class _Place:
    """What the indices of loops are in a copy of their bodies: numbers, or another index and what is added to it."""

    numbers: Mapping[Value, int]
    shifted: Mapping[Value, tuple[Value, int]]

    def at(self, index: Value, number: int) -> _Place:
        """The same in a trip of a further loop."""
        return _Place({**self.numbers, index: number}, self.shifted)

    def view(self, view: View, tiles: Mapping[Value, Value]) -> View:
        """A view as the copy has it."""
        buffer = tiles.get(view.buffer, view.buffer)
        assert isinstance(buffer, Buffer)
        offset, terms = view.offset, []
        for value, factor in view.terms:
            if value in self.numbers:
                offset += factor * self.numbers[value]
            elif value in self.shifted:
                index, by = self.shifted[value]
                offset += factor * by
                terms.append((index, factor))
            else:
                terms.append((value, factor))
        return View(buffer, view.dtype, offset, view.sizes, view.strides, tuple(terms))


@dataclass(slots=True)
class TripsTogether:
    """Loops of a kernel with as many trips at a time as have a number of instructions."""

    target: Target
    most: int
    staggered: bool
    """Whether a trip may begin before the one before it is done."""
    depths: dict[Buffer, int] = field(default_factory=dict)
    """Copies of the tiles that were made for it."""
    made: dict[Op, list[Op]] = field(default_factory=dict)
    """What took the place of the loops that were changed."""
    _before: list[tuple[Region, list[Op], list[tuple[Op, Region]]]] = field(default_factory=list)

    def replace(self, region: Region) -> None:
        """Change the loops of a region."""
        new: list[Op] = []
        for op in region.ops:
            if op.definition is not FOR or not is_known(op):
                new.append(op)
            elif executed(op.regions[0].ops) > self.most:
                self.replace(op.regions[0])
                new.append(op)
            else:
                self.made[op] = [*self._together(op)]
                new += self.made[op]
        if len(new) == len(region.ops) and all(a is b for a, b in zip(new, region.ops, strict=True)):
            return
        kept = set(new)
        gone = [(inner, inner.parent) for op in region.ops if op not in kept for inner in (op, *walk(op.regions[0]))]
        self._before.append((region, region.ops, [(op, parent) for op, parent in gone if parent is not None]))
        for op, _ in gone:
            op.unregister()
        fresh = [op for op in new if op.parent is None]
        region.ops = new
        for op in fresh:
            op.register(region)
        region.ops = in_order(new, self.target, inf)

    def undo(self) -> None:
        """Put the loops back."""
        for region, before, gone in reversed(self._before):
            known = set(before)
            for op in [op for op in region.ops if op not in known]:
                for inner in (op, *(each for own in op.regions for each in walk(own))):
                    inner.unregister()
            region.ops = before
            for op, parent in gone:
                op.register(parent)
        self._before.clear()

    def _together(self, op: Op) -> Iterator[Op]:
        """A loop with some trips at a time, and the trips that are left."""
        (index,) = op.regions[0].arguments
        numbers = trips(op)
        count = _count(len(numbers), self.most // max(executed(op.regions[0].ops), 1))
        rounds = len(numbers) // count
        if rounds > 1:
            step = numbers.step * count
            other = Value(index.type, index.name)
            body: list[Op] = []
            for n in range(count):
                place = _Place({}, {index: (other, n * numbers.step)})
                body += self._copied(op.regions[0].ops, place, {}, count)
            yield from self._rounds(op, body, other, range(numbers.start, numbers.start + rounds * step, step))
        for number in numbers[count * rounds if rounds > 1 else 0 :]:
            yield from self._copied(op.regions[0].ops, _Place({index: number}, {}), {}, count)

    def _rounds(self, op: Op, body: list[Op], index: Value, numbers: range) -> Iterator[Op]:
        """A loop over a body of straight code. What starts so late that the next trip could be in work by then comes
        with that one: the first trip begins before the loop, and the last one ends after it."""
        late = self._late(body) if self.staggered else set()
        soon = [each for each in body if each not in late and each.definition is not ALLOC]
        last = [each for each in body if each in late]
        tiles = [each.result for each in body if each.definition is ALLOC]
        early_tiles, late_tiles = ({v for each in some for v in each.values()} for some in (soon, last))
        both = [v for v in tiles if v in early_tiles and v in late_tiles]
        for each in body:
            if each.definition is ALLOC and each.result in both:
                yield each
        final, ahead = numbers[-1], 0
        if last:
            yield from self._again(soon, _Place({index: numbers[0]}, {}), tiles, both)
            # Places before the first one are none: a trip is numbered by what of it comes last.
            numbers, ahead = numbers[:-1], numbers.step
        made, other = loop(numbers.stop, numbers.start, numbers.step, name=index.name or "i")
        made.location = op.location
        inside = made.regions[0]
        inside.extend(self._again(last, _Place({}, {index: (other, 0)}), tiles, both))
        inside.extend(self._again(soon, _Place({}, {index: (other, ahead)}), tiles, both))
        inside.ops = in_order(inside.ops, self.target, inf)
        yield made
        if last:
            yield from self._again(last, _Place({index: final}, {}), tiles, both)

    def _late(self, body: Sequence[Op]) -> set[Op]:
        """What starts after the busiest engine could be done with all of a body, with all that depends on it. A tile in
        PSUM is there for the one or the other: banks are few."""
        nodes, period = scheduled(body, self.target), straight_ns(body, self.target)
        in_psum: dict[Value, list[Node]] = {}
        for node in nodes:
            for value in node.op.values():
                if isinstance(value, Buffer) and value.memory is PSUM and value in self.depths:
                    in_psum.setdefault(value, []).append(node)
        late: set[Op] = set()
        work = [node for node in nodes if node.start >= period]
        while work:
            node = work.pop()
            if node.op not in late:
                late.add(node.op)
                work += node.followers
                work += [other for value in node.op.values() for other in in_psum.get(value, ())]
        return late

    def _again(self, ops: Sequence[Op], place: _Place, tiles: Sequence[Value], kept: Sequence[Value]) -> Iterator[Op]:
        """Copies of instructions, with tiles of their own but for those that are kept."""
        own = set(tiles) - set(kept)
        fresh: dict[Value, Value] = {}
        for op in ops:
            for value in op.values():
                if value in own and value not in fresh:
                    assert isinstance(value, Buffer)
                    made = fresh[value] = value.fresh()
                    assert isinstance(made, Buffer)
                    self.depths[made] = made.depth = self.depths[value]
                    yield Op(ALLOC, (), (made,))
            operands = [place.view(x, fresh) if isinstance(x, View) else x for x in op.operands]
            yield Op(op.definition, operands, (), op.attrs, (), op.location)

    def _copied(self, ops: Sequence[Op], place: _Place, tiles: dict[Value, Value], copies: int) -> Iterator[Op]:
        """Every op of a body, inner loops written out. copies: how often the same tiles are there."""
        for op in ops:
            if op.definition is FOR:
                (index,) = op.regions[0].arguments
                for number in trips(op):
                    inside = place.at(index, number)
                    yield from self._copied(op.regions[0].ops, inside, tiles, copies * len(trips(op)))
            elif op.definition is ALLOC:
                made = clone_op(op, tiles)
                assert isinstance(made.result, Buffer) and isinstance(op.result, Buffer)
                # What is in order never has more in PSUM than there are banks: one copy of each.
                depth = 1 if op.result.memory is PSUM else max(op.result.depth // copies, 1)
                self.depths[made.result] = made.result.depth = depth
                yield made
            else:
                operands = [place.view(x, tiles) if isinstance(x, View) else x for x in op.operands]
                yield Op(op.definition, operands, (), op.attrs, (), op.location)


def _count(trips: int, most: int) -> int:
    """How many trips at a time: about as many as there may be, with no rest where that can be."""
    most = max(min(trips, most), 1)
    return next((n for n in range(most, most // 2, -1) if trips % n == 0), most)
