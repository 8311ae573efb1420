"""Joins, paddings and updates by transfers alone, into the result's place in HBM."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.ir.core import Op
from tilewright.lower.homes import Hbm, device_dtype
from tilewright.lower.views import reshaped, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def result_in_hbm(low: Lowering, op: Op) -> View:
    """Where the result of an op lives in HBM: an output of the kernel, or a tensor of its own."""
    value = op.result
    views = low.outputs.get(value)
    if views:
        out = views[0]
    else:
        buffer = low.b.hbm(value.type.shape or (1,), device_dtype(value.type.dtype), value.name or op.name)
        made = reshaped(buffer, value.type.shape)
        assert made is not None
        out = made
    low.homes[value] = Hbm(out)
    return out


def join(low: Lowering, op: Op) -> None:
    """Each part to its place along the axis."""
    out, axis, at = result_in_hbm(low, op), op.attrs["axis"], 0
    for x in op.operands:
        size = x.type.shape[axis]
        if x.type.size:
            low.store(low.home(x), sliced(out, axis, at, size))
        at += size


def overlay(low: Lowering, op: Op) -> None:
    """The whole, then the part over it."""
    x, part = op.operands
    out = result_in_hbm(low, op)
    low.store(low.home(x), out)
    if part.type.size:
        for d, (start, step) in enumerate(zip(op.attrs["starts"], op.attrs["steps"], strict=True)):
            out = sliced(out, d, start, part.type.shape[d], step)
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
    rows, columns = out.sizes[0] if out.ndim > 1 else 1, prod(out.sizes[1:] if out.ndim > 1 else out.sizes)
    height = min(rows, lanes)
    tile = low.b.sbuf((height, columns), out.dtype, "border")
    low.b.op("memset", tile, value=int(value) if out.dtype.is_integer else float(value))
    shaped = reshaped(tile, (height, *(out.sizes[1:] if out.ndim > 1 else out.sizes)))
    assert shaped is not None
    for start in range(0, rows, lanes):
        count = min(lanes, rows - start)
        if out.ndim > 1:
            low.b.op("dma_copy", sliced(out, 0, start, count), sliced(shaped, 0, 0, count))
        else:
            flat = reshaped(out, (1, columns))
            assert flat is not None
            low.b.op("dma_copy", flat, shaped)
