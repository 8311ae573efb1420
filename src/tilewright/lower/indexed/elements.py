"""Single elements of long rows by run-time indices along an axis: addressed in HBM one by one, rows are not loaded.

    take_along_axis  out[r, i] = x[r, index[r, i]]        put_along_axis  out[r, index[r, i]] = part[r, i]

Rows r lie on partitions; the address of an element is that of its row plus index * step. One transfer moves element i
of up to 128 rows, so that no two of it have the same address, and a later one overwrites an earlier one. Where a few
long rows are taken from, each lies on several partitions, part by part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import int32
from tilewright.ir.core import Op, Value
from tilewright.lower.indexed.indices import check, chosen_row, chosen_rows, is_checked, wrap
from tilewright.lower.move.join import copied_to_update, result_in_hbm
from tilewright.lower.move.moves import load_rows
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Hbm
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import once
from tilewright.lower.write.views import At, as_shape, broadcast, merged, permuted, reshaped, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def take_elements(low: Lowering, op: Op) -> None:
    """take_along_axis"""
    x, index = op.operands
    out, b = result_in_hbm(low, op), low.b
    if not op.result.type.size:
        return
    table = as_shape(low.contiguous(x), (x.type.size, 1))
    axis, shape = op.attrs["axis"], op.result.type.shape
    rows = _axis_last(out, axis)
    into = b.hbm((op.result.type.size // shape[axis], shape[axis]), out.dtype, "taken") if rows is None else rows
    parts = _parts(low, into.sizes[0], shape[axis])
    lines = _in_parts(into, parts)
    for block in _blocks(low, op, index, parts if lines is not None else 1):
        tile = b.sbuf(block.addresses.sizes, out.dtype, "taken", depth=2)
        with b.loop(tile.sizes[1], "i") as i:
            _move(low, sliced(tile, 1, i, 1), table, sliced(block.addresses, 1, i, 1), takes=True)
        b.op("dma_copy", block.of(into if lines is None else lines), tile)
    if rows is None:
        others = [n for d, n in enumerate(shape) if d != axis]
        shaped = as_shape(into, (*others, shape[axis]))
        low.store(Hbm(permuted(shaped, (*range(axis), len(others), *range(axis, len(others))))), out)


def put_elements(low: Lowering, op: Op) -> None:
    """put_along_axis"""
    x, index, part = op.operands
    out, b = copied_to_update(low, op), low.b
    if not part.type.size:
        return
    table = reshaped(out, (x.type.size, 1))
    source = _by_rows(low, part, op.attrs["axis"])
    assert table is not None
    for block in _blocks(low, op, index):
        tile = b.sbuf(block.addresses.sizes, out.dtype, "part", depth=2)
        b.op("dma_copy", tile, block.of(source))
        with b.loop(tile.sizes[1], "i") as i:
            _move(low, sliced(tile, 1, i, 1), table, sliced(block.addresses, 1, i, 1), takes=False)


def _move(low: Lowering, tile: View, table: View, addresses: View, takes: bool) -> None:
    """A column of elements between [partitions, 1] and their addresses."""
    if low.target["features.swdge_indirect"]:
        there = chosen_rows(table, addresses)
        low.b.op("dma_copy", *((tile, there) if takes else (there, tile)))
        return
    with low.b.loop(tile.sizes[0], "p") as p:
        one, there = sliced(tile, 0, p, 1), chosen_row(table, sliced(addresses, 0, p, 1))
        low.b.op("dma_copy", *((one, there) if takes else (there, one)))


@dataclass(frozen=True, slots=True)
class Block:
    """Some elements of some rows: which, and [rows, n] their addresses."""

    start: At
    first: At
    addresses: View

    def of(self, rows: View) -> View:
        """The same elements of another [rows, elements]."""
        return sliced(sliced(rows, 0, self.start, self.addresses.sizes[0]), 1, self.first, self.addresses.sizes[1])


def _parts(low: Lowering, rows: int, count: int) -> int:
    """Into how many equal parts rows are cut so that they fill the partitions."""
    most = max(low.target["limits.partitions"] // rows, 1)
    return max(n for n in range(1, min(most, count) + 1) if count % n == 0)


def _in_parts(rows: View, parts: int) -> View | None:
    """[rows * parts, elements / parts] of [rows, elements], or None where they are not evenly apart."""
    return merged(split(rows, 1, (parts, rows.sizes[1] // parts)), 0, 1)


def _axis_last(view: View, axis: int) -> View | None:
    """[rows, axis] where the other dims are evenly apart."""
    view = permuted(view, (*[d for d in range(view.ndim) if d != axis], axis))
    return merged(view, 0, view.ndim - 2) if view.ndim > 1 else reshaped(view, (1, *view.sizes))


def _by_rows(low: Lowering, value: Value, axis: int) -> View:
    """A value in HBM as [rows, axis], in another order first if need be."""
    view = low.in_hbm(value)
    rows = _axis_last(view, axis)
    if rows is not None:
        return rows
    order = (*[d for d in range(view.ndim) if d != axis], axis)
    made = low.b.hbm(tuple(view.sizes[d] for d in order), view.dtype, "rows")
    low.store(Hbm(permuted(view, order)), made)
    return as_shape(made, (prod(made.sizes[:-1]), made.sizes[-1]))


def _blocks(low: Lowering, op: Op, index: Value, parts: int = 1) -> Iterator[Block]:
    """Addresses of all elements that an op names, block of rows by block of rows; each row in equal parts."""
    x, axis, b = op.operands[0], op.attrs["axis"], low.b
    shape, lanes = x.type.shape, low.target["limits.partitions"]
    before, after, size = prod(shape[:axis]), prod(shape[axis + 1 :]), shape[axis]
    rows, count = before * after * parts, index.type.shape[axis] // parts
    bases = _bases(low, before, size, after, parts)
    whole = _by_rows(low, index, axis)
    source = _in_parts(whole, parts)
    if source is None:
        copy = b.hbm(whole.sizes, whole.dtype, "rows")
        low.store(Hbm(whole), copy)
        source = _in_parts(copy, parts)
        assert source is not None
    # A few tiles of indices and addresses, twice.
    most = low.target["memory.sbuf_usable_bytes"] // (TUNING.element_tiles * 2 * int32.itemsize)
    for at, height in tiled(b, rows, lanes, "r"):
        for first, width in tiled(b, count, min(most, count), "c"):
            raw = b.sbuf((height, width), source.dtype, "index", depth=2)
            b.op("dma_copy", raw, sliced(sliced(source, 0, at, height), 1, first, width))
            places = wrap(low, raw, None)
            if not is_checked(index, size):
                check(low, places, size)
            made = b.sbuf((height, width), int32, "address", depth=2)
            if after > 1:
                step = broadcast(sliced(_number(low, after), 0, 0, height), made.sizes)
                b.op("tensor_tensor", made, places, step, op="multiply")
                places = made
            base = sliced(sliced(bases, 1, _block(at, lanes), 1), 0, 0, height)
            b.op("tensor_tensor", made, places, broadcast(base, made.sizes), op="add")
            yield Block(at, first, made)


def _block(at: At, lanes: int) -> At:
    if isinstance(at, int):
        return at // lanes
    return type(at)(at.const // lanes, tuple((v, factor // lanes) for v, factor in at.terms))


def _bases(low: Lowering, before: int, size: int, after: int, parts: int) -> View:
    """[lanes, blocks]: the address of the first element of the row that each part belongs to."""
    lanes, rows = low.target["limits.partitions"], before * after * parts
    blocks = -(-rows // lanes)

    def make() -> View:
        made = low.b.sbuf((min(lanes, rows), blocks), int32, "bases")
        step = size if after == 1 else 1
        if before * after == 1:
            low.b.op("memset", made, value=0)
            return made
        if parts == 1 and (before == 1 or after == 1):
            low.b.op("iota", made, pattern=((lanes * step, blocks),), offset=0, channel_multiplier=step)
            return made
        numbers = np.arange(rows, dtype=np.int32) // parts
        source = low.constant((numbers // after * (size * after) + numbers % after)[:, None].astype(np.int32))
        load_rows(low, reshaped(made, (*made.sizes, 1)) or made, source)
        return made

    return once(low, ("bases", before, size, after, parts), make)


def _number(low: Lowering, value: int) -> View:
    def make() -> View:
        made = low.b.sbuf((low.target["limits.partitions"], 1), int32, "number")
        low.b.op("memset", made, value=value)
        return made

    return once(low, ("integer", value), make)
