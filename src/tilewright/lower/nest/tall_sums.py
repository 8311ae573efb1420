"""Reductions over the rows of a group that has all of them in work: on each partition, then where the partitions meet.

The Tensor engine sums up, rows and partitions at once. Other reductions fold the rows of a partition by halves, which
the Vector engine and GpSimd share.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float32
from tilewright.ir.core import Op
from tilewright.lower.decisions import decision
from tilewright.lower.kernels.meet import all_meet, height_of, meet
from tilewright.lower.kernels.row_sums import SUMMED
from tilewright.lower.nest.columns import Cut
from tilewright.lower.nest.tall_tiles import TallTiles
from tilewright.lower.regions.fuse import Step
from tilewright.lower.regions.roles import Roles
from tilewright.lower.regions.tall import REDUCTIONS, SAME
from tilewright.lower.select.select import REDUCE, start_of
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import ones
from tilewright.lower.write.views import as_shape, permuted, picked, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group


@dataclass(slots=True)
class Total:
    """A reduction over the rows while pieces of them are taken in.

    kept, over: free dims of the operand, by position. banks: sums in PSUM for every partition, of several rows side by
    side. lines: sums in PSUM, the columns on partitions. parts: what each piece gave. total: what all of them did, in a
    tile of its own or not yet.
    """

    op: Op
    roles: Roles
    kept: list[int]
    over: list[int]
    columns: int
    banks: list[View] = field(default_factory=list)
    side_by_side: int = 1
    lines: View | None = None
    parts: View | None = None
    total: View | None = None
    is_own: bool = False


class TallSums(TallTiles):
    """Writes the reductions of one group."""

    def __init__(self, low: Lowering, group: Group, cut: Cut, pieces: int) -> None:
        super().__init__(low, group, cut, pieces)
        self.sums: dict[Op, Total] = {}

    def is_over_rows(self, op: Op) -> bool:
        """True for a reduction over the rows."""
        return op.name in REDUCTIONS and self.group.roles.get(op.operands[0]) != SAME

    def begin_total(self, op: Op, step: Step) -> Total:
        """Where a reduction takes in what pieces give."""
        (x,) = op.operands
        roles = Roles(self.tall.place(x.type.shape) or (0, 0))
        free, sizes = roles.free_dims(x.type.rank), self.free_sizes(x, roles)
        over = [i for i, d in enumerate(free) if d in op.attrs["axes"] and sizes[i] != 1]
        kept = [i for i in range(len(free)) if i not in over]
        columns = prod(sizes[i] for i in kept)
        total = Total(op, roles, kept, over, columns)
        if op.name == "sum" and not over and op is not step.total:
            if self.has_lines(op.result):
                height = height_of(columns, self.lanes)
                total.lines = self.b.psum((height, columns // height), float32, "total", depth=2)
                return total
            bank = self.low.target["memory.psum_bank_bytes"] // float32.itemsize
            total.side_by_side = max(min(bank // columns, self.pieces[0].count), 1)
            for at in range(0, columns, bank):
                shape = (self.spread, total.side_by_side, min(bank, columns - at))
                total.banks.append(self.b.psum(shape, float32, "total", depth=2))
        elif over or columns == 1:
            total.parts = self.b.sbuf((self.spread, len(self.pieces), columns), float32, "part", depth=self.depth)
        elif self.streamed:
            total.total, total.is_own = self.b.sbuf((self.spread, columns), float32, "joined", depth=self.depth), True
            self.select.fill(total.total, start_of(op.name, float32))
        return total

    def _reduce(self, step: Step) -> None:
        total = self.sums.get(step.op)
        if total is None:
            super()._reduce(step)
            return
        (x,) = step.op.operands
        tile = self._as_float(self._in_panel(self.value_tile(x, total.roles), x))
        if total.lines is not None or total.banks:
            self._sum(total, tile)
        elif total.parts is not None:
            self._take_part(total, tile)
        else:
            self._take(total, self.as_shape(tile, (*tile.sizes[:2], prod(tile.sizes[2:]))))

    def _as_float(self, tile: View) -> View:
        """A tile in a type that the engines reduce exactly."""
        if tile.dtype in SUMMED:
            return tile
        small = not tile.dtype.is_float and tile.dtype.itemsize == 1
        made = self.b.sbuf(tile.sizes, bfloat16 if small else float32, "number", depth=self.depth)
        self.select.copy(made, tile)
        return made

    @decision("all rows: sums by products")
    def _sum(self, total: Total, tile: View) -> None:
        """Sums by the Tensor engine: as lines, or for every partition."""
        lanes, count = tile.sizes[:2]
        rows = self.as_shape(tile, (*tile.sizes[:2], prod(tile.sizes[2:])))
        if total.lines is not None:
            height, blocks = total.lines.sizes
            column = sliced(ones(self.low, self.lanes, 1, tile.dtype), 0, 0, lanes)
            with self.b.loop(count, "j") as j:
                for i in range(blocks):
                    part = sliced(picked(rows, 1, j), 1, i * height, height)
                    self.b.op("nc_matmul", sliced(total.lines, 1, i, 1), part, column, is_moving_onezero=True)
            return
        square = sliced(sliced(ones(self.low, self.lanes, self.lanes, tile.dtype), 0, 0, lanes), 1, 0, self.spread)
        for at, some in tiled(self.b, count, total.side_by_side, "j"):
            start = 0
            for bank in total.banks:
                part = sliced(sliced(rows, 1, at, some), 2, start, bank.sizes[2])
                self.b.op("nc_matmul", sliced(bank, 1, 0, some), square, part, is_stationary_onezero=True)
                start += bank.sizes[2]

    @decision("all rows: a part taken")
    def _take_part(self, total: Total, tile: View) -> None:
        """What each partition makes of its rows of the piece, other dims being reduced as well."""
        assert total.parts is not None and self.piece is not None
        out = picked(sliced(total.parts, 0, 0, self.piece.lanes), 1, self.piece.number)
        over = [d for d in (1, *(2 + i for i in total.over)) if tile.sizes[d] != 1]
        order = permuted(tile, (0, *[d for d in range(1, tile.ndim) if d not in over], *over))
        shaped = as_shape(out, order.sizes[: order.ndim - len(over)])
        if over:
            axis = tuple(range(-len(over), 0))
            self.b.op("tensor_reduce", shaped, order, op=REDUCE[total.op.name], axis=axis)
        else:
            self.select.copy(shaped, order)

    def _take(self, total: Total, rows: View) -> None:
        """[partitions, rows, columns] by halves, which two engines share, into the total."""
        alu, count = REDUCE[total.op.name], rows.sizes[1]
        views = [picked(rows, 1, i) for i in range(count)]
        if count >= 4:
            half = count // 2
            made = self.b.sbuf((rows.sizes[0], half, rows.sizes[2]), float32, "half", depth=self.depth)
            self.select.two(alu, made, sliced(rows, 1, 0, half), sliced(rows, 1, half, half))
            left = half
            while left > 1:
                half = left // 2
                into, high = sliced(made, 1, 0, half), sliced(made, 1, left - half, half)
                self.select.two(alu, into, into, high)
                left -= half
            views = [picked(made, 1, 0), *([picked(rows, 1, count - 1)] if count % 2 else [])]
        for view in views:
            if total.total is None:
                total.total = view
                continue
            before, lanes = total.total, view.sizes[0]
            if not total.is_own:
                # The first two of them are joined in a tile of their own.
                total.total = self.b.sbuf((self.spread, total.columns), float32, "joined", depth=self.depth)
                total.is_own = True
                if lanes < self.spread:
                    self.select.copy(total.total, before)
                    before = total.total
            self.select.two(alu, sliced(total.total, 0, 0, lanes), sliced(before, 0, 0, lanes), view)

    def sum_tile(self, op: Op) -> View:
        piece = self.piece
        assert piece is not None
        if op not in self.sums:
            # It is known since an earlier pass.
            return self.b.sbuf((piece.lanes, 1), float32, "again", depth=self.depth)
        parts = self.sums[op].parts
        assert parts is not None
        return picked(sliced(parts, 0, 0, piece.lanes), 1, piece.number)

    def sum_made(self, op: Op) -> None:
        return

    def finish_total(self, step: Step, total: Total) -> None:
        """Deliver a reduction of all pieces."""
        op = total.op
        if self.has_lines(op.result) and not total.banks:
            lines = total.lines
            made = self.b.sbuf(self._line_sizes(op.result), float32, op.result.name or "t", depth=self.depth)
            if lines is None:
                lines = meet(self.low, op.name, self._joined(total), made.sizes[0])
            if step.negate and step.op is op:
                self.select.scalars(made, lines, "multiply", -1.0)
            else:
                self.select.copy(made, lines)
            self.lines[op.result] = made
            return
        dst = as_shape(self.destination(op.result), (self.spread, total.columns))
        start = 0
        for bank in total.banks:
            out = sliced(dst, 1, start, bank.sizes[2])
            start += bank.sizes[2]
            if bank.sizes[1] == 1:
                self.select.copy(out, picked(bank, 1, 0))
            else:
                self.b.op("tensor_reduce", out, permuted(bank, (0, 2, 1)), op="add", axis=(-1,))
        if not total.banks:
            all_meet(self.low, self.select, op.name, dst, self._joined(total))
        if step.negate and step.op is op:
            self.select.scalars(dst, dst, "multiply", -1.0)

    @decision("all rows: parts joined")
    def _joined(self, total: Total) -> View:
        """[partitions, columns]: what each partition has of all pieces."""
        if total.total is not None:
            if total.total.dtype is float32:
                return total.total
            made = self.b.sbuf(total.total.sizes, float32, "joined", depth=self.depth)
            self.select.copy(made, total.total)
            return made
        assert total.parts is not None
        parts, alu, made = total.parts, REDUCE[total.op.name], picked(total.parts, 1, 0)
        if self.whole_pieces > 1:
            made = self.b.sbuf((self.spread, total.columns), float32, "joined", depth=self.depth)
            source = permuted(sliced(parts, 1, 0, self.whole_pieces), (0, 2, 1))
            self.b.op("tensor_reduce", made, source, op=alu, axis=(-1,))
        if self.rest:
            some = sliced(made, 0, 0, self.rest)
            self.b.op("tensor_tensor", some, some, sliced(picked(parts, 1, self.whole_pieces), 0, 0, self.rest), op=alu)
        return made
