"""Moving data between homes: loads, copies, and rows that every partition needs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, float32
from tilewright.ir.core import Value
from tilewright.lower.decisions import decided, decision
from tilewright.lower.move.assemble import bring, quickest
from tilewright.lower.move.copy import by_blocks, passed_as, turn_tile
from tilewright.lower.move.lay import lay, laying_ns
from tilewright.lower.move.rehome import rehomed, spread_row
from tilewright.lower.move.together import copy_hbm
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.boxes import thought
from tilewright.lower.write.builder import transposed
from tilewright.lower.write.homes import Chip, Hbm, Home
from tilewright.lower.write.transfers import moving, transfer
from tilewright.lower.write.views import (
    as_shape,
    as_type,
    broadcast,
    expanded,
    merged,
    permuted,
    picked,
    reshaped,
    sliced,
)
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.roles import Roles


def load(low: Lowering, tile: View, source: View) -> None:
    """From HBM into a tile of the same shape; what lies there in short runs by way of another, if that is sooner."""
    if turn_in(low, tile, source):
        return
    most = TUNING.tile_bytes // source.dtype.itemsize
    way = quickest(low.b, tile, source, 1, low.b.times, most)
    if way.spanned is None:
        transfer(low.b, tile, source)
    else:
        bring(low, way, tile, source, 1, tile.buffer.depth)


@decision("load: turned", if_found=True)
def turn_in(low: Lowering, tile: View, source: View) -> bool:
    """Load [rows, ...] of which rows are neighbours in HBM and not the elements of a row, through the Tensor engine.

    Says whether it did. Rows are partitions, or [partitions, some of each] in either order.
    """
    across, through = _across(tile, source), _turned_as(low, tile.dtype)
    if across is None or through is None or moving(tile, source, low.target).ns < TUNING.turned_ns:
        return False
    tile, columns = across
    (count, some, size), (step, apart, _) = tile.sizes, columns.strides
    lanes, b = low.target["limits.partitions"], low.b
    tile = as_type(tile, through)
    rows = View(columns.buffer, through, columns.offset, (size, count * some), (columns.strides[2], 1), columns.terms)
    own = b.sbuf((min(lanes, size), -(-size // lanes), count * some), through, "columns", tile.buffer.depth)
    for held, there in by_blocks(own, rows):
        transfer(b, held, there)
    for i in range(own.sizes[1]):
        height = min(lanes, size - i * lanes)
        block = sliced(picked(own, 1, i), 0, 0, height)
        with b.loop(some, "j") as j:
            into = sliced(picked(tile, 1, j), 1, i * lanes, height)
            turn_tile(low, expanded(into, 1), sliced(block, 1, j * apart, count, step), count)
    return True


def _across(tile: View, source: View) -> tuple[View, View] | None:
    """Both as [partitions, rows of each, elements] where all rows are neighbours in HBM, or None."""
    if tile.ndim == 2:
        tile, source = expanded(tile, 1), expanded(source, 1)
    if tile.ndim < 3:
        return None
    held, there = merged(tile, 2, tile.ndim - 1), merged(source, 2, tile.ndim - 1)
    if held is None or there is None:
        return None
    (count, some, size), (step, apart, far) = there.sizes, there.strides
    near = (step == 1 and (some == 1 or apart == count)) or (apart == 1 and step == some)
    large = -(-size // held.sizes[0]) * count * some * held.dtype.itemsize > 4 * TUNING.tile_bytes
    return None if not near or count == 1 or size == 1 or abs(far) <= 1 or large else (held, there)


@decision("store: turned", if_found=True)
def turn_out(low: Lowering, target: View, tile: View) -> bool:
    """Store [rows, ...] of which rows are neighbours in HBM and not the elements of a row, rows and columns exchanged
    on chip before. Says whether it did."""
    held, there = merged(tile, 1, tile.ndim - 1), merged(target, 1, target.ndim - 1)
    through = _turned_as(low, tile.dtype)
    if held is None or there is None or through is None or there.strides[0] != 1 or abs(there.strides[1]) <= 1:
        return False
    (count, size), lanes = held.sizes, low.target["limits.partitions"]
    shape = (min(lanes, size), -(-size // lanes), count)
    plain = moving(there, held, low.target).ns
    if plain < TUNING.turned_ns or prod(shape[1:]) * held.dtype.itemsize > 4 * TUNING.tile_bytes:
        return False
    held = as_type(held, through)
    rows = View(there.buffer, through, there.offset, (size, count), (there.strides[1], 1), there.terms)
    turned = low.b.sbuf(shape, through, transposed(tile), tile.buffer.depth)
    turn_tile(low, turned, held, size)
    for own, place in by_blocks(turned, rows):
        transfer(low.b, place, own)
    return True


def store(low: Lowering, target: View, tile: View) -> None:
    """A tile to a place in HBM of the same shape: first in the order that it has there, if that is sooner."""
    order = (0, *sorted(range(1, target.ndim), key=lambda d: -abs(target.strides[d])))
    target, tile = permuted(target, order), permuted(tile, order)
    dense = thought(tile.sizes, tile.dtype)
    if laying_ns(low.b, dense, tile) + moving(target, dense, low.target).ns < moving(target, tile, low.target).ns:
        made = low.b.sbuf(tile.sizes, tile.dtype, "order", depth=2)
        lay(low, made, tile)
        transfer(low.b, target, made)
    else:
        low.b.op("dma_copy", target, tile)


def load_rows(low: Lowering, tile: View, source: View) -> None:
    """[n, ...] of HBM into [lanes, blocks, ...]: whole blocks by one transfer, a shorter one by another."""
    for held, there in by_blocks(tile, source):
        if not turn_in(low, held, there):
            low.b.op("dma_copy", held, there)


def load_in_parts(low: Lowering, tile: View, source: View) -> None:
    """As `load_rows`, the blocks of rows in several transfers where one would take its runs one after the other: what
    reads the first of them need not wait for the last."""
    for held, there in by_blocks(tile, source):
        if turn_in(low, held, there):
            continue
        size = held.sizes[1] if held.ndim == tile.ndim else 1
        parts = min(moving(held, there, low.target).parts, size)
        each = -(-size // parts)
        for first in range(0, size, each) if parts > 1 else ():
            some = (sliced(view, 1, first, min(each, size - first)) for view in (held, there))
            low.b.op("dma_copy", *some)
        if parts <= 1:
            low.b.op("dma_copy", held, there)


def store_rows(low: Lowering, target: View, tile: View) -> None:
    """[lanes, blocks, ...] into [n, ...] of HBM: whole blocks by one transfer, a shorter one by another."""
    for held, there in by_blocks(tile, target):
        low.b.op("dma_copy", there, held)


def lay_by_rows(low: Lowering, x: Value, roles: Roles) -> None:
    """A value in HBM whose rows lie across memory is laid there anew, with the elements of each row together."""
    home = low.homes[x]
    if (
        not isinstance(home, Hbm)
        or home.view.size <= TUNING.few_elements
        or not low.target["features.transpose_bit_exact"]
    ):
        return
    view, others = home.view, roles.free_dims(home.view.ndim)
    rows = [d for d in range(*roles.rows) if view.sizes[d] != 1]
    free = [d for d in others if view.sizes[d] != 1]
    if not rows or not free or view.strides[free[-1]] == 1 or view.strides[rows[-1]] != 1:
        return
    if _can_turn_in(low, view, rows, free):
        return
    order = (*roles.batch, *range(*roles.rows), *others)
    made = low.b.hbm(tuple(view.sizes[d] for d in order), view.dtype, "rows")
    copy_out(low, Hbm(permuted(view, order)), made)
    low.homes[x] = Hbm(permuted(made, tuple(order.index(d) for d in range(view.ndim))))


def _can_turn_in(low: Lowering, view: View, rows: Sequence[int], free: Sequence[int]) -> bool:
    """True where `turn_in` will load the rows of a view: elements of a row fill partitions, and some rows a tile."""
    elements = merged(permuted(view, free), 0, len(free) - 1)
    if _turned_as(low, view.dtype) is None or merged(view, rows[0], rows[-1]) is None or elements is None:
        return False
    return elements.nbytes <= TUNING.tile_bytes and 2 * elements.size >= low.target["limits.partitions"]


def _turned_as(low: Lowering, dtype: DType) -> DType | None:
    """The type of the same size as which elements are turned on chip, or None where there is none."""
    through = None if low.frugal else passed_as(low, dtype)
    return through if through is not None and through.itemsize == dtype.itemsize else None


def replicate(low: Lowering, row: View, lanes: int, name: str, signed: bool = False) -> View:
    """A row of HBM on every partition: [lanes, elements].    signed: zeros keep their signs."""
    b, order = low.b, sorted(range(row.ndim), key=lambda d: -abs(row.strides[d]))
    dense = next((d for d in reversed(order) if row.sizes[d] != 1), None)
    if dense is not None and abs(row.strides[dense]) == 1 and any(n != 1 for n in row.sizes[dense + 1 :]):
        # Loaded as it lies in memory, and put in order on chip: single elements take a transfer long.
        there = reshaped(
            replicate(low, permuted(row, order), lanes, name, signed), (lanes, *(row.sizes[d] for d in order))
        )
        made = b.sbuf((lanes, row.size), row.dtype, name, depth=2)
        shaped = reshaped(made, (lanes, *row.sizes))
        assert there is not None and shaped is not None
        low.evict(shaped, permuted(there, (0, *(1 + order.index(d) for d in range(row.ndim)))))
        return made
    if row.dtype is float32 and not signed and lanes * row.nbytes >= TUNING.spread_bytes:
        return load_and_spread(low, row, lanes, name)
    tile = b.sbuf((lanes, prod(row.sizes)), row.dtype, name, depth=2)
    shaped = reshaped(tile, (lanes, *row.sizes)) if row.ndim else tile
    assert shaped is not None
    source = expanded(row, 0)
    if not row.ndim:
        source = expanded(source, 1)
    b.op("dma_copy", shaped, broadcast(source, (lanes, *source.sizes[1:])))
    return tile


@decision("load: spread over partitions")
def load_and_spread(low: Lowering, row: View, lanes: int, name: str) -> View:
    """A row of floats on every partition, as float32: read once, then spread by the Tensor engine."""
    line = low.b.sbuf((1, row.size), row.dtype, name)
    shaped = as_shape(line, (1, *row.sizes))
    low.b.op("dma_copy", shaped, expanded(row, 0))
    return spread_row(low, line, lanes, name)


def spread_table(low: Lowering, value: Value, lanes: int) -> View:
    """A value on every partition, [lanes, elements]."""
    row = as_shape(low.contiguous(value), (1, value.type.size))
    tile = low.b.sbuf((lanes, row.size), row.dtype, value.name or "table")
    shuffle_over(low, tile, row)
    return tile


@decision("load: spread by shuffles")
def shuffle_over(low: Lowering, tile: View, row: View) -> None:
    """A row [1, n] in HBM to every partition: to one of each quadrant, from there to the others, part by part."""
    b, width, (lanes, size) = low.b, low.target["limits.shuffle_width"], tile.sizes
    for at in range(0, size, TUNING.columns):
        count = min(TUNING.columns, size - at)
        part = sliced(tile, 1, at, count)
        for start in range(0, lanes, width):
            b.op("dma_copy", sliced(part, 0, start, 1), sliced(row, 1, at, count))
        b.op("nc_stream_shuffle", part, part, shuffle_mask=(0,) * width)


def copy_out(low: Lowering, home: Home, out: View) -> None:
    """A whole value into HBM."""
    b = low.b
    if isinstance(home, Hbm):
        copy_hbm(low, home.view, out)
        return
    assert isinstance(home, Chip)
    first, stop = home.rows
    rank = len(home.shape)
    target = _by_rows(home, out)
    if target is None or _is_scattered(low, home, target):
        others = (stop, rank) if first == 0 else (0, first) if stop == rank else home.rows
        turned = rehomed(low, home, others)
        there = None if turned is None else _by_rows(turned, out)
        if turned is None or there is None or _is_scattered(low, turned, there):
            order = [*range(first, stop), *[d for d in range(rank) if not first <= d < stop]]
            decided("store: by way of HBM")
            plain = b.hbm([home.shape[d] for d in order], out.dtype, "plain")
            plain = permuted(plain, [order.index(d) for d in range(rank)])
            there = _by_rows(home, plain)
            assert there is not None
            _send(low, home, there)
            copy_out(low, Hbm(plain), out)
            return
        home, target = turned, there
    _send(low, home, target)


def _by_rows(chip: Chip, out: View) -> View | None:
    """A place in HBM as [rows, *free], or None where the rows are not evenly apart there."""
    first, stop = chip.rows
    rows = permuted(out, [*range(first, stop), *[d for d in range(out.ndim) if not first <= d < stop]])
    return merged(rows, 0, stop - first - 1)


def _send(low: Lowering, chip: Chip, target: View) -> None:
    """A value on chip to [rows, *free] in HBM: all blocks at once where rows are short, else block by block."""
    for held, there in by_blocks(chip.view, target):
        if held.ndim < chip.view.ndim:
            store(low, there, held)
        elif not turn_out(low, there, held) and not _send_at_once(low, there, held):
            with low.b.loop(held.sizes[1], "r") as i:
                store(low, picked(there, 1, i), picked(held, 1, i))


@decision("store: all blocks at once", if_found=True)
def _send_at_once(low: Lowering, there: View, held: View) -> bool:
    """[lanes, blocks, ...] by one transfer, or a few, where that is sooner than one for each block."""
    each = moving(picked(there, 1, 0), picked(held, 1, 0), low.target)
    one_by_one = each.ns + (held.sizes[1] - 1) * max(each.busy_ns, each.issue_ns)
    if held.sizes[1] == 1 or moving(there, held, low.target).ns >= one_by_one:
        return False
    transfer(low.b, there, held)
    return True


def _is_scattered(low: Lowering, chip: Chip, target: View) -> bool:
    """True where the elements of a row lie so far apart in HBM that they had better change their order on the way."""
    tile = thought((chip.view.sizes[0], *chip.free), chip.view.dtype)
    there = sliced(target, 0, 0, tile.sizes[0])
    return moving(there, tile, low.target).ns > TUNING.scattered * moving(tile, tile, low.target).ns
