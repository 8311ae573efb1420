"""Ops inside a group that are more than an operator: joins, paddings, updates and running sums of free dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op
from tilewright.lower.along import checked_index, put_along_axis, take_along_axis
from tilewright.lower.search import argmax
from tilewright.lower.select import spread
from tilewright.lower.views import permuted, picked, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.blocks import BlockEmitter


def _free_index(e: BlockEmitter, op: Op, dim: int) -> int:
    """Where a free dim of an op's result stands in its tile."""
    return 2 + e.group.roles[op.result].free_dims(op.result.type.rank).index(dim)


def concatenate(e: BlockEmitter, op: Op) -> None:
    """Each part is copied to its place."""
    dst = e.destination(op.result)
    axis, at = op.attrs["axis"], 0
    dim = _free_index(e, op, axis)
    for x in op.operands:
        size = x.type.shape[axis]
        if size:
            part = sliced(dst, dim, at, size)
            e.copy(part, spread(e.operand_tile(x, op), part))
        at += size


def pad(e: BlockEmitter, op: Op) -> None:
    """The border is filled, the middle copied."""
    (x,) = op.operands
    dst = e.destination(op.result)
    middle = dst
    for d in e.group.roles[op.result].free_dims(op.result.type.rank):
        dim, size = _free_index(e, op, d), x.type.shape[d]
        low, high = op.attrs["low"][d], op.attrs["high"][d]
        if low:
            e.select.fill(sliced(middle, dim, 0, low), op.attrs["value"])
        if high:
            e.select.fill(sliced(middle, dim, low + size, high), op.attrs["value"])
        middle = sliced(middle, dim, low, size)
    if x.type.size:
        e.copy(middle, spread(e.operand_tile(x, op), middle))


def update_slice(e: BlockEmitter, op: Op) -> None:
    """A copy of the whole, then the part over it."""
    x, part = op.operands
    dst = e.destination(op.result)
    e.copy(dst, spread(e.operand_tile(x, op), dst))
    if not part.type.size:
        return
    for d in e.group.roles[op.result].free_dims(op.result.type.rank):
        size, step = part.type.shape[d], op.attrs["steps"][d]
        dst = sliced(dst, _free_index(e, op, d), op.attrs["starts"][d], size, step)
    e.copy(dst, spread(e.operand_tile(part, op), dst))


def scan(e: BlockEmitter, op: Op) -> None:
    """A running sum or product along a free dim, line by line where others are beside it."""
    (x,) = op.operands
    dst = e.destination(op.result)
    tile = spread(e.operand_tile(x, op), dst)
    dim = _free_index(e, op, op.attrs["axis"])
    order = (0, *[d for d in range(1, dst.ndim) if d != dim], dim)
    tile, dst = permuted(tile, order), permuted(dst, order)
    ones = e.b.sbuf((dst.sizes[0], dst.sizes[-1]), float32, "ones", depth=e.depth)
    e.select.fill(ones, 1.0)
    for source, out in zip(_lines(tile), _lines(dst), strict=True):
        if op.name == "cumsum":
            e.b.op("tensor_tensor_scan", out, ones, source, 0.0, op0="multiply", op1="add")
        else:
            e.b.op("tensor_tensor_scan", out, source, ones, 1.0, op0="multiply", op1="multiply")


def _lines(tile: View) -> list[View]:
    """The tile as [partitions, last dim] pieces."""
    if tile.ndim == 2:
        return [tile]
    return [line for i in range(tile.sizes[1]) for line in _lines(picked(tile, 1, i))]


INSIDE: dict[str, Callable[[BlockEmitter, Op], None]] = {
    "concatenate": concatenate,
    "pad": pad,
    "update_slice": update_slice,
    "cumsum": scan,
    "cumprod": scan,
    "checked_index": checked_index,
    "bounded_index": checked_index,
    "take_along_axis": take_along_axis,
    "put_along_axis": put_along_axis,
    "argmax": argmax,
}
"""Op name -> what writes its tile."""
