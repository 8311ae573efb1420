"""Sums over the rows of floats: the Tensor engine adds up partitions and rows at once, in PSUM.

The Vector engine and GpSimd add rows to each other before where the Tensor engine would not keep up with the loads. The
last rows come in ever smaller pieces, so that little is left to add when all of them are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float16, float32
from tilewright.lower.decisions import decision
from tilewright.lower.move.copy import by_block
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.views import At, picked, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

SUMMED = (float32, bfloat16, float16)
"""Types whose rows the Tensor engine reads as they are."""


class RowSums:
    """Adds up some columns of all rows into banks of PSUM."""

    def __init__(self, low: Lowering, rows: View, row_count: int) -> None:
        self.low, self.b = low, low.b
        self.rows = rows
        """[rows, width] in HBM, or [partitions, blocks, width] on chip."""
        self.count = row_count
        self.lanes = min(low.target["limits.partitions"], row_count)
        self.width = rows.sizes[-1]
        self.bank = low.target["memory.psum_bank_bytes"] // float32.itemsize
        self.ones = self.b.sbuf((self.lanes, 1), rows.dtype, "ones")
        self.b.op("memset", self.ones, value=1.0)
        self.banks = [self.b.psum((1, count), float32, "total") for _, count in self._columns()]

    @decision("reduce rows: sums by products")
    def run(self) -> View:
        """[1, width] in float32."""
        if self.rows.on_chip:
            for at, height in tiled(self.b, self.count, self.lanes, "r"):
                self._add(sliced(picked(self.rows, 1, by_block(at, self.lanes)), 0, 0, height))
        else:
            self._load_all()
        out = self.b.sbuf((1, self.width), float32, "row", depth=2)
        for (start, count), bank in zip(self._columns(), self.banks, strict=True):
            self.low.evict(sliced(out, 1, start, count), bank)
        return out

    def _columns(self) -> list[tuple[int, int]]:
        """(start, count) of what each bank holds."""
        return [(at, min(self.bank, self.width - at)) for at in range(0, self.width, self.bank)]

    def _load_all(self) -> None:
        blocks, rest = divmod(self.count, self.lanes)
        most = max(1, TUNING.tile_bytes // (self.width * self.rows.dtype.itemsize))
        per = 1
        while per * 2 <= min(most, blocks):
            per *= 2
        slots = min(TUNING.copies, -(-blocks // per))
        ring = self.b.sbuf((self.lanes, slots, per, self.width), self.rows.dtype, "rows")
        # Whole rounds in a loop; the last piece is left to be cut. A place of its own would be filled too early.
        trips = (blocks // per - 1) // slots
        with self.b.loop(max(trips, 1), "r", slots * per * self.lanes) as at:
            for slot in range(slots if trips else 0):
                self._piece(picked(ring, 1, slot), at + slot * per * self.lanes)
        done, left, slot = trips * slots * per, blocks - trips * slots * per, 0
        while left > per:
            self._piece(picked(ring, 1, slot), done * self.lanes)
            done, left, slot = done + per, left - per, (slot + 1) % slots
        last, at = picked(ring, 1, slot), 0
        while left:
            each = max(left // 2, 1)
            self._piece(sliced(last, 1, at, each), done * self.lanes)
            done, left, at = done + each, left - each, at + each
        if rest:
            tile = sliced(last, 1, at, 1) if at < per else sliced(picked(ring, 1, (slot + 1) % slots), 1, 0, 1)
            self._piece(sliced(tile, 0, 0, rest), done * self.lanes)

    def _piece(self, tile: View, at: At) -> None:
        """Rows from here on, as many to each partition as the tile has: loaded, and added."""
        lanes, per, _ = tile.sizes
        self.b.op("dma_copy", tile, split(sliced(self.rows, 0, at, lanes * per), 0, (lanes, per)))
        while per > 1 and tile.dtype is float32 and self._is_late(tile, per):
            half = per // 2
            low, high = sliced(tile, 1, 0, half), sliced(tile, 1, per - half, half)
            self.low.selecting.split("add", low, low, high)
            per -= half
        for i in range(per):
            self._add(picked(tile, 1, i))

    def _is_late(self, tile: View, per: int) -> bool:
        """True when the Tensor engine would take too much of the time of the load for so many rows."""
        load_ns = tile.nbytes / self.low.target["dma.core_bandwidth"]
        row = picked(tile, 1, 0)
        cost = sum(self.b.cost_ns("nc_matmul", *each, is_stationary_onezero=True) for each in self._products(row))
        return per * cost > TUNING.tensor_share * load_ns

    def _add(self, row: View) -> None:
        """A row of every partition into the banks."""
        for operands in self._products(row):
            self.b.op("nc_matmul", *operands, is_stationary_onezero=True)

    def _products(self, row: View) -> list[tuple[View, View, View]]:
        ones = sliced(self.ones, 0, 0, row.sizes[0])
        spans = zip(self._columns(), self.banks, strict=True)
        return [(bank, ones, sliced(row, 1, start, count)) for (start, count), bank in spans]
