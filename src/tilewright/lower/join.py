"""Joins, paddings and updates by transfers alone, into the result's place in HBM."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.ir.core import Op, Value
from tilewright.lower.homes import Hbm, device_dtype
from tilewright.lower.loops import tiled
from tilewright.lower.tuning import FILL_BYTES
from tilewright.lower.views import expanded, merged, picked, reshaped, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def result_in_hbm(low: Lowering, op: Op) -> View:
    """Where the result of an op lives in HBM: an output of the kernel, or a tensor of its own."""
    out = place_in_hbm(low, op.result, op.result.name or op.name)
    low.homes[op.result] = Hbm(out)
    return out


def place_in_hbm(low: Lowering, value: Value, name: str) -> View:
    """An output of the kernel where the value is one, else a tensor of its own."""
    views = low.outputs.get(value)
    return views[0] if views else low.b.hbm(value.type.shape, device_dtype(value.type.dtype), name)


def join(low: Lowering, op: Op) -> None:
    """Each part to its place along the axis."""
    out, axis, at = result_in_hbm(low, op), op.attrs["axis"], 0
    for x in op.operands:
        size = x.type.shape[axis]
        if x.type.size and not low.fill(x, sliced(out, axis, at, size)):
            low.store(low.home(x), sliced(out, axis, at, size))
        at += size


def overlay(low: Lowering, op: Op) -> None:
    """The whole, then the part over it."""
    x, part = op.operands
    out = result_in_hbm(low, op)
    if not low.fill(x, out):
        low.store(low.home(x), out)
    if part.type.size:
        for d, (start, step) in enumerate(zip(op.attrs["starts"], op.attrs["steps"], strict=True)):
            out = sliced(out, d, start, part.type.shape[d], step)
        if not low.fill(part, out):
            low.store(low.home(part), out)


def surround(low: Lowering, op: Op) -> None:
    """The border from a tile of one number, the middle from the operand."""
    (x,) = op.operands
    out = result_in_hbm(low, op)
    middle = out
    for d, size in enumerate(x.type.shape):
        before, after = op.attrs["low"][d], op.attrs["high"][d]
        for start, count in ((0, before), (before + size, after)):
            if count:
                fill_hbm(low, sliced(middle, d, start, count), op.attrs["value"])
        middle = sliced(middle, d, before, size)
    if x.type.size:
        low.store(low.home(x), middle)


def fill_hbm(low: Lowering, out: View, value: float) -> None:
    """Every element of a view in HBM the same: a tile of it, sent as often as it takes."""
    if not prod(out.sizes):
        return
    lanes = low.target["limits.partitions"]
    out = reshaped(out, tuple(n for n in out.sizes if n != 1) or (1,)) or out
    whole = merged(out, 0, out.ndim - 1)
    if whole is not None and whole.size > lanes and whole.size % lanes == 0:
        out = split(whole, 0, (lanes, whole.size // lanes))
    elif out.ndim == 1:
        out = expanded(out, 0)
    height, columns = min(out.sizes[0], lanes), out.sizes[-1]
    width = min(columns, FILL_BYTES // out.dtype.itemsize)
    tile = low.b.sbuf((height, width), out.dtype, "border")
    low.b.op("memset", tile, value=int(value) if out.dtype.is_integer else float(value))

    def lines(part: View) -> None:
        """[rows, ..., columns], the middle dims one by one where a transfer cannot read the tile again for them."""
        if part.ndim > 2:
            with low.b.loop(part.sizes[1], "i") as at:
                lines(picked(part, 1, at))
            return
        for at, count in tiled(low.b, columns, width, "c"):
            for row, rows in tiled(low.b, part.sizes[0], height, "r"):
                into = sliced(sliced(part, 0, row, rows), 1, at, count)
                low.b.op("dma_copy", into, sliced(sliced(tile, 0, 0, rows), 1, 0, count))

    lines(out)
