"""topk: where the rows come from and where the best of them go (how they are found: picker.py).

Rows on chip stay there. An axis longer than a partition can search, or of a few rows only, is cut into segments; the
best of each are searched again. Where most of a row is wanted, it is sorted by a network (bitonic.py), or each element
counts those before it (ranks.py).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import int32, uint32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.indices import chosen_row, chosen_rows
from tilewright.lower.kernels import bitonic
from tilewright.lower.kernels.picker import Picker
from tilewright.lower.kernels.ranks import sort_rows
from tilewright.lower.kernels.spans import longest_row, spans
from tilewright.lower.move.copy import blocks_of
from tilewright.lower.move.join import fill_hbm, place_in_hbm
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import transposed
from tilewright.lower.write.homes import Chip, Hbm, device_dtype
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import column_numbers
from tilewright.lower.write.views import At, as_shape, expanded, permuted, picked, reshaped, sliced, split
from tilewright.tensor.ranges import EXACT, is_small, range_of
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def topk(low: Lowering, op: Op) -> None:
    """The k greatest or least along an axis, and their positions."""
    (x,) = op.operands
    k, axis, shape = op.attrs["k"], op.attrs["axis"], x.type.shape
    values, places = op.results
    if not values.type.size:
        for value in op.results:
            low.homes[value] = Hbm(place_in_hbm(low, value, "best"))
        return
    pick = Picker(low, device_dtype(x.type.dtype), k, op.attrs["largest"], bool(values.uses), bool(places.uses), op)
    pick.numbers = range_of(x) if is_small(x) else None
    pick.is_wide = pick.dtype in (int32, uint32) and pick.numbers is None
    home = low.home(x)
    last, rows = axis == len(shape) - 1, prod(shape) // shape[axis]
    counted = pick.counts(rows, shape[axis]) or spans(pick, rows, shape[axis]) is not None
    rows_lie = isinstance(home, Chip) and home.row_count == rows and home.rows[1] <= axis
    if isinstance(home, Chip) and last and rows_lie and pick.fits(shape[axis]) and not counted:
        _on_chip(low, op, pick, home)
        return
    source = as_shape(low.contiguous(x) if last else _turned(low, low.in_hbm(x), axis), (rows, shape[axis]))
    later = any(_is_read_later(low, value) for value in op.results)
    if last and later and not counted and pick.fits(shape[axis], rows):
        if _keep(low, op, pick, source):
            return
    outs: list[View] = []
    for value in op.results:
        out = place_in_hbm(low, value, "best")
        low.homes[value] = Hbm(out)
        flat = reshaped(out, (rows, k)) if last else low.b.hbm((rows, k), out.dtype, "best")
        assert flat is not None
        outs.append(flat)
    select(low, pick, source, *outs)
    if not last:
        for value, flat in zip(op.results, outs, strict=True):
            if value.uses:
                kept = [n for d, n in enumerate(shape) if d != axis]
                shaped = as_shape(flat, (*kept, k))
                order = [*range(axis), len(kept), *range(axis, len(kept))]
                out = low.homes[value]
                assert isinstance(out, Hbm)
                low.store(Hbm(permuted(shaped, order)), out.view)


def _is_read_later(low: Lowering, value: Value) -> bool:
    return any(use is not low.program.output_op for use in value.uses)


def _turned(low: Lowering, view: View, axis: int) -> View:
    """A copy in HBM with the axis last."""
    order = (*[d for d in range(view.ndim) if d != axis], axis)
    made = low.b.hbm(tuple(view.sizes[d] for d in order), view.dtype, transposed(view))
    low.store(Hbm(permuted(view, order)), made)
    return made


# Where rows come from and where results go.


@decision("search: rows on chip")
def _on_chip(low: Lowering, op: Op, pick: Picker, home: Chip) -> None:
    """From rows on chip to rows on chip."""
    kept = _chips(low, op, home.rows, home.row_count)
    tile = as_shape(home.view, (*home.view.sizes[:2], home.shape[-1]))
    first = 0
    for part in blocks_of(tile, home.row_count):
        _copy(low, pick, kept, first, part)
        first += part.sizes[1]


def _chips(low: Lowering, op: Op, rows: tuple[int, int], count: int) -> list[View]:
    """Homes for the results, [lanes, blocks, k], with the rows of the operand."""
    lanes, made = low.target["limits.partitions"], []
    for value in op.results:
        shape, dtype = value.type.shape, device_dtype(value.type.dtype)
        view = low.b.sbuf((min(lanes, count), -(-count // lanes), shape[-1]), dtype, value.name or "best")
        free = as_shape(view, (*view.sizes[:2], *shape[: rows[0]], *shape[rows[1] :]))
        low.homes[value] = Chip(free, shape, rows)
        low.resident[value] = view.buffer.row_bytes
        made.append(view)
    return made


def _copy(low: Lowering, pick: Picker, kept: list[View], first: At, part: View) -> None:
    for view, best in zip(kept, pick.block(part), strict=True):
        if best is not None:
            into = sliced(sliced(view, 1, first, part.sizes[1]), 0, 0, part.sizes[0])
            low.b.op("tensor_copy", into, best)


@decision("search: kept on chip", if_found=True)
def _keep(low: Lowering, op: Op, pick: Picker, source: View) -> bool:
    """From HBM to rows on chip, if there is room."""
    rows, lanes = source.sizes[0], low.target["limits.partitions"]
    size = -(-rows // lanes) * pick.k * (pick.dtype.itemsize + uint32.itemsize)
    if size > low.room():
        return False
    rank = op.results[0].type.rank
    kept = _chips(low, op, (0, rank - 1), rows)
    whole, rest = divmod(rows, lanes)
    if whole:
        with low.b.loop(whole, "r") as at:
            _copy(low, pick, kept, at, _load(low, source, at * lanes, lanes, 1))
    if rest:
        _copy(low, pick, kept, whole, _load(low, source, whole * lanes, rest, 1))
    return True


def _load(low: Lowering, source: View, start: At, lanes: int, blocks: int) -> View:
    """[lanes, blocks, size]: block by block, so that the first can be searched while others come."""
    tile = low.b.sbuf((lanes, blocks, source.sizes[1]), source.dtype, "rows", depth=2)
    rows = split(sliced(source, 0, start, lanes * blocks), 0, (blocks, lanes))
    for j in range(blocks):
        low.b.op("dma_copy", picked(tile, 1, j), picked(rows, 0, j))
    return tile


def select(low: Lowering, pick: Picker, source: View, values: View, places: View) -> None:
    """The best of each row of [rows, size] in HBM, and their positions."""
    rows, size = source.sizes
    laid = spans(pick, rows, size)
    if laid is not None:
        bitonic.sort_rows(low, pick, laid, source, values, places)
        return
    if pick.counts(rows, size):
        sort_rows(low, pick, source, values, places)
        return
    if not pick.fits(size, rows):
        _by_segments(low, pick, source, values, places)
        return
    lanes = low.target["limits.partitions"]
    whole, rest = divmod(rows, lanes)
    most = pick.blocks(size)
    each = whole if whole <= most else max(most // 2, 1)

    # Short rows lie together on a partition: transfers have longer runs.
    short = size * source.dtype.itemsize < 4 * TUNING.long_run

    def rows_of(view: View, start: At, height: int, blocks: int) -> View:
        part = sliced(view, 0, start, height * blocks)
        if short:
            return split(part, 0, (height, blocks))
        return permuted(split(part, 0, (blocks, height)), (1, 0, 2))

    def some(start: At, height: int, blocks: int) -> None:
        tile = low.b.sbuf((height, blocks, size), source.dtype, "rows", depth=2)
        there = rows_of(source, start, height, blocks)
        # Block by block, so that the first can be searched while others come.
        for j in range(1 if short else blocks):
            pair = (tile, there) if short else (picked(tile, 1, j), picked(there, 1, j))
            low.b.op("dma_copy", *pair)
        for out, best in zip((values, places), pick.block(tile), strict=True):
            if best is not None:
                low.b.op("dma_copy", rows_of(out, start, height, blocks), best)

    for at, count in tiled(low.b, whole, each, "r") if whole else ():
        some(at * lanes, lanes, count)
    if rest:
        some(whole * lanes, rest, 1)


# Long rows.


@decision("search: by segments")
def _by_segments(low: Lowering, pick: Picker, source: View, values: View, places: View) -> None:
    """The best of each segment, then the best of those."""
    rows, size = source.sizes
    segments, kept = pick.segments(rows, size, max(longest_row(pick), TUNING.longest_picked))
    length = -(-size // segments)
    if size > EXACT:
        segments, length = -(-size // TUNING.searched), TUNING.searched
    if length * segments != size and (cut := _uneven(low, rows, size, segments, kept)) is not None:
        _by_uneven_segments(low, pick, source, values, places, cut, kept)
        return
    if length * segments != size:
        wide = low.b.hbm((rows, length * segments), source.dtype, "wide")
        low.store(Hbm(source), sliced(wide, 1, 0, size))
        fill_hbm(low, sliced(wide, 1, size, length * segments - size), _last(pick))
        source = wide
    parts = as_shape(source, (rows * segments, length))
    inner = Picker(low, pick.dtype, kept, pick.largest, True, True, pick.op)
    best = low.b.hbm((rows * segments, kept), source.dtype, "best")
    where = low.b.hbm((rows * segments, kept), uint32, "where")
    select(low, inner, parts, best, where)
    candidates, found = (as_shape(v, (rows, segments * kept)) for v in (best, where))
    _among_candidates(low, pick, candidates, found, values, places, kept, length)


def _among_candidates(
    low: Lowering, pick: Picker, candidates: View, found: View, values: View, places: View, kept: int, length: int
) -> None:
    """The best of what segments gave, and where those stand."""
    chosen = low.b.hbm((candidates.sizes[0], pick.k), uint32, "chosen")
    outer = Picker(low, pick.dtype, pick.k, pick.largest, pick.wants_values, True, pick.op)
    select(low, outer, candidates, values, chosen)
    if pick.wants_places:
        _resolve(low, chosen, found, places, kept, length)


def _uneven(low: Lowering, rows: int, size: int, segments: int, kept: int) -> int | None:
    """Segments of a row that is no multiple of any number: a few elements behind the last are candidates themselves."""
    lanes = low.target["limits.partitions"]
    several = (n for n in (1 << i for i in range(lanes.bit_length())) if n >= segments and rows * n >= lanes)
    count = next(several, None)
    if count is None or size % count > kept or 2 * kept > size // count or size > EXACT:
        return None
    return count if size // count <= TUNING.searched else None


@decision("search: by uneven segments")
def _by_uneven_segments(
    low: Lowering, pick: Picker, source: View, values: View, places: View, segments: int, kept: int
) -> None:
    """Whole rows of segments at a time, read where they lie."""
    b, (rows, size), lanes = low.b, source.sizes, low.target["limits.partitions"]
    length, tail = divmod(size, segments)
    inner = Picker(low, pick.dtype, kept, pick.largest, True, True, pick.op)
    best = b.hbm((rows, segments * kept + tail), source.dtype, "best")
    where = b.hbm((rows, segments * kept + tail), uint32, "where")
    for at, count in tiled(b, rows, lanes // segments, "r"):
        tile = b.sbuf((count * segments, 1, length), source.dtype, "rows", depth=2)
        part = split(sliced(sliced(source, 0, at, count), 1, 0, segments * length), 1, (segments, length))
        b.op("dma_copy", picked(tile, 1, 0), part)
        for out, found in zip((best, where), inner.block(tile), strict=True):
            assert found is not None
            into = split(sliced(sliced(out, 0, at, count), 1, 0, segments * kept), 1, (segments, kept))
            b.op("dma_copy", into, picked(found, 1, 0))
        if tail:
            rest = b.sbuf((count, tail), source.dtype, "rest", depth=2)
            b.op("dma_copy", rest, sliced(sliced(source, 0, at, count), 1, segments * length, tail))
            b.op("dma_copy", sliced(sliced(best, 0, at, count), 1, segments * kept, tail), rest)
            # Behind the last segment they are counted from its end.
            numbers = sliced(sliced(column_numbers(low, tail, uint32), 0, 0, count), 1, 0, tail)
            b.op("dma_copy", sliced(sliced(where, 0, at, count), 1, segments * kept, tail), numbers)
    _among_candidates(low, pick, best, where, values, places, kept, length)


def _last(pick: Picker) -> float:
    """A number that comes after all others (or with them, but behind)."""
    if pick.dtype.is_integer:
        return pick.dtype.min if pick.largest else pick.dtype.max
    return float("-inf") if pick.largest else float("nan")


@decision("search: places resolved")
def _resolve(low: Lowering, chosen: View, found: View, places: View, kept: int, length: int) -> None:
    """Positions among candidates become positions in the row: that in the segment, and where the segment starts."""
    b, (rows, k), size = low.b, chosen.sizes, found.sizes[1]
    if size * uint32.itemsize > low.target["memory.sbuf_usable_bytes"] // 4:
        _resolve_from_hbm(low, chosen, found, places, kept, length)
        return
    for at, count in tiled(b, rows, low.target["limits.partitions"], "r"):
        which, table = (b.sbuf((count, v.sizes[1]), uint32, "row", depth=2) for v in (chosen, found))
        b.op("dma_copy", which, sliced(chosen, 0, at, count))
        b.op("dma_copy", table, sliced(found, 0, at, count))
        inside = b.sbuf((count, k), uint32, "inside", depth=2)
        b.op("nc_n_gather", inside, table, which)
        _add_start(low, inside, which, kept, length)
        b.op("dma_copy", sliced(places, 0, at, count), inside)


@decision("search: places resolved by way of HBM")
def _resolve_from_hbm(low: Lowering, chosen: View, found: View, places: View, kept: int, length: int) -> None:
    """The same where candidates are too many to be on chip: those that were chosen are fetched one by one."""
    b, (rows, k) = low.b, chosen.sizes

    def some(r: At, at: At, count: int) -> None:
        which, inside = (b.sbuf((count, 1), uint32, name, depth=2) for name in ("which", "inside"))
        part, out = (expanded(sliced(picked(v, 0, r), 0, at, count), 1) for v in (chosen, places))
        table = expanded(picked(found, 0, r), 1)
        b.op("dma_copy", which, part)
        if low.target["features.swdge_indirect"]:
            b.op("dma_copy", inside, chosen_rows(table, which))
        else:
            with b.loop(count, "p") as p:
                b.op("dma_copy", sliced(inside, 0, p, 1), chosen_row(table, sliced(which, 0, p, 1)))
        _add_start(low, inside, which, kept, length)
        b.op("dma_copy", out, inside)

    with b.loop(rows, "r") as r:
        for at, count in tiled(b, k, low.target["limits.partitions"], "k"):
            some(r, at, count)


def _add_start(low: Lowering, inside: View, which: View, kept: int, length: int) -> None:
    """Add where the segment of a candidate starts to its position there."""
    b = low.b
    start = b.sbuf(which.sizes, uint32, "start", depth=2)
    b.op("tensor_scalar", start, which, kept.bit_length() - 1, op0="right_shift")
    if length & (length - 1):
        b.op("tensor_scalar", start, start, float(length), op0="multiply")
        b.op("tensor_tensor", inside, inside, start, op="add")
    else:
        # Bits that no sum in float32 would hold.
        b.op("tensor_scalar", start, start, length.bit_length() - 1, op0="left_shift")
        b.op("tensor_tensor", inside, inside, start, op="bitwise_or")
