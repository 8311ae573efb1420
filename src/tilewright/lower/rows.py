"""Reductions over the rows themselves: each partition accumulates its own, then the partitions are combined."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, float32
from tilewright.ir.core import Op
from tilewright.lower.homes import Chip, Hbm, device_dtype
from tilewright.lower.select import REDUCE
from tilewright.lower.tuning import TILE_BYTES
from tilewright.lower.views import merged, permuted, picked, reshaped, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def reduce_rows(low: Lowering, op: Op) -> None:
    """sum, max, min or prod over the first dims and perhaps others."""
    (x,) = op.operands
    axes, shape = op.attrs["axes"], x.type.shape
    lead = next((d for d in range(len(shape)) if d not in axes), len(shape))
    rest = shape[lead:]
    dtype = float32 if x.type.dtype.is_float else x.type.dtype
    total = RowReducer(low, REDUCE[op.name], dtype).run(op, lead)
    inner = tuple(1 + a - lead for a in axes if a >= lead)
    kept = tuple(n for d, n in enumerate(rest) if d + lead not in axes)
    if inner:
        order = (0, *[1 + d for d in range(len(rest)) if d + lead not in axes], *inner)
        view = permuted(total, order)
        narrow = low.b.sbuf((view.sizes[0], max(prod(kept), 1)), dtype, "sums")
        low.b.op("tensor_reduce", narrow, view, op=REDUCE[op.name], axis=tuple(range(-len(inner), 0)))
        total = narrow
    row = combine(low, REDUCE[op.name], total)
    _deliver(low, op, row)


def _deliver(low: Lowering, op: Op, row: View) -> None:
    """[1, elements] to where the result lives."""
    value = op.result
    views = low.outputs.get(value)
    if views:
        out = views[0]
    else:
        made = reshaped(low.b.hbm(value.type.shape or (1,), device_dtype(value.type.dtype), "sums"), value.type.shape)
        assert made is not None
        out = made
    if row.dtype is not out.dtype:
        cast = low.b.sbuf(row.sizes, out.dtype, "row")
        low.b.op("tensor_copy", cast, row)
        row = cast
    flat = reshaped(out, (1, max(prod(value.type.shape), 1)))
    assert flat is not None, "results are contiguous"
    low.b.op("dma_copy", flat, row)
    low.homes[value] = Hbm(out)


class RowReducer:
    """Accumulates rows element by element, as many rows per partition at a time as a load brings."""

    def __init__(self, low: Lowering, alu: str, dtype: DType) -> None:
        self.low, self.b, self.alu, self.dtype = low, low.b, alu, dtype
        self.lanes = low.target["limits.partitions"]

    def run(self, op: Op, lead: int) -> View:
        """[partitions, *rest]: what each partition makes of its rows."""
        (x,) = op.operands
        home = self.low.home(x)
        rest = x.type.shape[lead:]
        if isinstance(home, Chip) and home.rows == (0, lead):
            return self._of_chip(home, rest)
        view = self.low.in_hbm(x)
        rows = merged(view, 0, lead - 1)
        if rows is None:
            rows = merged(self.low.contiguous(x), 0, lead - 1)
            assert rows is not None
        return self._of_hbm(rows, rest)

    def _of_chip(self, chip: Chip, rest: tuple[int, ...]) -> View:
        blocks, count = chip.view.sizes[1], chip.row_count
        lanes = chip.view.sizes[0]
        total = self.b.sbuf((lanes, *rest), self.dtype, "sums")
        self.b.op("tensor_copy", total, picked(chip.view, 1, 0))
        for i in range(1, blocks):
            rows = min(lanes, count - i * lanes)
            into = sliced(total, 0, 0, rows)
            self.b.op("tensor_tensor", into, into, sliced(picked(chip.view, 1, i), 0, 0, rows), op=self.alu)
        return total

    def _of_hbm(self, rows: View, rest: tuple[int, ...]) -> View:
        count, size = rows.sizes[0], prod(rest)
        lanes = min(self.lanes, count)
        total = self.b.sbuf((lanes, *rest), self.dtype, "sums")
        flat_total = reshaped(total, (lanes, size))
        assert flat_total is not None
        most = max(1, TILE_BYTES // max(size * rows.dtype.itemsize, 1))
        per = 1
        while per * 2 <= most and per * 2 * lanes <= count:
            per *= 2
        whole, left = divmod(count, lanes * per)
        first = self._load(rows, 0, lanes, per, rest)
        self._fold(flat_total, first, per, size, start=True)
        if whole > 1:
            with self.b.loop(whole - 1, "r", lanes * per) as at:
                tile = self._load(rows, at + lanes * per, lanes, per, rest)
                self._fold(flat_total, tile, per, size, start=False)
        start = whole * lanes * per
        while left:
            per = max(1, left // lanes)
            lanes_left = min(lanes, left)
            tile = self._load(rows, start, lanes_left, per, rest)
            self._fold(sliced(flat_total, 0, 0, lanes_left), tile, per, size, start=False)
            start += lanes_left * per
            left -= lanes_left * per
        return total

    def _load(self, rows: View, at, lanes: int, per: int, rest: tuple[int, ...]) -> View:
        tile = self.b.sbuf((lanes, per, *rest), rows.dtype, "rows", depth=3)
        self.b.op("dma_copy", tile, split(sliced(rows, 0, at, lanes * per), 0, (lanes, per)))
        flat = reshaped(tile, (lanes, per, prod(rest)))
        assert flat is not None
        return flat

    def _fold(self, total: View, tile: View, per: int, size: int, start: bool) -> None:
        """Add the rows of each partition by halves, then to the total."""
        while per > 1:
            half = per // 2
            low, high = sliced(tile, 1, 0, half), sliced(tile, 1, per - half, half)
            if start and per == 2:
                self.b.op("tensor_tensor", total, picked(low, 1, 0), picked(high, 1, 0), op=self.alu)
                return
            self.b.op("tensor_tensor", low, low, high, op=self.alu)
            per -= half
        one = picked(tile, 1, 0)
        if start:
            self.b.op("tensor_copy", total, one)
        else:
            self.b.op("tensor_tensor", total, total, one, op=self.alu)


def combine(low: Lowering, alu: str, tile: View) -> View:
    """[1, elements]: all partitions of a tile combined."""
    b = low.b
    lanes, size = tile.sizes[0], prod(tile.sizes[1:])
    flat = reshaped(tile, (lanes, size))
    assert flat is not None
    if lanes == 1:
        return flat
    out = b.sbuf((1, size), flat.dtype, "row")
    width = low.target["memory.psum_bank_bytes"] // float32.itemsize
    if alu == "add" and flat.dtype is float32:
        ones = b.sbuf((lanes, 1), float32, "ones")
        b.op("memset", ones, value=1.0)
        for at in range(0, size, width):
            count = min(width, size - at)
            bank = b.psum((1, count), float32, "total", depth=2)
            b.op("nc_matmul", bank, ones, sliced(flat, 1, at, count))
            b.op("tensor_copy", sliced(out, 1, at, count), bank)
        return out
    if alu in ("add", "maximum"):
        b.op("tensor_partition_reduce", out, flat, op=alu)
        return out
    # By halves: a copy of the upper half beside the lower one.
    while lanes > 1:
        half = (lanes + 1) // 2
        upper = b.sbuf((lanes - half, size), flat.dtype, "upper")
        b.op("dma_copy", upper, sliced(flat, 0, half, lanes - half))
        into = sliced(flat, 0, 0, lanes - half)
        b.op("tensor_tensor", into, into, upper, op=alu)
        lanes = half
    b.op("tensor_copy", out, sliced(flat, 0, 0, 1))
    return out
