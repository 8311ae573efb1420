"""Emission of a group whose rows are reduced: all rows of some columns are on chip at once.

A reduction is made on every partition, then the partitions meet. What it gives is read beside the rows, which are still
there:

    for some columns after the others:
        for each pass:
            what the pass before made possible, the same for all rows
            for each piece of the rows:
                load, compute, reduce, store what is ready
            what the partitions have reduced meets
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.lower.move.copy import by_block
from tilewright.lower.nest.columns import Cut
from tilewright.lower.nest.tall_sums import TallSums
from tilewright.lower.nest.tall_tiles import Piece
from tilewright.lower.regions.fuse import Step
from tilewright.lower.regions.tall import SAME
from tilewright.lower.write.homes import is_view
from tilewright.lower.write.loops import tiled
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group


class TallRows(TallSums):
    """Writes one group, some columns at a time; the rows in so many pieces."""

    def __init__(self, low: Lowering, group: Group, cut: Cut, pieces: int, streamed: bool = False) -> None:
        super().__init__(low, group, cut, pieces)
        self.streamed = streamed and len(self.pieces) > 1
        self.inverses: dict[Value, View] = {}
        touched: dict[Value, set[int]] = {}
        for number, steps in enumerate(self.of_pass):
            for step in steps:
                for v in (*step.inputs(), step.result):
                    touched.setdefault(self.same.get(v, v), set()).add(number)
        for step in reversed(self.steps):
            if _is_shown(step.op):
                # What is a view of a tile is there as long as that.
                (x,) = step.op.values()
                touched[self.same.get(x, x)] |= touched[self.same.get(step.result, step.result)]
        once = {v for v, passes in touched.items() if len(passes) == 1 or self.streamed}
        self.passing = once if len(self.pieces) > 1 else set()

    def _find_passes(self) -> None:
        self.passes, self.pass_of, self.combines = 1, {}, {}
        ready: dict[Value, int] = {}
        numbers: list[int] = []
        for step in self.steps:
            first = max((ready.get(self.same.get(v, v), 0) for v in step.inputs()), default=0)
            numbers.append(first)
            ready[step.result] = first + (1 if self.is_over_rows(step.op) else 0)
            if step.total is not None:
                ready[step.total.result] = first + 1
        order = sorted(range(len(self.steps)), key=lambda i: (numbers[i], self._is_wide(self.steps[i])))
        # In the order in which they are written.
        self.steps = [self.steps[i] for i in order]
        passes: list[list[Step]] = [[] for _ in range(max(numbers) + 1)]
        for i, step in zip(order, self.steps, strict=True):
            passes[numbers[i]].append(step)
        self.of_pass = passes

    def _is_wide(self, step: Step) -> bool:
        """True for a step that reads or makes rows."""
        return self.is_over_rows(step.op) or self.group.roles[step.result] != SAME

    # The loops.

    def _rows_of_part(self) -> None:
        self.begin()
        self.inverses.clear()
        for number, steps in enumerate(self.of_pass):
            for step in steps:
                if not self._is_wide(step):
                    self.by_lines = self.is_on_lines(step)
                    self._write(step)
                    self.by_lines = False
            again, wide = self._again(number), [step for step in steps if self._is_wide(step)]
            for step in wide:
                for op in (step.op, step.total):
                    if op is not None and self.is_over_rows(op):
                        self.sums[op] = self.begin_total(op, step)
            for piece in self._each_piece() if wide else ():
                self.begin_piece(piece)
                for step in again:
                    self.write_step(step)
                for step in wide:
                    self._write(step)
            self.begin_piece(None)
            for step in wide:
                for op in (step.op, step.total):
                    if op is not None and op in self.sums:
                        self.finish_total(step, self.sums.pop(op))
                        self._store(op.result)

    def _each_piece(self) -> Iterator[Piece]:
        """The pieces one after the other; in a loop where none of them stays on chip."""
        if not self.streamed:
            yield from self.pieces
            return
        step = self.pieces[0].count
        for at, count in tiled(self.b, self.each, step, "p"):
            yield Piece(by_block(at, step), at, count, self.spread)
        yield from self.pieces[self.whole_pieces :]

    def _again(self, number: int) -> list[Step]:
        """Steps of earlier passes that a pass repeats because nothing of them stayed; what all pieces read is made."""
        if not self.streamed:
            return self._views_again(number)
        wide = [step for steps in self.of_pass[: number + 1] for step in steps if self._is_wide(step)]
        makes = {step.result: step for step in wide if self.group.roles[step.result] != SAME}
        work, found = [step for step in self.of_pass[number] if self._is_wide(step)], []
        while work:
            step = work.pop()
            found.append(step)
            fresh = [makes[v] for v in (self.same.get(v, v) for v in step.inputs()) if v in makes]
            work += [each for each in fresh if each not in found and each not in work]
        for step in found:
            self._make_ahead(step)
        return [step for step in wide if step in found and step not in self.of_pass[number]]

    def _views_again(self, number: int) -> list[Step]:
        """Views of earlier passes that a pass reads: of each piece anew."""
        wanted = {v for step in self.of_pass[number] for v in step.inputs()}
        found: list[Step] = []
        for step in reversed([step for steps in self.of_pass[:number] for step in steps]):
            if _is_shown(step.op) and step.result in wanted and self._is_wide(step):
                found.insert(0, step)
                wanted.update(step.inputs())
        return found

    def _make_ahead(self, step: Step) -> None:
        """Make what is the same for all rows, before the loop over their pieces."""
        divisor = self._divisor(step.op)
        if divisor is not None:
            self.twin(self._inverse(divisor), step.op)
        for x in step.inputs():
            if x is not divisor and not self._has_rows(self.same.get(x, x)):
                self.operand(x, step.op)

    def _write(self, step: Step) -> None:
        self.b.location = step.op.location
        self.write_step(step)
        self._store(step.result)

    def _single(self, step: Step) -> None:
        op, y = step.op, self._divisor(step.op)
        if y is None:
            super()._single(step)
            return
        x = self.operand(op.operands[0], op)
        tile = self._inverse(y)
        self.twin(tile, op)
        inverse = self._in_panel(self.beside_rows(tile, y, op), y)
        self.select.binary("multiply", self.destination(step.result), x, inverse)

    def _divisor(self, op: Op) -> Value | None:
        """What rows are divided by, where it is the same for all of them."""
        y = self.same.get(op.operands[-1], op.operands[-1]) if op.name == "divide" else None
        is_same = isinstance(y, Value) and self.group.roles.get(y) == SAME != self.group.roles[op.result]
        return y if is_same else None

    def _inverse(self, y: Value) -> View:
        """1 / y for a value that is the same for all rows, made once."""
        found = self.inverses.get(y)
        if found is not None:
            return found
        if y in self.lines:
            lines = self.b.sbuf(self.lines[y].sizes, float32, "inverse", depth=self.depth)
            self.select.inverse(lines, self.lines[y])
            tile = self.spread_beside(y, lines)
        else:
            wide = self.value_tile(y, SAME)
            tile = self.b.sbuf(wide.sizes, float32, "inverse", depth=self.depth)
            self.select.inverse(tile, wide)
        self.inverses[y] = tile
        return tile


def _is_shown(op: Op) -> bool:
    """True for an op whose result is a view of the tile of its operand."""
    return op.name == "bitcast" or (is_view(op) and op.name != "broadcast_to")
