"""The greatest or least of rows by their indices, out[index[i]] = maximum(out[index[i]], part[i]), where places are
many: fetched, compared and sent back, 128 at a time.

Every partition has the column of a block on itself, turned to a row, and takes the greatest of those numbers whose
index is its own: rows of the same index bring the same, whichever is written last. The least is the greatest of the
negative numbers. Integers that float32 does not hold are compared by their upper halves, then by their lower ones.
Numbers come to all partitions by a product with ones, as sums of three bfloat16 numbers each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, prod
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, bfloat16, float32, int32, uint8
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.counting import PARTS, finite_parts
from tilewright.lower.indexed.exchanged_rows import equal_indices, fold_tables, in_turn
from tilewright.lower.indexed.indices import Columns, chosen_rows, columns
from tilewright.lower.move.join import fill_hbm
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import once
from tilewright.lower.write.views import At, affine, as_shape, permuted, picked, sliced, split
from tilewright.target import Target
from tilewright.tensor.ranges import EXACT, range_of
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

HALF = 16
"""Bits of a half of an integer."""

SIGN = 1 << (HALF - 1)
"""The bit of an upper half that is a sign."""

SIGNS = {"maximum": 1.0, "minimum": -1.0}
"""What numbers are multiplied by so that the greatest of them is looked for."""


def folds_rows(low: Lowering, op: Op) -> bool:
    """True where rows are fetched, compared and sent back by transfers that take a column of indices."""
    x, index, part = op.operands
    known = op.attrs["combine"] in SIGNS and (x.type.dtype.is_float or x.type.dtype.is_integer)
    many = index.type.size > 1 and part.type.size > 0 and x.type.shape[0] <= EXACT
    return known and many and low.target["features.swdge_indirect"]


def folded_ns(low: Lowering, op: Op) -> float:
    """About how long it takes, with as many tables as is fastest."""
    x, index, part = op.operands
    count, rows, width = index.type.size, x.type.shape[0], prod(x.type.shape[1:])
    block = _block_ns(low.target, width, len(_shifts(part)))
    _, taken = in_turn(low.target, count, rows, width, block)
    return taken


def _block_ns(target: Target, width: int, digits: int) -> float:
    """About how long engines have a block: a product and two passes, or five, for each column."""
    lanes, vector = target["limits.partitions"], target["clock_ghz.vector"]
    passes = (3 * digits - 1) * width * lanes + 4 * (lanes + target["vector.overhead_cycles.other"])
    product = lanes / target["clock_ghz.tensor"] / target["tensor.throttle_fraction"]
    return max(passes / vector, digits * width * product)


def _shifts(part: Value) -> tuple[int, ...]:
    """By how many bits a number is shifted for each number that float32 holds: the upper half first."""
    wide = part.type.dtype.is_integer and part.type.dtype.itemsize == int32.itemsize
    return (HALF, 0) if wide and not range_of(part).is_inside(-EXACT, EXACT) else (0,)


@decision("combine: rows by blocks")
def fold_rows(low: Lowering, op: Op, out: View) -> None:
    """Blocks of rows of the part, one after the other, to their places in a table that already holds x."""
    x, index, part = op.operands
    width, alu = prod(out.sizes[1:]), op.attrs["combine"]
    table = as_shape(out, (out.sizes[0], width))
    block = _block_ns(low.target, width, len(_shifts(part)))
    turns, _ = in_turn(low.target, index.type.size, x.type.shape[0], width, block)
    tables = [table]
    for _ in range(1, turns):
        tables.append(low.b.hbm(table.sizes, table.dtype, "table"))
        fill_hbm(low, tables[-1], _least(table.dtype, alu))
    digits = [split(rows, 1, (index.type.size, width)) for rows in _numbers(low, part)]
    lanes, bank = low.target["limits.partitions"], low.target["memory.psum_bank_bytes"] // float32.itemsize
    banks = low.target["memory.psum_banks"]
    others = [low.b.psum((lanes, lanes), float32, "others") for _ in range(max(1, min(2, banks // 4)))]
    spread = [low.b.psum((lanes, bank), float32, "spread") for _ in range(min(4, banks // 2))]
    folder = _Folder(low, alu, digits, others, spread)
    for group in columns(low, index, in_blocks=True):
        whole, rest = divmod(group.width, turns)
        if whole:
            with low.b.loop(whole, "j", turns) as j:
                for turn in range(turns):
                    folder.block(tables[turn], group, j + turn, turn)
        for turn in range(rest):
            folder.block(tables[turn], group, whole * turns + turn, turn)
    if len(tables) > 1:
        fold_tables(low, tables, alu)


def _least(dtype: DType, alu: str) -> float:
    """What is never taken before another number."""
    if dtype.is_float:
        return -SIGNS[alu] * inf
    return int(dtype.min if alu == "maximum" else dtype.max)


def _numbers(low: Lowering, part: Value) -> list[View]:
    """All numbers in HBM, for each half three rows of bfloat16 numbers that add up to it."""
    b, source = low.b, as_shape(low.contiguous(part), (part.type.size,))
    made = [b.hbm((PARTS, source.size), bfloat16, "parts") for _ in _shifts(part)]
    for at, height, width in _parts(low, source.size):
        shape = (height, width)
        tile = b.sbuf(shape, source.dtype, "numbers", depth=2)
        b.op("dma_copy", tile, split(sliced(source, 0, at, height * width), 0, shape))
        for rows, shift in zip(made, _shifts(part), strict=True):
            digit = tile if len(made) == 1 else _half(low, tile, shift)
            number = b.sbuf(shape, float32, "number", depth=2)
            low.selecting.copy(number, digit)
            for i, own in enumerate(_added_up(low, number)):
                b.op("dma_copy", split(sliced(picked(rows, 0, i), 0, at, height * width), 0, shape), own)
    return made


def _added_up(low: Lowering, number: View) -> list[View]:
    """Three bfloat16 numbers that add up to each: what is infinite or NaN is so in the first, and 0 in the others."""
    b = low.b
    whole = b.sbuf(number.sizes, bfloat16, "whole", depth=2)
    b.op("tensor_copy", whole, number)
    *parts, plus, minus = finite_parts(low, number)
    beyond = b.sbuf(number.sizes, uint8, "infinite", depth=2)
    b.op("tensor_tensor", beyond, plus, minus, op="maximum")
    b.op("tensor_copy_predicated", parts[0], whole, beyond)
    return parts


def _half(low: Lowering, tile: View, shift: int) -> View:
    """Sixteen bits of each number, in the order of the numbers: a sign is 0 then, and no sign 1."""
    made = low.b.sbuf(tile.sizes, tile.dtype, "half", depth=2)
    low.b.op("tensor_scalar", made, tile, shift, (1 << HALF) - 1, op0="right_shift", op1="bitwise_and")
    if shift and tile.dtype is int32:
        low.b.op("tensor_scalar", made, made, SIGN, op0="bitwise_xor")
    return made


def _parts(low: Lowering, size: int) -> Iterator[tuple[int, int, int]]:
    """Where parts begin that fill the partitions, how many partitions, and how many numbers each of them has."""
    lanes, at = low.target["limits.partitions"], 0
    while at < size:
        width = min(-(-(size - at) // lanes), TUNING.columns)
        height = min((size - at) // width, lanes)
        yield at, height, width
        at += height * width


@dataclass(slots=True)
class _Folder:
    low: Lowering
    alu: str
    digits: list[View]
    """[PARTS, count, width] in HBM, for each half of a number."""
    others: list[View]
    spread: list[View]
    """Banks that pass from block to block."""

    def block(self, table: View, group: Columns, j: At, turn: int) -> None:
        """Fetch the rows of a block, take the greatest of them and of its own, and send them back."""
        b, height, width = self.low.b, group.tile.sizes[0], table.sizes[1]
        places, start = group.column(affine(j)), affine(j) * group.across + group.start
        equal = equal_indices(self.low, places, self.others[turn % len(self.others)], uint8)
        there = chosen_rows(table, places)
        held = b.sbuf((height, width), table.dtype, "held", depth=2)
        b.op("dma_copy", held, there)
        new = [b.sbuf((height, width), float32, "greatest", depth=2) for _ in self.digits]
        step = min(width, TUNING.part_bytes // (float32.itemsize * height))
        for first in range(0, width, step):
            self._columns([sliced(view, 1, first, min(step, width - first)) for view in new], equal, start, first)
        self._combine(held, new)
        b.op("dma_copy", there, held)

    def _columns(self, new: list[View], equal: View, start: At, first: int) -> None:
        """The greatest numbers of some columns, for every row of the block."""
        b, (height, width) = self.low.b, new[0].sizes
        lines: list[View] = []
        for digit in self.digits:
            line = b.sbuf((PARTS, height, width), bfloat16, "line", depth=2)
            b.op("dma_copy", line, sliced(sliced(digit, 1, start, height), 2, first, width))
            lines.append(line)
        together = max(1, self.low.target["memory.psum_bank_bytes"] // float32.itemsize // height)
        for at, count in tiled(b, width, min(together * len(self.spread), width), "c"):
            for c in range(0, count, together):
                some = min(together, count - c)
                spread = [self._spread(sliced(line, 2, affine(at) + c, some)) for line in lines]
                self._greatest([sliced(view, 1, affine(at) + c, some) for view in new], spread, equal)

    def _spread(self, line: View) -> View:
        """[height, columns, height]: a block on every partition, as products with 1 or -1 that are added up."""
        _, height, some = line.sizes
        self.spread.append(self.spread.pop(0))
        bank = sliced(sliced(self.spread[-1], 0, 0, height), 1, 0, height * some)
        signs = _signs(self.low, height, SIGNS[self.alu])
        self.low.b.op("nc_matmul", bank, signs, permuted(line, (0, 2, 1)), accumulate=False)
        return split(bank, 1, (some, height))

    def _greatest(self, new: list[View], numbers: list[View], equal: View) -> None:
        """new[p, c] = the greatest of the numbers of a column whose index is that of p, half by half."""
        b = self.low.b
        for c in range(new[0].sizes[1]):
            mask = equal
            for i, (results, rows) in enumerate(zip(new, numbers, strict=True)):
                result, row = sliced(results, 1, c, 1), picked(rows, 1, c)
                chosen = b.sbuf(row.sizes, float32, "chosen", depth=2)
                how = {"reduce_cmd": "reset_reduce", "reduce_op": "maximum"}
                b.op("select_reduce", chosen, mask, row, -inf, result, **how)
                if i + 1 < len(new):
                    among = b.sbuf(mask.sizes, uint8, "among", depth=2)
                    b.op("scalar_tensor_tensor", among, row, result, mask, op0="equal", op1="multiply")
                    mask = among

    def _combine(self, held: View, new: list[View]) -> None:
        """held = the greatest, or the least, of both."""
        b, sign = self.low.b, SIGNS[self.alu]
        if held.dtype is float32:
            if sign < 0:
                b.op("scalar_tensor_tensor", held, new[0], sign, held, op0="multiply", op1=self.alu)
            else:
                b.op("tensor_tensor", held, held, new[0], op=self.alu)
            return
        numbers = [b.sbuf(held.sizes, held.dtype, "whole", depth=2) for _ in new]
        for whole, number in zip(numbers, new, strict=True):
            b.op("tensor_scalar", whole, number, sign, op0="multiply")
        if len(numbers) > 1:
            sign_bit = SIGN if held.dtype is int32 else 0
            b.op("tensor_scalar", numbers[0], numbers[0], sign_bit, HALF, op0="bitwise_xor", op1="left_shift")
            b.op("tensor_tensor", numbers[0], *numbers, op="bitwise_or")
        b.op("tensor_tensor", held, held, numbers[0], op=self.alu)


def _signs(low: Lowering, lanes: int, sign: float) -> View:
    """[PARTS, lanes]: what spreads a row over partitions, perhaps with another sign."""

    def make() -> View:
        made = low.b.sbuf((PARTS, lanes), bfloat16, "signs")
        low.b.op("memset", made, value=sign)
        return made

    return once(low, ("row of signs", lanes, sign), make)
