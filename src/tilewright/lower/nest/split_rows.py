"""Emission of a group of long rows: each row lies across several partitions, which share its work.

Partition r * parts + p of a block holds part p of its row r. A reduction is made on every partition, then the parts of
a row meet: the column of partial results is turned into a row of one partition, reduced there, and turned back. So rows
longer than a partition holds are read once, and a few long rows keep all partitions at work.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.lower.move.copy import turn_tile
from tilewright.lower.nest.blocks import BlockEmitter
from tilewright.lower.regions.axes import SCANNED
from tilewright.lower.regions.fuse import Step
from tilewright.lower.regions.long_rows import LongAxis
from tilewright.lower.regions.roles import Roles
from tilewright.lower.select.select import REDUCE
from tilewright.lower.write.block import Block, flat
from tilewright.lower.write.views import At, affine, as_shape, broadcast, expanded, merged, picked, reshaped, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group


class SplitRows(BlockEmitter):
    """Writes one group, each of its rows in so many parts."""

    def __init__(self, low: Lowering, group: Group, axis: LongAxis, parts: int) -> None:
        super().__init__(low, group, keep=False)
        self.causal = None
        self.axis, self.parts = axis, parts
        self.length = axis.size // parts
        assert self.length * parts == axis.size

    def _rows_per_partition(self) -> int:
        return 1

    def _all_rows(self) -> None:
        each = self.lanes // self.parts
        whole, rest = divmod(self.group.rows, each)
        if whole:
            with self.b.loop(whole, "r") as i:
                self._body(Block([], i * each, i, each * self.parts, 1))
        if rest:
            self._body(Block([], whole * each, whole, rest * self.parts, 1))

    @property
    def rows(self) -> int:
        """Rows of the block in work."""
        return self.block.partitions // self.parts

    # Tiles.

    def has_line(self, x: Value, roles: Roles) -> bool:
        """True for a value of which a partition has a part of a row."""
        return self.axis.is_of(x, roles)

    def free_sizes(self, x: Value, roles: Roles) -> list[int]:
        free = roles.free_dims(x.type.rank)
        cut = x.type.rank - self.axis.back if self.has_line(x, roles) else None
        return [self.length if d == cut else x.type.shape[d] for d in free]

    def _lines(self, view: View, start: At, rows: int, count: int) -> View:
        """Some of the `count` rows of a value in HBM, [rows * parts, elements of a part]."""
        whole = reshaped(view, (count, self.parts, view.size // count // self.parts))
        assert whole is not None, "rows in HBM lie without gaps"
        made = merged(sliced(whole, 0, start, rows), 0, 1)
        assert made is not None
        return made

    def _move_operands(self, op: Op) -> None:
        for x in op.values():
            if x in self.group.roles or x not in self.low.homes:
                continue
            self.low.contiguous(x)

    def _part_of_base(self, x: Value, roles: Roles) -> View | None:
        return None

    def _fetch(self, x: Value, roles: Roles) -> View:
        if prod(x.type.shape[slice(*roles.rows)]) == 1 and self.group.rows != 1:
            return self._replicated(x, roles, [])
        shape = (self.block.partitions, 1, *self.free_sizes(x, roles))
        source = self.low.contiguous(x)
        if self.has_line(x, roles):
            tile = self.b.sbuf(shape, source.dtype, x.name or "x", depth=self.depth)
            self.b.op("dma_copy", flat(tile), self._lines(source, self.block.start, self.rows, self.group.rows))
            return tile
        line = as_shape(source, (1, self.group.rows))
        row = self.b.sbuf((1, self.rows), source.dtype, x.name or "x", depth=self.depth)
        self.b.op("dma_copy", row, sliced(line, 1, self.block.start, self.rows))
        return as_shape(self._to_parts(row), shape)

    def _replicated(self, x: Value, roles: Roles, looped: list[int]) -> View:
        if not self.has_line(x, roles):
            return super()._replicated(x, roles, looped)
        key, b, parts = ("shared", x, self.parts), self.b, self.parts
        found = self.low.shared.get(key)
        if found is None:
            source = self._lines(self.low.contiguous(x), 0, 1, 1)
            shape = (self.lanes // parts * parts, source.sizes[1])
            found = self.low.shared[key] = b.sbuf(shape, source.dtype, "shared")
            b.op("dma_copy", sliced(found, 0, 0, parts), source)
            done, wanted = parts, found.sizes[0]
            while done < wanted:
                more = min(done, wanted - done)
                b.op("dma_copy", sliced(found, 0, done, more), sliced(found, 0, 0, more))
                done += more
        shape = (self.block.partitions, 1, *self.free_sizes(x, roles))
        return as_shape(sliced(found, 0, 0, self.block.partitions), shape)

    def _store(self, value: Value) -> None:
        block, low = self.block, self.low
        if value not in self.kept or value not in block.tiles or ("stored", value) in block.loaded:
            return
        tile = block.loaded["stored", value] = block.tiles[value]
        roles = self.group.roles[value]
        for view in self.places(value):
            low.delivered[view.buffer] = None
            if self.has_line(value, roles):
                self.b.op("dma_copy", self._lines(view, block.start, self.rows, self.group.rows), flat(tile))
                continue
            line = as_shape(view, (1, self.group.rows))
            row = as_shape(self._to_row(as_shape(tile, (block.partitions, 1))), (1, self.rows, self.parts))
            self.b.op("dma_copy", sliced(line, 1, block.start, self.rows), picked(row, 2, 0))

    # Where the parts of a row meet.

    def _to_row(self, column: View) -> View:
        """[partitions, 1] as [1, partitions]."""
        row = self.b.sbuf((1, 1, self.block.partitions), float32, "row", depth=self.depth)
        turn_tile(self.low, row, column, 1)
        return as_shape(row, (1, self.block.partitions))

    def _to_column(self, row: View) -> View:
        """[1, partitions] as [partitions, 1]."""
        made = self.b.sbuf((self.block.partitions, 1, 1), float32, "column", depth=self.depth)
        turn_tile(self.low, made, row, self.block.partitions)
        return as_shape(made, (self.block.partitions, 1))

    def _to_parts(self, row: View) -> View:
        """[1, rows] as [partitions, 1]: every part of a row has its number."""
        wide = self.b.sbuf((1, self.rows, self.parts), float32, "wide", depth=self.depth)
        self.b.op("tensor_copy", wide, broadcast(expanded(row, 2), wide.sizes))
        return self._to_column(as_shape(wide, (1, self.block.partitions)))

    def _meet(self, name: str, part: View) -> View:
        """The reduction of every row, on each of its partitions, of one of its parts on each."""
        row = as_shape(self._to_row(part), (1, self.rows, self.parts))
        made = self.b.sbuf((1, self.rows), float32, "met", depth=self.depth)
        self.b.op("tensor_reduce", made, row, op=REDUCE[name], axis=(-1,))
        return self._to_parts(made)

    def _partial(self) -> View:
        return self.b.sbuf((self.block.partitions, 1), float32, "part", depth=self.depth)

    def _reduce(self, step: Step) -> None:
        op, negate = step.op, step.negate
        if self._has_parts(op):
            super()._reduce(step)
            return
        part, dst = self._partial(), self.destination(op.result)
        step.negate = False
        self.reduce_into(step, as_shape(part, dst.sizes))
        step.negate = negate
        met = self._meet(op.name, part)
        if negate:
            self.select.scalars(flat(dst), met, "multiply", -1.0)
        else:
            self.select.cast(flat(dst), met)

    def _has_parts(self, op: Op) -> bool:
        """True for a reduction within the elements of the axis: each part has its own."""
        return self.has_line(op.result, self.group.roles[op.result])

    def sum_tile(self, op: Op) -> View:
        if self._has_parts(op):
            return super().sum_tile(op)
        self.part = self._partial()
        return self.part

    def sum_made(self, op: Op) -> None:
        if self._has_parts(op):
            super().sum_made(op)
            return
        self.select.cast(flat(self.destination(op.result)), self._meet(op.name, self.part))

    def _single(self, step: Step) -> None:
        super()._single(step)
        if step.op.name in SCANNED:
            self._go_on(step.op)

    def _go_on(self, op: Op) -> None:
        """Take what the parts before add up to into a running sum that starts anew in each part."""
        b, first = self.b, 0.0 if op.name == "cumsum" else 1.0
        dst = flat(self.destination(op.result))
        totals = self._to_row(sliced(dst, 1, self.length - 1, 1))
        before = b.sbuf((1, self.block.partitions), float32, "before", depth=self.depth)
        self.select.fill(before, first)
        ones = b.sbuf((1, 1), float32, "one", depth=self.depth)
        self.select.fill(ones, 1.0)
        count = self.parts - 1
        with b.loop(self.rows, "r") as r:
            source, out = (sliced(v, 1, affine(r) * self.parts + i, count) for i, v in enumerate((totals, before)))
            one = broadcast(ones, out.sizes)
            pair, then = ((one, source), "add") if op.name == "cumsum" else ((source, one), "multiply")
            b.op("tensor_tensor_scan", out, *pair, first, op0="multiply", op1=then)
        self.select.scalars(dst, dst, "add" if op.name == "cumsum" else "multiply", self._to_column(before))
