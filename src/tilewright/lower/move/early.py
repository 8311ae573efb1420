"""Rows of small operands, loaded for all blocks before the loop over them.

A transfer takes the time of its issue however little it brings: where a block's rows are few bytes, a few transfers
bring those of all blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Region, Value
from tilewright.lower.decisions import decision
from tilewright.lower.move.moves import load_rows
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.select.select import ALU, Twin
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.views import affine, dropped, picked, sliced
from tilewright.target import Target
from tilewright.tile.dma import descriptor_ns
from tilewright.tile.memory import PSUM, Buffer
from tilewright.tile.ops import ALLOC
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.nest.operands import Operands
    from tilewright.lower.regions.roles import Roles


def least_transfer(target: Target) -> int:
    """Bytes that move while the next transfer is issued: smaller ones leave bandwidth unused."""
    return int(target["dma.core_interval_ns"] * target["dma.core_bandwidth"])


class Early:
    """What is loaded before the loop over the rows of a group."""

    def __init__(self, e: Operands) -> None:
        self.e, self.b = e, e.b
        self.mark: tuple[Region, int, int, int] | None = None
        self.tiles: dict[tuple, View] = {}

    def begin(self) -> None:
        """What is loaded early stands here: after what the first product reads, before what the others do."""
        if self.mark is not None:
            return
        self.mark = self.b.region, len(self.b.region.ops) - self._shift(self.b.region), self.b._depth, self.b.times

    def end(self) -> None:
        """Other loops begin."""
        self.mark = None
        self.tiles.clear()

    def _shift(self, region: Region) -> int:
        """Ops that have been put before all others: places in the kernel's body are counted without them."""
        return self.b.at_start if region is self.b.graph.body else 0

    @contextmanager
    def before(self) -> Iterator[None]:
        """Write before the loop over rows, wherever in it one is."""
        b = self.b
        assert self.mark is not None
        outer = b.region, b._depth, b.times
        region, position, b._depth, b.times = self.mark
        b.region, count = region, len(region.ops) - self._shift(region)
        yield
        shift = self._shift(region)
        new, at = region.ops[count + shift :], position + shift
        region.ops[:] = [*region.ops[:at], *new, *region.ops[at : count + shift]]
        self.mark = region, position + len(new), b._depth, b.times
        b.region, b._depth, b.times = outer

    @decision("load: before the loop", if_found=True)
    def rows(self, x: Value, view: View, roles: Roles) -> View | None:
        """[lanes, blocks, *free]: all rows of an operand `view` in HBM, or None where each block loads its own."""
        e = self.e
        key = (x, roles.rows, roles.batch)
        if affine(e.block.start) != affine(e.block.number) * e.lanes:
            # What is left of rows that share partitions.
            return None
        found = self.tiles.get(key)
        if found is not None or self.mark is None:
            return found
        count, lanes = e.group.rows, e.lanes
        blocks = -(-count // lanes)
        free = [x.type.shape[d] for d in roles.free_dims(x.type.rank)]
        row_bytes, least = prod(free) * view.dtype.itemsize, least_transfer(e.low.target)
        if e.low.frugal or not e.block.is_plain or blocks == 1 or prod(x.type.shape[slice(*roles.rows)]) != count:
            return None
        if lanes * row_bytes >= least or blocks * row_bytes > min(TUNING.part_bytes, self._room()):
            return None
        if row_bytes < e.low.target["dma.efficient_bytes_severe"] and prod(e.group.batch) == 1:
            # A transfer of such pieces takes long: the first block is not to wait for those of all, unless that is
            # little beside the issue of all transfers. In a loop around the rows the next trip's are on their way
            # meanwhile.
            pieces_ns = count * descriptor_ns(e.low.target, row_bytes) / e.low.target["dma.engines_per_core"]
            if TUNING.early_times * pieces_ns > blocks * e.low.target["dma.core_interval_ns"]:
                return None
        with self.before():
            source = dropped(e.all_rows(view, roles), 1)
            tile = self.b.sbuf((lanes, blocks, *free), view.dtype, x.name or "x", depth=e.depth)
            each = -(-least // (lanes * row_bytes))
            for first, some in self._pieces(blocks, each):
                rows = min(some * lanes, count - first * lanes)
                load_rows(e.low, sliced(tile, 1, first, some), sliced(source, 0, first * lanes, rows))
        self.tiles[key] = tile
        if self._is_spread(x, blocks * row_bytes):
            buffer = tile.buffer
            twin = Buffer(buffer.dtype, buffer.shape, PSUM, buffer.name, None, 1, self.b.location)
            e.select.twins[buffer] = Twin(twin, lambda: self._make_twin(tile, twin))
        return tile

    def _room(self) -> int:
        """Bytes per partition that are left for what is loaded early."""
        return self.e.low.room() - sum(tile.buffer.row_bytes for tile in self.tiles.values())

    def _make_twin(self, tile: View, twin: Buffer) -> None:
        """Copy what was loaded to PSUM."""
        lanes, blocks = tile.sizes[:2]
        whole, rest = divmod(self.e.group.rows, lanes)
        made = View(twin, tile.dtype, tile.offset, tile.sizes, tile.strides)
        with self.before():
            self.b.region.append(Op(ALLOC, (), (twin,), location=self.b.location))
            if whole:
                self.e.select.copy(sliced(made, 1, 0, whole), sliced(tile, 1, 0, whole))
            if rest:
                last = (sliced(picked(view, 1, blocks - 1), 0, 0, rest) for view in (made, tile))
                self.e.select.copy(*last)

    def _pieces(self, blocks: int, each: int) -> list[tuple[int, int]]:
        """(first, count) of the blocks that each transfer brings."""
        if self.e.causal is not None:
            # The last blocks are in work first.
            return [(first, min(each, blocks - first)) for first in reversed(range(0, blocks, each))]
        if blocks <= each:
            return [(0, blocks)]
        # The first block waits for its own rows alone.
        return [(0, 1), *[(first, min(each, blocks - first)) for first in range(1, blocks, each)]]

    def _is_spread(self, x: Value, row_bytes: int) -> bool:
        """True for a small operand that is read again and again beside full tiles: from PSUM the Vector engine reads it
        at no cost."""
        e = self.e
        if x.type.dtype is not float32 or row_bytes > e.low.target["memory.psum_bank_bytes"]:
            return False
        if any(op.name in PRODUCTS for op in e.group.ops):
            return False
        readers = [op for op in e.group.ops if x in op.operands]
        return all(op.name in ALU and op.result.type.size > x.type.size for op in readers)
