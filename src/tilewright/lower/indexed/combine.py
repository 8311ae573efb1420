"""combine_rows: out[index[i]] = combine(out[index[i]], part[i]), equal indices included.

Single numbers: the result's places lie on partitions, and each reduces the numbers whose index is its own; rows that no
transfer takes by a column of indices go the same way, column by column. Anything else goes row by row: one is fetched,
combined and sent back before the next.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float16, float32, int32, uint8, uint16
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.counting import add_up, in_lines, laid
from tilewright.lower.indexed.exchanged_rows import add_rows, adds_rows
from tilewright.lower.indexed.folded_rows import SIGNS, fold_rows, folded_ns, folds_rows
from tilewright.lower.indexed.indices import check, chosen_row, is_checked, lines, wrapped
from tilewright.lower.indexed.placed_rows import place_rows, places_rows
from tilewright.lower.move.join import copied_to_update, place_of_update
from tilewright.lower.move.moves import load_rows, store_rows
from tilewright.lower.move.rehome import spread_row
from tilewright.lower.regions.checks import counts
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Hbm, device_dtype
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import row_numbers
from tilewright.lower.write.views import At, affine, as_shape, expanded, permuted, picked, sliced
from tilewright.target import Target
from tilewright.tensor.ranges import EXACT
from tilewright.tile.alu import IDENTITIES
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def combine_rows(low: Lowering, op: Op) -> None:
    """A copy of x with rows of the part combined into it, one after the other."""
    x, _, part = op.operands
    is_any = bool(x.type.size and part.type.size)
    whole = _of_all_places(low, op) if is_any else None
    if whole is not None:
        whole(low, op, place_of_update(low, op)[0])
        return
    out = copied_to_update(low, op)
    if is_any:
        by_blocks = add_rows if adds_rows(low, op) else fold_rows if folds_rows(low, op) else _row_by_row
        by_blocks(low, op, out)


def _of_all_places(low: Lowering, op: Op) -> Callable[[Lowering, Op, View], None] | None:
    """What goes over all places, each block of which is read before it is written, where that takes less time."""
    if counts(op, low.target):
        return add_up
    if _goes_by_places(low, op):
        return _by_places
    return place_rows if places_rows(low, op) else None


def _is_exact(op: Op) -> bool:
    """True where float32 holds all that is computed: floats, and numbers that are counted."""
    x, _, part = op.operands
    if x.type.dtype.is_float:
        return True
    if op.attrs["combine"] in ("maximum", "minimum"):
        return x.type.dtype.itemsize < int32.itemsize
    known = part.producer
    if op.attrs["combine"] != "add" or known is None or known.name != "full" or x.type.dtype is not int32:
        return False
    return abs(known.attrs["value"]) * part.type.size < EXACT


def _goes_by_places(low: Lowering, op: Op) -> bool:
    """True where rows that are fetched and sent back, several at a time or one after the other, take no less time."""
    x, index, _ = op.operands
    rows, width, count = x.type.shape[0], prod(x.type.shape[1:]), index.type.size
    if not _is_exact(op) or rows > EXACT:
        return False
    if width == 1:
        return not folds_rows(low, op) or _places_ns(low.target, rows, count) < folded_ns(low, op)
    if places_rows(low, op) or adds_rows(low, op) or folds_rows(low, op):
        return False
    held = -(-rows // low.target["limits.partitions"]) * width * device_dtype(x.type.dtype).itemsize
    there_and_back = 2 * count * low.target["dma.static_start_ns"]
    return held <= low.room() // 2 and width * _places_ns(low.target, rows, count) < there_and_back


def _places_ns(target: Target, rows: int, count: int) -> float:
    """About how long the greatest numbers take: two passes for 128 places, one of them fast, and two rows to spread."""
    blocks, chunks = -(-rows // target["limits.partitions"]), -(-count // TUNING.compared)
    fast = target["vector.elements_per_cycle.fast"] if rows <= MOST_NARROW else 1
    passes = (1 + 1 / fast) * count / target["clock_ghz.vector"]
    fixed = target["vector.overhead_cycles.tensor_scalar"] + 2 * target["vector.overhead_cycles.other"]
    passes += chunks * fixed / target["clock_ghz.vector"]
    spread = 2 * 4 * count / target["clock_ghz.tensor"] / target["tensor.throttle_fraction"]
    return max(blocks * passes, spread) + chunks * target["dma.static_start_ns"]


@decision("combine: by places")
def _by_places(low: Lowering, op: Op, out: View) -> None:
    """[lanes, blocks, columns] of places; against all indices, chunk by chunk."""
    x, index, part = op.operands
    b, lanes, rows, count = low.b, low.target["limits.partitions"], x.type.shape[0], index.type.size
    columns = prod(x.type.shape[1:])
    source, target = as_shape(low.contiguous(x), (rows, columns)), as_shape(out, (rows, columns))
    given = as_shape(low.contiguous(index), (count,))
    data = _by_columns(low, part, count, columns)
    numbers = _checked(low, given, index, rows)
    held = b.sbuf((min(rows, lanes), -(-rows // lanes), columns), source.dtype, "places")
    load_rows(low, held, source)
    numbered, step = _numbered(low, rows)

    def column(near: View, start: At, width: int, at_column: At) -> None:
        values = picked(data, 0, at_column)
        new = _everywhere(low, sliced(values, 0, start, width), SIGNS.get(op.attrs["combine"], 1.0))
        for first in range(0, rows, step):
            some = min(step, rows - first)
            own = near if step != NARROW_STEP else _from(low, near, first)
            there = sliced(sliced(held, 1, first // lanes, -(-some // lanes)), 2, at_column, 1)
            whole, rest = divmod(some, lanes)
            if whole:
                with b.loop(whole, "r") as at:
                    _fold(low, op, there, numbered, at, lanes, own, new)
            if rest:
                _fold(low, op, there, numbered, whole, rest, own, new)

    for start, width in tiled(b, count, TUNING.compared, "c"):
        near = _everywhere(low, sliced(numbers, 0, start, width))
        if columns == 1:
            column(near, start, width, 0)
            continue
        with b.loop(columns, "j") as j:
            column(near, start, width, j)
    store_rows(low, target, held)


def _by_columns(low: Lowering, part: Value, count: int, columns: int) -> View:
    """[columns, count]: rows whose numbers of a column lie together in HBM."""
    rows = as_shape(low.contiguous(part), (count, columns))
    if columns == 1:
        return permuted(rows, (1, 0))
    made = low.b.hbm((columns, count), rows.dtype, "columns")
    low.store(Hbm(permuted(rows, (1, 0))), made)
    return made


NARROW_STEP = 1 << 11
"""Integers up to this are exact in float16, and no greater or negative one becomes one of them."""

MOST_NARROW = 8 * NARROW_STEP
"""Places that are compared as float16, so many at a time: each time all numbers are brought there."""


def _numbered(low: Lowering, rows: int) -> tuple[View, int]:
    """[lanes, blocks]: the numbers of places, and from how many places on they begin again."""
    if rows > MOST_NARROW or not low.target["features.vector_fast_modes"]:
        return row_numbers(low, rows), rows
    # All have the same steps, so that one tile is enough; numbers are brought near even where there is one step.
    return row_numbers(low, NARROW_STEP), NARROW_STEP


def _from(low: Lowering, numbers: View, first: int) -> View:
    """How far numbers are from one, in float16."""
    made = low.b.sbuf(numbers.sizes, float16, "near", depth=2)
    low.b.op("tensor_scalar", made, numbers, float(-first), op0="add")
    return made


def _fold(low: Lowering, op: Op, held: View, places: View, at: At, height: int, numbers: View, data: View) -> None:
    """Combine the numbers of a chunk whose index is a partition's own place into it."""
    b, alu, size = low.b, op.attrs["combine"], (height, numbers.sizes[1])
    own = sliced(sliced(held, 1, at, 1), 0, 0, height)
    # Numbers of 16 bits are compared in a fast mode, if the result has as many.
    is_narrow = numbers.dtype is float16
    mask = b.sbuf(size, float16 if is_narrow else uint8, "mask", depth=2)
    place = sliced(sliced(places, 1, at, 1), 0, 0, height)
    b.op("tensor_scalar", mask, sliced(numbers, 0, 0, height), place, op0="equal")
    if is_narrow:
        mask = View(mask.buffer, uint16, mask.offset, mask.sizes, mask.strides, mask.terms)
    chosen, new = b.sbuf(size, float32, "chosen", depth=2), sliced(data, 0, 0, height)
    if alu in SIGNS:
        greatest = b.sbuf((height, 1), float32, "greatest", depth=2)
        b.op("select_reduce", chosen, mask, new, -inf, greatest, reduce_cmd="reset_reduce")
        b.op("scalar_tensor_tensor", own, greatest, SIGNS[alu], own, op0="multiply", op1=alu)
        return
    b.op("memset", chosen, value=float(IDENTITIES[alu]))
    b.op("tensor_copy_predicated", chosen, new, mask)
    if alu == "multiply":
        # What is there comes first: it may be 0, where the product of all others is infinite.
        first = sliced(chosen, 1, 0, 1)
        b.op("tensor_tensor", first, own, first, op=alu)
        b.op("tensor_reduce", own, chosen, op=alu, axis=(1,))
        return
    total = b.sbuf((height, 1), own.dtype if own.dtype is int32 else float32, "total", depth=2)
    b.op("tensor_reduce", total, chosen, op=alu, axis=(1,))
    b.op("tensor_tensor", own, own, total, op=alu)


def _checked(low: Lowering, numbers: View, index: Value, rows: int) -> View:
    """Indices of a dim of so many rows in HBM, as float32: all partitions see to them, not the one that spreads."""
    b, lanes = low.b, low.target["limits.partitions"]
    made = b.hbm((numbers.size,), float32, "numbers")
    for at, count in tiled(b, numbers.size, lanes * TUNING.index_line, "n"):
        places = wrapped(low, laid(low, sliced(numbers, 0, at, count), -(-count // lanes)), index)
        if not is_checked(index, rows):
            check(low, places, rows)
        wide = b.sbuf(places.sizes, float32, "numbers", depth=2)
        b.op("tensor_copy", wide, places)
        for part, there in in_lines(wide, sliced(made, 0, at, count)):
            b.op("dma_copy", there, part)
    return made


def _everywhere(low: Lowering, source: View, sign: float = 1.0) -> View:
    """Numbers on every partition, in float32, perhaps with another sign."""
    b = low.b
    tile = b.sbuf((1, source.size), source.dtype, "row", depth=2)
    b.op("dma_copy", tile, expanded(source, 0))
    if tile.dtype is not float32:
        wide = b.sbuf(tile.sizes, float32, "row", depth=2)
        b.op("tensor_copy", wide, tile)
        tile = wide
    if sign != 1.0:
        turned = b.sbuf(tile.sizes, float32, "row", depth=2)
        b.op("tensor_scalar", turned, tile, sign, op0="multiply")
        tile = turned
    return spread_row(low, tile, low.target["limits.partitions"], "row")


@decision("combine: row by row")
def _row_by_row(low: Lowering, op: Op, out: View) -> None:
    _, index, part = op.operands
    b, width, dtype, alu = low.b, prod(out.sizes[1:]), out.dtype, op.attrs["combine"]
    table, rows = as_shape(out, (out.sizes[0], width)), as_shape(low.contiguous(part), (index.type.size, width))
    step = min(width, low.target["memory.sbuf_usable_bytes"] // (8 * dtype.itemsize))

    def add_row(place: View, row: View) -> None:
        for at in range(0, width, step):
            size = min(step, width - at)
            there = chosen_row(sliced(table, 1, at, size), place)
            there = View(there.buffer, there.dtype, there.offset, (1, size), (size, 1), there.terms, there.dynamic)
            held, new = b.sbuf((1, size), dtype, "held", depth=2), b.sbuf((1, size), dtype, "new", depth=2)
            b.op("dma_copy", held, there)
            b.op("dma_copy", new, expanded(sliced(row, 0, at, size), 0))
            _combine(low, held, new, alu)
            b.op("dma_copy", there, held)

    for start, numbers in lines(low, index):
        with b.loop(numbers.sizes[1], "i") as i:
            add_row(sliced(numbers, 1, i, 1), picked(rows, 0, affine(start) + i))


def _combine(low: Lowering, held: View, new: View, alu: str) -> None:
    """held = alu(held, new); sums and products of short integers wrap around."""
    b, dtype = low.b, held.dtype
    if not dtype.is_integer or dtype.itemsize == int32.itemsize or alu not in ("add", "multiply"):
        b.op("tensor_tensor", held, held, new, op=alu)
        return
    wide = [b.sbuf(held.sizes, int32, "wide", depth=2) for _ in range(2)]
    for tile, source in zip(wide, (held, new), strict=True):
        b.op("tensor_copy", tile, source)
    b.op("tensor_tensor", wide[0], *wide, op=alu)
    b.op("tensor_scalar", held, wide[0], (1 << 8 * dtype.itemsize) - 1, op0="bitwise_and")
