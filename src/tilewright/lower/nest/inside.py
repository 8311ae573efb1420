"""Ops inside a group that are more than an operator: joins, paddings, updates and running sums of free dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.along import checked_index, lines, put_along_axis, take, take_along_axis
from tilewright.lower.kernels.search import argmax
from tilewright.lower.regions.axes import SCANNED
from tilewright.lower.select.select import spread
from tilewright.lower.write.block import flat
from tilewright.lower.write.views import broadcast, permuted, picked, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.nest.steps import StepWriter


def _free_index(e: StepWriter, op: Op, dim: int) -> int:
    """Where a free dim of an op's result stands in its tile."""
    return 2 + e.group.roles[op.result].free_dims(op.result.type.rank).index(dim)


@decision("inside: concatenate")
def concatenate(e: StepWriter, op: Op) -> None:
    """Each part is copied to its place, unless it was made there."""
    dst = e.destination(op.result)
    axis, at = op.attrs["axis"], 0
    dim = _free_index(e, op, axis)
    for x in op.operands:
        size = x.type.shape[axis]
        if size:
            part, tile = sliced(dst, dim, at, size), e.operand_tile(x, op)
            if tile.buffer is not dst.buffer:
                e.copy(part, spread(tile, part))
        at += size


@decision("inside: pad")
def pad(e: StepWriter, op: Op) -> None:
    """The border is filled, the middle copied."""
    (x,) = op.operands
    dst = e.destination(op.result)
    middle = dst
    for d in e.group.roles[op.result].free_dims(op.result.type.rank):
        dim, size = _free_index(e, op, d), x.type.shape[d]
        low, high = op.attrs["low"][d], op.attrs["high"][d]
        if not low and not high:
            continue
        if low:
            e.select.fill(sliced(middle, dim, 0, low), op.attrs["value"])
        if high:
            e.select.fill(sliced(middle, dim, low + size, high), op.attrs["value"])
        middle = sliced(middle, dim, low, size)
    if x.type.size:
        e.copy(middle, spread(e.operand_tile(x, op), middle))


@decision("inside: update_slice")
def update_slice(e: StepWriter, op: Op) -> None:
    """A copy of the whole, then the part over it."""
    x, part = op.operands
    dst = e.destination(op.result)
    e.copy(dst, spread(e.operand_tile(x, op), dst))
    if not part.type.size:
        return
    for d in e.group.roles[op.result].free_dims(op.result.type.rank):
        size, step = part.type.shape[d], op.attrs["steps"][d]
        if (size, step) == (x.type.shape[d], 1):
            continue
        dst = sliced(dst, _free_index(e, op, d), op.attrs["starts"][d], size, step)
    e.copy(dst, spread(e.operand_tile(part, op), dst))


@decision("inside: scan")
def scan(e: StepWriter, op: Op) -> None:
    """A running sum or product along a free dim, line by line where others are beside it."""
    dst = e.destination(op.result)
    tile = spread(e.operand_tile(op.operands[0], op), dst)
    dim, carry = _free_index(e, op, op.attrs["axis"]), e.carry(op)
    if dst.dtype.is_integer:
        e.select.integers.scan(op.name, dst, tile, dim, carry)
        return
    # What the next part goes on from is not rounded to a narrower type.
    wide = dst if carry is None or dst.dtype is float32 else e.b.sbuf(dst.sizes, float32, "wide", depth=e.depth)
    more = [] if carry is None else [carry]
    if op.name == "recurrence":
        factor, start = (e.operand_tile(x, op) for x in op.operands[1:])
        more = [spread(start, sliced(dst, dim, 0, 1)) if carry is None else carry, spread(factor, dst)]
    inner, outer = _operations(op)
    if carry is None and _goes_by_steps(e, dim, wide):
        _by_steps(e, (inner, outer), dim, wide, tile, more)
        return
    with lines(e, dim, tile, wide, *more) as (source, out, *given):
        factor = given.pop() if op.name == "recurrence" else broadcast(e.select.column(dst.sizes[0], 1.0), out.sizes)
        initial = given[0] if given else 0.0 if op.name == "cumsum" else 1.0
        first, second = (source, factor) if op.name == "cumprod" else (factor, source)
        e.b.op("tensor_tensor_scan", out, first, second, initial, op0=inner, op1=outer)
        if carry is not None:
            e.b.op("tensor_copy", given[0], sliced(out, 1, out.sizes[1] - 1, 1))
    if wide is not dst:
        e.copy(dst, wide)


def _operations(op: Op) -> tuple[str, str]:
    """What a scan does with the result before, and then with that."""
    if op.name == "recurrence":
        return op.attrs["inner"], op.attrs["outer"]
    return "multiply", "add" if op.name == "cumsum" else "multiply"


def _goes_by_steps(e: StepWriter, dim: int, dst: View) -> bool:
    """True where a scan takes less time place by place, all lines at once, than line by line."""
    order = (0, dim, *[d for d in range(1, dst.ndim) if d != dim])
    steps = flat(picked(permuted(dst, order), 1, 0))
    line = permuted(dst, (*order[:1], *order[2:], dim))
    while line.ndim > 2:
        line = picked(line, 1, 0)
    count, places = dst.size // (dst.sizes[0] * dst.sizes[dim]), dst.sizes[dim]
    one = ("tensor_tensor_scan", (line, line, line, 0.0), {"op0": "multiply", "op1": "add"})
    other = ("tensor_tensor", (steps, steps, steps), {"op": "add"})
    by_line, by_step = (e.b.cost_ns(name, *operands, **attrs) for name, operands, attrs in (one, other))
    return places * by_step < count * by_line


@decision("scan: place by place")
def _by_steps(e: StepWriter, alu: tuple[str, str], dim: int, dst: View, x: View, more: list[View]) -> None:
    """Every place from the one before it, for all lines at once."""
    inner, outer = alu
    first, factors = more if more else (None, None)
    for i in range(dst.sizes[dim]):
        out, here = picked(dst, dim, i), picked(x, dim, i)
        before = picked(dst, dim, i - 1) if i else None if first is None else picked(first, dim, 0)
        if before is None:
            e.copy(out, here)
            continue
        if factors is not None:
            grown = e.b.sbuf(out.sizes, float32, "grown", depth=e.depth)
            e.select.two(inner, grown, spread(picked(factors, dim, i), out), spread(before, out))
            before = grown
        e.select.two(outer, out, before, here)


INSIDE: dict[str, Callable[[StepWriter, Op], None]] = {
    "concatenate": concatenate,
    "pad": pad,
    "update_slice": update_slice,
    **dict.fromkeys(SCANNED, scan),
    "checked_index": checked_index,
    "bounded_index": checked_index,
    "take": take,
    "take_along_axis": take_along_axis,
    "put_along_axis": put_along_axis,
    "argmax": argmax,
}
"""Op name -> what writes its tile."""
