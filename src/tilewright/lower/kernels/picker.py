"""The best of each row of a block: eight at a time by max8, which gives the greatest, and nc_match_replace8, which says
where they are and takes them out.

What the instructions cannot tell apart is made different before: elements are searched by keys in float32, all of them
finite, so that -inf is free for what has been taken. In rows with infinities or NaN the keys are halves, between which
and the greatest float32 there is room for those. (Halving may make two subnormal numbers equal: next to infinities they
are in the order of their positions.) Values are fetched from the row by their positions.
    largest: NaN > inf > numbers > -inf > taken        of -x, for the least: -inf > numbers > inf > NaN > taken

Up to eight of the largest need nothing taken out: rows are searched as they are, and NaN by a mask of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import DType, bfloat16, float32, uint8, uint32
from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op
from tilewright.lower.decisions import decision
from tilewright.lower.kernels.search import match8, ones8
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.patterns import column_numbers
from tilewright.lower.write.views import as_shape, broadcast, expanded, picked, sliced, split
from tilewright.tensor.ranges import Range
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

MOST = float(np.finfo(np.float32).max)


def chunk_size(size: int) -> int:
    """Elements that pass by at a time while each counts those before it: a few chunks, none too long."""
    return min(TUNING.searched, max(TUNING.segment, -(-size // TUNING.picked_chunks)))


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
    numbers: Range | None = None
    """Between which integers all elements lie, where that is known."""
    is_wide: bool = False
    """Elements are integers that float32 does not hold: they are sorted as they are."""

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
        return rows is None or rows >= TUNING.few_rows or size <= TUNING.segment or self._segments(rows, size) is None

    def blocks(self, size: int) -> int:
        """How many blocks of rows SBUF holds at once."""
        low = self.low
        taken = sum(low.resident.values()) + sum(view.buffer.row_bytes for view in low.shared.values())
        keys = bfloat16.itemsize + float32.itemsize if self.is_plain else float32.itemsize + uint8.itemsize
        each = size * (self.dtype.itemsize + keys) + self.width * 4 * float32.itemsize
        return min((low.target["memory.sbuf_usable_bytes"] - taken) // each, TUNING.picked_unrolled)

    def _segments(self, rows: int, size: int) -> tuple[int, int] | None:
        """(segments, candidates of each) into which a row is cut, or None where that leaves too many candidates."""
        lanes = self.low.target["limits.partitions"]
        least = -(-size // TUNING.searched)
        wanted = max(lanes // rows, least)
        segments = next((n for n in range(wanted, least - 1, -1) if size % n == 0), wanted)
        kept = max(1 << (self.k - 1).bit_length(), self.low.target["limits.max8_width"])
        while segments > least and 2 * kept > size // segments:
            segments -= 1
        return (segments, kept) if segments > 1 and 2 * kept <= -(-size // segments) else None

    def counts(self, rows: int, size: int) -> bool:
        """True where it takes less time that each element counts those before it, or nothing else is possible."""
        if size > TUNING.longest_picked or self._segments(rows, size) is not None:
            return False
        return not self.fits(size) or self._counted_ns(rows, size) < self._searched_ns(rows, size)

    def time_ns(self, rows: int, size: int) -> float:
        """About how long searching or counting takes."""
        cut = None if self.fits(size, rows) else self._segments(rows, size)
        if cut is not None:
            count, kept = cut
            parts = Picker(self.low, self.dtype, kept, self.largest, True, True, self.op)
            return parts._searched_ns(rows * count, -(-size // count)) + self._searched_ns(rows, count * kept)
        counted = self._counted_ns(rows, size) if size <= TUNING.longest_picked else inf
        return min(counted, self._searched_ns(rows, size) if self.fits(size) else inf)

    def _searched_ns(self, rows: int, size: int) -> float:
        target = self.low.target
        _, cycles = self._grouped(size)
        return -(-rows // target["limits.partitions"]) * cycles / target["clock_ghz.vector"]

    def _counted_ns(self, rows: int, size: int) -> float:
        target = self.low.target
        blocks = -(-size // target["limits.partitions"])
        sent = blocks if target["features.swdge_indirect"] else size
        # Its own chunk passes by an element five times as long as others do.
        passed = (
            size + 5 * min(size, chunk_size(size)) + target["vector.overhead_cycles.other"] * -(-size // TUNING.segment)
        )
        return rows * (blocks * passed / target["clock_ghz.vector"] + 2 * sent * target["dma.core_interval_ns"])

    def segments(self, rows: int, size: int, longest: int) -> tuple[int, int]:
        """The same where there must be segments.    longest: elements of the longest row that can be sorted."""
        found = self._segments(rows, size)
        if found is None:
            raise fail(
                "E501",
                f"topk of {self.k} of {size} elements: a row is longer than a partition can search, and cutting it "
                "leaves too many candidates",
                hint="search or sort shorter rows: parts of up to "
                f"{longest:,} elements are sorted on {self.low.target.name}",
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

    @decision("search: eight at a time")
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

    @decision("search: by keys")
    def _by_keys(self, x: View) -> tuple[View | None, View]:
        b = self.low.b
        lanes, blocks, size = x.sizes
        group = self.group_size(size)
        keys = self.keys(x, group)
        shape = (lanes, blocks, self.width)
        best, places = b.sbuf(shape, float32, "best", depth=2), b.sbuf(shape, uint32, "places", depth=2)
        for j in range(blocks):
            row, top, where = picked(keys, 1, j), picked(best, 1, j), picked(places, 1, j)
            if group > 1:
                self._by_groups(row, group, top, where)
            else:
                self._rounds(row, top, where)
        if not self.wants_values:
            return None, places
        values = b.sbuf((lanes, blocks, self.k), self.dtype, "values", depth=2)
        for j in range(blocks):
            b.op("nc_n_gather", picked(values, 1, j), picked(x, 1, j), sliced(picked(places, 1, j), 1, 0, self.k))
        return values, places

    def group_size(self, size: int) -> int:
        """How many neighbours are searched by their greatest first; 1 where that does not save time."""
        return self._grouped(size)[0]

    def _grouped(self, size: int) -> tuple[int, float]:
        """The same, and the cycles that a block of rows takes."""
        target, width = self.low.target, self.width
        rounds, each = 2 * width // target["limits.max8_width"], target["vector.overhead_cycles.max8"]
        best, cost = 1, float(rounds * (size + each))
        for group in TUNING.picked_groups if cost > TUNING.picked_worth else ():
            groups = size // group
            taken = (1 + TUNING.picked_gain) * (
                size + rounds * (groups + width + width * group + 3 * each) + 4 * width * group
            )
            if groups >= 2 * width and taken < cost:
                best, cost = group, taken
        return best, cost

    @decision("search: by groups")
    def _by_groups(self, row: View, group: int, top: View, where: View) -> None:
        """The same by groups of neighbours: the best are in those whose greatest are best, as many as are wanted.

        Chosen groups are searched in the order of their positions, so that of equal elements the first is found.
        """
        b, lanes, width = self.low.b, row.sizes[0], self.width
        groups = split(row, 1, (row.sizes[1] // group, group))
        greatest = b.sbuf((lanes, groups.sizes[1]), float32, "greatest", depth=2)
        b.op("tensor_reduce", greatest, groups, op="maximum", axis=(-1,))
        chosen, order, sorted_ = (b.sbuf((lanes, width), t, "chosen", depth=2) for t in (uint32, float32, float32))
        self._rounds(greatest, top, chosen)
        b.op("tensor_scalar", order, chosen, -1.0, op0="multiply")
        self._rounds(order, sorted_, where)
        members = b.sbuf((lanes, width, group), uint32, "members", depth=2)
        b.op("tensor_scalar", sorted_, sorted_, -float(group), op0="multiply")
        ramp = sliced(column_numbers(self.low, group), 0, 0, lanes)
        wide = [broadcast(view, members.sizes) for view in (expanded(sorted_, 2), expanded(ramp, 1))]
        b.op("tensor_tensor", members, *wide, op="add", engine="vector")
        flat = as_shape(members, (lanes, width * group))
        near, found = b.sbuf(flat.sizes, float32, "near", depth=2), b.sbuf((lanes, width), uint32, "found", depth=2)
        b.op("nc_n_gather", near, row, flat)
        self._rounds(near, top, found)
        b.op("nc_n_gather", where, flat, found)

    def _rounds(self, row: View, top: View, where: View) -> None:
        """All that are wanted, eight at a time."""
        eight = self.low.target["limits.max8_width"]
        rounds = self.width // eight
        if rounds <= TUNING.picked_unrolled:
            for i in range(rounds):
                self._round(row, sliced(top, 1, i * eight, eight), sliced(where, 1, i * eight, eight))
            return
        with self.low.b.loop(rounds, "k", eight) as at:
            self._round(row, sliced(top, 1, at, eight), sliced(where, 1, at, eight))

    def _round(self, row: View, top: View, where: View) -> None:
        """Eight more."""
        self.low.b.op("max8", top, row)
        match8(self.low, row, top, row, float("-inf"), where)

    def keys(self, x: View, group: int = 1) -> View:
        """[lanes, blocks, at least 8] in float32, greater where an element comes first, all finite.

        -inf fills up the last group of so many.
        """
        low, b = self.low, self.low.b
        lanes, blocks, size = x.sizes
        wide = -(-max(size, low.target["limits.max8_width"]) // group) * group
        whole = b.sbuf((lanes, blocks, wide), float32, "keys", depth=2)
        if wide > size:
            b.op("memset", sliced(whole, 2, size, wide - size), value=float("-inf"))
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
        # The engine that finds the best has enough to do.
        if low.target["features.port_vector_gpsimd_sbuf"]:
            _mark_holes(low, holes, x)
        else:
            b.op("tensor_tensor", holes, x, x, op="not_equal", engine="gpsimd")
        b.op("tensor_copy_predicated", keys, float("inf") if self.largest else -MOST, holes)
        return whole

    def _scales(self, x: View, keys: View) -> tuple[View, View | float]:
        """[lanes, blocks]: by what rows are multiplied, and the key of an infinity that comes last (of inf: first)."""
        b, (lanes, blocks, _) = self.low.b, x.sizes
        zero, scale = self.flags(x, keys), b.sbuf((lanes, blocks), float32, "scale", depth=2)
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

    def flags(self, x: View, keys: View) -> View:
        """[lanes, blocks]: 0 for rows of numbers, NaN for those with infinities or NaN; writes over the keys."""
        b, (lanes, blocks, _) = self.low.b, x.sizes
        zero = b.sbuf((lanes, blocks), float32, "zero", depth=2)
        for j in range(blocks):
            # 0 times an infinity or NaN is NaN, and so is the sum.
            b.op(
                "activation",
                picked(keys, 1, j),
                picked(x, 1, j),
                None,
                0.0,
                sliced(zero, 1, j, 1),
                op="copy",
                reduce_op="add",
                reduce_cmd="reset_reduce",
            )
        return zero


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
