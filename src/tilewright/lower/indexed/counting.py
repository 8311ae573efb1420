"""Numbers added up by their places: out[index[i]] += part[i], as products of matrices.

A place is a row and a column of a table of all places. Of 128 numbers, one on each partition, each has a row of a
matrix that is 1 where its row of the table is, and one that holds the number where its column is: the product of the
first, turned, with the second adds every number to its place. All of it is bfloat16, which holds 0, 1 and the numbers
of rows and columns; a float32 is the sum of three bfloat16 numbers. Where a number is infinite or NaN, 0 is added, and
it is counted: with 1 in a matrix of those that lead to inf, and in one of those that lead to -inf; NaN in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import bfloat16, float32, int32, uint8
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.indices import check, is_checked, wrapped
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Chip
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import column_numbers, once
from tilewright.lower.write.views import (
    At,
    affine,
    as_shape,
    bits_of,
    broadcast,
    expanded,
    permuted,
    picked,
    reshaped,
    sliced,
    split,
)
from tilewright.target import Target
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

MOST = float(np.finfo(np.float32).max)
UPPER_HALF = 0xFFFF0000
"""The bits of a float32 that a bfloat16 has."""

PARTS = 3
"""bfloat16 numbers that add up to a float32."""


@decision("count: by a table of places")
def add_up(low: Lowering, op: Op, out: View) -> None:
    """x with all numbers of the part added to the places of their indices."""
    x, index, part = op.operands
    known = part.producer
    same = known.attrs["value"] if known is not None and known.name == "full" else None
    rows = x.type.shape[0]
    source, target = as_shape(low.contiguous(x), (rows,)), as_shape(out, (rows,))
    is_number = same is not None and bool(np.isfinite(same)) and float(np.float32(same)) == same
    numbers = numbers_of(low, index, None if is_number else part)
    table = Table.of(low, rows, not is_number)
    for first in range(0, table.rows, table.most):
        height = min(table.most, table.rows - first)
        adder = Adder(low, table, first, height, index.type.size, not is_number)
        adder.run(numbers, index, None if is_checked(index, rows) or first else rows)
        adder.deliver(source, target, 1.0 if same is None or not is_number else float(same), rows)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Places, and what is added there if it is not always the same, in the same order: [lanes, n] on chip, or lines in
    HBM that are [count] long."""

    places: View
    data: View | None


def numbers_of(low: Lowering, index: Value, part: Value | None) -> Numbers:
    """Both as one of them lies on chip, on all partitions alike, else in HBM: sums have any order."""
    values = [index] if part is None else [index, part]
    homes = [low.homes.get(value) for value in values]
    like = next((home for home in homes if isinstance(home, Chip) and _is_even(low, home)), None)
    if like is not None:
        tiles = [_lying_as(low, value, like) for value in values]
        return Numbers(tiles[0], None if part is None else tiles[1])
    lines = [reshaped(low.contiguous(value), (value.type.size,)) for value in values]
    assert lines[0] is not None
    return Numbers(lines[0], None if part is None else lines[1])


def _is_even(low: Lowering, home: Chip) -> bool:
    """True for rows that fill all partitions, with the elements of each partition in an order that one dim can have."""
    lanes = low.target["limits.partitions"]
    return home.row_count % lanes == 0 and home.rows[0] == 0 and home.view.sizes[0] == lanes and _flat(home) is not None


def _flat(home: Chip) -> View | None:
    return reshaped(home.view, (home.view.sizes[0], home.view.size // home.view.sizes[0]))


def _lying_as(low: Lowering, value: Value, like: Chip) -> View:
    """[lanes, n]: a value as another one of its shape lies on chip."""
    home, (lanes, blocks, *free) = low.homes.get(value), like.view.sizes
    if isinstance(home, Chip) and home.rows == like.rows and _is_even(low, home):
        flat = _flat(home)
        assert flat is not None
        return flat
    rows = as_shape(low.contiguous(value), (blocks, lanes, prod(free)))
    tile = low.b.sbuf((lanes, blocks, prod(free)), rows.dtype, "numbers")
    low.b.op("dma_copy", tile, permuted(rows, (1, 0, 2)))
    return as_shape(tile, (lanes, blocks * prod(free)))


@dataclass(frozen=True, slots=True)
class Table:
    """Places as rows and columns; `most` rows are in work at a time."""

    rows: int
    columns: int
    most: int

    @staticmethod
    def of(low: Lowering, places: int, weighted: bool) -> Table:
        """The table that takes the least time."""
        banks = low.target["memory.psum_banks"] * 3 // 4
        most = low.target["limits.partitions"] * max(1, banks // (PARTS if weighted else 1))
        sizes = [1 << k for k in range((TUNING.counted_columns - 1).bit_length() + 1)]
        return min(
            (Table(-(-places // n), n, most) for n in sizes if n >= TUNING.counted_row),
            key=lambda table: table.column_ns(low.target, weighted),
        )

    def column_ns(self, target: Target, weighted: bool) -> float:
        """About how long a column of numbers takes: its marks, multiplied where numbers have weights, and products."""
        kinds, lanes = (PARTS + 2 if weighted else 1), target["limits.partitions"]
        marks = self.rows + self.columns * (1 + kinds if weighted else 1)
        together = self.together(target, self.rows)
        moving = max(together * self.columns, target["tensor.weight_load_min_columns"]) / target["clock_ghz.tensor"]
        products = kinds * -(-self.rows // lanes) * moving / together
        each = target["vector.elements_per_cycle.two_inputs_16bit"] * target["clock_ghz.vector"]
        return max(marks / each, products)

    def together(self, target: Target, rows: int) -> int:
        """Columns of numbers that share a product: their own parts of the result are on its diagonal."""
        lanes, bank = target["limits.partitions"], target["memory.psum_bank_bytes"] // float32.itemsize
        return max(1, min(lanes // rows, bank // self.columns)) if rows <= lanes else 1


class Adder:
    """Adds up what belongs to some rows of the table."""

    def __init__(self, low: Lowering, table: Table, first: int, height: int, count: int, weighted: bool) -> None:
        self.low, self.b, self.table, self.first, self.height = low, low.b, table, first, height
        self.weighted = weighted
        lanes = low.target["limits.partitions"]
        self.lanes = lanes
        self.blocks = [(at, min(lanes, height - at)) for at in range(0, height, lanes)]
        # The first of them write whole banks.
        self.together = min(table.together(low.target, height), -(-count // lanes))
        self.by_column = self.together > 1 and not weighted and marks_by_column(low.target, count // self.lanes)
        kinds = ("sum", "plus", "minus") if weighted else ("sum",)
        shape = self.together * table.columns
        self.banks = {
            kind: [low.b.psum((self.together * size, shape), float32, kind) for _, size in self.blocks]
            for kind in kinds
        }

    def run(self, numbers: Numbers, index: Value, size: int | None) -> None:
        """All numbers, some on each partition at a time; their indices are checked if a size is given."""
        per, at_hand = TUNING.part_bytes // int32.itemsize // self.together * self.together, numbers.places.on_chip
        count = numbers.places.sizes[1] if at_hand else numbers.places.sizes[0]
        for at, some in tiled(self.b, count, per if at_hand else self.lanes * per, "n"):
            own = self._own(numbers.places, at, some)
            values = None if numbers.data is None else self._own(numbers.data, at, some)
            places = wrapped(self.low, own, index)
            if size is not None:
                check(self.low, places, size)
            if not at_hand:
                places = known_places(self.low, places, some)
            self._some(places, None if values is None else self._parts(values, at_hand))

    def _own(self, numbers: View, at: At, some: int) -> View:
        """[lanes, n]: some of the numbers."""
        return sliced(numbers, 1, at, some) if numbers.on_chip else self._laid(sliced(numbers, 0, at, some))

    def _parts(self, values: View, at_hand: bool) -> list[View]:
        """What a number is the sum of; what others may read too stays as it is."""
        if at_hand:
            own = self.b.sbuf(values.sizes, float32, "values", depth=2)
            self.low.selecting.copy(own, values)
            values = own
        return finite_parts(self.low, values)

    def _laid(self, line: View) -> View:
        return laid(self.low, line, -(-line.size // self.lanes))

    def _some(self, index: View, parts: list[View] | None) -> None:
        b, columns = self.b, self.table.columns
        bits = columns.bit_length() - 1
        row, column = (b.sbuf(index.sizes, int32, name, depth=2) for name in ("row", "column"))
        b.op("tensor_scalar", row, index, bits, op0="right_shift")
        b.op("tensor_scalar", column, index, columns - 1, op0="bitwise_and")
        where = b.sbuf(index.sizes, bfloat16, "column", depth=2)
        b.op("tensor_copy", where, column)
        rows: list[View] = []
        for at, _ in self.blocks:
            own = b.sbuf(index.sizes, bfloat16, "row", depth=2)
            b.op("tensor_scalar", own, row, float(-self.first - at), op0="add")
            rows.append(own)
        total = sum(size for _, size in self.blocks)
        taken = (total + columns * (1 + len(parts or ()))) * bfloat16.itemsize
        most = max(1, TUNING.part_bytes // taken // self.together) * self.together
        if self.by_column:
            # Two tiles in turn are enough: fewer parts are longer.
            most = -(-index.sizes[1] // max(2, -(-index.sizes[1] // (2 * most))))
        for at, count in tiled(b, index.sizes[1], most, "f"):
            self._products([sliced(v, 1, at, count) for v in rows], sliced(where, 1, at, count), parts, at, count)

    def _products(self, rows: list[View], where: View, parts: list[View] | None, at: At, count: int) -> None:
        b, columns = self.b, self.table.columns
        still = [self._marked(row, size) for row, (_, size) in zip(rows, self.blocks, strict=True)]
        marked = self._marked(where, columns)
        moving: list[tuple[str, View]] = [("sum", marked)]
        if parts is not None:
            kinds = ("sum",) * PARTS + ("plus", "minus")
            moving = [
                (kind, self._times(marked, sliced(v, 1, at, count))) for kind, v in zip(kinds, parts, strict=True)
            ]
        if self.by_column:
            # The last ones are filled up.
            count = marked.sizes[2]
        for at, some in tiled(b, count, self.together, "j"):
            for i, mark in enumerate(still):
                for kind, tile in moving:
                    b.op("nc_matmul", self._bank(kind, i, some), self._flat(mark, at, some), self._flat(tile, at, some))

    def _bank(self, kind: str, block: int, some: int) -> View:
        """The part of a bank that so many columns of numbers add to."""
        bank = self.banks[kind][block]
        return sliced(sliced(bank, 0, 0, some * self.blocks[block][1]), 1, 0, some * self.table.columns)

    def _flat(self, tile: View, at: At, some: int) -> View:
        if self.by_column:
            return sliced(tile, 2, at, some)
        part = sliced(tile, 1, at, some)
        return as_shape(part, (part.sizes[0], part.sizes[1] * part.sizes[2]))

    def _marked(self, numbers: View, size: int) -> View:
        if self.by_column:
            return marked_by_column(self.low, numbers, size, self.together)
        return marked(self.low, numbers, column_numbers(self.low, size, bfloat16))

    def _times(self, marks: View, numbers: View) -> View:
        made = self.b.sbuf(marks.sizes, bfloat16, "marks", depth=2)
        own = broadcast(expanded(numbers, 2), made.sizes)
        self.b.op("tensor_tensor", made, marks, own, op="multiply", engine="vector")
        return made

    # Results.

    def _total(self, kind: str, block: int) -> View:
        """[rows, columns]: a sum of what the columns of numbers gave."""
        b, columns, size = self.b, self.table.columns, self.blocks[block][1]
        bank = self.banks[kind][block]
        if self.together > 1 and not self.weighted:
            return self._diagonal(bank, size)
        tile = b.sbuf(bank.sizes, float32, kind, depth=2)
        self.low.evict(tile, bank)
        if self.together == 1:
            return tile
        parts = b.sbuf((size, columns, self.together), float32, kind, depth=2)
        for i in range(self.together):
            own = sliced(sliced(tile, 0, i * size, size), 1, i * columns, columns)
            b.op("dma_copy", picked(parts, 2, i), own)
        total = b.sbuf((size, columns), float32, kind, depth=2)
        b.op("tensor_reduce", total, parts, op="add", axis=(-1,))
        return total

    def _diagonal(self, bank: View, size: int) -> View:
        """[rows, columns]: what the columns of numbers gave, added up; all of it is finite.

        What is not on the diagonal becomes 0, and a product with marks adds up the rows.
        """
        b, columns, together = self.b, self.table.columns, self.together
        own, same = diagonal_marks(self.low, together, size, self.by_column)
        dims = (columns, together) if self.by_column else (together, columns)
        known = b.sbuf((together * size, *dims), float32, "known")
        marks = broadcast(expanded(own, 1 if self.by_column else 2), known.sizes)
        b.op("tensor_tensor", known, split(bank, 1, dims), marks, op="multiply")
        added = b.psum((size, *dims), float32, "added")
        b.op("nc_matmul", added, same, known)
        total = b.sbuf((size, columns), float32, "total")
        b.op("tensor_reduce", total, added if self.by_column else permuted(added, (0, 2, 1)), op="add", axis=(-1,))
        return total

    def deliver(self, source: View, target: View, factor: float, places: int) -> None:
        """Add the sums to what was there."""
        b, columns = self.b, self.table.columns
        for i, (at, size) in enumerate(self.blocks):
            total = self._total("sum", i)
            if self.weighted:
                for kind, op in (("plus", "add"), ("minus", "subtract")):
                    # 0, or infinity
                    beyond = self._total(kind, i)
                    b.op("tensor_scalar", beyond, beyond, MOST, MOST, op0="multiply", op1="multiply")
                    b.op("tensor_tensor", total, total, beyond, op=op)
            elif factor != 1.0:
                b.op("tensor_scalar", total, total, factor, op0="multiply")
            start = (self.first + at) * columns
            whole, rest = divmod(min(size * columns, places - start), columns)
            held = b.sbuf((size, columns), source.dtype, "held", depth=2)
            b.op("memset", held, value=0 if held.dtype.is_integer else 0.0)
            sums = total
            if source.dtype is int32:
                sums = b.sbuf(total.sizes, int32, "sums", depth=2)
                b.op("tensor_copy", sums, total)
            for line, is_load in ((source, True), (target, False)):
                if not is_load:
                    b.op("tensor_tensor", held, held, sums, op="add")
                pairs: list[tuple[View, View]] = []
                if whole:
                    there = as_shape(sliced(line, 0, start, whole * columns), (whole, columns))
                    pairs.append((sliced(held, 0, 0, whole), there))
                if rest:
                    there = expanded(sliced(line, 0, affine(start) + whole * columns, rest), 0)
                    pairs.append((sliced(sliced(held, 0, whole, 1), 1, 0, rest), there))
                for tile, there in pairs:
                    b.op("dma_copy", *((tile, there) if is_load else (there, tile)))


def diagonal_marks(low: Lowering, count: int, size: int, inner: bool) -> tuple[View, View]:
    """[count * size, count] and [count * size, size]: 1 where a row has the number of a column t, and where that of r.

    The rows are t * size + r, or where the columns of numbers are the inner ones r * count + t.
    """
    steps = (-1, -count) if inner else (-size, -1)

    def make() -> View:
        b, shape = low.b, (count * size, count, size)
        apart, marks = b.sbuf(shape, float32, "apart"), b.sbuf(shape, float32, "marks")
        pattern = tuple(zip(steps, shape[1:], strict=True))
        b.op("iota", apart, pattern=pattern, offset=0, channel_multiplier=1)
        b.op("tensor_scalar", marks, apart, 0.0, op0="equal")
        made = b.sbuf((count * size, count + size), float32, "diagonal")
        if size == 1:
            b.op("tensor_copy", sliced(made, 1, 0, count), picked(marks, 2, 0))
        else:
            b.op("tensor_reduce", sliced(made, 1, 0, count), marks, op="add", axis=(-1,))
        b.op("tensor_reduce", sliced(made, 1, count, size), permuted(marks, (0, 2, 1)), op="add", axis=(-1,))
        return made

    both = once(low, ("diagonal", count, size, inner), make)
    return sliced(both, 1, 0, count), sliced(both, 1, count, size)


def laid(low: Lowering, line: View, per: int) -> View:
    """[lanes, per] of a row in HBM: neighbours on one partition, and zeros behind the last."""
    tile = low.b.sbuf((low.target["limits.partitions"], per), line.dtype, "numbers", depth=2)
    if line.size < tile.size:
        low.b.op("memset", tile, value=0 if line.dtype.is_integer else 0.0)
    for part, there in in_lines(tile, line):
        low.b.op("dma_copy", part, there)
    return tile


def in_lines(tile: View, line: View) -> list[tuple[View, View]]:
    """The parts of [lanes, per] that a row in HBM fills, and theirs of it."""
    whole, rest = divmod(line.size, tile.sizes[1])
    pairs: list[tuple[View, View]] = []
    if whole:
        part = as_shape(sliced(line, 0, 0, whole * tile.sizes[1]), (whole, tile.sizes[1]))
        pairs.append((sliced(tile, 0, 0, whole), part))
    if rest:
        part = expanded(sliced(line, 0, whole * tile.sizes[1], rest), 0)
        pairs.append((sliced(sliced(tile, 0, whole, 1), 1, 0, rest), part))
    return pairs


def known_places(low: Lowering, index: View, count: int) -> View:
    """The indices, with -1, which is no place, behind the last."""
    if count == index.size:
        return index
    b, per = low.b, index.sizes[1]
    made, valid = (b.sbuf(index.sizes, int32, name, depth=2) for name in ("index", "valid"))
    b.op("iota", valid, pattern=((1, per),), offset=0, channel_multiplier=per)
    b.op("tensor_scalar", valid, valid, float(count), op0="less")
    b.op("tensor_tensor", made, index, valid, op="multiply")
    b.op("tensor_scalar", valid, valid, -1.0, op0="add")
    b.op("tensor_tensor", made, made, valid, op="add")
    return made


def finite_parts(low: Lowering, values: View, into: Sequence[View] | None = None) -> list[View]:
    """Three bfloat16 parts of what is finite; 1 where inf is added; 1 where -inf is; perhaps into tiles of their own.

    Writes over the values.
    """
    b, size = low.b, values.sizes
    made = into or [b.sbuf(size, bfloat16, "narrow", depth=2) for _ in range(PARTS + 2)]
    *parts, plus, minus = made
    b.op("tensor_scalar", plus, values, MOST, 0.0, op0="less_equal", op1="equal")
    b.op("tensor_scalar", minus, values, -MOST, 0.0, op0="greater_equal", op1="equal")
    beyond = b.sbuf(size, uint8, "beyond", depth=2)
    b.op("tensor_tensor", beyond, plus, minus, op="maximum")
    b.op("tensor_copy_predicated", values, 0.0, beyond)
    # Cut off, not rounded: no part is greater than the number.
    for narrow in parts[:-1]:
        part = b.sbuf(size, float32, "part", depth=2)
        b.op("tensor_scalar", bits_of(part), bits_of(values), UPPER_HALF, op0="bitwise_and")
        low.selecting.copy(narrow, part)
        b.op("tensor_tensor", values, values, part, op="subtract")
    low.selecting.copy(parts[-1], values)
    return list(made)


def marked(low: Lowering, numbers: View, ramp: View) -> View:
    """[lanes, n, columns]: 1 where the number of a place is that of the last dim, which a ramp [lanes, columns] has."""
    lanes, count = numbers.sizes
    made = low.b.sbuf((lanes, count, ramp.sizes[1]), bfloat16, "marks", depth=2)
    wide = broadcast(expanded(sliced(ramp, 0, 0, lanes), 1), made.sizes)
    own = broadcast(expanded(numbers, 2), made.sizes)
    low.b.op("tensor_tensor", made, own, wide, op="equal", engine="vector")
    return made


def marks_by_column(target: Target, count: int) -> bool:
    """True where so many numbers of a partition are compared with each place in less time than all with all: an engine
    has a fast mode for one input."""
    fast, both = (target[f"vector.elements_per_cycle.{rate}"] for rate in ("fast", "two_inputs_16bit"))
    # Products of the first half are done beside the marks of the second.
    half = count / 2
    each = target["vector.overhead_cycles.tensor_scalar"] + half / fast
    return TUNING.about_equal * each < half / both


def marked_by_column(low: Lowering, numbers: View, size: int, step: int) -> View:
    """[lanes, size, n]: the same, place by place; what fills up a multiple of a step has no mark."""
    b, (lanes, count) = low.b, numbers.sizes
    made = b.sbuf((lanes, size, -(-count // step) * step), bfloat16, "marks", depth=2)
    if made.sizes[2] > count:
        b.op("memset", sliced(made, 2, count, made.sizes[2] - count), value=0.0)
    for place in range(size):
        own = sliced(picked(made, 1, place), 1, 0, count)
        b.op("tensor_scalar", own, numbers, float(place), op0="equal", engine="vector")
    return made
