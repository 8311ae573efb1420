"""Values on chip that are needed with other rows than they have: moved within SBUF, not by way of HBM.

A transfer within SBUF takes its elements in row-major order on both sides, so that a row on one partition becomes a
column of partitions and back. Rows and columns change places through the Tensor engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32, uint32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.move.copy import by_block, passed_as, turn_tile
from tilewright.lower.move.small_moves import by_products
from tilewright.lower.order.reuse import injective
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.boxes import thought
from tilewright.lower.write.builder import transposed
from tilewright.lower.write.homes import Chip, renumbered, view_of
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import identity, ones
from tilewright.lower.write.views import (
    At,
    affine,
    as_shape,
    as_type,
    broadcast,
    merged,
    permuted,
    picked,
    reshaped,
    sliced,
    split,
)
from tilewright.tile.memory import PSUM
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def rehomed(low: Lowering, chip: Chip, rows: tuple[int, int]) -> Chip | None:
    """The same value with other dims on partitions, or None where only HBM would do."""
    if rows == chip.rows:
        return chip
    there = renumbered(chip, rows, low.target["limits.partitions"])
    if there is not None:
        return there
    shape = chip.shape
    count = prod(shape[slice(*rows)])
    outside = [d for d in range(len(shape)) if not rows[0] <= d < rows[1]]
    size = -(-count // low.target["limits.partitions"]) * prod(shape[d] for d in outside) * chip.view.dtype.itemsize
    if size > low.room():
        return None
    if chip.row_count == count == 1:
        return _relabelled(chip, rows)
    if chip.row_count == 1 or count == 1:
        return _by_transfer(low, chip, rows, count) if prod(shape) <= TUNING.few_elements else None
    return _turned(low, chip, rows)


def turned_home(low: Lowering, x: Value) -> Chip | None:
    """A matrix that is on chip with its columns on partitions, as the Tensor engine reads it from the left."""
    home = low.homes.get(x)
    if x.type.rank != 2 or not isinstance(home, Chip):
        return None
    columns = (1, 2)
    return home if home.rows == columns else low.moved.get((x, columns))


def turn_for_later(low: Lowering, op: Op) -> bool:
    """Have the left operand of a product on chip with its columns on partitions, if it lies so or other products are to
    read it too; says whether it does."""
    x = op.operands[0]
    if turned_home(low, x) is not None:
        return True
    home = low.homes.get(x)
    later = [use for use in x.uses if use.name == op.name and use.operands[0] is x and use not in low.done]
    if x.type.rank != 2 or not isinstance(home, Chip) or home.rows != (0, 1) or len(later) < 2:
        return False
    held = sum(chip.view.buffer.row_bytes for chip in low.moved.values())
    size = -(-x.type.shape[1] // low.target["limits.partitions"]) * x.type.shape[0] * home.view.dtype.itemsize
    if held + size <= low.room():
        return low.with_rows(x, (1, 2)) is not None
    return _is_read_turned(low, x, home) and _turned_in_place(low, x, home)


def _is_read_turned(low: Lowering, x: Value, home: Chip) -> bool:
    """True where all that will read a matrix, or a view of it, are products with it as their left operand."""
    held = [value for value, other in low.homes.items() if other.view.buffer is home.view.buffer]
    left = [(value, use) for value in held for use in value.uses if use not in low.done]
    return all(value is x and use.name in PRODUCTS and use.operands[1] is not x for value, use in left)


@decision("rehome: turned in place", if_found=True)
def _turned_in_place(low: Lowering, x: Value, home: Chip) -> bool:
    """A square matrix has its columns on partitions where it had its rows: squares of blocks change places in pairs.

    Nothing may read its rows any more.
    """
    b, lanes, view = low.b, low.target["limits.partitions"], home.view
    blocks, rest = divmod(x.type.shape[0], lanes)
    through = passed_as(low, view.dtype)
    is_square = not rest and x.type.shape[0] == x.type.shape[1] and view.is_contiguous() and view.sizes[0] == lanes
    exact = low.target["features.transpose_bit_exact"]
    if through is not view.dtype or not is_square or not exact or any(key[0] is x for key in low.moved):
        return False
    squares = split(view, 2, (blocks, lanes))
    unit = sliced(sliced(identity(low, view.dtype), 0, 0, lanes), 1, 0, lanes)
    each = max(low.target["memory.psum_bank_bytes"] // view.dtype.itemsize // lanes, 1)

    def turned(parts: Sequence[View], depth: int) -> View:
        bank = b.psum((lanes, len(parts), lanes), view.dtype, transposed(view, PSUM), depth=depth)
        for i, part in enumerate(parts):
            b.op("nc_matmul", picked(bank, 1, i), part, unit, is_transpose=True, is_moving_onezero=True)
        return bank

    def square(row: At, column: At) -> View:
        return picked(picked(squares, 1, row), 1, column)

    for first, _ in tiled(b, blocks, 1, "i"):
        b.op("tensor_copy", square(first, first), picked(turned([square(first, first)], 2), 1, 0))
    for row in range(blocks - 1):
        for at, count in tiled(b, blocks - 1 - row, each, "j"):
            column = affine(at) + row + 1
            above = turned([square(row, column + i) for i in range(count)], 1)
            below = turned([square(column + i, row) for i in range(count)], 1)
            low.evict(sliced(picked(squares, 1, row), 1, column, count), below)
            low.evict(picked(sliced(squares, 1, column, count), 2, row), above)
    low.homes[x] = Chip(view, home.shape, (1, 2))
    return True


def _relabelled(chip: Chip, rows: tuple[int, int]) -> Chip | None:
    """One row is where it is, whichever dims of one element count as its number."""
    free = (*chip.shape[: rows[0]], *chip.shape[rows[1] :])
    view = reshaped(chip.view, (1, 1, *free))
    return None if view is None else Chip(view, chip.shape, rows)


def _new(low: Lowering, chip: Chip, rows: tuple[int, int], count: int) -> Chip:
    lanes = low.target["limits.partitions"]
    free = (*chip.shape[: rows[0]], *chip.shape[rows[1] :])
    view = low.b.sbuf((min(count, lanes), -(-count // lanes), *free), chip.view.dtype, "moved")
    return Chip(view, chip.shape, rows)


@decision("rehome: by transfer", if_found=True)
def _by_transfer(low: Lowering, chip: Chip, rows: tuple[int, int], count: int) -> Chip | None:
    """Between one partition and many, or None where the one does not lie evenly."""
    made = _new(low, chip, rows, count)
    # The one with the many partitions decides the order: its rows, then its other dims.
    many, single, is_source = (made, chip, False) if chip.row_count == 1 else (chip, made, True)
    outside = [d for d in range(len(chip.shape)) if not single.rows[0] <= d < single.rows[1]]
    line = picked(single.view, 1, 0)
    order = [*range(*many.rows), *[d for d in range(len(chip.shape)) if not many.rows[0] <= d < many.rows[1]]]
    line = permuted(line, (0, *[1 + outside.index(d) for d in order if d in outside]))
    flat = [chip.shape[d] for d in order if d in outside]
    total, width = prod(chip.shape[slice(*many.rows)]), prod(many.free)
    shaped = as_shape(line, (1, *flat))
    lanes = many.view.sizes[0]
    rows_of_line = reshaped(shaped, (1, total, width))
    if rows_of_line is None and total > lanes:
        return None
    if rows_of_line is not None and by_products(low, rows_of_line, many, is_source):
        return made
    for at, height in tiled(low.b, total, lanes, "r"):
        part = shaped if rows_of_line is None else sliced(rows_of_line, 1, at, height)
        tile = sliced(picked(many.view, 1, by_block(at, lanes)), 0, 0, height)
        low.b.op("dma_copy", *((part, tile) if is_source else (tile, part)))
    return made


@decision("rehome: turned", if_found=True)
def _turned(low: Lowering, chip: Chip, rows: tuple[int, int]) -> Chip | None:
    """Rows and one other dim change places."""
    old = [d for d in range(*chip.rows) if chip.shape[d] != 1]
    new = [d for d in range(*rows) if chip.shape[d] != 1]
    rest = [d for d in range(len(chip.shape)) if chip.shape[d] != 1 and d not in old and d not in new]
    through = passed_as(low, chip.view.dtype)
    if rest or not new or set(old) & set(new) or through is None or through.itemsize != chip.view.dtype.itemsize:
        return None
    count = prod(chip.shape[d] for d in new)
    source = reshaped(chip.view, (*chip.view.sizes[:2], count))
    if source is None:
        return None
    made = _new(low, chip, rows, count)
    out = as_shape(made.view, (*made.view.sizes[:2], chip.row_count))
    source, out = (as_type(view, through) for view in (source, out))
    lanes = chip.view.sizes[0]
    for at, height in tiled(low.b, chip.row_count, lanes, "r"):
        block = picked(source, 1, by_block(at, lanes))
        turn_tile(low, sliced(out, 2, at, height), sliced(block, 0, 0, height), count)
    return made


@decision("rehome: on every partition", if_found=True)
def replicated(low: Lowering, chip: Chip, lanes: int) -> View | None:
    """A value without rows on every partition, [lanes, elements], by the Tensor engine; None for other than float32."""
    if chip.view.dtype is not float32:
        return None
    origin = low.row_of.get(chip.view.buffer)
    if origin is not None and origin.size == prod(chip.shape) and (tile := _shuffled(low, origin, lanes)) is not None:
        return tile
    line = rehomed(low, chip, (0, 0))
    if line is None:
        return None
    size = prod(chip.shape)
    row = reshaped(line.view, (1, size))
    return None if row is None else spread_row(low, row, lanes)


@decision("rehome: shuffled", if_found=True)
def _shuffled(low: Lowering, row: View, lanes: int) -> View | None:
    """A row of a tile on every partition, quadrant by quadrant, from the partition where it is; None where a transfer
    to the first one is sooner."""
    b, width = low.b, low.target["limits.shuffle_width"]
    partition = row.offset // row.row
    lane, free = partition % width, row.sizes[1:]
    sizes = (min(width, row.buffer.shape[0] - (partition - lane)), *free)
    source = View(row.buffer, row.dtype, row.offset - lane * row.row, sizes, (row.row, *row.strides[1:]))
    mask, starts = (lane,) * width, range(0, lanes, width)
    each = b.cost_ns("nc_stream_shuffle", thought((min(width, lanes), *free), row.dtype), source, shuffle_mask=mask)
    if row.terms or len(starts) * each > low.target["dma.static_start_ns"]:
        return None
    tile = b.sbuf((lanes, row.size), row.dtype, "shared")
    shaped = as_shape(tile, (lanes, *free))
    for at in starts:
        b.op("nc_stream_shuffle", sliced(shaped, 0, at, min(width, lanes - at)), source, shuffle_mask=mask)
    return tile


def spread_row(low: Lowering, row: View, lanes: int, name: str = "shared", banks: int = 2) -> View:
    """[1, elements] of floats on every partition, as float32: a product with ones, with so many banks in turn.

    A zero is positive then (`zeros`).
    """
    size = row.sizes[1]

    everywhere = ones(low, 1, lanes, row.dtype)
    tile = low.b.sbuf((lanes, size), float32, name)
    width = low.target["memory.psum_bank_bytes"] // float32.itemsize

    for at, count in tiled(low.b, size, width, "s"):
        bank = low.b.psum((lanes, count), float32, "spread", depth=banks)
        low.b.op("nc_matmul", bank, everywhere, sliced(row, 1, at, count))
        low.evict(sliced(tile, 1, at, count), bank)
    return tile


@decision("rehome: rows sliced", if_found=True)
def slice_rows(low: Lowering, chip: Chip, op: Op) -> Chip | None:
    """A slice of rows, copied to partitions of its own."""
    first, stop = chip.rows
    starts, sizes, steps = (op.attrs[name] for name in ("starts", "sizes", "steps"))
    if stop - first != 1 or steps[first] != 1 or op.result.type.size > TUNING.few_elements or sizes[first] == 0:
        return None
    single = _of_line(low, chip, op) if sizes[first] == 1 else None
    if single is not None:
        return single
    lanes = chip.view.sizes[0]
    start, count = starts[first], sizes[first]
    block, inside = divmod(start, lanes)
    if inside + count > lanes:
        return None
    part = picked(chip.view, 1, block)
    part = sliced(part, 0, inside, count)
    outside = [d for d in range(len(chip.shape)) if d != first]
    for i, d in enumerate(outside):
        part = sliced(part, 1 + i, starts[d], sizes[d], steps[d])
    free = tuple(sizes[d] for d in outside)
    # Each of many rows that are sliced one by one gets such a tile, and all of them may be there at once.
    tiles = len(_single_rows(op.operands[0], first)) if count == 1 else 1
    if low.room() - low.moved_bytes() < tiles * prod(free) * part.dtype.itemsize:
        return None
    made = low.b.sbuf((count, 1, *free), part.dtype, "rows")
    low.b.op("dma_copy", picked(made, 1, 0), part)
    if count == 1:
        low.row_of[made.buffer] = part
    return Chip(made, op.result.type.shape, chip.rows)


@decision("rehome: rows of a line", if_found=True)
def _of_line(low: Lowering, chip: Chip, op: Op) -> Chip | None:
    """One of many rows that are sliced one by one: a part of a line on one partition to which all of them are moved."""
    x, row = op.operands[0], chip.rows[0]
    if len(_single_rows(x, row)) < TUNING.many_slices:
        return None
    is_there = (x, (0, 0)) in low.moved
    if not is_there and low.room() - low.moved_bytes() < x.type.size * chip.view.dtype.itemsize:
        return None
    line = low.with_rows(x, (0, 0))
    made = None if line is None else view_of(line, op)
    return made if isinstance(made, Chip) else None


def _single_rows(x: Value, row: int) -> list[Op]:
    """Slices of one row each of a value."""
    return [use for use in x.uses if use.name == "slice" and use.attrs["sizes"][row] == 1]


@decision("rehome: rows updated", if_found=True)
def update_rows(low: Lowering, op: Op) -> bool:
    """Rows written into a value on chip: in its place where nothing reads the old one any more."""
    x, part = op.operands
    home, new = low.homes.get(x), low.homes.get(part)
    if not isinstance(home, Chip) or not isinstance(new, Chip) or home.rows[1] - home.rows[0] != 1:
        return False
    first = home.rows[0]
    starts, steps = op.attrs["starts"], op.attrs["steps"]
    others = [d for d in range(x.type.rank) if d != first]
    if any(steps[d] != 1 for d in range(x.type.rank)):
        return False
    if not injective([*zip(home.view.sizes, home.view.strides, strict=True)]):
        # Elements that repeat are one in storage.
        return False
    new = rehomed(low, new, home.rows)
    count, lanes = part.type.shape[first], home.view.sizes[0]
    block, inside = divmod(starts[first], lanes)
    if new is None or inside + count > lanes or not low.is_free(home.view.buffer, op) or x in low.program.inputs:
        return False
    low.row_of = {tile: row for tile, row in low.row_of.items() if row.buffer is not home.view.buffer}
    into = picked(home.view, 1, block)
    for i, d in enumerate(others):
        into = sliced(into, 1 + i, starts[d], part.type.shape[d])
    row = sliced(picked(new.view, 1, 0), 0, 0, count)
    if row.buffer is into.buffer:
        # A part of the value itself: all of it is read before any of it is written.
        made = low.b.sbuf(row.sizes, row.dtype, "part")
        low.b.op("dma_copy", made, row)
        row = made
    if op.result in low.signed or not _put_row(low, into, row, inside):
        low.b.op("dma_copy", sliced(into, 0, inside, count), row)
    low.homes[op.result] = home
    if x in low.resident:
        low.resident[op.result] = low.resident.pop(x)
    return True


def _put_row(low: Lowering, into: View, row: View, at: int) -> bool:
    """A row of the first partition over the one of partition `at`, sooner than a transfer would bring it: the Tensor
    engine spreads it over all partitions, a predicated copy takes it where the identity matrix has its one."""
    if row.ndim == 1 or row.sizes[0] != 1 or row.dtype is not float32:
        return False
    lanes, flat = into.sizes[0], merged(row, 1, row.ndim - 1)
    if flat is None or flat.nbytes > low.target["memory.psum_bank_bytes"]:
        return False
    bank = low.b.psum((lanes, flat.sizes[1]), float32, "spread")
    low.b.op("nc_matmul", bank, ones(low, 1, lanes, float32), flat, is_stationary_onezero=True)
    here = sliced(sliced(identity(low, float32), 0, 0, lanes), 1, at, 1)
    bits = View(here.buffer, uint32, here.offset, here.sizes, here.strides, here.terms)
    source = as_shape(bank, into.sizes)
    mask = as_shape(bits, (lanes, *[1] * (into.ndim - 1)))
    low.b.op("tensor_copy_predicated", into, source, broadcast(mask, into.sizes))
    return True
