"""argmax: where the greatest element of a row stands first, as NumPy has it (NaN is greater than all numbers).

max8 gives the greatest; nc_match_replace8 gives its first position, but never finds a NaN: those are found by their own
mask. 32-bit integers, which float32 does not hold, are compared by their upper and then by their lower halves.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float32, int32, uint8, uint32
from tilewright.ir.core import Op
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.along import lines
from tilewright.lower.move.join import result_in_hbm
from tilewright.lower.regions.roles import operand_roles
from tilewright.lower.select.select import Selector
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import transposed
from tilewright.lower.write.homes import Hbm
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import once
from tilewright.lower.write.views import At, affine, as_shape, broadcast, expanded, permuted, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.nest.steps import StepWriter

HALF = 16
"""Bits of half of an integer."""


@decision("search: argmax of rows")
def argmax(e: StepWriter, op: Op) -> None:
    """The position along a free dim, line by line where other free dims are beside it."""
    (x,) = op.operands
    roles = e.group.roles.get(x) or operand_roles(op, e.group.roles[op.result])
    if roles.is_free(x.type.rank - 1) and op.attrs["axis"] == x.type.rank - 1:
        e.load_parts = len(halves(x.type.shape[-1]))
    tile, dst = e.value_tile(x, roles), e.destination(op.result)
    e.load_parts = 1
    tile = broadcast(tile, (*tile.sizes[:2], *[x.type.shape[d] for d in roles.free_dims(x.type.rank)]))
    dim = 2 + roles.free_dims(x.type.rank).index(op.attrs["axis"])
    if not op.attrs["keepdims"]:
        dst = expanded(dst, dim)
    with lines(e, dim, tile, dst) as (line, out):
        place_of_greatest(e.low, e.select, line, out)


def place_of_greatest(low: Lowering, select: Selector, line: View, out: View) -> None:
    """out[p] = the first position of the greatest of line[p, :]"""
    if line.sizes[1] == 1:
        low.b.op("memset", out, value=0)
    elif line.dtype in (int32, uint32):
        _places(low, select, _keys(low, line), out, may_be_nan=False)
    else:
        _places(low, select, line, out, may_be_nan=line.dtype.is_float)


def _keys(low: Lowering, line: View) -> View:
    """Numbers that float32 holds, the greatest where 32-bit integers are greatest: lower halves of those whose upper
    half is the greatest, else 0."""
    b = low.b
    bits = _unsigned(line)
    high, lower = b.sbuf(line.sizes, uint32, "high", depth=2), b.sbuf(line.sizes, uint32, "low", depth=2)
    if line.dtype is int32:
        # With the sign bit turned over, signed numbers are in the order of unsigned ones.
        b.op("tensor_scalar", high, bits, 1 << 31, HALF, op0="bitwise_xor", op1="right_shift")
    else:
        b.op("tensor_scalar", high, bits, HALF, op0="right_shift")
    mask = (1 << HALF) - 1
    b.op("tensor_scalar", lower, bits, mask, mask + 1, op0="bitwise_and", op1="bitwise_or")
    top = b.sbuf((line.sizes[0], 1), float32, "top", depth=2)
    b.op("tensor_reduce", top, high, op="maximum", axis=(1,))
    keys = b.sbuf(line.sizes, float32, "keys", depth=2)
    b.op("scalar_tensor_tensor", keys, high, top, lower, op0="equal", op1="multiply")
    return keys


def _places(low: Lowering, select: Selector, line: View, out: View, may_be_nan: bool) -> None:
    """The first position of the greatest, of numbers that float32 holds."""
    if low.target["features.activation_reduce_any_op"] and line.sizes[1] <= low.target["limits.max8_free_max"]:
        _places_by_three(low, select, line, out, may_be_nan)
        return
    b, lanes, size = low.b, line.sizes[0], line.sizes[1]
    width = low.target["limits.max8_width"]
    if size < width:
        wide = b.sbuf((lanes, width), float32, "wide", depth=2)
        b.op("memset", wide, value=float("-inf"))
        b.op("tensor_copy", sliced(wide, 1, 0, size), line)
        line, size = wide, width
    parts = _parts(size, low.target["limits.max8_free_max"])
    best = greatest8(low, [sliced(line, 1, start, count) for start, count in parts])
    holes = holes_of(low, line) if may_be_nan else None
    found: View | None = None
    scratch = b.sbuf((lanes, parts[0][1]), bfloat16, "scratch")
    for start, count in parts:
        into = sliced(scratch, 1, 0, count)
        place = match8(low, sliced(line, 1, start, count), best, into)
        first = sliced(place, 1, 0, 1)
        if holes is not None:
            part = sliced(holes, 1, start, count)
            other = match8(low, part, ones8(low, lanes), part)
            first = b.sbuf((lanes, 1), uint32, "first", depth=2) if len(parts) > 1 else out
            b.op("tensor_tensor", first, sliced(place, 1, 0, 1), sliced(other, 1, 0, 1), op="minimum")
        found = first if len(parts) == 1 else _earlier(low, found, first, start)
    assert found is not None
    if found is not out:
        b.op("tensor_copy", out, View(found.buffer, out.dtype, found.offset, out.sizes, found.strides, found.terms))


@decision("search: argmax by three")
def _places_by_three(low: Lowering, select: Selector, line: View, out: View, may_be_nan: bool) -> None:
    """The same with the Scalar engine for the maxima and GpSimd for the positions of NaN."""
    b, (lanes, size) = low.b, line.sizes
    parts = halves(size)
    # Each engine writes what nobody reads to a tile of its own, so that none waits for another.
    scratch, unread = (b.sbuf((lanes, parts[0][1]), bfloat16, name) for name in ("scratch", "unread"))
    bests, lasts = (b.sbuf((lanes, len(parts)), float32, name, depth=2) for name in ("best", "last"))
    greatest = {"op": "copy", "reduce_op": "maximum"}
    for i, (start, count) in enumerate(parts):
        part, into, best = sliced(line, 1, start, count), sliced(scratch, 1, 0, count), sliced(bests, 1, i, 1)
        select.book("activation_reduce", into, part, None, 1.0, best, **greatest)
        if may_be_nan:
            holes = holes_of(low, part)
            # The first has the greatest number of those behind it.
            ramp = sliced(sliced(ramp_down(low, size), 0, 0, lanes), 1, start, count)
            select.book("tensor_tensor", holes, holes, ramp, op="multiply", engine="gpsimd")
            select.book("activation_reduce", into, holes, None, 1.0, sliced(lasts, 1, i, 1), **greatest)
        eight = broadcast(best, (lanes, low.target["limits.max8_width"]))
        place = sliced(match8(low, part, eight, sliced(unread, 1, 0, count)), 1, 0, 1)
        if not i:
            b.op("tensor_copy", out, View(place.buffer, out.dtype, place.offset, out.sizes, place.strides, place.terms))
            continue
        better, there = b.sbuf((lanes, 1), uint8, "better", depth=2), b.sbuf((lanes, 1), out.dtype, "there", depth=2)
        b.op("tensor_tensor", better, best, sliced(bests, 1, 0, 1), op="greater", engine="vector")
        b.op("tensor_scalar", there, place, float(start), op0="add")
        b.op("tensor_copy_predicated", out, there, better)
    if not may_be_nan:
        return
    last = lasts
    if len(parts) > 1:
        last = b.sbuf((lanes, 1), float32, "last", depth=2)
        b.op("tensor_reduce", last, lasts, op="maximum", axis=(1,))
    there, some = b.sbuf((lanes, 1), out.dtype, "there", depth=2), b.sbuf((lanes, 1), uint8, "some", depth=2)
    b.op("tensor_scalar", there, last, -1.0, float(size), op0="multiply", op1="add")
    b.op("tensor_scalar", some, last, 0.0, op0="greater")
    b.op("tensor_copy_predicated", out, there, some)


def halves(size: int) -> list[tuple[int, int]]:
    """(start, count) of the parts of a line that are searched one after the other: a long one is in work sooner."""
    return [(0, size)] if size < 2 * TUNING.segment else _parts(size, -(-size // 2))


def holes_of(low: Lowering, line: View) -> View:
    """1 where a line has NaN, else 0."""
    made = low.b.sbuf(line.sizes, float32, "holes", depth=2)
    # NaN is the only number that is not at most infinity.
    low.b.op("tensor_scalar", made, line, float("inf"), 0.0, op0="less_equal", op1="equal")
    return made


def ramp_down(low: Lowering, size: int) -> View:
    """[lanes, size]: on every partition size, size - 1, ..., 1."""
    lanes = low.target["limits.partitions"]

    def make() -> View:
        made = low.b.sbuf((lanes, size), float32, "ramp")
        low.b.op("iota", made, pattern=((-1, size),), offset=size, channel_multiplier=0)
        return made

    return once(low, ("ramp down", size), make)


def _parts(size: int, most: int) -> list[tuple[int, int]]:
    """(start, count) of pieces of about equal size, the first the largest."""
    count = -(-size // -(-size // most))
    return [(start, min(count, size - start)) for start in range(0, size, count)]


def _earlier(low: Lowering, found: View | None, first: View, start: int) -> View:
    """The position found before, or else the one of the part that starts at `start`."""
    b, lanes = low.b, first.sizes[0]

    def number(value: int) -> View:
        def make() -> View:
            made = b.sbuf((low.target["limits.partitions"], 1), uint32, "number")
            b.op("memset", made, value=value)
            return made

        return sliced(once(low, ("number", value), make), 0, 0, lanes)

    made = b.sbuf((lanes, 1), uint32, "found", depth=2)
    # What is not there is beyond all positions, also after the start of the part has been added.
    b.op("tensor_tensor", made, first, number(1 << 30), op="minimum")
    if start:
        b.op("tensor_tensor", made, made, number(start), op="add")
    if found is not None:
        b.op("tensor_tensor", made, made, found, op="minimum")
    return made


def greatest8(low: Lowering, parts: list[View]) -> View:
    """[lanes, 8]: the eight greatest of all parts of a line, descending."""
    b, width = low.b, low.target["limits.max8_width"]
    best = b.sbuf((parts[0].sizes[0], width), float32, "best", depth=2)
    if len(parts) == 1:
        b.op("max8", best, parts[0])
        return best
    tops = b.sbuf((parts[0].sizes[0], len(parts) * width), float32, "tops", depth=2)
    for i, part in enumerate(parts):
        b.op("max8", sliced(tops, 1, i * width, width), part)
    b.op("max8", best, tops)
    return best


def match8(low: Lowering, data: View, values: View, into: View, imm: float = 0.0, place: View | None = None) -> View:
    """[lanes, 8]: where each of eight values stands in data, equal ones at one position after the other.

    The instruction goes from the last slot to the first: it sees both tiles backwards.
    """
    if place is None:
        place = low.b.sbuf(values.sizes, uint32, "place", depth=2)
    low.b.op("nc_match_replace8", into, _backwards(place), data, _backwards(values), imm=imm)
    return place


def _backwards(view: View) -> View:
    last = view.offset + (view.sizes[1] - 1) * view.strides[1]
    return View(view.buffer, view.dtype, last, view.sizes, (view.strides[0], -view.strides[1]), view.terms)


def ones8(low: Lowering, lanes: int) -> View:
    """[lanes, 8] of ones."""

    def make() -> View:
        made = low.b.sbuf((low.target["limits.partitions"], low.target["limits.max8_width"]), float32, "ones")
        low.b.op("memset", made, value=1.0)
        return made

    return sliced(once(low, ("eight ones",), make), 0, 0, lanes)


# Axes that are longer than a partition should hold, or that would occupy a few partitions only.


def long_argmax(low: Lowering, op: Op) -> None:
    """Rows in segments, each on a partition of its own; segments in chunks; then the first of the best segments."""
    (x,) = op.operands
    axis, shape = op.attrs["axis"], x.type.shape
    view = low.in_hbm(x)
    if axis != len(shape) - 1:
        order = (*[d for d in range(len(shape)) if d != axis], axis)
        turned = low.b.hbm(tuple(shape[d] for d in order), view.dtype, transposed(view))
        low.store(Hbm(permuted(view, order)), turned)
        view = turned
    else:
        view = low.contiguous(x)
    rows, size = prod(shape) // shape[axis], shape[axis]
    flat = as_shape(result_in_hbm(low, op), (rows, 1))
    lanes = low.target["limits.partitions"]
    segments = next(n for n in range(max(lanes // rows, 1), 0, -1) if size % n == 0)
    source = as_shape(view, (rows * segments, size // segments))
    select = Selector(low.b)

    def block(start: At, count: int) -> None:
        best, place = _stream(low, select, sliced(source, 0, affine(start) * segments, count * segments), segments)
        if segments > 1:
            place = _merge(low, select, best, place, count, segments)
        low.b.op("dma_copy", sliced(flat, 0, start, count), place)

    for at, count in tiled(low.b, rows, lanes, "r"):
        block(at, count)


@decision("search: argmax streamed")
def _stream(low: Lowering, select: Selector, source: View, segments: int) -> tuple[View, View]:
    """Best element and its position in the row of [rows * segments, size], chunk by chunk."""
    b, (lanes, size) = low.b, source.sizes
    best, place = b.sbuf((lanes, 1), source.dtype, "best"), b.sbuf((lanes, 1), int32, "place")
    step = b.sbuf((lanes, 1), int32, "start")
    # Where the chunk of each partition starts in its row.
    b.op("iota", step, pattern=((0, 1),), offset=0, channel_multiplier=size)
    _modulo(low, step, segments, size)
    width = min(size, TUNING.searched)
    whole, rest = divmod(size, width)
    add = b.sbuf((lanes, 1), int32, "step")
    b.op("memset", add, value=width)

    def chunk(at: At, count: int, is_first: bool) -> None:
        tile = b.sbuf((lanes, count), source.dtype, "chunk", depth=2)
        b.op("dma_copy", tile, sliced(source, 1, at, count))
        here = b.sbuf((lanes, 1), int32, "here", depth=2)
        place_of_greatest(low, select, tile, here)
        value = b.sbuf((lanes, 1), source.dtype, "value", depth=2)
        b.op("nc_n_gather", value, tile, _unsigned(here))
        b.op("tensor_tensor", here, here, step, op="add")
        b.op("tensor_tensor", step, step, add, op="add")
        if is_first:
            b.op("tensor_copy", best, value)
            b.op("tensor_copy", place, here)
            return
        better = _is_better(low, value, best)
        b.op("tensor_copy_predicated", best, value, better)
        b.op("tensor_copy_predicated", place, here, better)

    chunk(0, width, is_first=True)
    if whole > 1:
        with b.loop(whole - 1, "c", width) as at:
            chunk(at + width, width, is_first=False)
    if rest:
        chunk(whole * width, rest, is_first=False)
    return best, place


def _modulo(low: Lowering, step: View, segments: int, size: int) -> None:
    """step = (partition mod segments) * size, from partition * size."""
    lanes = step.sizes[0]
    rows = lanes // segments
    if rows == 1 or segments == 1:
        if segments == 1:
            low.b.op("memset", step, value=0)
        return
    line = low.b.sbuf((1, rows, segments), int32, "starts")
    low.b.op("iota", line, pattern=((0, rows), (size, segments)), offset=0, channel_multiplier=0)
    low.b.op("dma_copy", step, line)


def _is_better(low: Lowering, value: View, best: View) -> View:
    """Where a later value takes the place of the best so far: it is greater, or the first NaN."""
    b, lanes = low.b, value.sizes[0]
    if value.dtype in (int32, uint32):
        exact = b.sbuf((lanes, 1), value.dtype, "better", depth=2)
        b.op("tensor_tensor", exact, value, best, op="greater")
        return _unsigned(exact)
    # not (value <= best) is true of greater values and where either is NaN; best == best leaves out the latter.
    below, known, better = (b.sbuf((lanes, 1), uint32, name, depth=2) for name in ("below", "known", "better"))
    b.op("tensor_tensor", below, value, best, op="less_equal", engine="vector")
    b.op("tensor_tensor", known, best, best, op="equal", engine="vector")
    b.op("tensor_tensor", better, known, below, op="greater")
    return better


def _unsigned(view: View) -> View:
    """The same 32 bits as unsigned integers."""
    return View(view.buffer, uint32, view.offset, view.sizes, view.strides, view.terms)


@decision("search: argmax of segments")
def _merge(low: Lowering, select: Selector, best: View, place: View, rows: int, segments: int) -> View:
    """The position that the first of the best segments of each row found."""
    b = low.b
    values, places = (b.sbuf((rows, segments), v.dtype, "row", depth=2) for v in (best, place))
    b.op("dma_copy", values, best)
    b.op("dma_copy", places, place)
    winner, out = b.sbuf((rows, 1), uint32, "winner", depth=2), b.sbuf((rows, 1), int32, "place", depth=2)
    place_of_greatest(low, select, values, winner)
    b.op("nc_n_gather", out, places, winner)
    return out
