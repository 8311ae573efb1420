"""What goes over the rows of a group, taken in block by block (regions/totals.py): reductions on each partition, which
meet in the end, and products x.T @ y of rows, which add up in PSUM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.kernels.meet import all_meet
from tilewright.lower.kernels.rows import deliver, place
from tilewright.lower.move.join import place_in_hbm
from tilewright.lower.move.moves import store_rows
from tilewright.lower.regions.roles import Roles
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
    of its rows so far, [partitions, columns]; of a product blocks of its rows and columns, in PSUM.
    """

    op: Op
    out: View
    by_trip: bool
    tiles: list[View] = field(default_factory=list)

    @property
    def is_product(self) -> bool:
        return self.op.name == "matmul"


def totals_of(e: BlockEmitter) -> list[Total]:
    """What goes over the rows of a group."""
    made: list[Total] = []
    for op in e.group.totals:
        if is_view(op):
            continue
        if op.name == "matmul":
            made.append(Total(op, _place_of_product(e, op), bool(e.group.batch)))
        else:
            batch = e.group.roles[op.operands[0]].batch
            made.append(Total(op, place(e.low, op), bool(batch) and batch[0] not in op.attrs["axes"]))
    return made


def _place_of_product(e: BlockEmitter, op: Op) -> View:
    """Where a product goes: on chip by rows where it is read there, else to HBM, as [trips, rows, columns]."""
    low, value = e.low, op.result
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
    for block, start, bank in _banks(e, total):
        for j in range(e.block.per):
            stands = sliced(picked(x, 1, j), 1, block * e.lanes, bank.sizes[0])
            e.b.op("nc_matmul", bank, stands, sliced(picked(y, 1, j), 1, start, bank.sizes[1]))


def _banks(e: BlockEmitter, total: Total) -> Iterator[tuple[int, int, View]]:
    """What PSUM holds of a product: which block of its rows, from which column on, where."""
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
    """What PSUM holds to where the result lives."""
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
