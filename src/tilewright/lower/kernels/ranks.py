"""Sorting a few long rows: each element counts those that come before it, and is sent to that place.

    place[i] = number of j with key[j] > key[i], or key[j] == key[i] and j < i

Elements i lie on partitions, 128 at a time; all j of a chunk pass by as a row that every partition has. Keys are those
of topk: greater where an element comes first, also where the least are wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float32, uint32
from tilewright.lower.indexed.indices import chosen_row, chosen_rows
from tilewright.lower.kernels.picker import Picker, chunk_size
from tilewright.lower.move.moves import load_rows, store_rows
from tilewright.lower.move.rehome import spread_row
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import column_numbers, once, row_numbers
from tilewright.lower.write.views import At, affine, as_shape, expanded, picked, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


class RowPicker(Picker):
    """Keys of a row that lies on all partitions."""

    def flags(self, x: View, keys: View) -> View:
        """0, or NaN on every partition if any has one."""
        own, b, lanes = super().flags(x, keys), self.low.b, x.sizes[0]

        def make() -> View:
            made = b.sbuf((self.low.target["limits.partitions"],) * 2, float32, "ones")
            b.op("memset", made, value=1.0)
            return made

        ones = once(self.low, ("ones",), make)
        bank = b.psum((lanes, 1), float32, "total")
        b.op("nc_matmul", bank, sliced(sliced(ones, 0, 0, lanes), 1, 0, lanes), own)
        total = b.sbuf((lanes, 1), float32, "total", depth=2)
        self.low.evict(total, bank)
        return total


def sort_rows(low: Lowering, pick: Picker, source: View, values: View, places: View) -> None:
    """The best k of each row of [rows, size] in HBM, row after row."""
    rows, size = source.sizes
    row_pick = RowPicker(low, pick.dtype, pick.k, pick.largest, pick.wants_values, pick.wants_places, pick.op)
    with low.b.loop(rows, "r") as r:
        outs = [picked(out, 0, r) if wanted else None for out, wanted in _wanted(pick, values, places)]
        _sort(low, row_pick, picked(source, 0, r), outs, size)


def _wanted(pick: Picker, values: View, places: View) -> list[tuple[View, bool]]:
    return [(values, pick.wants_values), (places, pick.wants_places)]


def _sort(low: Lowering, pick: Picker, source: View, outs: list[View | None], size: int) -> None:
    """One row."""
    b, lanes = low.b, min(size, low.target["limits.partitions"])
    blocks = -(-size // lanes)
    x = b.sbuf((lanes, blocks), source.dtype, "x", depth=2)
    if size % lanes:
        b.op("memset", x, value=0 if source.dtype.is_integer else 0.0)
    load_rows(low, expanded(x, 2), expanded(source, 1))
    # Elements on partitions, [lanes, 1, blocks], and as a line in HBM.
    keys = picked(pick.keys(expanded(x, 1)), 1, 0)
    keys = sliced(keys, 1, 0, blocks)
    line = b.hbm((size, 1), float32, "keys")
    store_rows(low, line, expanded(keys, 2))
    ranks = _ranks(low, keys, line, size)
    numbers = row_numbers(low, size, uint32)
    for out, column in zip(outs, (x, numbers), strict=True):
        if out is not None:
            _deliver(low, out, column, ranks, size)


def _ranks(low: Lowering, keys: View, line: View, size: int) -> View:
    """[lanes, blocks]: how many come before each element."""
    b, (lanes, blocks) = low.b, keys.sizes
    total = b.sbuf((lanes, blocks), float32, "ranks")
    step = chunk_size(size) // lanes * lanes
    for start in range(0, size, step):
        width = min(step, size - start)
        row = b.sbuf((1, width), float32, "row", depth=2)
        there = as_shape(sliced(line, 0, start, width), (1, width))
        b.op("dma_copy", row, there)
        wide = spread_row(low, row, low.target["limits.partitions"], "row", banks=1)
        wide = sliced(wide, 0, 0, lanes)
        counts = b.sbuf((lanes, blocks), float32, "counts", depth=2)
        first, last = start // lanes, -(-(start + width) // lanes)
        # Elements before the chunk come before equal ones of it, elements behind it after them.
        _count(low, counts, keys, wide, 0, first, "greater")
        _count(low, counts, keys, wide, first, last, "greater")
        _count(low, counts, keys, wide, last, blocks, "greater_equal")
        _count_equal(low, counts, keys, wide, first, last)
        if start:
            b.op("tensor_tensor", total, total, counts, op="add")
        else:
            b.op("tensor_copy", total, counts)
    made = b.sbuf((lanes, blocks), uint32, "ranks")
    b.op("tensor_copy", made, total)
    return made


def _count(low: Lowering, counts: View, keys: View, wide: View, first: int, last: int, alu: str) -> None:
    """How many of a chunk compare so with each element of some blocks."""
    if first == last:
        return
    unread = low.b.sbuf(wide.sizes, bfloat16, "unread")
    with low.b.loop(last - first, "b") as i:
        at = affine(i) + first
        low.b.op(
            "tensor_scalar_reduce",
            unread,
            wide,
            sliced(keys, 1, at, 1),
            None,
            sliced(counts, 1, at, 1),
            op0=alu,
            reduce_op="add",
        )


def _count_equal(low: Lowering, counts: View, keys: View, wide: View, first: int, last: int) -> None:
    """Equal ones that stand before each element, where its block is in the chunk."""
    b, (lanes, width) = low.b, wide.sizes
    ramp = sliced(column_numbers(low, width), 0, 0, lanes)
    places = sliced(row_numbers(low, width), 0, 0, lanes)
    with b.loop(last - first, "b") as i:
        before, equal = (b.sbuf((lanes, width), float32, name, depth=2) for name in ("before", "equal"))
        b.op("tensor_scalar", before, ramp, sliced(places, 1, i, 1), op0="less")
        own = sliced(keys, 1, affine(i) + first, 1)
        b.op("scalar_tensor_tensor", equal, wide, own, before, op0="equal", op1="multiply")
        more = b.sbuf((lanes, 1), float32, "more", depth=2)
        b.op("tensor_reduce", more, equal, op="add", axis=(1,))
        into = sliced(counts, 1, affine(i) + first, 1)
        b.op("tensor_tensor", into, into, more, op="add")


def _deliver(low: Lowering, out: View, column: View, ranks: View, size: int) -> None:
    """Each element to its place; the first k of them where not all are wanted."""
    b, lanes = low.b, ranks.sizes[0]
    whole = out if out.sizes[0] == size else b.hbm((size,), out.dtype, "sorted")
    table = expanded(whole, 1)

    def send(block: At, height: int) -> None:
        tile, place = (sliced(sliced(v, 1, block, 1), 0, 0, height) for v in (column, ranks))
        if low.target["features.swdge_indirect"]:
            b.op("dma_copy", chosen_rows(table, place), tile)
            return
        with b.loop(height, "p") as p:
            b.op("dma_copy", chosen_row(table, sliced(place, 0, p, 1)), sliced(tile, 0, p, 1))

    for at, height in tiled(b, size, lanes, "b"):
        send(_quotient(at, lanes), height)
    if whole is not out:
        b.op("dma_copy", out, sliced(whole, 0, 0, out.sizes[0]))


def _quotient(at: At, lanes: int) -> At:
    if isinstance(at, int):
        return at // lanes
    return type(at)(at.const // lanes, tuple((v, factor // lanes) for v, factor in at.terms))
