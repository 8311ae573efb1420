"""Rows of a table by run-time indices, where the table lies on chip with its columns on partitions: each partition
looks up elements of its own column, and what it found is turned back into rows.

    out[p, n, :] = table[places[p, n], :]

A narrow table lies there several times, and each copy is asked for other places. One with too many rows lies there in
sections, each on other partitions, of 2 ** k rows: all sections are asked for the last k bits of a place, and the bits
before them choose from what they found. The Tensor engine turns the table, once; the places, so that every partition
of a copy has those that its copy is asked for; and what was found. Where it multiplies by an identity instead of
passing elements through, the Vector engine turns all but places, small square by small square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import DType, float32, uint8, uint32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.counting import in_lines, laid
from tilewright.lower.indexed.indices import check, columns, is_checked, table_of, wrapped
from tilewright.lower.move.copy import passed_as
from tilewright.lower.move.join import result_in_hbm
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.block import flat
from tilewright.lower.write.builder import transposed
from tilewright.lower.write.homes import Chip, device_dtype
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import identity
from tilewright.lower.write.views import (
    Affine,
    At,
    affine,
    as_shape,
    as_type,
    broadcast,
    expanded,
    permuted,
    picked,
    reshaped,
    sliced,
    split,
)
from tilewright.target import Target
from tilewright.tensor.ranges import EXACT
from tilewright.tile.dma import descriptor_ns
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

IN_WORK = 6
"""Banks of PSUM in bytes: what places and rows in work take beside a table, each twice."""


def sections_of(low: Lowering, op: Op) -> list[int]:
    """In how many sections the table of a take may lie on chip by columns, the fewest first; none where it cannot."""
    x, target = op.operands[0], low.target
    dtype = device_dtype(x.type.dtype)
    through = passed_as(low, dtype)
    if op.attrs["axis"] != 0 or through is None:
        return []
    if through.itemsize != dtype.itemsize or not op.result.type.size or not 0 < x.type.shape[0] <= EXACT:
        return []
    left = target["memory.sbuf_usable_bytes"] - sum(low.resident.values()) - IN_WORK * target["memory.psum_bank_bytes"]
    rows, each = x.type.shape[0], _parts(target, x) * dtype.itemsize
    found = [1] if rows * each <= left else []
    for bits in reversed(range(1, rows.bit_length())):
        count = -(-rows // (1 << bits))
        if count > _copies(target, x):
            break
        if count > 1 and each << bits <= left and count not in found:
            found.append(count)
    return found


def _parts(target: Target, x: Value) -> int:
    """How many columns of a table lie on the busiest partition."""
    return -(-prod(x.type.shape[1:]) // target["limits.partitions"])


def _copies(target: Target, x: Value) -> int:
    """How often the columns of a table fit on the partitions; squares begin at some of those alone."""
    width = prod(x.type.shape[1:])
    fits = target["features.transpose_bit_exact"] or width % target["limits.transpose_vector_max"] == 0
    return max(target["limits.partitions"] // width, 1) if fits else 1


def columns_ns(low: Lowering, op: Op) -> float:
    """About how long it takes to turn the table and to look everything up; infinity where it cannot lie on chip."""
    (x, index), target, sections = op.operands, low.target, sections_of(low, op)
    if not sections:
        return inf
    parts, copies, lanes = _parts(target, x), _copies(target, x) // sections[0], target["limits.partitions"]
    rows, each = x.type.shape[0], target["memory.psum_bank_bytes"] // float32.itemsize
    columns = lanes * -(-index.type.size // (lanes * copies))
    cycles = target["gpsimd.cycles_per_element.n_gather"] + target["gpsimd.fixed_cycles"] / each
    looked_up = parts * columns * cycles / target["clock_ghz.gpsimd"]
    beside = max(each // lanes, 1)
    run = beside * prod(x.type.shape[1:]) * device_dtype(x.type.dtype).itemsize
    loaded = rows / beside * descriptor_ns(target, run, "dma.queue_descriptor_ns") / target["dma.engines_per_core"]
    turned = max(loaded, parts * rows / sections[0] / target["clock_ghz.vector"])
    if not target["features.transpose_bit_exact"]:
        side = target["limits.transpose_vector_max"]
        square = (target["vector.overhead_cycles.other"] + side) / target["clock_ghz.vector"]
        turned += parts * rows / sections[0] / side * lanes / side * square
        looked_up = max(looked_up, parts * columns / side * lanes / side * square)
    # Before the first row is there and after the last one, and a bank's way through all engines.
    start = 2 * (target["dma.static_start_ns"] + target["dma.completion_ns"]) + target["dma.swdge_indirect_block_ns"]
    passing = each * (cycles / target["clock_ghz.gpsimd"] + 2 / target["clock_ghz.vector"])
    return start + turned + looked_up + passing


@dataclass(slots=True)
class Columns:
    """Some neighbouring columns of a table, [sections * copies * width, rows of a section]."""

    tile: View
    first: int
    width: int


def _depth(at: At) -> int:
    """In a loop of its own two banks take turns; by itself each has one for as long as it needs it."""
    return 2 if affine(at).terms else 1


class ColumnTable:
    """A table with its columns on partitions."""

    def __init__(self, low: Lowering, x: Value, sections: int) -> None:
        self.low, self.b = low, low.b
        self.lanes: int = low.target["limits.partitions"]
        self.is_exact: bool = low.target["features.transpose_bit_exact"]
        self.rows, self.width, self.sections = x.type.shape[0], prod(x.type.shape[1:]), sections
        self.copies = _copies(low.target, x) // sections
        self.bits = (-(-self.rows // sections) - 1).bit_length()
        self.high = self.rows if sections == 1 else 1 << self.bits
        """Rows of a section."""
        self.depth = 1
        """Banks of PSUM that take turns."""
        view = reshaped(table_of(low, x), (self.rows, self.width)) or reshaped(
            low.contiguous(x), (self.rows, self.width)
        )
        through = passed_as(low, device_dtype(x.type.dtype))
        assert view is not None and through is not None and self.copies > 0 and (sections - 1) * self.high < self.rows
        self.dtype = through
        source = as_type(view, through)
        self.parts = [
            self._kept(x, sliced(source, 1, at, min(self.lanes, self.width - at)), at)
            for at in range(0, self.width, self.lanes)
        ]

    @property
    def bytes(self) -> int:
        """What it takes of a partition."""
        return len(self.parts) * self.high * self.dtype.itemsize

    @property
    def _bank(self) -> DType:
        """The type in which the Tensor engine passes elements of the table on."""
        narrow = self.dtype.itemsize == 2 and self.low.target["features.transpose_16bit_psum"]
        return self.dtype if narrow else float32

    @property
    def _each(self) -> int:
        """Blocks of partitions, or of places, that are in a bank of PSUM at a time."""
        return max(self.low.target["memory.psum_bank_bytes"] // float32.itemsize // self.lanes, 1)

    def _kept(self, x: Value, source: View, first: int) -> Columns:
        """Columns of the table, which stay on chip as long as others take from it and there is room."""
        key, shared = ("shared", x, f"columns from {first} on in {self.sections} sections"), self.low.shared
        if key in shared and self.b.sees(shared[key].buffer):
            return Columns(shared[key], first, source.sizes[1])
        made = self._turned(source, first)
        later = [use for use in x.uses if use.name == "take" and use not in self.low.done]
        if len(later) > 1 and not self.b.is_in_loop:
            shared[key] = made.tile
        return made

    @decision("take: a table turned")
    def _turned(self, source: View, first: int) -> Columns:
        """Columns of the table: rows that all sections have, then those that the last one lacks, where it has zeros."""
        width = source.sizes[1]
        made = self.b.sbuf((self.sections * self.copies * width, self.high), self.dtype, "columns")
        common = self.rows - (self.sections - 1) * self.high
        if common < self.high:
            self.b.op("memset", sliced(made, 1, common, self.high - common), value=0.0)
        self._turn_rows(source, made, 0, common, self.sections)
        if common < self.high:
            self._turn_rows(source, made, common, self.high, self.sections - 1)
        return Columns(made, first, width)

    def _turn_rows(self, source: View, made: View, start: int, stop: int, sections: int) -> None:
        """Rows of some sections: as many neighbours in each partition as a bank of PSUM has blocks, then the rest."""
        lanes, row = self.lanes, sections * source.sizes[1] * self.dtype.itemsize
        block = lanes * self._each
        whole = (stop - start) // block
        loaded = max(min(TUNING.piece_bytes // (row * self._each), whole // TUNING.tall_pieces), 1)
        for at, rows in tiled(self.b, whole * block, block * loaded, "r"):
            self._turn_blocks(source, made, affine(at) + start, rows // block, lanes, sections)
        rest, last = divmod(stop - start - whole * block, lanes)
        if rest:
            self._turn_blocks(source, made, affine(stop - last - rest * lanes), 1, lanes, sections, rest)
        if last:
            self._turn_blocks(source, made, affine(stop - last), 1, last, sections, 1)

    def _turn_blocks(
        self, source: View, made: View, start: Affine, blocks: int, height: int, sections: int, beside: int = 0
    ) -> None:
        """Blocks of rows, some neighbours on each partition, as columns of some sections, for all copies."""
        b, width, beside = self.b, source.sizes[1], beside or self._each
        tile = b.sbuf((height, sections, blocks, beside, width), self.dtype, "rows", depth=2)
        for section in range(sections):
            rows = sliced(source, 0, start + section * self.high, blocks * height * beside)
            b.op("dma_copy", picked(tile, 1, section), permuted(split(rows, 0, (blocks, height, beside)), (1, 0, 2, 3)))
        into = sliced(made, 0, 0, sections * self.copies * width)
        for i, _ in tiled(b, blocks, 1, "i"):
            bank = self._turned_into((into.sizes[0], height, beside), transposed(tile), _depth(i))
            for j in range(beside):
                rows = expanded(picked(sliced(tile, 2, i, 1), 3, j), 2)
                rows = broadcast(picked(rows, 3, 0), (height, sections, self.copies, width))
                self._transpose(picked(bank, 2, j), rows)
            at = start + affine(i) * (height * beside)
            self.low.evict(sliced(into, 1, at, height * beside), flat(bank))

    def _turned_into(self, sizes: tuple[int, ...], name: str, depth: int) -> View:
        """A tile for what is turned."""
        if self.is_exact:
            return self.b.psum(sizes, self._bank, name, depth=depth)
        return self.b.sbuf(sizes, self.dtype, name, depth=2)

    def _transpose(self, out: View, data: View) -> None:
        """out[f, p] = data[p, f]"""
        if self.is_exact:
            self._by_products(out, data)
            return
        side, (height, *dims), into = self.low.target["limits.transpose_vector_max"], data.sizes, flat(out)
        for at in range(0, prod(dims), side):
            *outer, first = np.unravel_index(at, dims)
            part = data
            for index in outer:
                part = picked(part, 1, int(index))
            width = min(side, dims[-1] - int(first))
            for p in range(0, height, side):
                some = min(side, height - p)
                square = sliced(sliced(part, 0, p, some), 1, int(first), width)
                self.b.op("nc_transpose", sliced(sliced(into, 0, at, width), 1, p, some), square, engine="vector")

    def _by_products(self, out: View, data: View) -> None:
        """The same by the Tensor engine."""
        height = data.sizes[0]
        unit = sliced(sliced(identity(self.low, data.dtype), 0, 0, height), 1, 0, height)
        self.b.op("nc_matmul", flat(out), flat(data), unit, is_transpose=True, is_moving_onezero=True)

    @decision("take: looked up by columns")
    def fetch(self, places: View, out: View) -> None:
        """out[p, n, :] = table[places[p, n], :]; places are integers within the table."""
        b, (height, count), sections = self.b, places.sizes, list[View]()
        if self.sections > 1:
            places, sections = self._in_sections(places)
        groups, copies = -(-count // self.copies), self.copies
        numbers = b.sbuf((height, groups * copies), float32, "numbers", depth=2)
        if count < numbers.sizes[1]:
            b.op("memset", sliced(numbers, 1, count, numbers.sizes[1] - count), value=0.0)
        self.low.selecting.copy(sliced(numbers, 1, 0, count), places)
        whole, rest = divmod(count, copies)
        if whole:
            for n, some in tiled(b, whole, min(self._each, whole), "n"):
                start = affine(n) * copies
                self.depth = _depth(n)
                own = [sliced(view, 1, start, some * copies) for view in (numbers, out, *sections)]
                self._some(some, *own)
        if rest:
            start, self.depth = whole * copies, 1
            own = [sliced(view, 1, start, rest) for view in (out, *sections)]
            self._some(1, sliced(numbers, 1, start, copies), *own)

    def _in_sections(self, places: View) -> tuple[View, list[View]]:
        """Where in a section places are, and for each section but the first where that is the right one."""
        b, chosen = self.b, list[View]()
        which = b.sbuf(places.sizes, places.dtype, "section", depth=2)
        b.op("tensor_scalar", which, places, self.bits, op0="right_shift")
        for section in range(1, self.sections):
            chosen.append(b.sbuf(places.sizes, uint8, "chosen", depth=2))
            b.op("tensor_scalar", chosen[-1], which, float(section), op0="equal")
        within = b.sbuf(places.sizes, places.dtype, "place", depth=2)
        b.op("tensor_scalar", within, places, self.high - 1, op0="bitwise_and")
        return within, chosen

    def _some(self, groups: int, numbers: View, out: View, *chosen: View) -> None:
        """As many places as a bank holds, as many for each copy; there may be fewer results."""
        b, height, widest = self.b, numbers.sizes[0], self.parts[0].width
        bank = b.psum((self.sections * self.copies * widest, groups, height), float32, "places", depth=self.depth)
        for i in range(groups):
            own = expanded(expanded(sliced(numbers, 1, i * self.copies, self.copies), 2), 1)
            self._by_products(sliced(bank, 1, i, 1), broadcast(own, (height, self.sections, self.copies, widest)))
        asked = b.sbuf(bank.sizes, uint32, "places", depth=2)
        self.low.evict(asked, bank)
        for part in self.parts:
            self._look_up(part, asked, sliced(out, 2, part.first, part.width), chosen)

    def _look_up(self, part: Columns, asked: View, out: View, chosen: Sequence[View]) -> None:
        """What is asked of some columns, turned back; of sections, the one that is chosen."""
        b, (_, groups, height), lines = self.b, asked.sizes, part.tile.sizes[0]
        found = b.sbuf((lines, groups, height), self.dtype, "found", depth=2)
        b.op("nc_n_gather", flat(found), part.tile, flat(sliced(asked, 0, 0, lines)))
        back = self._turned_into((height, groups, self.sections, self.copies, part.width), "rows", self.depth)
        for i in range(groups):
            self._transpose(sliced(back, 1, i, 1), sliced(found, 1, i, 1))
        copies = out.sizes[1] // groups
        rows, back = split(as_type(out, self.dtype), 1, (groups, copies)), sliced(back, 3, 0, copies)
        self.low.evict(rows, picked(back, 2, 0))
        for section, mask in enumerate(chosen, 1):
            there = picked(back, 2, section)
            if there.dtype is not self.dtype:
                there = b.sbuf(rows.sizes, self.dtype, "rows", depth=2)
                self.low.evict(there, picked(back, 2, section))
            wide = broadcast(expanded(split(mask, 1, (groups, copies)), 3), rows.sizes)
            b.op("tensor_copy_predicated", rows, there, wide)


@decision("take: by columns of the table")
def take_by_columns(low: Lowering, op: Op) -> None:
    """All rows, some of them on each partition at a time."""
    x, index = op.operands
    count = index.type.size
    table = ColumnTable(low, x, sections_of(low, op)[0])
    if _into_chip(low, op, table):
        return
    line, out = as_shape(low.contiguous(index), (count,)), as_shape(result_in_hbm(low, op), (count * table.width,))
    lanes, row = low.target["limits.partitions"], table.width * out.dtype.itemsize
    left = low.target["memory.sbuf_usable_bytes"] - sum(low.resident.values()) - table.bytes
    each = min(left // IN_WORK, TUNING.tile_bytes) // row
    # Whole groups of copies, in several pieces.
    each = max(min(each, count // (lanes * TUNING.tall_pieces)) // table.copies, 1) * table.copies
    for at, some in tiled(low.b, count, lanes * each, "n"):
        per = -(-some // lanes)
        places = wrapped(low, laid(low, sliced(line, 0, at, some), per), index)
        if not is_checked(index, table.rows):
            check(low, places, table.rows)
        made = low.b.sbuf((lanes, per, table.width), out.dtype, "taken", depth=2)
        table.fetch(places, made)
        there = sliced(out, 0, affine(at) * table.width, some * table.width)
        for tile, run in in_lines(flat(made), there):
            low.b.op("dma_copy", run, tile)


@decision("take: looked up, to stay on chip", if_found=True)
def _into_chip(low: Lowering, op: Op, table: ColumnTable) -> bool:
    """The rows to where they stay on chip, if others read them and there is room."""
    value, index, lanes = op.result, op.operands[1], low.target["limits.partitions"]
    count, rest = index.type.size, op.operands[0].type.shape[1:]
    blocks = -(-count // lanes)
    size = blocks * table.width * table.dtype.itemsize
    read = any(use is not low.program.output_op for use in value.uses)
    if not read or size + table.bytes > low.room() or len(rest) > 3:
        return False
    view = low.b.sbuf((min(count, lanes), blocks, *rest), device_dtype(value.type.dtype), value.name or "taken")
    rows = as_shape(view, (view.sizes[0], blocks, table.width))
    for part in columns(low, index, in_blocks=True):
        height, width = part.tile.sizes
        if not is_checked(index, table.rows):
            check(low, part.tile, table.rows)
        table.fetch(part.tile, sliced(sliced(rows, 1, part.start // lanes, width), 0, 0, height))
    low.homes[value] = Chip(view, value.type.shape, (0, index.type.rank))
    low.resident[value] = size
    return True
