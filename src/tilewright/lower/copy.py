"""Copies from HBM to HBM in another order: the one of three ways that keeps transfers long.

By one transfer where runs of elements stay together. Through SBUF with the order changed inside each partition where
the first dims stay first and what follows fits. Otherwise blocks are turned by the Tensor engine.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, bfloat16, float32
from tilewright.lower.loops import tiled
from tilewright.lower.patterns import identity
from tilewright.lower.tuning import LONG_RUN, MACRO, ROW_BYTES, SMALL_COPY
from tilewright.lower.views import Affine, At, affine, merged, permuted, picked, reshaped, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def copy_hbm(low: Lowering, source: View, out: View) -> None:
    """out = source, element by element."""
    source, out = joined(source, out)
    run = _run(source, out)
    whole = out.size <= SMALL_COPY or run * out.dtype.itemsize >= LONG_RUN or run == out.size
    if whole or not (_permute_rows(low, source, out) or _turn(low, source, out)):
        low.b.op("dma_copy", out, source)


def joined(source: View, out: View) -> tuple[View, View]:
    """Both without dims of size 1, neighbours merged where both sides allow."""
    keep = [d for d in range(out.ndim) if out.sizes[d] != 1]
    source, out = _only(source, keep), _only(out, keep)
    d = 0
    while d + 1 < out.ndim:
        one, two = merged(source, d, d + 1), merged(out, d, d + 1)
        if one is not None and two is not None:
            source, out = one, two
        else:
            d += 1
    return source, out


def _only(view: View, keep: list[int]) -> View:
    made = permuted(view, (*keep, *[d for d in range(view.ndim) if d not in keep]))
    shaped = reshaped(made, tuple(made.sizes[: len(keep)]) or (1,))
    assert shaped is not None
    return shaped


def _run(source: View, out: View) -> int:
    """Elements that are neighbours on both sides."""
    together = source.strides[-1] == out.strides[-1] == 1
    return out.sizes[-1] if together else 1


def _permute_rows(low: Lowering, source: View, out: View) -> bool:
    """Rows of the first dim into partitions, each in the order of the source; out of them in that of the result."""
    if out.ndim < 2 or out.ndim > 4 or prod(out.sizes[1:]) * out.dtype.itemsize > ROW_BYTES:
        return False
    free = out.sizes[1:]
    by_source = sorted(range(1, source.ndim), key=lambda d: -abs(source.strides[d]))
    dense = permuted(source, (0, *by_source))
    if _span(dense) * out.dtype.itemsize < LONG_RUN or _span(out) * out.dtype.itemsize < LONG_RUN:
        return False
    b, lanes = low.b, low.target["limits.partitions"]
    back = [0, *[1 + by_source.index(d) for d in range(1, out.ndim)]]

    def rows(start: At, count: int) -> None:
        tile = b.sbuf((count, *dense.sizes[1:]), out.dtype, "rows", depth=3)
        b.op("dma_copy", tile, sliced(dense, 0, start, count))
        turned = b.sbuf((count, *free), out.dtype, "order", depth=3)
        b.op("tensor_copy", turned, permuted(tile, back))
        b.op("dma_copy", sliced(out, 0, start, count), turned)

    whole, rest = divmod(out.sizes[0], lanes)
    if whole:
        with b.loop(whole, "r", lanes) as at:
            rows(at, lanes)
    if rest:
        rows(whole * lanes, rest)
    return True


def _span(view: View) -> int:
    """Elements of the innermost dims that lie together."""
    length = 1
    for size, stride in zip(reversed(view.sizes[1:]), reversed(view.strides[1:]), strict=True):
        if stride != length:
            break
        length *= size
    return length


def _turn(low: Lowering, source: View, out: View) -> bool:
    """Blocks through the Tensor engine: the dim that is dense in the source becomes the partition dim of the result."""
    dtype = _as_float(low, out.dtype)
    across = next((d for d in range(source.ndim) if source.strides[d] == 1), None)
    along = next((d for d in range(out.ndim) if out.strides[d] == 1), None)
    if dtype is None or across is None or along is None or across == along:
        return False
    others = [d for d in range(out.ndim) if d not in (across, along)]
    source = permuted(source, (*others, along, across))
    out = permuted(out, (*others, across, along))
    source, out = (View(v.buffer, dtype, v.offset, v.sizes, v.strides, v.terms) for v in (source, out))
    _each(low, source, out, len(others))
    return True


def _as_float(low: Lowering, dtype: DType) -> DType | None:
    """The type as which the Tensor engine passes elements through bit for bit, or None where it does not."""
    if dtype in ("float32", "bfloat16", "float16"):
        return dtype
    if not low.target["features.transpose_bit_exact"]:
        return None
    return {4: float32, 2: bfloat16}.get(dtype.itemsize)


def _each(low: Lowering, source: View, out: View, others: int) -> None:
    """[rows, columns] of the source as [columns, rows] of the result, for every index of the other dims."""
    if others:
        with low.b.loop(source.sizes[0], "o") as at:
            _each(low, picked(source, 0, at), picked(out, 0, at), others - 1)
        return
    rows, columns = source.sizes
    _tiled(
        low,
        rows,
        lambda at, height: _tiled(low, columns, lambda c, width: _macro(low, source, out, at, height, c, width)),
    )


def _tiled(low: Lowering, size: int, body) -> None:
    whole, rest = divmod(size, MACRO)
    if whole:
        with low.b.loop(whole, "m", MACRO) as at:
            body(at, MACRO)
    if rest:
        body(whole * MACRO, rest)


def _macro(low: Lowering, source: View, out: View, row: At, height: int, column: At, width: int) -> None:
    """One macro tile: load, turn block by block, store."""
    part = sliced(sliced(source, 0, row, height), 1, column, width)
    into = sliced(sliced(out, 0, column, width), 1, row, height)
    lanes = low.target["limits.partitions"]
    tile = low.b.sbuf((min(lanes, height), -(-height // lanes), width), part.dtype, "rows", depth=2)
    _by_blocks(low, tile, part, load=True)
    turned = low.b.sbuf((min(lanes, width), -(-width // lanes), height), part.dtype, "turned", depth=2)
    for i in range(tile.sizes[1]):
        count = min(lanes, height - i * lanes)
        turn_tile(low, sliced(turned, 2, i * lanes, count), sliced(picked(tile, 1, i), 0, 0, count), width)
    _by_blocks(low, turned, into, load=False)


def _by_blocks(low: Lowering, tile: View, view: View, load: bool) -> None:
    """Between [lanes, blocks, n] and the rows of a view: whole blocks at once, a shorter one by itself."""
    lanes = tile.sizes[0]
    whole, rest = divmod(view.sizes[0], lanes)
    pairs: list[tuple[View, View]] = []
    if whole:
        from tilewright.lower.views import split

        rows = permuted(split(sliced(view, 0, 0, whole * lanes), 0, (whole, lanes)), (1, 0, 2))
        pairs.append((sliced(tile, 1, 0, whole), rows))
    if rest:
        pairs.append((sliced(picked(tile, 1, whole), 0, 0, rest), sliced(view, 0, whole * lanes, rest)))
    for held, there in pairs:
        low.b.op("dma_copy", *((held, there) if load else (there, held)))


def turn_tile(low: Lowering, out: View, tile: View, columns: int) -> None:
    """out[c, block, r] = tile[r, block * lanes + c]: several blocks into a bank of PSUM, then a copy."""
    lanes, rows = low.target["limits.partitions"], tile.sizes[0]
    if not low.target["features.transpose_bit_exact"]:
        turn_by_squares(low, out, tile, columns)
        return
    narrow = tile.dtype.itemsize == 2 and low.target["features.transpose_16bit_psum"]
    dtype = tile.dtype if narrow else float32
    unit = sliced(sliced(identity(low, tile.dtype), 0, 0, rows), 1, 0, rows)
    each = max(low.target["memory.psum_bank_bytes"] // dtype.itemsize // rows, 1)
    whole, rest = divmod(columns, lanes)

    def some(first: At, count: int, width: int) -> None:
        # In a loop of its own two banks take turns; by itself each has one for as long as it needs it.
        depth = 2 if isinstance(first, Affine) and first.terms else 1
        bank = low.b.psum((width, count, rows), dtype, "turn", depth=depth)
        for i in range(count):
            part = sliced(tile, 1, (affine(first) + i) * lanes, width)
            low.b.op("nc_matmul", picked(bank, 1, i), part, unit, is_transpose=True, is_moving_onezero=True)
        low.evict(sliced(sliced(out, 1, first, count), 0, 0, width), bank)

    trips, left = divmod(whole, each)
    if trips:
        with low.b.loop(trips, "k", each) as first:
            some(first, each, lanes)
    if left:
        some(trips * each, left, lanes)
    if rest:
        some(whole, 1, rest)


def turn_by_squares(low: Lowering, out: View, tile: View, columns: int) -> None:
    """out[c, block, r] = tile[r, block * lanes + c] by the Vector engine, small square by small square.

    Where the Tensor engine multiplies by an identity instead of passing elements through, an infinity would spread.
    """
    lanes, side = low.target["limits.partitions"], low.target["limits.transpose_vector_max"]
    rows = tile.sizes[0]
    for at, width in tiled(low.b, columns, lanes, "k"):
        block = picked(out, 1, by_block(at, lanes))
        for r in range(0, rows, side):
            height = min(side, rows - r)
            for c in range(0, width, side):
                count = min(side, width - c)
                square = sliced(sliced(tile, 0, r, height), 1, affine(at) + c, count)
                into = sliced(sliced(block, 0, c, count), 1, r, height)
                low.b.op("nc_transpose", into, square, engine="vector")


def by_block(at: At, lanes: int) -> At:
    """The number of the block of rows or columns that starts somewhere."""
    if isinstance(at, int):
        return at // lanes
    return Affine(at.const // lanes, tuple((index, factor // lanes) for index, factor in at.terms))
