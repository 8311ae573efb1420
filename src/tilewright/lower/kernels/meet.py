"""Where the partitions of a tile meet: what all of them have together, column by column.

It is made with the columns on partitions: `lines` are [height, blocks] with column block * height + p on partition p, a
number each, so that what is computed of them next takes hardly any time. Then they are spread, every partition having
all columns again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.lower.decisions import decision
from tilewright.lower.move.copy import turn_tile
from tilewright.lower.select.select import REDUCE
from tilewright.lower.write.builder import transposed
from tilewright.lower.write.patterns import identity, ones
from tilewright.lower.write.views import as_shape, broadcast, picked, sliced
from tilewright.tile.memory import PSUM
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.select.select import Selector


def height_of(columns: int, lanes: int) -> int:
    """Columns of a block of lines: as many as there are partitions, or as divide them evenly."""
    return next(n for n in range(min(columns, lanes), 0, -1) if columns % n == 0)


def meet(low: Lowering, name: str, part: View, height: int) -> View:
    """The lines of [partitions, columns] in float32: every column reduced."""
    b, (lanes, columns) = low.b, part.sizes
    blocks = columns // height
    lines = b.sbuf((height, blocks), float32, "met", depth=2)
    if not low.target["features.transpose_bit_exact"]:
        for i in range(blocks):
            turned = b.sbuf((height, 1, lanes), float32, transposed(part), depth=2)
            turn_tile(low, turned, sliced(part, 1, i * height, height), height)
            b.op("tensor_reduce", sliced(lines, 1, i, 1), picked(turned, 1, 0), op=REDUCE[name], axis=(-1,))
        return lines
    each = max(low.target["memory.psum_bank_bytes"] // float32.itemsize // lanes, 1)
    unit = sliced(sliced(identity(low, float32), 0, 0, lanes), 1, 0, lanes)
    for first in range(0, blocks, each):
        some = min(each, blocks - first)
        bank = b.psum((height, some, lanes), float32, transposed(part, PSUM))
        for i in range(some):
            source = sliced(part, 1, (first + i) * height, height)
            b.op("nc_matmul", picked(bank, 1, i), source, unit, is_transpose=True, is_moving_onezero=True)
        b.op("tensor_reduce", sliced(lines, 1, first, some), bank, op=REDUCE[name], axis=(-1,))
    return lines


@decision("all rows: lines spread")
def spread_lines(low: Lowering, select: Selector, lines: View, lanes: int, in_psum: bool) -> View:
    """[lanes, columns] in float32: every partition has all columns; in a bank of PSUM where that is asked for."""
    b, (height, blocks) = low.b, lines.sizes
    columns, bank = height * blocks, low.target["memory.psum_bank_bytes"] // float32.itemsize
    if not low.target["features.transpose_bit_exact"]:
        tile = b.sbuf((lanes, columns), float32, "spread", depth=2)
        for i in range(blocks):
            wide = b.sbuf((height, lanes), float32, "wide", depth=2)
            select.copy(wide, broadcast(sliced(lines, 1, i, 1), wide.sizes))
            into = as_shape(sliced(tile, 1, i * height, height), (lanes, 1, height))
            turn_tile(low, into, wide, lanes)
        return tile
    tile = (
        b.psum((lanes, columns), float32, "spread", depth=2)
        if in_psum
        else b.sbuf((lanes, columns), float32, "spread", depth=2)
    )
    unit = sliced(sliced(identity(low, float32), 0, 0, height), 1, 0, height)
    each = max(bank // height, 1)
    for first in range(0, blocks, each):
        some = min(each, blocks - first)
        out = sliced(tile, 1, first * height, some * height)
        into = out if in_psum else b.psum((lanes, some * height), float32, "spread")
        for i in range(some):
            source = broadcast(sliced(lines, 1, first + i, 1), (height, lanes))
            place = sliced(into, 1, i * height, height)
            b.op("nc_matmul", place, source, unit, is_transpose=True, is_moving_onezero=True)
        if not in_psum:
            select.copy(out, into)
    return tile


@decision("all rows: lines stored")
def row_of_lines(low: Lowering, lines: View) -> View:
    """[blocks, height]: the columns in order, to be sent to HBM."""
    height, blocks = lines.sizes
    made = low.b.sbuf((blocks, 1, height), lines.dtype, "row", depth=2)
    turn_tile(low, made, lines, blocks)
    return as_shape(made, (blocks, height))


def all_meet(low: Lowering, select: Selector, name: str, out: View, part: View) -> None:
    """out[p, c]: column c reduced over all partitions, for every partition p."""
    lanes, columns = part.sizes
    if lanes == 1:
        select.cast(out, part)
        return
    if name == "sum":
        bank = low.target["memory.psum_bank_bytes"] // float32.itemsize
        side = low.target["limits.partitions"]
        square = sliced(sliced(ones(low, side, side, float32), 0, 0, lanes), 1, 0, lanes)
        for at in range(0, columns, bank):
            count = min(bank, columns - at)
            total = low.b.psum((lanes, count), float32, "total")
            low.b.op("nc_matmul", total, square, sliced(part, 1, at, count), is_stationary_onezero=True)
            select.copy(sliced(out, 1, at, count), total)
        return
    side = low.target["limits.partitions"]
    whole = columns // side * side
    for at, count in ((0, whole), (whole, columns - whole)):
        if count:
            lines = meet(low, name, sliced(part, 1, at, count), min(side, count))
            some = spread_lines(low, select, lines, lanes, in_psum=fits_bank(low, count))
            select.copy(sliced(out, 1, at, count), some)


def fits_bank(low: Lowering, columns: int) -> bool:
    """True for columns in float32 that a bank of PSUM holds."""
    return columns * float32.itemsize <= low.target["memory.psum_bank_bytes"]
