"""Rows added up by their indices, out[index[i]] += part[i], where places are many: fetched, added to and sent back.

128 at a time: rows of the same index are added up by a product with a matrix of who is equal to whom, so that all of
them bring the same, whichever is written last. Where a number is infinite or NaN, 0 is added, and it is counted.

A block waits until the one before it has been sent back. Several tables take turns, and are added up in the end, as
long as that takes less time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, float32, uint8
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decided, decision
from tilewright.lower.indexed.counting import MOST
from tilewright.lower.indexed.indices import EXACT, Columns, chosen_rows, columns
from tilewright.lower.move.join import fill_hbm
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Chip
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import identity
from tilewright.lower.write.views import At, affine, broadcast, picked, reshaped, sliced, split
from tilewright.target import Target
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


def in_turn(target: Target, count: int, rows: int, width: int, computed: float = 0.0) -> tuple[int, float]:
    """How many tables take turns, and about how long blocks take then, each of which engines have for a time."""
    blocks = -(-count // target["limits.partitions"])
    each, apart = exchanged_ns(target, width), max(2 * target["dma.swdge_indirect_block_ns"], computed)
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
    table = reshaped(out, (out.sizes[0], width))
    assert table is not None
    tables = [table]
    for _ in range(1, in_turn(low.target, index.type.size, out.sizes[0], width)[0]):
        decided("count: tables in turn")
        tables.append(low.b.hbm(table.sizes, table.dtype, "table"))
        fill_hbm(low, tables[-1], 0)
    rows = _rows(low, part, index.type.size, width)
    lanes, bank = low.target["limits.partitions"], low.target["memory.psum_bank_bytes"] // float32.itemsize
    others = [low.b.psum((lanes, lanes), float32, "others") for _ in tables[:2]]
    # Blocks of the same table wait for each other anyway: they share banks.
    sums = [low.b.psum((lanes, bank), float32, "sums") for _ in range(MOST_TABLES)]
    for group in columns(low, index, in_blocks=True):
        height, turns = group.tile.sizes[0], len(tables)
        whole, rest = divmod(group.width, turns)

        def add(j: At, turn: int, height: int = height, group: Columns = group) -> None:
            block = _block(rows, affine(j) * group.across + group.start, height)
            equal = equal_indices(low, group.column(affine(j)), others[turn % len(others)])
            _add_block(low, tables[turn], block, group.column(affine(j)), equal, sums[turn :: len(tables)])

        if whole:
            with low.b.loop(whole, "j", turns) as j:
                for turn in range(turns):
                    add(j + turn, turn)
        for turn in range(rest):
            add(whole * turns + turn, turn)
    if len(tables) > 1:
        fold_tables(low, tables, "add")


def _rows(low: Lowering, part: Value, count: int, width: int) -> View:
    """[count, width] in HBM, or [lanes, blocks, width] on chip where a block is what its partitions have."""
    home, lanes = low.home(part), low.target["limits.partitions"]
    if isinstance(home, Chip) and home.row_count == count and home.rows[0] == 0 and home.view.sizes[0] == lanes:
        held = reshaped(home.view, (*home.view.sizes[:2], width))
        if held is not None and held.dtype is float32:
            return held
    rows = reshaped(low.contiguous(part), (count, width))
    assert rows is not None
    return rows


def _block(rows: View, start: At, height: int) -> View:
    """[height, width]: rows from one on, which is the first of a block."""
    if rows.ndim == 2:
        return sliced(rows, 0, start, height)
    at = affine(start)
    lanes = rows.sizes[0]
    number = type(at)(at.const // lanes, tuple((value, factor // lanes) for value, factor in at.terms))
    return sliced(picked(rows, 1, number), 0, 0, height)


def _add_block(low: Lowering, table: View, block: View, places: View, equal: View, banks: Sequence[View]) -> None:
    b, (height, width) = low.b, block.sizes
    step = min(width, TUNING.counted_bytes // float32.itemsize // 4)
    for at in range(0, width, step):
        size = min(step, width - at)
        there = chosen_rows(sliced(table, 1, at, size), places)
        held, new = b.sbuf((height, size), float32, "held", depth=2), sliced(block, 1, at, size)
        b.op("dma_copy", held, there)
        if not new.on_chip:
            new = b.sbuf((height, size), float32, "new", depth=2)
            b.op("dma_copy", new, sliced(block, 1, at, size))
        each = banks[0].sizes[1] // KINDS
        for i, first in enumerate(range(0, size, each)):
            some = min(each, size - first)
            _add_part(low, sliced(held, 1, first, some), sliced(new, 1, first, some), equal, banks[i % len(banks)])
        b.op("dma_copy", there, held)


def _add_part(low: Lowering, held: View, new: View, equal: View, bank: View) -> None:
    """held += the sum of new over equal indices"""
    b, (height, size) = low.b, new.sizes
    moving = b.sbuf((height, KINDS, size), float32, "moving", depth=2)
    known, plus, minus = (picked(moving, 1, kind) for kind in range(KINDS))
    low.selecting.copy(known, new)
    b.op("tensor_scalar", plus, new, MOST, 0.0, op0="less_equal", op1="equal")
    b.op("tensor_scalar", minus, new, -MOST, 0.0, op0="greater_equal", op1="equal")
    holes = b.sbuf((height, size), uint8, "holes", depth=2)
    b.op("tensor_tensor", holes, plus, minus, op="maximum")
    b.op("tensor_copy_predicated", known, 0.0, holes)
    flat, row = sliced(sliced(bank, 0, 0, height), 1, 0, KINDS * size), reshaped(moving, (height, KINDS * size))
    assert row is not None
    b.op("nc_matmul", flat, equal, row, accumulate=False)
    total = split(flat, 1, (KINDS, size))
    # 0, or infinity
    beyond = b.sbuf((height, 2, size), float32, "beyond", depth=2)
    b.op("tensor_scalar", beyond, sliced(total, 1, 1, 2), MOST, MOST, op0="multiply", op1="multiply")
    b.op("tensor_tensor", held, held, picked(total, 1, 0), op="add")
    for kind, alu in enumerate(("add", "subtract")):
        b.op("tensor_tensor", held, held, picked(beyond, 1, kind), op=alu)


def equal_indices(low: Lowering, places: View, bank: View, dtype: DType = float32) -> View:
    """[height, height]: 1 where two indices of a column are equal."""
    b, height = low.b, places.sizes[0]
    numbers = b.sbuf((height, 1), float32, "numbers", depth=2)
    b.op("tensor_copy", numbers, places)
    unit = sliced(sliced(identity(low, float32), 0, 0, height), 1, 0, height)
    others = sliced(sliced(bank, 0, 0, height), 1, 0, height)
    # [p, i] = index i, on every partition
    flags = {"is_transpose": True, "is_moving_onezero": True, "accumulate": False}
    b.op("nc_matmul", others, broadcast(numbers, (height, height)), unit, **flags)
    made = b.sbuf((height, height), dtype, "equal", depth=2)
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
