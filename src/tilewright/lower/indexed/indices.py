"""Run-time indices on chip: in columns for transfers of rows, in rows for comparisons; wrapped, and checked.

`checked_index` costs nothing where a transfer reads its result: the reader counts negative indices from the end itself
and the transfer checks the bounds. Elsewhere its greatest index is tried on an array of the size in question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import float32, int32, uint8, uint32
from tilewright.ir.core import Op, Value
from tilewright.lower.regions.checks import CHECKS, checked_by_readers
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Chip, is_view
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.views import At, as_shape, picked, sliced, split
from tilewright.tensor.interpret import run_op
from tilewright.tensor.ranges import EXACT, range_of, range_of_type
from tilewright.tile.view import Dynamic, View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def pass_on(low: Lowering, op: Op) -> None:
    """A check that its readers make: the index itself."""
    assert checked_by_readers(op), f"{op.name} is computed by a group"
    low.homes[op.result] = low.home(op.operands[0])


def _wraps(value: Value) -> int | None:
    """The size from which negative indices count, where a reader has to see to that."""
    while value.producer is not None and is_view(value.producer):
        value = value.producer.operands[0]
    op = value.producer
    if op is None or op.name != "checked_index" or not checked_by_readers(op) or op.operands[0].type.dtype.kind == "u":
        return None
    return None if is_counted(op.operands[0]) else op.attrs["size"]


def is_counted(value: Value) -> bool:
    """True for indices that are known not to be negative."""
    return range_of(value).low >= 0


def is_checked(value: Value, size: int) -> bool:
    """True for indices of a dim of a size that have been checked before they are read, or need not be."""
    if range_of(value).is_inside(0, size - 1):
        return True
    while value.producer is not None and is_view(value.producer):
        value = value.producer.operands[0]
    return value.producer is not None and value.producer.name in CHECKS and not checked_by_readers(value.producer)


def is_distinct(value: Value) -> bool:
    """True for a row of indices that is known to have no two equal ones, counted from the end or not."""
    while value.producer is not None and _keeps_apart(value.producer):
        value = value.producer.operands[0]
    op = value.producer
    if op is not None and op.name == "topk" and value is op.results[1]:
        return value.type.rank == 1
    if op is None or op.definition.family != "creation":
        return value.type.size <= 1
    known = run_op(op, {})[0].ravel()
    return bool(np.unique(known).size == known.size and np.all(known >= 0))


def _keeps_apart(op: Op) -> bool:
    """True for a view that repeats nothing, a check, and a cast of integers to a type that holds all of them."""
    if op.name == "cast":
        x = op.operands[0]
        return x.type.dtype.is_integer and range_of(x).is_inside(*range_of_type(op.result))
    return (is_view(op) and op.name != "broadcast_to") or op.name in CHECKS


def wrap(low: Lowering, tile: View, size: int | None) -> View:
    """The indices of a tile as 32-bit integers, negative ones counted from the end."""
    b = low.b
    if size is None:
        if tile.dtype in (int32, uint32):
            return tile
        made = b.sbuf(tile.sizes, int32, "index", depth=2)
        b.op("tensor_copy", made, tile)
        return made
    behind = b.sbuf(tile.sizes, int32, "behind", depth=2)
    if size <= EXACT:
        b.op("tensor_scalar", behind, tile, 0.0, float(size), op0="less", op1="multiply")
    else:
        whole = b.sbuf(tile.sizes, int32, "size", depth=2)
        b.op("memset", whole, value=size)
        b.op("tensor_scalar", behind, tile, 0.0, op0="less")
        b.op("tensor_tensor", behind, behind, whole, op="multiply")
    made = b.sbuf(tile.sizes, int32, "index", depth=2)
    b.op("tensor_tensor", made, tile, behind, op="add")
    return made


@dataclass(frozen=True, slots=True)
class Columns:
    """Indices with one per partition in each column: column j of partition p is index start + p * down + j * across."""

    tile: View
    start: int
    count: int
    down: int
    across: int

    def column(self, j: At) -> View:
        """One column, [partitions, 1]."""
        return sliced(self.tile, 1, j, 1)

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.tile.sizes[1]


def columns(low: Lowering, value: Value, in_blocks: bool) -> list[Columns]:
    """All indices of a value in columns: in blocks (partition p of block j is index j * lanes + p) or as it is faster.

    Indices that do not fill the last column, or row, come by themselves.
    """
    count, lanes = value.type.size, low.target["limits.partitions"]
    size = _wraps(value)
    home = low.homes.get(value)
    if (
        isinstance(home, Chip)
        and home.rows[1] - home.rows[0] == value.type.rank
        and home.view.sizes[0] in (lanes, count)
    ):
        whole = as_shape(home.view, home.view.sizes[:2])
        return _of_blocks(wrap(low, whole, size), count, lanes)
    line = as_shape(low.contiguous(value), (count,))
    made: list[Columns] = []
    parts: list[tuple[int, int, int, int, int]] = []
    first = 0
    if not in_blocks and count > lanes:
        across = -(-count // lanes)
        down = count // across
        parts.append((0, down, across, across, 1))
        first = down * across
    blocks, rest = divmod(count - first, lanes)
    parts += [(first, lanes, blocks, 1, lanes), (first + blocks * lanes, rest, 1, 1, 1)]
    for start, height, width, down, across in parts:
        if not height * width:
            continue
        tile = low.b.sbuf((height, width), line.dtype, "index")
        part = sliced(line, 0, start, height * width)
        shaped = split(part, 0, (width, height) if down == 1 else (height, width))
        if down == 1:
            shaped = View(
                shaped.buffer, shaped.dtype, shaped.offset, (height, width), shaped.strides[::-1], shaped.terms
            )
        low.b.op("dma_copy", tile, shaped)
        made.append(Columns(wrap(low, tile, size), start, height * width, down, across))
    return made


def _of_blocks(tile: View, count: int, lanes: int) -> list[Columns]:
    blocks, rest = divmod(count, lanes)
    made: list[Columns] = []
    if blocks:
        made.append(Columns(sliced(tile, 1, 0, blocks), 0, blocks * lanes, 1, lanes))
    if rest:
        last = sliced(sliced(tile, 1, blocks, 1), 0, 0, rest)
        made.append(Columns(last, blocks * lanes, rest, 1, 1))
    return made


def lines(low: Lowering, value: Value) -> Iterator[tuple[At, View]]:
    """The indices of a value in one partition, some at a time: where they begin, and [1, count]."""
    count = value.type.size
    source = as_shape(low.contiguous(value), (1, count))
    lanes = low.target["limits.partitions"]
    # Who places rows by their number counts in whole blocks.
    for at, size in tiled(low.b, count, max(TUNING.index_line // lanes, 1) * lanes, "c"):
        tile = low.b.sbuf((1, size), source.dtype, "index", depth=2)
        low.b.op("dma_copy", tile, sliced(source, 1, at, size))
        yield at, wrapped(low, tile, value)


def wrapped(low: Lowering, tile: View, value: Value) -> View:
    """A tile that holds indices of a value, as 32-bit integers that count from 0."""
    return wrap(low, tile, _wraps(value))


# Accesses.


def table_of(low: Lowering, value: Value, axis: int = 0) -> View:
    """A value in HBM of which an index chooses along an axis: what lies backwards or aslant, or repeats, is copied."""
    view = low.in_hbm(value)
    backwards = any(step < 0 for size, step in zip(view.sizes, view.strides, strict=True) if size > 1)
    return view if not backwards and _is_straight(view, axis) else low.contiguous(value)


def _is_straight(view: View, axis: int) -> bool:
    """True where a dim of a view goes along dims of its tensor; a diagonal does not."""
    size, step = view.sizes[axis], view.strides[axis]
    if size < 2:
        return True
    shape, stride = view.buffer.shape, 1
    for n in reversed(shape):
        if step == stride or (step and step % stride == 0 and step // stride * (size - 1) < n):
            return True
        stride *= n
    return False


def chosen_rows(table: View, column: View) -> View:
    """Rows of a tensor in HBM by a column of indices: [partitions, *rest]."""
    dynamic = Dynamic("vector", column, table.strides[0], table.sizes[0], 0, 0)
    sizes = (column.sizes[0], *table.sizes[1:])
    return View(table.buffer, table.dtype, table.offset, sizes, table.strides, table.terms, dynamic)


def chosen_row(table: View, index: View) -> View:
    """One row of a tensor in HBM by one index: [*rest]."""
    dynamic = Dynamic("scalar", index, table.strides[0], table.sizes[0], 0)
    rest = picked(table, 0, 0)
    if not rest.ndim:
        return View(rest.buffer, rest.dtype, rest.offset, (1,), (1,), rest.terms, dynamic)
    return View(rest.buffer, rest.dtype, rest.offset, rest.sizes, rest.strides, rest.terms, dynamic)


# Checks.


def check(low: Lowering, tile: View, size: int) -> None:
    """Stop the kernel unless every index of a tile [partitions, n] of 32-bit integers is in 0 .. size - 1.

    The greatest one, negative ones being greater than all as bit patterns, is tried on an array of that size.
    """
    b = low.b
    assert tile.ndim == 2
    bits = View(tile.buffer, uint32, tile.offset, tile.sizes, tile.strides, tile.terms)
    if size > EXACT:
        bits = _outside(low, tile, size)
        size = 1
    worst = b.sbuf((tile.sizes[0], 1), float32, "worst", depth=2)
    b.op("tensor_reduce", worst, bits, op="maximum", axis=(1,))
    if tile.sizes[0] > 1:
        one = b.sbuf((1, 1), float32, "worst", depth=2)
        b.op("tensor_partition_reduce", one, worst, op="maximum")
        worst = one
    index = b.sbuf((1, 1), int32, "worst", depth=2)
    b.op("tensor_scalar", index, worst, float(size), op0="minimum")
    mark = b.sbuf((1, 1), uint8, "mark", depth=2)
    b.op("memset", mark, value=0)
    places = b.hbm((size, 1), uint8, "places")
    b.op("dma_copy", chosen_row(places, index), mark)


def _outside(low: Lowering, tile: View, size: int) -> View:
    """1 where an index is outside of a size that float32 does not hold, else 0."""
    b = low.b
    signed = View(tile.buffer, int32, tile.offset, tile.sizes, tile.strides, tile.terms)
    bound, over = (b.sbuf(tile.sizes, int32, name, depth=2) for name in ("bound", "over"))
    b.op("memset", bound, value=size)
    b.op("tensor_tensor", over, signed, bound, op="greater_equal")
    b.op("tensor_scalar", bound, signed, 0.0, op0="less")
    b.op("tensor_tensor", over, over, bound, op="maximum")
    return over


def wraps_inside(op: Op) -> int | None:
    """The size from which the negative indices of a check count, or None where there are none."""
    known = op.name != "checked_index" or op.operands[0].type.dtype.kind == "u" or is_counted(op.operands[0])
    return None if known else op.attrs["size"]
