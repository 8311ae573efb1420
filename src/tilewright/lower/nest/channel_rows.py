"""Emission of a group that reduces all dims but one in the middle: channels lie on partitions, each with its images.

Of few channels several rows lie on partitions side by side: partition p holds channel p % channels of the rows that are
p // channels, and a number of partitions' worth further on, and so on. What a reduction gives is a number per
partition; where a channel lies on several of them, these meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.move.copy import turn_tile
from tilewright.lower.nest.columns import Cut
from tilewright.lower.nest.tall_rows import TallRows
from tilewright.lower.nest.tall_sums import Total
from tilewright.lower.nest.tall_tiles import Piece
from tilewright.lower.regions.axes import Axes
from tilewright.lower.regions.fuse import Step
from tilewright.lower.regions.roles import Roles
from tilewright.lower.regions.tall import SAME, together
from tilewright.lower.select.select import REDUCE, Operand
from tilewright.lower.write.block import flat
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.views import At, as_shape, broadcast, merged, permuted, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group


class ChannelRows(TallRows):
    """Writes one group, its channels on partitions."""

    def __init__(self, low: Lowering, group: Group, pieces: int) -> None:
        assert group.tall is not None
        self.channels = group.tall.channels
        self.window_of_channels: tuple[At, int] = (0, min(self.channels, low.target["limits.partitions"]))
        super().__init__(low, group, Cut(Axes(group)), pieces)

    def _lies_by_blocks(self) -> bool:
        return False

    def _layout(self) -> tuple[int, int]:
        beside = together(self.tall, self.lanes)
        return self.window_of_channels[1] * beside, self.group.rows // beside

    @decision("all rows: channels")
    def _rows_of_part(self) -> None:
        for at, count in tiled(self.b, self.channels, min(self.channels, self.lanes), "c"):
            self.window_of_channels = at, count
            self.spread = self._layout()[0]
            self.pieces = [Piece(each.number, each.first, each.count, self.spread) for each in self.pieces]
            super()._rows_of_part()

    # Tiles.

    def free_sizes(self, x: Value, roles: Roles) -> list[int]:
        if roles == SAME:
            return [1]
        return list(x.type.shape[roles.rows[1] + 1 :])

    def operand(self, x: Any, op: Op) -> Operand:
        if not isinstance(x, Value):
            return x
        roles = self.group.roles[op.result]
        place = self.tall.place(x.type.shape)
        if place is not None and self.group.roles.get(x) != SAME:
            return self._in_panel(self.value_tile(x, Roles(place)), x)
        tile = self.value_tile(x, SAME)
        tile = as_shape(tile, (tile.sizes[0], 1, *[1] * len(self.free_sizes(op.result, roles))))
        return self._in_panel(tile, x)

    def _in_panel(self, tile: View, x: Value) -> View:
        if self.piece is None or tile.buffer in self.in_pieces or tile.sizes[1] != self.each or self.each == 1:
            return tile
        return sliced(tile, 1, self.piece.first, self.piece.count)

    def _view(self, op: Op) -> View:
        if op.name == "bitcast":
            return super()._view(op)
        # A number per partition, whatever dims it has.
        return self.value_tile(op.operands[0], SAME)

    def _fetch(self, x: Value, roles: Roles) -> View:
        if roles != SAME:
            return super()._fetch(x, roles)
        if x.type.size == 1:
            return as_shape(sliced(self._replicate(x, SAME), 0, 0, self.spread), (self.spread, 1, 1))
        at, count = self.window_of_channels
        source = self.low.in_hbm(x)
        line = as_shape(source, (self.channels, 1))
        made = self.b.sbuf((self.spread, 1, 1), source.dtype, x.name or "x", depth=self.depth)
        for first in range(0, self.spread, count):
            self.b.op("dma_copy", sliced(flat(made), 0, first, count), sliced(line, 0, at, count))
        return made

    def _make_shared(self) -> None:
        """Nothing: what is the same for all rows is loaded with the channels that are in work."""

    def _load_outer(self) -> None:
        return

    def _move_operands(self, op: Op) -> None:
        for x in op.values():
            if x in self.low.homes and x not in self.group.roles:
                self.low.contiguous(x)

    def _of_piece(self, view: View, x: Value, roles: Roles, piece: Piece) -> View:
        at, count = self.window_of_channels
        last = roles.rows[1]
        if self.channels <= self.lanes:
            rows = merged(view, 0, last)
            assert rows is not None
            blocks = split(rows, 0, (self.each, self.spread))
        else:
            rows = merged(view, 0, last - 1)
            assert rows is not None
            blocks = sliced(rows, 1, at, count)
        return sliced(permuted(blocks, (1, 0, *range(2, blocks.ndim))), 1, piece.first, piece.count)

    def _store_same(self, value: Value, out: View) -> None:
        at, count = self.window_of_channels
        size = self.channels if value.type.size > 1 else 1
        line = as_shape(out, (size, 1))
        tile = flat(self.value_tile(value, SAME))
        part = (0, 1) if size == 1 else (at, count)
        self.b.op("dma_copy", sliced(line, 0, *part), sliced(tile, 0, 0, part[1]))

    # Reductions.

    def begin_total(self, op: Op, step: Step) -> Total:
        """Where a reduction takes in what pieces give."""
        (x,) = op.operands
        roles = Roles(self.tall.place(x.type.shape) or (0, 0))
        over = [i for i, size in enumerate(self.free_sizes(x, roles)) if size != 1]
        total = Total(op, roles, [], over, 1)
        total.parts = self.b.sbuf((self.spread, len(self.pieces), 1), float32, "part", depth=self.depth)
        return total

    def finish_total(self, step: Step, total: Total) -> None:
        """Deliver a reduction of all pieces."""
        op = total.op
        column = self._joined(total)
        if self.spread > self.window_of_channels[1]:
            column = self._same_channels(op, column)
        dst = flat(self.destination(op.result))
        if step.negate and step.op is op:
            self.select.scalars(dst, column, "multiply", -1.0)
        else:
            self.select.copy(dst, column)

    def _same_channels(self, op: Op, column: View) -> View:
        """[partitions, 1]: those of one channel are reduced, and each is given what comes of it."""
        b, beside = self.b, self.spread // self.channels
        row = b.sbuf((1, 1, self.spread), float32, "row", depth=self.depth)
        turn_tile(self.low, row, column, 1)
        met = b.sbuf((1, self.channels), float32, "met", depth=self.depth)
        lines = permuted(as_shape(row, (1, beside, self.channels)), (0, 2, 1))
        b.op("tensor_reduce", met, lines, op=REDUCE[op.name], axis=(-1,))
        wide = b.sbuf((1, beside, self.channels), float32, "wide", depth=self.depth)
        b.op("tensor_copy", wide, broadcast(as_shape(met, (1, 1, self.channels)), wide.sizes))
        made = b.sbuf((self.spread, 1, 1), float32, "column", depth=self.depth)
        turn_tile(self.low, made, as_shape(wide, (1, self.spread)), self.spread)
        return as_shape(made, (self.spread, 1))
