"""Rows and columns that change places, block by block: by the Tensor engine, or by the Vector engine where that one
multiplies instead of passing elements through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, bfloat16, float32
from tilewright.lower.decisions import decision
from tilewright.lower.move.lay import lay
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.boxes import thought
from tilewright.lower.write.builder import TileBuilder, transposed
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import identity
from tilewright.lower.write.transfers import Moving, moving, transfer
from tilewright.lower.write.views import Affine, At, affine, as_type, permuted, picked, sliced, split
from tilewright.tile.memory import PSUM
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


@dataclass(frozen=True, slots=True)
class Turn:
    """Blocks through the Tensor engine: the dim that is dense in the source becomes the partition dim of the result.

    source is [*others, rows, columns], out [*others, columns, rows]; up to `most` of rows and columns are in work.
    What the Tensor engine does not pass through as it is, it passes through as another type.
    """

    low: Lowering
    source: View
    out: View
    through: DType
    most: int

    @classmethod
    def of(cls, low: Lowering, source: View, out: View) -> Turn | None:
        """Two dims that change places, where there are any that can be turned."""
        through = passed_as(low, out.dtype)
        across = next((d for d in range(source.ndim) if abs(source.strides[d]) == 1), None)
        along = next((d for d in range(out.ndim) if out.strides[d] == 1), None)
        if through is None or across is None or along is None or across == along:
            return None
        if source.strides[across] < 0:
            # Counted from the other end on both sides.
            source, out = (sliced(v, across, v.sizes[across] - 1, v.sizes[across], -1) for v in (source, out))
        others = [d for d in range(out.ndim) if d not in (across, along)]
        source, out = permuted(source, (*others, along, across)), permuted(out, (*others, across, along))
        if through.itemsize == out.dtype.itemsize:
            # The same bits.
            source, out = (as_type(view, through) for view in (source, out))
        return min((cls(low, source, out, through, most) for most in TUNING.macro), key=lambda turn: turn.ns)

    @property
    def ns(self) -> float:
        """About how long it takes."""
        *others, rows, columns = self.source.sizes
        height, width = min(rows, self.most), min(columns, self.most)
        trips = prod(others) * -(-rows // height) * -(-columns // width)
        load, store = self._moving(self.source, height, width), self._moving(self.out, width, height)
        turned = self._turning_ns(height, width)
        # A shorter block is a transfer of its own.
        lanes = self.low.target["limits.partitions"]
        issue = sum(m.issue_ns * (1 + (n > lanes and n % lanes > 0)) for m, n in ((load, height), (store, width)))
        once = load.ns + turned + store.ns
        busy = max(load.busy_ns + store.busy_ns, issue, load.queue_ns, store.queue_ns, turned)
        return once + (trips - 1) * max(busy, once / self._copies(height, width))

    def _copies(self, height: int, width: int) -> int:
        """Copies of the tiles of a loop that there is room for."""
        lanes, size = self.low.target["limits.partitions"], self.source.dtype.itemsize
        held = -(-height // lanes) * width + -(-width // lanes) * height
        return max(1, min(TUNING.copies, self.low.target["memory.sbuf_usable_bytes"] // 2 // (held * size)))

    def _moving(self, view: View, height: int, width: int) -> Moving:
        """Between HBM and a macro tile."""
        part = sliced(sliced(view, view.ndim - 2, 0, height), view.ndim - 1, 0, width)
        for _ in range(view.ndim - 2):
            part = picked(part, 0, 0)
        tile = thought(part.sizes, part.dtype)
        return moving(*((tile, part) if view is self.source else (part, tile)), self.low.target)

    def _turning_ns(self, height: int, width: int) -> float:
        """The time of the busiest engine for one macro tile."""
        b, target, dtype = self.low.b, self.low.target, self.through
        lanes, side = target["limits.partitions"], target["limits.transpose_vector_max"]
        if not target["features.transpose_bit_exact"]:
            square = thought((side, side), dtype)
            return -(-height // side) * -(-width // side) * b.cost_ns("nc_transpose", square, square, engine="vector")
        block, bank = thought((lanes, lanes), dtype), thought((lanes, lanes), float32, PSUM)
        turning = b.cost_ns("nc_matmul", bank, block, block, is_transpose=True, is_moving_onezero=True)
        # Two engines share the copies out of PSUM.
        copying = b.cost_ns("tensor_copy", block, bank, engine="vector") / 2
        return -(-height // lanes) * -(-width // lanes) * max(turning, copying)

    @decision("copy: turned on chip")
    def write(self) -> None:
        """Write it."""
        self._each(self.source, self.out)

    def _each(self, source: View, out: View) -> None:
        """[rows, columns] of the source as [columns, rows] of the result, for every index of the other dims."""
        if source.ndim > 2:
            with self.low.b.loop(source.sizes[0], "o") as at:
                self._each(picked(source, 0, at), picked(out, 0, at))
            return
        rows, columns = source.sizes
        for row, height in tiled(self.low.b, rows, self.most, "m"):
            for column, width in tiled(self.low.b, columns, self.most, "m"):
                part = sliced(sliced(source, 0, row, height), 1, column, width)
                into = sliced(sliced(out, 0, column, width), 1, row, height)
                self._macro(part, into)

    def _macro(self, part: View, into: View) -> None:
        """One macro tile: load, turn block by block, store."""
        height, width = part.sizes
        b, lanes, depth = self.low.b, self.low.target["limits.partitions"], self._copies(height, width)
        tile = b.sbuf((min(lanes, height), -(-height // lanes), width), part.dtype, "rows", depth)
        for held, there in by_blocks(tile, part):
            transfer(b, held, there)
        if part.dtype.itemsize != self.through.itemsize:
            tile, narrow = b.sbuf(tile.sizes, self.through, "wide", depth), tile
            lay(self.low, tile, narrow)
        turned = b.sbuf((min(lanes, width), -(-width // lanes), height), part.dtype, transposed(tile), depth)
        for i in range(tile.sizes[1]):
            count = min(lanes, height - i * lanes)
            turn_tile(self.low, sliced(turned, 2, i * lanes, count), sliced(picked(tile, 1, i), 0, 0, count), width)
        for held, there in by_blocks(turned, into):
            transfer(b, there, held)


def passed_as(low: Lowering, dtype: DType) -> DType | None:
    """The type as which the Tensor engine passes elements through exactly, or None where it does not."""
    if dtype in ("float32", "bfloat16", "float16"):
        return dtype
    if not low.target["features.transpose_bit_exact"]:
        return None
    # Numbers of 8 bits are numbers of bfloat16 too.
    return {4: float32, 2: bfloat16}.get(dtype.itemsize, bfloat16 if dtype in ("int8", "uint8") else None)


@decision("turn: by the Tensor engine")
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
        bank = low.b.psum((width, count, rows), dtype, transposed(tile, PSUM), depth=depth)
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


@decision("turn: by squares")
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


def load_as_it_lies(b: TileBuilder, tile: View, rows: View) -> None:
    """Rows of HBM into [lanes, blocks, ...], each element where it comes."""
    for held, there in by_blocks(tile, rows):
        b.op("dma_copy", held, there)


def blocks_of(tile: View, rows: int) -> Iterator[View]:
    """[lanes, blocks, ...] of so many rows, without the partitions that the last block leaves free."""
    whole, rest = divmod(rows, tile.sizes[0])
    if whole:
        yield sliced(tile, 1, 0, whole)
    if rest:
        yield sliced(sliced(tile, 1, whole, 1), 0, 0, rest)


def by_blocks(tile: View, rows: View) -> Iterator[tuple[View, View]]:
    """A tile [lanes, blocks, ...] and the rows of a view [n, ...] that belong there: whole blocks, a shorter one."""
    lanes = tile.sizes[0]
    whole, rest = divmod(rows.sizes[0], lanes)
    if whole:
        blocks = split(sliced(rows, 0, 0, whole * lanes), 0, (whole, lanes))
        yield sliced(tile, 1, 0, whole), permuted(blocks, (1, 0, *range(2, blocks.ndim)))
    if rest:
        yield sliced(picked(tile, 1, whole), 0, 0, rest), sliced(rows, 0, whole * lanes, rest)
