"""Moving data between homes: loads, copies, and rows that every partition needs."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Value
from tilewright.lower.homes import Chip, Hbm, Home
from tilewright.lower.tuning import FEW_ELEMENTS, SPREAD_BYTES
from tilewright.lower.views import broadcast, expanded, merged, permuted, picked, reshaped, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.roles import Roles


def load(low: Lowering, tile: View, source: View) -> None:
    """From HBM into a tile of the same shape."""
    low.b.op("dma_copy", tile, source)


def load_rows(low: Lowering, tile: View, source: View) -> None:
    """[n, ...] of HBM into [lanes, blocks, ...]: whole blocks by one transfer, a shorter one by another."""
    for held, there in by_blocks(tile, source):
        low.b.op("dma_copy", held, there)


def store_rows(low: Lowering, target: View, tile: View) -> None:
    """[lanes, blocks, ...] into [n, ...] of HBM: whole blocks by one transfer, a shorter one by another."""
    for held, there in by_blocks(tile, target):
        low.b.op("dma_copy", there, held)


def by_blocks(tile: View, rows: View) -> Iterator[tuple[View, View]]:
    """A tile [lanes, blocks, ...] and the rows of a view [n, ...] that belong there: whole blocks, a shorter one."""
    lanes = tile.sizes[0]
    whole, rest = divmod(rows.sizes[0], lanes)
    if whole:
        blocks = split(sliced(rows, 0, 0, whole * lanes), 0, (whole, lanes))
        yield sliced(tile, 1, 0, whole), permuted(blocks, (1, 0, *range(2, blocks.ndim)))
    if rest:
        yield sliced(picked(tile, 1, whole), 0, 0, rest), sliced(rows, 0, whole * lanes, rest)


def lay_by_rows(low: Lowering, x: Value, roles: Roles) -> None:
    """A value in HBM whose rows lie across memory is laid there anew, with the elements of each row together."""
    home = low.homes[x]
    if not isinstance(home, Hbm) or home.view.size <= FEW_ELEMENTS or not low.target["features.transpose_bit_exact"]:
        return
    view, others = home.view, roles.free_dims(home.view.ndim)
    rows = [d for d in range(*roles.rows) if view.sizes[d] != 1]
    free = [d for d in others if view.sizes[d] != 1]
    if not rows or not free or view.strides[free[-1]] == 1 or view.strides[rows[-1]] != 1:
        return
    order = (*roles.batch, *range(*roles.rows), *others)
    made = low.b.hbm(tuple(view.sizes[d] for d in order), view.dtype, "rows")
    copy_out(low, Hbm(permuted(view, order)), made)
    low.homes[x] = Hbm(permuted(made, tuple(order.index(d) for d in range(view.ndim))))


def replicate(low: Lowering, row: View, lanes: int, name: str) -> View:
    """A row of HBM on every partition: [lanes, elements]."""
    b = low.b
    if row.dtype is float32 and lanes * row.nbytes >= SPREAD_BYTES:
        return load_and_spread(low, row, lanes, name)
    tile = b.sbuf((lanes, prod(row.sizes)), row.dtype, name, depth=2)
    shaped = reshaped(tile, (lanes, *row.sizes)) if row.ndim else tile
    assert shaped is not None
    source = expanded(row, 0)
    if not row.ndim:
        source = expanded(source, 1)
    b.op("dma_copy", shaped, broadcast(source, (lanes, *source.sizes[1:])))
    return tile


def load_and_spread(low: Lowering, row: View, lanes: int, name: str) -> View:
    """A row of floats on every partition, as float32: read once, then spread by the Tensor engine."""
    from tilewright.lower.rehome import spread_row

    line = low.b.sbuf((1, row.size), row.dtype, name)
    shaped = reshaped(line, (1, *row.sizes))
    assert shaped is not None
    low.b.op("dma_copy", shaped, expanded(row, 0))
    return spread_row(low, line, lanes, name)


def copy_out(low: Lowering, home: Home, out: View) -> None:
    """A whole value into HBM."""
    b = low.b
    if isinstance(home, Hbm):
        from tilewright.lower.copy import copy_hbm

        copy_hbm(low, home.view, out)
        return
    assert isinstance(home, Chip)
    first, stop = home.rows
    free = [d for d in range(len(home.shape)) if not first <= d < stop]
    target = permuted(out, (*range(first, stop), *free))
    if stop > first:
        rows = merged(target, 0, stop - first - 1)
        if rows is None:
            # The rows are not evenly apart there: in order first.
            plain = b.hbm(home.shape, out.dtype, "plain")
            copy_out(low, home, plain)
            copy_out(low, Hbm(plain), out)
            return
        target = rows
    else:
        target = expanded(target, 0)
    lanes = home.view.sizes[0]
    whole, rest = divmod(home.row_count, lanes)
    if whole:
        with b.loop(whole, "r") as i:
            b.op("dma_copy", sliced(target, 0, i * lanes, lanes), picked(home.view, 1, i))
    if rest:
        part = sliced(picked(home.view, 1, whole), 0, 0, rest)
        b.op("dma_copy", sliced(target, 0, whole * lanes, rest), part)
