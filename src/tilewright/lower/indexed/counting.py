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
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import column_numbers
from tilewright.lower.write.views import At, affine, bits_of, broadcast, expanded, picked, reshaped, sliced
from tilewright.target import Target
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

MOST = float(np.finfo(np.float32).max)
UPPER_HALF = 0xFFFF0000
"""The bits of a float32 that a bfloat16 has."""

PARTS = 3
"""bfloat16 numbers that add up to a float32."""


def counts(low: Lowering, op: Op) -> bool:
    """True where sums by places are products."""
    x, _, part = op.operands
    if op.attrs["combine"] != "add" or prod(x.type.shape[1:]) != 1 or part.type.size < low.target["limits.partitions"]:
        return False
    known = part.producer
    counted = x.type.dtype is int32 and known is not None and known.name == "full"
    return counted or x.type.dtype is float32


@decision("count: by a table of places")
def add_up(low: Lowering, op: Op, out: View) -> None:
    """x with all numbers of the part added to the places of their indices."""
    x, index, part = op.operands
    known = part.producer
    same = known.attrs["value"] if known is not None and known.name == "full" else None
    rows, count = x.type.shape[0], index.type.size
    source, numbers = reshaped(low.contiguous(x), (rows,)), reshaped(low.contiguous(index), (count,))
    target = reshaped(out, (rows,))
    assert source is not None and numbers is not None and target is not None
    is_number = same is not None and bool(np.isfinite(same)) and float(np.float32(same)) == same
    data = None if is_number else reshaped(low.contiguous(part), (count,))
    table = Table.of(low, rows, data is not None)
    for first in range(0, table.rows, table.most):
        height = min(table.most, table.rows - first)
        adder = Adder(low, table, first, height, data is not None)
        adder.run(numbers, data, index, None if is_checked(index, rows) or first else rows)
        adder.deliver(source, target, 1.0 if same is None or data is not None else float(same), rows)


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

    def __init__(self, low: Lowering, table: Table, first: int, height: int, weighted: bool) -> None:
        self.low, self.b, self.table, self.first, self.height = low, low.b, table, first, height
        self.weighted = weighted
        lanes = low.target["limits.partitions"]
        self.lanes = lanes
        self.blocks = [(at, min(lanes, height - at)) for at in range(0, height, lanes)]
        self.together = table.together(low.target, height)
        kinds = ("sum", "plus", "minus") if weighted else ("sum",)
        shape = self.together * table.columns
        self.banks = {
            kind: [low.b.psum((self.together * size, shape), float32, kind) for _, size in self.blocks]
            for kind in kinds
        }

    def run(self, numbers: View, data: View | None, index: Value, size: int | None) -> None:
        """All numbers, some on each partition at a time; their indices are checked if a size is given."""
        per = TUNING.counted_bytes // int32.itemsize // self.together * self.together
        for at, count in tiled(self.b, numbers.sizes[0], self.lanes * per, "n"):
            places = wrapped(self.low, self._laid(sliced(numbers, 0, at, count)), index)
            if size is not None:
                check(self.low, places, size)
            values = None if data is None else self._laid(sliced(data, 0, at, count))
            self._some(
                known_places(self.low, places, count), None if values is None else finite_parts(self.low, values)
            )

    def _laid(self, line: View) -> View:
        per = -(-line.size // self.lanes)
        return laid(self.low, line, -(-per // self.together) * self.together)

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
        taken = (sum(size for _, size in self.blocks) + columns * (1 + len(parts or ()))) * bfloat16.itemsize
        each = max(1, TUNING.counted_bytes // taken // self.together) * self.together
        for at, count in tiled(b, index.sizes[1], each, "f"):
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
        with b.loop(count // self.together, "j", self.together) as j:
            for i, mark in enumerate(still):
                for kind, tile in moving:
                    b.op("nc_matmul", self.banks[kind][i], self._flat(mark, j), self._flat(tile, j))

    def _flat(self, tile: View, at: At) -> View:
        part = sliced(tile, 1, at, self.together)
        made = reshaped(part, (part.sizes[0], part.sizes[1] * part.sizes[2]))
        assert made is not None
        return made

    def _marked(self, numbers: View, size: int) -> View:
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
                    there = reshaped(sliced(line, 0, start, whole * columns), (whole, columns))
                    assert there is not None
                    pairs.append((sliced(held, 0, 0, whole), there))
                if rest:
                    there = expanded(sliced(line, 0, affine(start) + whole * columns, rest), 0)
                    pairs.append((sliced(sliced(held, 0, whole, 1), 1, 0, rest), there))
                for tile, there in pairs:
                    b.op("dma_copy", *((tile, there) if is_load else (there, tile)))


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
        part = reshaped(sliced(line, 0, 0, whole * tile.sizes[1]), (whole, tile.sizes[1]))
        assert part is not None
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
