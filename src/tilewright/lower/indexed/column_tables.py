"""Rows of a table by run-time indices, where the table lies on chip with its columns on partitions: each partition
looks up elements of its own column, and what it found is turned back into rows.

    out[p, n, :] = table[places[p, n], :]

A narrow table lies there several times, and each copy is asked for other places. One with too many rows lies there in
sections, each on other partitions, of 2 ** k rows: all sections are asked for the last k bits of a place, and the bits
before them choose from what they found. The Tensor engine turns the table, once; the places, so that every partition
of a copy has those that its copy is asked for; and what was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, float32, uint8, uint32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.counting import in_lines, laid
from tilewright.lower.indexed.indices import EXACT, check, is_checked, table_of, wrapped
from tilewright.lower.move.copy import by_blocks, passed_as
from tilewright.lower.move.join import result_in_hbm
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.block import flat
from tilewright.lower.write.homes import device_dtype
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import identity
from tilewright.lower.write.views import At, affine, as_type, broadcast, expanded, picked, reshaped, sliced, split
from tilewright.target import Target
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
    if op.attrs["axis"] != 0 or through is None or not target["features.transpose_bit_exact"]:
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
    """How often the columns of a table fit on the partitions."""
    return max(target["limits.partitions"] // prod(x.type.shape[1:]), 1)


def columns_ns(low: Lowering, op: Op) -> float:
    """About how long it takes to turn the table and to look everything up; infinity where it cannot lie on chip."""
    (x, index), target, sections = op.operands, low.target, sections_of(low, op)
    if not sections:
        return inf
    parts, copies = _parts(target, x), _copies(target, x) // sections[0]
    looked_up = parts * -(-index.type.size // copies)
    each = target["memory.psum_bank_bytes"] // float32.itemsize
    cycles = target["gpsimd.cycles_per_element.n_gather"] + target["gpsimd.fixed_cycles"] / each
    turned = parts * x.type.shape[0] / sections[0] / target["clock_ghz.vector"]
    return turned + looked_up * cycles / target["clock_ghz.gpsimd"]


@dataclass(slots=True)
class Columns:
    """Some neighbouring columns of a table, [sections * copies * width, rows of a section]."""

    tile: View
    first: int
    width: int


class ColumnTable:
    """A table with its columns on partitions."""

    def __init__(self, low: Lowering, x: Value, sections: int) -> None:
        self.low, self.b = low, low.b
        self.lanes: int = low.target["limits.partitions"]
        self.rows, self.width, self.sections = x.type.shape[0], prod(x.type.shape[1:]), sections
        self.copies = _copies(low.target, x) // sections
        self.bits = (-(-self.rows // sections) - 1).bit_length()
        self.high = self.rows if sections == 1 else 1 << self.bits
        """Rows of a section."""
        view = reshaped(table_of(low, x), (self.rows, self.width)) or reshaped(
            low.contiguous(x), (self.rows, self.width)
        )
        through = passed_as(low, device_dtype(x.type.dtype))
        assert view is not None and through is not None and self.copies > 0 and (sections - 1) * self.high < self.rows
        self.dtype = through
        source = as_type(view, through)
        self.parts = [
            self._turned(sliced(source, 1, at, min(self.lanes, self.width - at)), at)
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

    @decision("take: a table turned")
    def _turned(self, source: View, first: int) -> Columns:
        """Columns of the table: rows that all sections have, then those that the last one lacks, where it has zeros."""
        width = source.sizes[1]
        made = self.b.sbuf((self.sections * self.copies * width, self.high), self.dtype, "columns")
        common = self.rows - (self.sections - 1) * self.high
        if common < self.high:
            self.b.op("memset", sliced(made, 1, common, self.high - common), value=0.0)
        self._turn_rows(source, made, 0, common, self.sections)
        self._turn_rows(source, made, common, self.high, self.sections - 1)
        return Columns(made, first, width)

    def _turn_rows(self, source: View, made: View, start: int, stop: int, sections: int) -> None:
        """Rows of some sections, a few blocks of them at a time."""
        width, lanes = source.sizes[1], self.lanes
        row = sections * width * self.dtype.itemsize
        loaded = max(TUNING.streamed_piece // max(row * self._each, 1), 1) * self._each
        for at, height in tiled(self.b, stop - start, lanes * loaded, "r"):
            begin, blocks = affine(at) + start, -(-height // lanes)
            tile = self.b.sbuf((min(lanes, height), sections, blocks, width), self.dtype, "rows", depth=2)
            for section in range(sections):
                there = sliced(source, 0, begin + section * self.high, height)
                for held, rows in by_blocks(picked(tile, 1, section), there):
                    self.b.op("dma_copy", held, rows)
            whole, rest = divmod(height, lanes)
            for i, count in tiled(self.b, whole, self._each, "i"):
                self._turn(tile, i, count, lanes, sliced(made, 1, begin + affine(i) * lanes, count * lanes))
            if rest:
                self._turn(tile, whole, 1, rest, sliced(made, 1, begin + whole * lanes, rest))

    def _turn(self, tile: View, at: At, count: int, height: int, into: View) -> None:
        """Some blocks of rows of a tile [partitions, sections, blocks, columns] as columns, for all copies."""
        sections, width = tile.sizes[1], tile.sizes[3]
        into = sliced(into, 0, 0, sections * self.copies * width)
        bank = self.b.psum((into.sizes[0], count, height), self._bank, "turn", depth=2)
        for i in range(count):
            block = sliced(sliced(tile, 2, affine(at) + i, 1), 0, 0, height)
            self._transpose(sliced(bank, 1, i, 1), broadcast(block, (height, sections, self.copies, width)))
        self.low.evict(into, flat(bank))

    def _transpose(self, out: View, data: View) -> None:
        """out[f, p] = data[p, f]"""
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
                own = [sliced(view, 1, start, some * copies) for view in (numbers, out, *sections)]
                self._some(some, *own)
        if rest:
            start = whole * copies
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
        bank = b.psum((self.sections * self.copies * widest, groups, height), float32, "places", depth=2)
        for i in range(groups):
            own = expanded(expanded(sliced(numbers, 1, i * self.copies, self.copies), 2), 1)
            self._transpose(sliced(bank, 1, i, 1), broadcast(own, (height, self.sections, self.copies, widest)))
        asked = b.sbuf(bank.sizes, uint32, "places", depth=2)
        self.low.evict(asked, bank)
        for part in self.parts:
            self._look_up(part, asked, sliced(out, 2, part.first, part.width), chosen)

    def _look_up(self, part: Columns, asked: View, out: View, chosen: Sequence[View]) -> None:
        """What is asked of some columns, turned back; of sections, the one that is chosen."""
        b, (_, groups, height), lines = self.b, asked.sizes, part.tile.sizes[0]
        found = b.sbuf((lines, groups, height), self.dtype, "found", depth=2)
        b.op("nc_n_gather", flat(found), part.tile, flat(sliced(asked, 0, 0, lines)))
        back = b.psum((height, groups, self.sections, self.copies, part.width), self._bank, "rows", depth=2)
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
    line, out = reshaped(low.contiguous(index), (count,)), reshaped(result_in_hbm(low, op), (count * table.width,))
    assert line is not None and out is not None
    lanes, row = low.target["limits.partitions"], table.width * out.dtype.itemsize
    left = low.target["memory.sbuf_usable_bytes"] - sum(low.resident.values()) - table.bytes
    each = max(min(left // IN_WORK, TUNING.tile_bytes) // row, 1)
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
