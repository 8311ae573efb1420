"""What goes over the rows of a group, taken in block by block (regions/totals.py): reductions on each partition, which
meet in the end, and products x.T @ y of rows, which add up in PSUM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decided, decision
from tilewright.lower.kernels.meet import all_meet
from tilewright.lower.kernels.rows import deliver, place
from tilewright.lower.move.join import place_in_hbm
from tilewright.lower.move.moves import store_rows
from tilewright.lower.regions.planning import psum_room
from tilewright.lower.regions.roles import Roles
from tilewright.lower.regions.totals import ADDED_UP, columns_of, rounding_of
from tilewright.lower.select.select import REDUCE, start_of
from tilewright.lower.write.homes import Chip, Hbm, device_dtype, is_view
from tilewright.lower.write.views import Affine, At, affine, as_shape, permuted, picked, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.nest.blocks import BlockEmitter


@dataclass(slots=True)
class Total:
    """An op over the rows, and where its result goes.

    by_trip: each trip of the outer loops gives a part of the result. tiles: of a reduction what each partition has made
    of its rows so far, [partitions, columns]; of a product blocks of its rows and columns, in PSUM, or all of them in
    SBUF, to which every block of rows is added.
    """

    op: Op
    out: View
    by_trip: bool
    in_sbuf: bool = False
    tiles: list[View] = field(default_factory=list)

    @property
    def is_product(self) -> bool:
        return self.op.name in ADDED_UP


def totals_of(e: BlockEmitter) -> list[Total]:
    """What goes over the rows of a group."""
    made: list[Total] = []
    taken = sum(columns_of(op, e.lanes) for op in e.group.totals if op.name in ADDED_UP)
    # Where not all of them have room in PSUM, the banks are for what changes with every block.
    in_sbuf = taken > psum_room(e.low.target)
    for op in e.group.totals:
        if is_view(op) or op.name == "cast":
            # A cast rounds the product that it reads.
            continue
        if op.name in ADDED_UP:
            made.append(Total(op, _place_of_product(e, op), bool(e.group.batch), in_sbuf))
        else:
            batch = e.group.roles[op.operands[0]].batch
            made.append(Total(op, place(e.low, op), bool(batch) and batch[0] not in op.attrs["axes"]))
    return made


def _place_of_product(e: BlockEmitter, op: Op) -> View:
    """Where a product goes: on chip by rows where it is read there, else to HBM, as [trips, rows, columns]."""
    cast = rounding_of(op)
    low, value = e.low, op.result if cast is None or cast not in e.group.totals else cast.result
    rows, columns = value.type.shape[-2:]
    dtype, blocks = device_dtype(value.type.dtype), -(-rows // e.lanes)
    later = any(use is not low.program.output_op for use in value.uses)
    if later and value not in low.outputs and not e.group.batch and value.type.rank == 2:
        size = blocks * columns * dtype.itemsize
        if low.may_keep(value, size):
            kept = low.b.sbuf((min(rows, e.lanes), blocks, columns), dtype, value.name or "kept")
            low.homes[value], low.resident[value] = Chip(kept, value.type.shape, (0, 1)), size
            return kept
    out = place_in_hbm(low, value, value.name or op.name)
    low.homes[value] = Hbm(out)
    return as_shape(out, (prod(value.type.shape[:-2]), rows, columns))


@contextmanager
def taking_in(e: BlockEmitter, totals: Sequence[Total], batch: Sequence[At] = ()) -> Iterator[None]:
    """Tiles that take in the blocks written meanwhile; then results are made of them. batch: the trip of the outer
    loops."""
    for total in totals:
        _begin(e, total)
    yield
    trip = affine(0)
    for at, count in zip(batch, e.group.batch, strict=False):
        trip = trip * count + affine(at)
    for total in totals:
        e.b.location = total.op.location
        if total.is_product:
            _finish_product(e, total, trip)
        else:
            _finish(e, total, trip)


def take_in(e: BlockEmitter, total: Total) -> None:
    """The rows of the block in work."""
    e.b.location = total.op.location
    if total.is_product:
        _multiply(e, total)
    else:
        _combine(e, total)


def _begin(e: BlockEmitter, total: Total) -> None:
    """Tiles that take in what comes."""
    op = total.op
    if total.is_product:
        rows, columns = op.result.type.shape[-2:]
        bank, blocks = e.low.target["memory.psum_bank_bytes"] // float32.itemsize, -(-rows // e.lanes)
        if total.in_sbuf:
            made = e.b.sbuf((min(e.lanes, rows), blocks, columns), float32, "total", depth=e.depth)
            e.select.fill(made, 0)
            total.tiles = [made]
            return
        side_by_side = max(bank // columns, 1)
        total.tiles = [
            e.b.psum((min(e.lanes, rows), min(side_by_side, blocks - at), min(bank, columns - start)), float32, "total")
            for at in range(0, blocks, side_by_side)
            for start in range(0, columns, bank)
        ]
        return
    parts, depth = (prod(e.group.batch), e.depth) if total.by_trip else (1, 1)
    size = op.result.type.size // parts
    total.tiles = [e.b.sbuf((e.lanes, size), float32, op.result.name or op.name, depth=depth)]
    e.select.fill(total.tiles[0], start_of(op.name, float32))


# Reductions.


@decision("totals: a block taken in")
def _combine(e: BlockEmitter, total: Total) -> None:
    (x,) = total.op.operands
    roles = e.group.roles[x]
    tile = e.whole_tile(x, roles)
    free = roles.free_dims(x.type.rank)
    over = [2 + i for i, d in enumerate(free) if d in total.op.attrs["axes"] and tile.sizes[2 + i] != 1]
    over = [1, *over] if tile.sizes[1] > 1 else over
    into = sliced(total.tiles[0], 0, 0, tile.sizes[0])
    if over:
        kept = [d for d in range(1, tile.ndim) if d not in over]
        lines = permuted(tile, (0, *kept, *over))
        part = e.b.sbuf(into.sizes, float32, "part", depth=e.depth)
        shaped = as_shape(part, lines.sizes[: lines.ndim - len(over)])
        e.b.op("tensor_reduce", shaped, lines, op=REDUCE[total.op.name], axis=tuple(range(-len(over), 0)))
        tile = part
    e.b.op("tensor_tensor", into, into, e.as_shape(tile, into.sizes), op=REDUCE[total.op.name])


def _finish(e: BlockEmitter, total: Total, trip: Affine) -> None:
    """Where the partitions meet."""
    (tile,) = total.tiles
    columns = tile.sizes[1]
    met = e.b.sbuf(tile.sizes, float32, "met", depth=e.depth)
    all_meet(e.low, e.select, total.op.name, met, tile)
    deliver(e.low, total.op, sliced(met, 0, 0, 1), sliced(total.out, 1, trip * columns, columns))


# Products.


@decision("totals: a product taken in")
def _multiply(e: BlockEmitter, total: Total) -> None:
    left, right = total.op.operands
    shape = total.op.result.type.shape
    rank, batch = len(shape), tuple(d for d, n in enumerate(shape[:-2]) if n != 1)
    x = _rows_of(e, left, Roles((rank - 1, rank), batch))
    y = _rows_of(e, right, Roles((rank - 2, rank - 1), batch))
    if x.dtype is not y.dtype:
        wide = e.b.sbuf(y.sizes, x.dtype, "wide", depth=e.depth)
        e.select.cast(wide, y)
        y = wide
    for part in _parts(e, total):
        for block, start, bank in part.banks:
            for j in range(e.block.per):
                stands = sliced(picked(x, 1, j), 1, block * e.lanes, bank.sizes[0])
                e.b.op("nc_matmul", bank, stands, sliced(picked(y, 1, j), 1, start, bank.sizes[1]))
        if part.sums is not None:
            e.b.op("tensor_tensor", part.sums, part.sums, part.whole, op="add", engine="vector")


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a product in PSUM: which block of its rows, from which column on, where; and what it is added to."""

    banks: list[tuple[int, int, View]]
    whole: View | None = None
    sums: View | None = None


def _parts(e: BlockEmitter, total: Total) -> Iterator[Part]:
    """A product in PSUM, or one bank of it after the other where it is added up in SBUF."""
    if not total.in_sbuf:
        yield Part(list(_banks(e, total)))
        return
    decided("totals: added up in SBUF")
    (tile,) = total.tiles
    rows, (height, blocks, columns) = total.op.result.type.shape[-2], tile.sizes
    bank = e.low.target["memory.psum_bank_bytes"] // float32.itemsize
    whole, side_by_side = rows // e.lanes, max(bank // columns, 1)
    # The last block of rows may have fewer: it stands by itself.
    cuts = [*range(0, whole, side_by_side), *range(whole, blocks + 1)]
    for at, stop in pairwise(dict.fromkeys(cuts)):
        high = min(height, rows - at * e.lanes)
        for start in range(0, columns, bank):
            width = min(bank, columns - start)
            made = e.b.psum((high, stop - at, width), float32, "part")
            sums = sliced(sliced(sliced(tile, 0, 0, high), 1, at, stop - at), 2, start, width)
            yield Part([(at + i, start, picked(made, 1, i)) for i in range(stop - at)], made, sums)


def _banks(e: BlockEmitter, total: Total) -> Iterator[tuple[int, int, View]]:
    """What there is of a product: which block of its rows, from which column on, where."""
    rows, columns = total.op.result.type.shape[-2:]
    block = start = 0
    for tile in total.tiles:
        for i in range(tile.sizes[1]):
            yield block + i, start, sliced(picked(tile, 1, i), 0, 0, min(e.lanes, rows - (block + i) * e.lanes))
        start += tile.sizes[2]
        if start == columns:
            block, start = block + tile.sizes[1], 0


def _rows_of(e: BlockEmitter, x: Value, roles: Roles) -> View:
    """[partitions, rows of each, columns]: the block of an operand, which is a member seen through views, or comes from
    outside."""
    base = x
    while base not in e.group.roles and base.producer in e.group.totals:
        (base,) = base.producer.values()
    tile = e.whole_tile(base, e.group.roles.get(base, roles))
    return e.as_shape(tile, (*tile.sizes[:2], tile.size // prod(tile.sizes[:2])))


def _finish_product(e: BlockEmitter, total: Total, trip: Affine) -> None:
    """What there is of a product to where the result lives."""
    rows, columns = total.op.result.type.shape[-2:]
    made = total.out
    if not total.out.on_chip:
        shape = (min(rows, e.lanes), -(-rows // e.lanes), columns)
        made = e.b.sbuf(shape, total.out.dtype, total.op.result.name or "product", depth=e.depth)
    for block, start, bank in _banks(e, total):
        into = sliced(sliced(picked(made, 1, block), 0, 0, bank.sizes[0]), 1, start, bank.sizes[1])
        e.select.copy(into, bank)
    if not total.out.on_chip:
        store_rows(e.low, picked(total.out, 0, trip), made)
