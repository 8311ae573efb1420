"""Reductions over the rows themselves: each partition accumulates its own, then the partitions are combined."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32, int32, uint32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.kernels.row_sums import SUMMED, RowSums
from tilewright.lower.move.copy import by_block
from tilewright.lower.move.join import result_in_hbm
from tilewright.lower.select.select import REDUCE
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Chip, device_dtype
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.views import At, affine, as_shape, expanded, permuted, picked, reshaped, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def reduce_rows(low: Lowering, op: Op) -> None:
    """sum, max, min or prod over the first dims and perhaps others, some columns at a time."""
    (x,) = op.operands
    axes, shape = op.attrs["axes"], x.type.shape
    lead = next((d for d in range(len(shape)) if d not in axes), len(shape))
    inner = [a for a in axes if a >= lead]
    reducer = RowReducer(low, op, lead)
    out = place(low, op)
    if inner:
        behind = prod(shape[inner[0] :])
        if prod(shape[lead:]) > TUNING.columns:
            # As many of the dims that are kept as leave room for what is reduced behind them.
            kept = prod(shape[lead : inner[0]])
            assert behind <= TUNING.columns and inner == list(range(inner[0], len(shape))), "others are made before"
            for at, count in tiled(low.b, kept, TUNING.columns // behind, "c"):
                reducer.rest, reducer.lead = (count, behind), len(shape) - 2
                part = reducer.inner(reducer.run(affine(at) * behind, count * behind), [len(shape) - 1])
                deliver(low, op, combine(low, op.name, part), sliced(out, 1, at, count))
            return
        row = combine(low, op.name, reducer.inner(reducer.run(0, prod(shape[lead:])), inner))
        deliver(low, op, row, sliced(out, 1, 0, out.sizes[1]))
        return
    for at, count in tiled(low.b, prod(shape[lead:]), TUNING.columns, "c"):
        row = reducer.sums(at, count) if reducer.is_summed else combine(low, op.name, reducer.run(at, count))
        deliver(low, op, row, sliced(out, 1, at, count))


def place(low: Lowering, op: Op) -> View:
    """Where the result lives, as [1, elements]."""
    line = kept_line(low, op.result, op.name)
    if line is not None:
        return line
    flat = reshaped(result_in_hbm(low, op), (1, op.result.type.size))
    assert flat is not None, "results are contiguous"
    return flat


def kept_line(low: Lowering, value: Value, name: str) -> View | None:
    """[1, elements]: the place of a short result on chip, on one partition, where others read it."""
    dtype, size = device_dtype(value.type.dtype), value.type.size
    later = any(use is not low.program.output_op for use in value.uses)
    if not later or not 0 < size <= TUNING.few_elements or not low.may_keep(value, size * dtype.itemsize):
        return None
    line = low.b.sbuf((1, 1, *value.type.shape), dtype, value.name or name)
    low.homes[value] = Chip(line, value.type.shape, (0, 0))
    low.resident[value] = size * dtype.itemsize
    return reshaped(line, (1, size))


def deliver(low: Lowering, op: Op, row: View, out: View) -> None:
    """[1, elements] to where the result lives."""
    if row.dtype is not out.dtype:
        cast = low.b.sbuf(row.sizes, out.dtype, "row", depth=2)
        if row.dtype.is_integer:
            low.selecting.integers.store(cast, row)
        else:
            low.b.op("tensor_copy", cast, row)
        row = cast
    if out.on_chip:
        low.evict(out, row)
    else:
        low.b.op("dma_copy", out, row)


class RowReducer:
    """Accumulates rows element by element, as many rows per partition at a time as a load brings.

    Floats are accumulated in float32, integers in 32 bits.
    """

    def __init__(self, low: Lowering, op: Op, lead: int) -> None:
        self.low, self.b, self.alu, self.lead = low, low.b, REDUCE[op.name], lead
        self.name = op.name
        (x,) = op.operands
        self.rest = x.type.shape[lead:]
        dtype = device_dtype(x.type.dtype)
        self.dtype = float32 if dtype.is_float else uint32 if dtype is uint32 else int32
        self.lanes = low.target["limits.partitions"]
        self.source = self._rows(x)

    def _rows(self, x: Value) -> View:
        """[rows, elements] in HBM, or [partitions, blocks, elements] on chip."""
        home, size = self.low.home(x), prod(self.rest)
        if isinstance(home, Chip) and home.rows == (0, self.lead):
            flat = reshaped(home.view, (*home.view.sizes[:2], size))
            if flat is not None:
                self.count = home.row_count
                return flat
        if isinstance(home, Chip) and self.lead == x.type.rank and home.view.dtype is float32:
            self.count = home.row_count
            return self._lines(home)
        shape = (prod(x.type.shape[: self.lead]), size)
        flat = reshaped(self.low.in_hbm(x), shape) or reshaped(self.low.contiguous(x), shape)
        assert flat is not None
        self.count = flat.sizes[0]
        return flat

    def _lines(self, chip: Chip) -> View:
        """[partitions, blocks, 1]: each row of a value on chip reduced to a number."""
        rows, free = chip.view, prod(chip.free)
        flat = reshaped(rows, (*rows.sizes[:2], free))
        if flat is not None and free == 1:
            return flat
        made = self.b.sbuf(rows.sizes[:2], float32, "lines")
        long = sum(n != 1 for n in rows.sizes[2:])
        whole, rest = divmod(chip.row_count, rows.sizes[0])
        for at, count, height in ((0, whole, rows.sizes[0]), (whole, 1, rest)):
            if count and height:
                some, into = (sliced(sliced(view, 1, at, count), 0, 0, height) for view in (rows, made))
                self.b.op("tensor_reduce", into, some, op=self.alu, axis=tuple(range(-long, 0)))
        return expanded(made, 2)

    @property
    def is_summed(self) -> bool:
        """True for sums that the Tensor engine makes."""
        return self.name == "sum" and self.count > 1 and self.source.dtype in SUMMED

    def sums(self, at: At, width: int) -> View:
        """[1, width]: the sums of some columns."""
        return RowSums(self.low, sliced(self.source, self.source.ndim - 1, at, width), self.count).run()

    def run(self, at: At, width: int) -> View:
        """[partitions, width]: what each partition makes of its rows, some columns of them."""
        rows = sliced(self.source, self.source.ndim - 1, at, width)
        return self._of_chip(rows) if rows.on_chip else self._of_hbm(rows)

    def inner(self, total: View, axes: list[int]) -> View:
        """The totals with other dims reduced as well."""
        shaped = as_shape(total, (total.sizes[0], *self.rest))
        kept = [d for d in range(len(self.rest)) if d + self.lead not in axes]
        axes = [a for a in axes if self.rest[a - self.lead] != 1]
        view = permuted(shaped, (0, *[1 + d for d in kept], *[1 + a - self.lead for a in axes]))
        narrow = self.b.sbuf((total.sizes[0], max(prod(self.rest[d] for d in kept), 1)), self.dtype, "sums")
        if not axes:
            return as_shape(view, narrow.sizes)
        if self.dtype is float32:
            self.b.op("tensor_reduce", narrow, view, op=self.alu, axis=tuple(range(-len(axes), 0)))
            return narrow
        dense = self.b.sbuf(view.sizes, self.dtype, "dense")
        self.b.op("tensor_copy", dense, view)
        lines = as_shape(dense, (*narrow.sizes, prod(self.rest[a - self.lead] for a in axes)))
        out = as_shape(narrow, (*narrow.sizes, 1))
        self.low.selecting.integers.reduce(self.name, out, lines)
        return narrow

    @decision("reduce rows: of chip")
    def _of_chip(self, rows: View) -> View:
        lanes, blocks, width = rows.sizes
        total = self.b.sbuf((lanes, width), self.dtype, "sums", depth=2)
        self._start(total, picked(rows, 1, 0))
        if blocks > 1:
            left = sliced(rows, 1, 1, blocks - 1)
            for at, height in tiled(self.b, self.count - lanes, lanes, "r"):
                self._take(sliced(total, 0, 0, height), sliced(picked(left, 1, by_block(at, lanes)), 0, 0, height))
        return total

    @decision("reduce rows: of HBM")
    def _of_hbm(self, rows: View) -> View:
        count, width = rows.sizes
        lanes = min(self.lanes, count)
        total = self.b.sbuf((lanes, width), self.dtype, "sums", depth=2)
        most = max(1, TUNING.tile_bytes // (width * self.dtype.itemsize))
        per = 1
        while per * 2 <= most and per * 2 * lanes <= count:
            per *= 2
        whole, left = divmod(count, lanes * per)
        self._fold(total, self._load(rows, 0, lanes, per), start=True)
        if whole > 1:
            with self.b.loop(whole - 1, "r", lanes * per) as at:
                self._fold(total, self._load(rows, at + lanes * per, lanes, per), start=False)
        start = whole * lanes * per
        while left:
            per = max(1, left // lanes)
            height = min(lanes, left)
            self._fold(sliced(total, 0, 0, height), self._load(rows, start, height, per), start=False)
            start += height * per
            left -= height * per
        return total

    def _load(self, rows: View, at: At, lanes: int, per: int) -> View:
        """[lanes, per, width]: as many rows to each partition."""
        tile = self.b.sbuf((lanes, per, rows.sizes[1]), rows.dtype, "rows", depth=3)
        self.b.op("dma_copy", tile, split(sliced(rows, 0, at, lanes * per), 0, (lanes, per)))
        if per == 1 or rows.dtype.itemsize == self.dtype.itemsize or rows.dtype.is_float:
            return tile
        wide = self.b.sbuf(tile.sizes, self.dtype, "wide", depth=2)
        self.b.op("tensor_copy", wide, tile)
        return wide

    def _fold(self, total: View, tile: View, start: bool) -> None:
        """Combine the rows of each partition by halves, then with the total."""
        per = tile.sizes[1]
        if tile.dtype.itemsize < self.dtype.itemsize and per > 1:
            wide = self.b.sbuf(tile.sizes, self.dtype, "wide", depth=2)
            self.b.op("tensor_copy", wide, tile)
            tile = wide
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
            self._start(total, one)
        else:
            self._take(total, one)

    def _start(self, total: View, one: View) -> None:
        self.b.op("tensor_copy", total, one)

    def _take(self, total: View, one: View) -> None:
        """Combine with the total."""
        if one.dtype is not self.dtype and not one.dtype.is_float:
            wide = self.b.sbuf(one.sizes, self.dtype, "wide", depth=2)
            self.b.op("tensor_copy", wide, one)
            one = wide
        self.b.op("tensor_tensor", total, total, one, op=self.alu)


@decision("reduce rows: partitions meet")
def combine(low: Lowering, name: str, tile: View) -> View:
    """[1, elements]: all partitions of a tile combined."""
    b, alu = low.b, REDUCE[name]
    lanes, size = tile.sizes
    if lanes == 1:
        return tile
    out = b.sbuf((1, size), tile.dtype, "row", depth=2)
    width = low.target["memory.psum_bank_bytes"] // float32.itemsize
    if alu == "add" and tile.dtype is float32:
        ones = b.sbuf((lanes, 1), float32, "ones", depth=2)
        b.op("memset", ones, value=1.0)
        for at, count in tiled(b, size, width, "n"):
            bank = b.psum((1, count), float32, "total", depth=2)
            b.op("nc_matmul", bank, ones, sliced(tile, 1, at, count))
            b.op("tensor_copy", sliced(out, 1, at, count), bank)
        return out
    if alu == "maximum" and tile.dtype is float32:
        b.op("tensor_partition_reduce", out, tile, op=alu)
        return out
    # By halves: a copy of the upper half beside the lower one.
    while lanes > 1:
        half = (lanes + 1) // 2
        upper = b.sbuf((lanes - half, size), tile.dtype, "upper")
        b.op("dma_copy", upper, sliced(tile, 0, half, lanes - half))
        into = sliced(tile, 0, 0, lanes - half)
        b.op("tensor_tensor", into, into, upper, op=alu)
        lanes = half
    b.op("tensor_copy", out, sliced(tile, 0, 0, 1))
    return out
