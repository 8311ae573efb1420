"""topk: eight at a time by max8, which gives the greatest, and nc_match_replace8, which says where they are and takes
them out.

What the instructions cannot tell apart is made different before: elements are searched by keys in float32, all of them
finite, so that -inf is free for what has been taken. In rows with infinities or NaN the keys are halves, between which
and the greatest float32 there is room for those. (Halving may make two subnormal numbers equal: next to infinities they
are in the order of their positions.) Values are fetched from the row by their positions.
    largest: NaN > inf > numbers > -inf > taken        of -x, for the least: -inf > numbers > inf > NaN > taken

Up to eight of the largest need nothing taken out: rows are searched as they are, and NaN by a mask of their own.
An axis longer than max8 takes is cut into segments; the best of each are searched again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import DType, bfloat16, float32, uint8, uint32
from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op, Value
from tilewright.lower.homes import Chip, Hbm, device_dtype
from tilewright.lower.join import fill_hbm
from tilewright.lower.loops import tiled
from tilewright.lower.search import match8, ones8
from tilewright.lower.tuning import FEW_ROWS, SEARCHED, SEGMENT
from tilewright.lower.views import At, permuted, picked, reshaped, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

MOST = float(np.finfo(np.float32).max)
UNROLLED = 8
"""Rounds of eight up to which they are written one after the other."""


def topk(low: Lowering, op: Op) -> None:
    """The k greatest or least along an axis, and their positions."""
    (x,) = op.operands
    k, axis, shape = op.attrs["k"], op.attrs["axis"], x.type.shape
    values, places = op.results
    if not values.type.size:
        for value in op.results:
            low.homes[value] = Hbm(_home(low, value))
        return
    pick = Picker(low, device_dtype(x.type.dtype), k, op.attrs["largest"], bool(values.uses), bool(places.uses), op)
    home = low.home(x)
    last = axis == len(shape) - 1
    if isinstance(home, Chip) and last and home.row_count * shape[axis] == prod(shape) and pick.fits(shape[axis]):
        _on_chip(low, op, pick, home)
        return
    rows = prod(shape) // shape[axis]
    source = reshaped(low.contiguous(x) if last else _turned(low, low.in_hbm(x), axis), (rows, shape[axis]))
    assert source is not None
    if last and pick.fits(shape[axis], rows) and any(_is_read_later(low, value) for value in op.results):
        if _keep(low, op, pick, source):
            return
    outs: list[View] = []
    for value in op.results:
        out = _home(low, value)
        low.homes[value] = Hbm(out)
        flat = reshaped(out, (rows, k)) if last else low.b.hbm((rows, k), out.dtype, "best")
        assert flat is not None
        outs.append(flat)
    select(low, pick, source, *outs)
    if not last:
        for value, flat in zip(op.results, outs, strict=True):
            if value.uses:
                kept = [n for d, n in enumerate(shape) if d != axis]
                shaped = reshaped(flat, (*kept, k))
                assert shaped is not None
                order = [*range(axis), len(kept), *range(axis, len(kept))]
                out = low.homes[value]
                assert isinstance(out, Hbm)
                low.store(Hbm(permuted(shaped, order)), out.view)


def _home(low: Lowering, value: Value) -> View:
    views = low.outputs.get(value)
    if views:
        return views[0]
    made = reshaped(low.b.hbm(value.type.shape or (1,), device_dtype(value.type.dtype), "best"), value.type.shape)
    assert made is not None
    return made


def _is_read_later(low: Lowering, value: Value) -> bool:
    return any(use is not low.program.output_op for use in value.uses)


def _turned(low: Lowering, view: View, axis: int) -> View:
    """A copy in HBM with the axis last."""
    order = (*[d for d in range(view.ndim) if d != axis], axis)
    made = low.b.hbm(tuple(view.sizes[d] for d in order), view.dtype, "turned")
    low.store(Hbm(permuted(view, order)), made)
    return made


# Where rows come from and where results go.


def _blocks(tile: View, rows: int) -> list[tuple[int, View]]:
    """(first block, part) of [lanes, blocks, ...] without the partitions that the last block leaves free."""
    lanes = tile.sizes[0]
    whole, rest = divmod(rows, lanes)
    parts: list[tuple[int, View]] = []
    if whole:
        parts.append((0, sliced(tile, 1, 0, whole)))
    if rest:
        parts.append((whole, sliced(sliced(tile, 1, whole, 1), 0, 0, rest)))
    return parts


def _on_chip(low: Lowering, op: Op, pick: Picker, home: Chip) -> None:
    """From rows on chip to rows on chip."""
    kept = _chips(low, op, home.rows, home.row_count)
    tile = reshaped(home.view, (*home.view.sizes[:2], home.shape[-1]))
    assert tile is not None
    for first, part in _blocks(tile, home.row_count):
        _copy(low, pick, kept, first, part)


def _chips(low: Lowering, op: Op, rows: tuple[int, int], count: int) -> list[View]:
    """Homes for the results, [lanes, blocks, k], with the rows of the operand."""
    lanes, made = low.target["limits.partitions"], []
    for value in op.results:
        shape, dtype = value.type.shape, device_dtype(value.type.dtype)
        view = low.b.sbuf((min(lanes, count), -(-count // lanes), shape[-1]), dtype, value.name or "best")
        free = reshaped(view, (*view.sizes[:2], *shape[: rows[0]], *shape[rows[1] :]))
        assert free is not None
        low.homes[value] = Chip(free, shape, rows)
        low.resident[value] = view.buffer.row_bytes
        made.append(view)
    return made


def _copy(low: Lowering, pick: Picker, kept: list[View], first: At, part: View) -> None:
    for view, best in zip(kept, pick.block(part), strict=True):
        if best is not None:
            into = sliced(sliced(view, 1, first, part.sizes[1]), 0, 0, part.sizes[0])
            low.b.op("tensor_copy", into, best)


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
    if not pick.fits(size, rows):
        _by_segments(low, pick, source, values, places)
        return
    lanes = low.target["limits.partitions"]
    whole, rest = divmod(rows, lanes)
    most = pick.blocks(size)
    each = whole if whole <= most else max(most // 2, 1)

    def some(start: At, height: int, blocks: int) -> None:
        found = pick.block(_load(low, source, start, height, blocks))
        for out, best in zip((values, places), found, strict=True):
            if best is not None:
                part = split(sliced(out, 0, start, height * blocks), 0, (blocks, height))
                low.b.op("dma_copy", permuted(part, (1, 0, 2)), best)

    for at, count in tiled(low.b, whole, each, "r") if whole else ():
        some(at * lanes, lanes, count)
    if rest:
        some(whole * lanes, rest, 1)


@dataclass(slots=True)
class Picker:
    """What is searched for, and how."""

    low: Lowering
    dtype: DType
    k: int
    largest: bool
    wants_values: bool
    wants_places: bool
    op: Op

    @property
    def width(self) -> int:
        """k in whole rounds."""
        return -(-self.k // self.low.target["limits.max8_width"]) * self.low.target["limits.max8_width"]

    @property
    def is_plain(self) -> bool:
        """Rows are searched as they are."""
        return self.largest and self.k <= self.low.target["limits.max8_width"] and self.dtype.is_float

    def fits(self, size: int, rows: int | None = None) -> bool:
        """True when rows of a size are searched as a whole."""
        if size > self.low.target["limits.max8_free_max"] or not self.blocks(size):
            return False
        return rows is None or rows >= FEW_ROWS or size <= SEGMENT or self._segments(rows, size) is None

    def blocks(self, size: int) -> int:
        """How many blocks of rows SBUF holds at once."""
        low = self.low
        taken = sum(low.resident.values()) + sum(view.buffer.row_bytes for view in low.shared.values())
        keys = bfloat16.itemsize + float32.itemsize if self.is_plain else float32.itemsize + uint8.itemsize
        each = size * (self.dtype.itemsize + keys) + self.width * 4 * float32.itemsize
        return min((low.target["memory.sbuf_usable_bytes"] - taken) // each, UNROLLED)

    def _segments(self, rows: int, size: int) -> tuple[int, int] | None:
        """(segments, candidates of each) into which a row is cut, or None where that leaves too many candidates."""
        lanes = self.low.target["limits.partitions"]
        least = -(-size // SEARCHED)
        wanted = max(lanes // rows, least)
        segments = next((n for n in range(wanted, least - 1, -1) if size % n == 0), wanted)
        kept = max(1 << (self.k - 1).bit_length(), self.low.target["limits.max8_width"])
        while segments > least and 2 * kept > size // segments:
            segments -= 1
        return (segments, kept) if segments > 1 and 2 * kept <= -(-size // segments) else None

    def segments(self, rows: int, size: int) -> tuple[int, int]:
        """The same where there must be segments."""
        found = self._segments(rows, size)
        if found is None:
            raise fail(
                "E501",
                f"topk of {self.k} of {size} elements: a row is longer than a partition can search, and cutting it "
                "leaves too many candidates",
                hint="search or sort shorter rows",
                location=self.op.location,
                error=TileNotImplementedError,
            )
        return found

    # One block of rows.

    def block(self, x: View) -> tuple[View | None, View | None]:
        """Values and positions of the best of each row of [lanes, blocks, size]: [lanes, blocks, k]."""
        values, places = self._plain(x) if self.is_plain else self._by_keys(x)
        return (
            None if values is None else sliced(values, 2, 0, self.k),
            sliced(places, 2, 0, self.k) if self.wants_places else None,
        )

    def _plain(self, x: View) -> tuple[View | None, View]:
        low, b = self.low, self.low.b
        lanes, blocks, _ = x.sizes
        x = _padded(low, x, float("-inf"))
        holes = b.sbuf(x.sizes, float32, "holes", depth=2)
        _mark_holes(low, holes, x)
        shape = (lanes, blocks, self.width)
        best, places, others = (b.sbuf(shape, t, "best", depth=2) for t in (float32, uint32, uint32))
        unread = b.sbuf((lanes, x.sizes[2]), bfloat16, "unread")
        for j in range(blocks):
            row, top, hole = picked(x, 1, j), picked(best, 1, j), picked(holes, 1, j)
            b.op("max8", top, row)
            match8(low, row, top, unread, place=picked(places, 1, j))
            match8(low, hole, ones8(low, lanes), hole, place=picked(others, 1, j))
        # NaN come first, in the order of their positions.
        some = b.sbuf(shape, uint8, "some", depth=2)
        _mark_holes(low, some, best)
        b.op("tensor_copy_predicated", places, others, some)
        if not self.wants_values or best.dtype is self.dtype:
            return (best if self.wants_values else None), places
        values = b.sbuf(shape, self.dtype, "values", depth=2)
        b.op("tensor_copy", values, best)
        return values, places

    def _by_keys(self, x: View) -> tuple[View | None, View]:
        low, b = self.low, self.low.b
        lanes, blocks, _ = x.sizes
        keys = self._keys(x)
        shape = (lanes, blocks, self.width)
        best, places = b.sbuf(shape, float32, "best", depth=2), b.sbuf(shape, uint32, "places", depth=2)
        eight = low.target["limits.max8_width"]
        for j in range(blocks):
            row, top, where = picked(keys, 1, j), picked(best, 1, j), picked(places, 1, j)
            rounds = self.width // eight
            if rounds <= UNROLLED:
                for i in range(rounds):
                    self._round(row, sliced(top, 1, i * eight, eight), sliced(where, 1, i * eight, eight))
            else:
                with b.loop(rounds, "k", eight) as at:
                    self._round(row, sliced(top, 1, at, eight), sliced(where, 1, at, eight))
        if not self.wants_values:
            return None, places
        values = b.sbuf((lanes, blocks, self.k), self.dtype, "values", depth=2)
        for j in range(blocks):
            b.op("nc_n_gather", picked(values, 1, j), picked(x, 1, j), sliced(picked(places, 1, j), 1, 0, self.k))
        return values, places

    def _round(self, row: View, top: View, where: View) -> None:
        """Eight more."""
        self.low.b.op("max8", top, row)
        match8(self.low, row, top, row, float("-inf"), where)

    def _keys(self, x: View) -> View:
        """[lanes, blocks, at least 8] in float32, greater where an element comes first, all finite."""
        low, b = self.low, self.low.b
        lanes, blocks, size = x.sizes
        wide = max(size, low.target["limits.max8_width"])
        whole = b.sbuf((lanes, blocks, wide), float32, "keys", depth=2)
        if wide > size:
            b.op("memset", whole, value=float("-inf"))
        keys = sliced(whole, 2, 0, size)
        if self.dtype.is_integer:
            b.op("tensor_scalar", keys, x, 1.0 if self.largest else -1.0, op0="multiply")
            return whole
        scale, bound = self._scales(x, keys)
        for j in range(blocks):
            limit = sliced(bound, 1, j, 1) if isinstance(bound, View) else bound
            b.op(
                "tensor_scalar",
                picked(keys, 1, j),
                picked(x, 1, j),
                sliced(scale, 1, j, 1),
                limit,
                op0="multiply",
                op1="minimum" if self.largest else "maximum",
            )
        if self.largest:
            b.op("tensor_scalar", keys, keys, -MOST, op0="maximum")
        holes = b.sbuf(x.sizes, uint8, "holes", depth=2)
        _mark_holes(low, holes, x)
        b.op("tensor_copy_predicated", keys, float("inf") if self.largest else -MOST, holes)
        return whole

    def _scales(self, x: View, keys: View) -> tuple[View, View | float]:
        """[lanes, blocks]: by what rows are multiplied, and the key of an infinity that comes last (of inf: first)."""
        b, (lanes, blocks, _) = self.low.b, x.sizes
        zero, scale = (b.sbuf((lanes, blocks), float32, name, depth=2) for name in ("zero", "scale"))
        for j in range(blocks):
            # 0 times an infinity or NaN is NaN, and so is the sum.
            row, total = picked(keys, 1, j), sliced(zero, 1, j, 1)
            b.op(
                "activation",
                row,
                picked(x, 1, j),
                None,
                0.0,
                total,
                op="copy",
                reduce_op="add",
                reduce_cmd="reset_reduce",
            )
        # 1 where all are numbers, else 1/2
        b.op("tensor_tensor", scale, zero, zero, op="equal")
        b.op("tensor_scalar", scale, scale, 0.5, 0.5, op0="multiply", op1="add")
        if self.largest:
            return scale, MOST
        bound, quarter = (b.sbuf((lanes, blocks), float32, name, depth=2) for name in ("bound", "quarter"))
        b.op("tensor_scalar", bound, scale, -MOST, op0="multiply")
        b.op("tensor_tensor", quarter, scale, scale, op="multiply")
        b.op("tensor_scalar", quarter, quarter, -1.0, op0="multiply")
        return quarter, bound


def _mark_holes(low: Lowering, out: View, x: View) -> None:
    """1 where there is NaN, else 0: NaN is the only number that is not at most infinity."""
    low.b.op("tensor_scalar", out, x, float("inf"), 0.0, op0="less_equal", op1="equal")


def _padded(low: Lowering, x: View, fill: float) -> View:
    """Rows of at least eight elements."""
    width = low.target["limits.max8_width"]
    if x.sizes[2] >= width:
        return x
    made = low.b.sbuf((*x.sizes[:2], width), float32, "wide", depth=2)
    low.b.op("memset", made, value=fill)
    low.b.op("tensor_copy", sliced(made, 2, 0, x.sizes[2]), x)
    return made


# Long rows.


def _by_segments(low: Lowering, pick: Picker, source: View, values: View, places: View) -> None:
    """The best of each segment, then the best of those."""
    rows, size = source.sizes
    segments, kept = pick.segments(rows, size)
    length = -(-size // segments)
    if length * segments != size:
        wide = low.b.hbm((rows, length * segments), source.dtype, "wide")
        low.store(Hbm(source), sliced(wide, 1, 0, size))
        fill_hbm(low, sliced(wide, 1, size, length * segments - size), _last(pick))
        source = wide
    parts = reshaped(source, (rows * segments, length))
    assert parts is not None
    inner = Picker(low, pick.dtype, kept, pick.largest, True, True, pick.op)
    best = low.b.hbm((rows * segments, kept), source.dtype, "best")
    where = low.b.hbm((rows * segments, kept), uint32, "where")
    select(low, inner, parts, best, where)
    candidates, found = (reshaped(v, (rows, segments * kept)) for v in (best, where))
    assert candidates is not None and found is not None
    chosen = low.b.hbm((rows, pick.k), uint32, "chosen")
    outer = Picker(low, pick.dtype, pick.k, pick.largest, pick.wants_values, True, pick.op)
    select(low, outer, candidates, values, chosen)
    if pick.wants_places:
        _resolve(low, chosen, found, places, kept, length)


def _last(pick: Picker) -> float:
    """A number that comes after all others (or with them, but behind)."""
    if pick.dtype.is_integer:
        return pick.dtype.min if pick.largest else pick.dtype.max
    return float("-inf") if pick.largest else float("nan")


def _resolve(low: Lowering, chosen: View, found: View, places: View, kept: int, length: int) -> None:
    """Positions among candidates become positions in the row: that in the segment, and where the segment starts."""
    b, (rows, k) = low.b, chosen.sizes
    for at, count in tiled(b, rows, low.target["limits.partitions"], "r"):
        which, table = (b.sbuf((count, v.sizes[1]), uint32, "row", depth=2) for v in (chosen, found))
        b.op("dma_copy", which, sliced(chosen, 0, at, count))
        b.op("dma_copy", table, sliced(found, 0, at, count))
        inside, start = (b.sbuf((count, k), uint32, name, depth=2) for name in ("inside", "start"))
        b.op("nc_n_gather", inside, table, which)
        b.op("tensor_scalar", start, which, kept.bit_length() - 1, op0="right_shift")
        b.op("tensor_scalar", start, start, float(length), op0="multiply")
        b.op("tensor_tensor", inside, inside, start, op="add")
        b.op("dma_copy", sliced(places, 0, at, count), inside)
