"""Rows added up by their indices, out[index[i]] += part[i], where places are many: by transfers that add, or fetched,
added to and sent back.

128 at a time: rows of the same index are added up by a product with a matrix of who is equal to whom, so that all of
them bring the same. A transfer that adds takes each index once: the first of equal ones brings the sum, the others are
sent nowhere. Of rows that are sent back whichever is written last will do. Where a number is infinite or NaN, 0 is
added, and it is counted.

A block waits until the one before it has been sent. Several tables take turns, and are added up in the end, as long as
that takes less time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, bfloat16, float32, int32, uint8
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decided, decision
from tilewright.lower.indexed.counting import MOST
from tilewright.lower.indexed.indices import Columns, check, chosen_rows, columns, is_checked
from tilewright.lower.move.join import fill_hbm
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Chip
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import identity, ones
from tilewright.lower.write.views import At, affine, as_shape, broadcast, permuted, picked, reshaped, sliced, split
from tilewright.target import Target
from tilewright.tensor.ranges import EXACT
from tilewright.tile.dma import descriptor_ns
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

MOST_TABLES = 4
"""Tables that take turns."""

KINDS = 3
"""Columns of a product for each column of the part: a number, infinities, negative ones."""


def adds_rows(low: Lowering, op: Op) -> bool:
    """True where rows are fetched, added to and sent back by transfers that take a column of indices."""
    x, index, part = op.operands
    plain = op.attrs["combine"] == "add" and x.type.dtype is float32 and part.type.size > 0
    return plain and index.type.size > 1 and low.target["features.swdge_indirect"] and x.type.shape[0] <= EXACT


def exchanged_ns(target: Target, width: int) -> float:
    """About how long a block of rows, or a row, takes there and back."""
    moved = 3 * target["limits.partitions"] * width * float32.itemsize / target["dma.core_bandwidth"]
    start = target["dma.swdge_indirect_block_ns"] + target["dma.swdge_start_load_ns"] + target["dma.tail_ns"]
    return 2 * start + moved


def _adding_ns(target: Target, width: int) -> float:
    """About how long the engines have a transfer that adds a block: it reads the rows, and those that are there."""
    row = max(descriptor_ns(target, width * float32.itemsize), target["dma.small_hbm_write_ns"])
    descriptors = -(-target["limits.partitions"] // target["dma.engines_per_core"])
    return 2 * descriptors * row / target["dma.compute_fraction"]


def adds_on_the_way(target: Target, width: int) -> bool:
    """True where one transfer that adds keeps the engines for less time than two keep their queue."""
    apart = max(_adding_ns(target, width), target["dma.swdge_indirect_block_ns"])
    return apart < 2 * target["dma.swdge_indirect_block_ns"]


def added_in_turn(target: Target, count: int, rows: int, width: int) -> tuple[int, float]:
    """How many tables take turns where rows are added, and about how long that takes."""
    return in_turn(target, count, rows, width, adds=adds_on_the_way(target, width))


def in_turn(
    target: Target, count: int, rows: int, width: int, computed: float = 0.0, adds: bool = False
) -> tuple[int, float]:
    """How many tables take turns, and about how long blocks take then, each of which engines have for a time; adds:
    whether transfers add them."""
    blocks, start = -(-count // target["limits.partitions"]), target["dma.swdge_indirect_block_ns"]
    each, apart = exchanged_ns(target, width), max(2 * start, computed)
    if adds:
        each = start + target["dma.swdge_start_store_ns"] + target["dma.tail_ns"] + _adding_ns(target, width)
        apart = max(start, computed, _adding_ns(target, width))
    # Each table is filled, read once more, and waited for.
    more = 3 * rows * width * float32.itemsize / target["dma.core_bandwidth"]

    def taken(tables: int) -> float:
        return blocks * max(each / tables, apart) + (tables - 1) * more + (2 * each if tables > 1 else 0.0)

    tables = min(range(1, min(MOST_TABLES, blocks) + 1), key=taken)
    return tables, taken(tables)


@decision("count: rows by products")
def add_rows(low: Lowering, op: Op, out: View) -> None:
    """Blocks of rows of the part, one after the other, to their places in a table that already holds x."""
    _, index, part = op.operands
    width = prod(out.sizes[1:])
    table = as_shape(out, (out.sizes[0], width))
    tables = [table]
    for _ in range(1, added_in_turn(low.target, index.type.size, out.sizes[0], width)[0]):
        decided("count: tables in turn")
        tables.append(low.b.hbm(table.sizes, table.dtype, "table"))
        fill_hbm(low, tables[-1], 0)
    rows = _rows(low, part, index.type.size, width)
    lanes, bank = low.target["limits.partitions"], low.target["memory.psum_bank_bytes"] // float32.itemsize
    others = [low.b.psum((lanes, lanes), float32, "others") for _ in tables[:2]]
    # Blocks of the same table wait for each other anyway: they share banks.
    left = low.target["memory.psum_banks"] - len(others) - 1
    sums = [low.b.psum((lanes, bank), float32, "sums") for _ in range(max(1, min(MOST_TABLES, left)))]
    before = low.b.psum((lanes, 2 * MOST_TABLES), float32, "before")
    most = TUNING.part_bytes // float32.itemsize // KINDS
    groups = columns(low, index, in_blocks=True)
    if adds_on_the_way(low.target, width) and not is_checked(index, out.sizes[0]):
        # What is outside of the table would be sent nowhere.
        for group in groups:
            check(low, group.tile, out.sizes[0])
    for first in range(0, width, most):
        some = min(most, width - first)
        own = [sliced(view, 1, first, some) for view in tables]
        adder = _Adder(low, own, sliced(rows, rows.ndim - 1, first, some), others, sums, before)
        together = max(1, min(2, most // some // len(tables))) * len(tables)
        for group in groups:
            if adds_on_the_way(low.target, width):
                adder.add(group, together)
            else:
                adder.exchange(group, together)
    if len(tables) > 1:
        fold_tables(low, tables, "add")


def _rows(low: Lowering, part: Value, count: int, width: int) -> View:
    """[count, width] in HBM, or [lanes, blocks, width] on chip where a block is what its partitions have."""
    home, lanes = low.home(part), low.target["limits.partitions"]
    if isinstance(home, Chip) and home.row_count == count and home.rows[0] == 0 and home.view.sizes[0] == lanes:
        held = reshaped(home.view, (*home.view.sizes[:2], width))
        if held is not None and held.dtype is float32:
            return held
    return as_shape(low.contiguous(part), (count, width))


def _blocks(rows: View, start: At, height: int, count: int) -> View:
    """[height, count, width]: blocks of rows from one on, which is the first of a block."""
    if rows.ndim == 2:
        blocks = split(sliced(rows, 0, start, count * height), 0, (count, height))
        return permuted(blocks, (1, 0, 2))
    at = affine(start)
    lanes = rows.sizes[0]
    number = type(at)(at.const // lanes, tuple((value, factor // lanes) for value, factor in at.terms))
    return sliced(sliced(rows, 1, number, count), 0, 0, height)


@dataclass(slots=True)
class _Adder:
    """Adds blocks of rows to tables that take turns."""

    low: Lowering
    tables: list[View]
    rows: View
    others: list[View]
    sums: list[View]
    before: View
    """Numbers of rows of the same index that stand before a row."""

    def exchange(self, group: Columns, together: int) -> None:
        """Fetch the rows of all blocks of a group of indices, add to them and send them back."""
        b = self.low.b
        for j, count, moving, numbers in self._blocks(group, together):
            for i in range(count):
                table, turn = self._table(i)
                equal = equal_indices(self.low, sliced(numbers, 1, i, 1), self.others[turn % len(self.others)])
                there = chosen_rows(table, group.column(affine(j) + i))
                held = b.sbuf((numbers.sizes[0], moving.sizes[3]), float32, "held", depth=2)
                b.op("dma_copy", held, there)
                self._add(held, equal, picked(moving, 1, i), turn, is_new=False)
                b.op("dma_copy", there, held)

    @decision("count: rows are added on the way")
    def add(self, group: Columns, together: int) -> None:
        """Send the sums of all blocks of a group of indices to where a transfer adds them."""
        b = self.low.b
        for j, count, moving, numbers in self._blocks(group, together):
            height = numbers.sizes[0]
            marks = b.sbuf((height, count, height), float32, "equal", depth=2)
            for i in range(count):
                bank = self.others[i % len(self.others)]
                equal_indices(self.low, sliced(numbers, 1, i, 1), bank, into=picked(marks, 1, i))
            places = self._first_ones(sliced(group.tile, 1, j, count), numbers, marks)
            for i in range(count):
                table, turn = self._table(i)
                there = chosen_rows(table, sliced(places, 1, i, 1))
                new = b.sbuf((height, moving.sizes[3]), float32, "added", depth=2)
                self._add(new, picked(marks, 1, i), picked(moving, 1, i), turn, is_new=True)
                b.op("dma_compute", there, there, new, reduce_op="add", unique_indices=True, oob_mode="skip")

    def _table(self, i: int) -> tuple[View, int]:
        turn = i % len(self.tables)
        return self.tables[turn], turn

    def _blocks(self, group: Columns, together: int) -> Iterator[tuple[At, int, View, View]]:
        """Some blocks at a time: the first column, how many, what is added, and the indices as numbers."""
        b, height = self.low.b, group.tile.sizes[0]
        for j, count in tiled(b, group.width, together, "j"):
            numbers = b.sbuf((height, count), float32, "numbers", depth=2)
            b.op("tensor_copy", numbers, sliced(group.tile, 1, j, count))
            blocks = _blocks(self.rows, affine(j) * group.across + group.start, height, count)
            yield j, count, self._made_ready(blocks), numbers

    def _first_ones(self, places: View, numbers: View, equal: View) -> View:
        """The indices, those that stood in the same column before beyond the end of the table.

        How many stood there before is a product of the upper part of the matrix of equal ones, turned, with ones.
        """
        low, b, (height, count) = self.low, self.low.b, numbers.sizes
        upper = b.sbuf(equal.sizes, bfloat16, "before", depth=2)
        # i - p > 0
        pattern = ((0, count), (1, height))
        b.op("affine_select", upper, equal, 0.0, pattern=pattern, channel_multiplier=-1, cmp_op="greater", offset=0)
        column = ones(low, low.target["limits.partitions"], 1, bfloat16)
        before = sliced(sliced(self.before, 0, 0, height), 1, 0, count)
        for i in range(count):
            b.op(
                "nc_matmul",
                sliced(before, 1, i, 1),
                picked(upper, 1, i),
                sliced(column, 0, 0, height),
                accumulate=False,
            )
        beyond = b.sbuf((height, count), float32, "beyond", depth=2)
        b.op("tensor_scalar", beyond, before, 1.0, float(self.tables[0].sizes[0]), op0="minimum", op1="multiply")
        made = b.sbuf((height, count), int32, "places", depth=2)
        b.op("tensor_tensor", made, numbers, beyond, op="add")
        return made

    def _made_ready(self, new: View) -> View:
        """[height, count, KINDS, width]: what is finite, 2 where inf is added, 2 where -inf is."""
        low, b, (height, count, width) = self.low, self.low.b, new.sizes
        if not new.on_chip:
            tile = b.sbuf(new.sizes, float32, "new", depth=2)
            b.op("dma_copy", tile, new)
            new = tile
        moving = b.sbuf((height, count, KINDS, width), float32, "moving", depth=2)
        known, plus, minus = (picked(moving, 2, kind) for kind in range(KINDS))
        low.selecting.copy(known, new)
        b.op("tensor_scalar", plus, new, MOST, 0.0, op0="less_equal", op1="equal")
        b.op("tensor_scalar", minus, new, -MOST, 0.0, op0="greater_equal", op1="equal")
        holes = b.sbuf(new.sizes, uint8, "holes", depth=2)
        b.op("tensor_tensor", holes, plus, minus, op="maximum")
        b.op("tensor_copy_predicated", known, 0.0, holes)
        # Twice the greatest number is infinite.
        marks = sliced(moving, 2, 1, KINDS - 1)
        b.op("tensor_scalar", marks, marks, 2.0, op0="multiply")
        return moving

    def _add(self, held: View, equal: View, moving: View, turn: int, is_new: bool) -> None:
        """held += the sums of rows over equal indices, part by part; is_new: there is nothing yet that is added to."""
        banks, width = self.sums[turn % len(self.sums) :: len(self.tables)], held.sizes[1]
        each = banks[0].sizes[1] // KINDS
        for i, first in enumerate(range(0, width, each)):
            some = min(each, width - first)
            row, bank = sliced(moving, 2, first, some), banks[i % len(banks)]
            self._add_part(sliced(held, 1, first, some), row, equal, bank, is_new)

    def _add_part(self, held: View, moving: View, equal: View, bank: View, is_new: bool) -> None:
        b, (height, size) = self.low.b, held.sizes
        flat = sliced(sliced(bank, 0, 0, height), 1, 0, KINDS * size)
        b.op("nc_matmul", flat, equal, moving, accumulate=False)
        known, plus, minus = (picked(split(flat, 1, (KINDS, size)), 1, kind) for kind in range(KINDS))
        if is_new:
            self.low.evict(held, known)
        else:
            b.op("tensor_tensor", held, held, known, op="add")
        # 0, or infinity
        for kind, factor in ((plus, MOST), (minus, -MOST)):
            b.op("scalar_tensor_tensor", held, kind, factor, held, op0="multiply", op1="add")


def equal_indices(low: Lowering, places: View, bank: View, dtype: DType = float32, into: View | None = None) -> View:
    """[height, height]: 1 where two indices of a column are equal."""
    b, height, numbers = low.b, places.sizes[0], places
    if places.dtype is not float32:
        numbers = b.sbuf((height, 1), float32, "numbers", depth=2)
        b.op("tensor_copy", numbers, places)
    unit = sliced(sliced(identity(low, float32), 0, 0, height), 1, 0, height)
    others = sliced(sliced(bank, 0, 0, height), 1, 0, height)
    # [p, i] = index i, on every partition
    flags = {"is_transpose": True, "is_moving_onezero": True, "accumulate": False}
    b.op("nc_matmul", others, broadcast(numbers, (height, height)), unit, **flags)
    made = into or b.sbuf((height, height), dtype, "equal", depth=2)
    b.op("tensor_scalar", made, others, numbers, op0="equal")
    return made


def fold_tables(low: Lowering, tables: list[View], alu: str) -> None:
    """All of them into the first: neighbouring rows on one partition, then those that are left."""
    rows, width = tables[0].sizes
    lanes = low.target["limits.partitions"]
    per = rows // lanes
    parts: list[list[View]] = []
    if per:
        whole = [reshaped(sliced(table, 0, 0, lanes * per), (lanes, per * width)) for table in tables]
        parts.append([view for view in whole if view is not None])
    if rows % lanes:
        parts.append([sliced(table, 0, lanes * per, rows % lanes) for table in tables])
    for views in parts:
        for at, size in tiled(low.b, views[0].sizes[1], min(TUNING.columns, views[0].sizes[1]), "c"):
            tiles = [low.b.sbuf((views[0].sizes[0], size), view.dtype, "table", depth=2) for view in views]
            for tile, view in zip(tiles, views, strict=True):
                low.b.op("dma_copy", tile, sliced(view, 1, at, size))
            for tile in tiles[1:]:
                low.b.op("tensor_tensor", tiles[0], tiles[0], tile, op=alu)
            low.b.op("dma_copy", sliced(views[0], 1, at, size), tiles[0])
