"""Indices inside a group: checks, and elements by indices along a free dim, each partition for itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tilewright.dtypes import float32, uint8, uint32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.indices import (
    check,
    chosen_row,
    chosen_rows,
    is_checked,
    table_of,
    wrap,
    wrapped,
    wraps_inside,
)
from tilewright.lower.regions.checks import looks_up
from tilewright.lower.write.block import flat
from tilewright.lower.write.patterns import column_numbers
from tilewright.lower.write.views import as_shape, broadcast, expanded, permuted, picked, reshaped, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.indexed.column_tables import ColumnTable
    from tilewright.lower.nest.steps import StepWriter


def checked_index(e: StepWriter, op: Op) -> None:
    """The index, negative ones counted from the end; tried on an array of the size in question."""
    dst = e.destination(op.result)
    tile = whole_tile(e, op.operands[0], op, dst)
    made = wrap(e.low, tile, wraps_inside(op))
    whole = reshaped(made, (made.sizes[0], made.size // made.sizes[0]))
    if whole is None:
        whole = e.b.sbuf((made.sizes[0], made.size // made.sizes[0]), made.dtype, "index", depth=2)
        shaped = as_shape(whole, made.sizes)
        e.copy(shaped, made)
    check(e.low, whole, op.attrs["size"])
    e.b.op("tensor_copy", dst, made)


@decision("inside: look up")
def _look_up(e: StepWriter, op: Op) -> None:
    """Single numbers of a table that every partition has."""
    dst = e.destination(op.result)
    where = _places(e, broadcast(e.operand_tile(op.operands[1], op), dst.sizes))
    e.b.op("nc_n_gather", flat(dst), e.table(op), flat(where))


def take(e: StepWriter, op: Op) -> None:
    """Numbers of a small table, or rows of one in HBM."""
    (_look_up if looks_up(op) else _fetch_rows)(e, op)


@decision("inside: take")
def _fetch_rows(e: StepWriter, op: Op) -> None:
    """Rows of a table in HBM, for every index of each partition a transfer; of one on chip, all of them at once."""
    x, index = op.operands
    places = wrapped(e.low, e.value_tile(index, e.group.roles[op.result]), index)
    dst, found = e.destination(op.result), e.column_table(op)
    if found is not None:
        _look_up_rows(e, op, found, dst, places)
        return
    table, column = table_of(e.low, x), expanded(places, places.ndim)
    with ExitStack() as stack:
        for count in places.sizes[1:]:
            j = stack.enter_context(e.b.loop(count, "j")) if count > 1 else 0
            dst, column = picked(dst, 1, j), picked(column, 1, j)
        _rows(e, dst, table, column)


def _look_up_rows(e: StepWriter, op: Op, table: ColumnTable, dst: View, places: View) -> None:
    """Rows of a table by columns."""
    height, count = dst.sizes[0], places.size // places.sizes[0]
    line, rows = reshaped(places, (height, count)), reshaped(dst, (height, count, table.width))
    if line is None:
        line = e.b.sbuf((height, count), places.dtype, "places", depth=2)
        dense = as_shape(line, places.sizes)
        e.copy(dense, places)
    if not is_checked(op.operands[1], table.rows):
        check(e.low, line, table.rows)
    taken = rows
    if taken is None:
        taken = e.b.sbuf((height, count, table.width), dst.dtype, "taken", depth=2)
    table.fetch(line, taken)
    if rows is None:
        dense = as_shape(taken, dst.sizes)
        e.copy(dst, dense)


def _rows(e: StepWriter, into: View, table: View, column: View) -> None:
    """A row for every partition, by a column of indices."""
    if e.low.target["features.swdge_indirect"]:
        e.b.op("dma_copy", into, chosen_rows(table, column))
        return
    with e.b.loop(into.sizes[0], "i") as i:
        e.b.op("dma_copy", sliced(into, 0, i, 1), chosen_row(table, sliced(column, 0, i, 1)))


@decision("inside: take_along_axis")
def take_along_axis(e: StepWriter, op: Op) -> None:
    """out[p, i] = x[p, index[p, i]]"""
    x, index = op.operands
    dst = e.destination(op.result)
    tile, where = whole_tile(e, x, op, dst), _places(e, whole_tile(e, index, op, dst))
    with lines(e, _axis(e, op), tile, where, dst) as (source, places, out):
        e.b.op("nc_n_gather", out, source, places)


@decision("inside: put_along_axis")
def put_along_axis(e: StepWriter, op: Op) -> None:
    """A copy of x, then out[p, index[p, i]] = part[p, i] for one i after the other: of equal indices the last wins."""
    x, index, part = op.operands
    dst = e.destination(op.result)
    e.copy(dst, whole_tile(e, x, op, dst))
    if not part.type.size:
        return
    tile, where = whole_tile(e, part, op, dst), whole_tile(e, index, op, dst)
    number = e.b.sbuf(where.sizes, float32, "places", depth=2)
    e.b.op("tensor_copy", number, where)
    size = x.type.shape[op.attrs["axis"]]
    ramp = sliced(column_numbers(e.low, size), 0, 0, dst.sizes[0])
    with lines(e, _axis(e, op), dst, tile, number) as (out, source, place), e.b.loop(place.sizes[1], "i") as i:
        mask = e.b.sbuf(out.sizes, uint8, "mask", depth=2)
        e.b.op("tensor_scalar", mask, ramp, sliced(place, 1, i, 1), op0="equal")
        e.b.op("tensor_copy_predicated", out, broadcast(sliced(source, 1, i, 1), out.sizes), mask)


def whole_tile(e: StepWriter, x: Value, op: Op, dst: View) -> View:
    """The tile of an operand with the roles and blocks of the result, also of an array of one number in full size."""
    roles = e.group.roles[op.result]
    tile = e.operand_tile(x, op)
    free = [x.type.shape[d] for d in roles.free_dims(x.type.rank)]
    return broadcast(tile, (tile.sizes[0], dst.sizes[1], *free))


def _axis(e: StepWriter, op: Op) -> int:
    """Where the axis of an op stands in its tiles."""
    return 2 + e.group.roles[op.result].free_dims(op.result.type.rank).index(op.attrs["axis"])


def _places(e: StepWriter, tile: View) -> View:
    """Indices as nc_n_gather takes them."""
    if tile.dtype.itemsize == uint32.itemsize:
        return View(tile.buffer, uint32, tile.offset, tile.sizes, tile.strides, tile.terms)
    made = e.b.sbuf(tile.sizes, uint32, "places", depth=2)
    e.b.op("tensor_copy", made, tile)
    return made


@contextmanager
def lines(e: StepWriter, dim: int, *tiles: View) -> Iterator[list[View]]:
    """Tiles [partitions, J, *free] as [partitions, one of the dims], in loops over the free dims beside it."""
    order = (0, *[d for d in range(1, tiles[0].ndim) if d != dim], dim)
    pieces = [permuted(tile, order) for tile in tiles]
    with ExitStack() as stack:
        while pieces[0].ndim > 2:
            at = stack.enter_context(e.b.loop(pieces[0].sizes[1], "l"))
            pieces = [picked(piece, 1, at) for piece in pieces]
        yield pieces
