"""Elimination with a loop over its steps: `gauss`, for inverses and determinants.

Rows lie on partitions, in blocks. A row that all others need comes to every partition by a product with a matrix that
has ones in the row's place, and is read where the product lies. Rows are not exchanged: the one with the greatest
element is marked, and in the end a product with all marks brings them into order.

A step waits for the one before it, so that what counts is how many instructions wait for each other. Sizes of elements
have the number of their row in their last bits: no two are equal, and what is greatest tells where it is. The column
that the next step looks at is made first, and what is left of the matrix while that step searches.

The inverse grows where the matrix vanishes: a column that a step makes one of the identity is not written; the column
of the identity which that step begins to change stands there instead.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32, int32, uint32
from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.kernels.rows import kept_line
from tilewright.lower.move.copy import blocks_of
from tilewright.lower.move.join import place_in_hbm
from tilewright.lower.move.moves import load_rows
from tilewright.lower.write.homes import Chip, Hbm, device_dtype
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import column_numbers, identity, row_numbers
from tilewright.lower.write.views import Affine, At, bits_of, broadcast, expanded, picked, reshaped, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

TAKEN, OPEN = -1e30, 1e-30
"""Added to the size of an element whose row has been chosen before, and of one whose row has not."""


def parts_of(size: int, step: int) -> list[tuple[int, int]]:
    """(start, count) of each part."""
    return [(at, min(step, size - at)) for at in range(0, size, step)]


def gauss(low: Lowering, op: Op) -> None:
    """Every matrix of a batch by itself."""
    (m,) = op.operands
    *outer, rows, _ = m.type.shape
    batch = prod(outer)
    taken = -(-rows // low.target["limits.partitions"]) * 3 * rows * float32.itemsize
    if m.type.dtype is not float32 or taken > low.target["memory.sbuf_usable_bytes"] // 2:
        raise fail(
            "E501",
            f"elimination in {m.type}: a matrix takes {taken} bytes per partition",
            hint="solve systems of fewer equations, or with structure (triangular, positive definite)",
            location=op.location,
            error=TileNotImplementedError,
        )
    wanted = [value if value.type.size and value.uses else None for value in op.results]
    if batch == 1:
        _single(low, op, wanted)
        return
    source = _in_batch(low.contiguous(m), batch, 2)
    outs = [
        None if value is None else _in_batch(_in_hbm(low, value), batch, 1 + (i == 0)) for i, value in enumerate(wanted)
    ]
    with low.b.loop(batch, "m") as i:
        Elimination(low, rows, op.attrs["definite"]).run(
            picked(source, 0, i), [None if out is None else picked(out, 0, i) for out in outs]
        )


def _in_batch(view: View, batch: int, rank: int) -> View:
    """[batch, *dims]: the last dims, so many of them, of each member."""
    made = reshaped(view, (batch, *view.sizes[view.ndim - rank :]))
    assert made is not None, "what is contiguous has any shape"
    return made


def _in_hbm(low: Lowering, value: Value) -> View:
    view = place_in_hbm(low, value, "eliminated")
    low.homes[value] = Hbm(view)
    return view


def _single(low: Lowering, op: Op, wanted: list[Value | None]) -> None:
    """One matrix: taken from where it lies on chip, and results that others read stay there."""
    (m,) = op.operands
    source = held_matrix(low, m)
    if source is None:
        source = picked(_in_batch(low.contiguous(m), 1, 2), 0, 0)
    rest, pivots, order = wanted
    outs = [
        None if rest is None else kept_matrix(low, rest) or picked(_in_batch(_in_hbm(low, rest), 1, 2), 0, 0),
        None if pivots is None else kept_line(low, pivots, "pivots") or _in_batch(_in_hbm(low, pivots), 1, 1),
        None if order is None else _in_batch(_in_hbm(low, order), 1, 1),
    ]
    Elimination(low, m.type.shape[-1], op.attrs["definite"]).run(source, outs)


@decision("matrix: read on chip", if_found=True)
def held_matrix(low: Lowering, x: Value) -> View | None:
    """[lanes, blocks, columns]: one matrix that lies on chip with its rows on partitions."""
    home, last = low.homes.get(x), x.type.rank - 1
    if not isinstance(home, Chip) or home.rows != (last - 1, last):
        return None
    return reshaped(home.view, (*home.view.sizes[:2], x.type.shape[-1]))


@decision("matrix: left on chip", if_found=True)
def kept_matrix(low: Lowering, value: Value) -> View | None:
    """[lanes, blocks, columns]: the place on chip of one matrix that others read, with its rows on partitions."""
    *ones, rows, columns = value.type.shape
    lanes, dtype = low.target["limits.partitions"], device_dtype(value.type.dtype)
    blocks = -(-rows // lanes)
    size = blocks * columns * dtype.itemsize
    later = any(use is not low.program.output_op for use in value.uses)
    if not later or not low.may_keep(value, size):
        return None
    tile = low.b.sbuf((min(rows, lanes), blocks, *ones, columns), dtype, value.name or "matrix")
    low.homes[value] = Chip(tile, value.type.shape, (len(ones), len(ones) + 1))
    low.resident[value] = size
    return reshaped(tile, (min(rows, lanes), blocks, columns))


class Elimination:
    """One square matrix: its columns become, but for the order, multiples of the identity's.

    definite: the diagonal has the pivots, and no row is searched for.
    """

    def __init__(self, low: Lowering, rows: int, definite: bool) -> None:
        self.low, self.b, self.rows, self.definite = low, low.b, rows, definite
        self.lanes = min(rows, low.target["limits.partitions"])
        self.blocks = -(-rows // self.lanes)
        self.bank = low.target["memory.psum_bank_bytes"] // float32.itemsize
        self.bits = (self.blocks * self.lanes - 1).bit_length()

    def _tile(self, *sizes: int, name: str) -> View:
        return self.b.sbuf(sizes, float32, name)

    def _made(self, *sizes: int, name: str) -> View:
        return self.b.sbuf(sizes, float32, name, depth=2)

    def run(self, source: View, outs: list[View | None]) -> None:
        """Load, all steps, deliver."""
        b, lanes, blocks, rows = self.b, self.lanes, self.blocks, self.rows
        inverse, pivots, order = outs
        self.inverts = inverse is not None
        # The last step looks ahead too.
        self.m = self._tile(lanes, blocks, rows + 1, name="m")
        b.op("memset", self.m, value=0.0)
        self._load(source)
        self.marks = self._tile(lanes, blocks, rows, name="marks")
        self.pivots = self._tile(lanes, rows, name="pivots")
        self.wants_order = order is not None
        if self.wants_order:
            self.order = b.sbuf((1, rows), int32, "order")
        numbers = sliced(row_numbers(self.low, blocks * lanes), 0, 0, lanes)
        if self.definite:
            ramp = sliced(column_numbers(self.low, rows), 0, 0, lanes)
            for j in range(blocks):
                b.op("tensor_scalar", picked(self.marks, 1, j), ramp, sliced(numbers, 1, j, 1), op0="equal")
            if self.wants_order:
                b.op("tensor_copy", self.order, sliced(ramp, 0, 0, 1))
        else:
            self.closed, self.keys = self._tile(lanes, blocks, name="closed"), self._tile(lanes, blocks, name="keys")
            self.next = self._tile(lanes, blocks, name="next")
            past = self._made(lanes, blocks, name="past")
            b.op("tensor_scalar", past, numbers, float(rows), TAKEN, op0="greater_equal", op1="multiply")
            b.op("tensor_scalar", self.closed, past, OPEN, op0="add")
            b.op("tensor_copy", self.next, picked(self.m, 2, 0))
            self._sizes()
        # Steps wait for each other: they share what they have of PSUM.
        self.row_bank = b.psum((lanes, min(rows + 1, self.bank)), float32, "row")
        self.line_banks = [
            b.psum((lanes, some * lanes), float32, "line")
            for _, some in ([] if self.definite else parts_of(blocks, self.bank // lanes))
        ]
        # Without the inverse, columns that are done stay as they are.
        size = rows if self.inverts else max(self.low.target["limits.partitions"] // 2, 1)
        for first, count in parts_of(rows, size):
            self.first = first
            with b.loop(count, "s") as step:
                self._step(step + first)
        if inverse is not None:
            self._deliver(inverse)
        if pivots is not None:
            self._put(pivots, sliced(self.pivots, 0, 0, 1))
        if order is not None:
            self._put(order, self.order)

    def _put(self, out: View, row: View) -> None:
        """A row of the first partition to where it lives, in HBM or on chip."""
        if out.on_chip:
            self.low.evict(out, row)
        else:
            self.b.op("dma_copy", out if out.ndim > 1 else expanded(out, 0), row)

    def _load(self, source: View) -> None:
        """[rows, columns] in HBM, or [lanes, blocks, columns] on chip."""
        into = sliced(self.m, 2, 0, self.rows)
        if not source.on_chip:
            load_rows(self.low, into, source)
            return
        for own, part in zip(*(blocks_of(view, self.rows) for view in (into, source)), strict=True):
            self.low.evict(own, part)

    def _step(self, step: Affine) -> None:
        b, lanes, blocks = self.b, self.lanes, self.blocks
        hot = picked(self.marks, 2, step) if self.definite else self._choose(step)
        row = self._row(hot)
        pivot = self._of_row(row, step)
        inverse, factors = self._made(lanes, 1, name="inverse"), self._made(lanes, blocks, name="factors")
        # Where only pivots are asked for, nothing is divided by one that is 0: its column is 0 where rows are open.
        b.op("reciprocal", inverse, pivot if self.inverts else self._not_zero(pivot))
        column = picked(self.m, 2, step) if self.definite else self.next
        b.op("scalar_tensor_tensor", factors, column, inverse, hot, op0="multiply", op1="subtract")
        self.low.evict(sliced(self.pivots, 1, step, 1), pivot)
        if not self.definite:
            self._look_ahead(step, row, factors)
        for j in range(blocks):
            own, factor = self._left(j), sliced(factors, 1, j, 1)
            b.op("scalar_tensor_tensor", own, row, factor, own, op0="multiply", op1="subtract", reverse1=True)
        if self.inverts:
            # The column of the identity that has its 1 in the chosen row.
            b.op("tensor_tensor", picked(self.m, 2, step), hot, factors, op="subtract")

    def _look_ahead(self, step: Affine, row: View, factors: View) -> None:
        """The column of the next step, and the sizes of its elements."""
        old, number = picked(self.m, 2, step + 1), self._of_row(row, step + 1)
        flags = {"op0": "multiply", "op1": "subtract", "reverse1": True}
        self.b.op("scalar_tensor_tensor", self.next, factors, number, old, **flags)
        self._sizes()

    def _sizes(self) -> None:
        """By what the next column is searched."""
        b, lanes, blocks = self.b, self.lanes, self.blocks
        sizes = self._made(lanes, blocks, name="sizes")
        b.op("scalar_tensor_tensor", sizes, self.next, 0.0, self.closed, op0="abs", op1="add")
        numbers = sliced(row_numbers(self.low, blocks * lanes, uint32), 0, 0, lanes)
        mask = (1 << 32) - (1 << self.bits)
        for j in range(blocks):
            own, found = (bits_of(sliced(tile, 1, j, 1)) for tile in (sizes, self.keys))
            b.op("tensor_scalar", found, own, mask, sliced(numbers, 1, j, 1), op0="bitwise_and", op1="bitwise_or")

    @decision("gauss: pivot")
    def _choose(self, step: Affine) -> View:
        """[lanes, blocks]: 1 in the row whose element of a column is the greatest among the open ones."""
        b, lanes, blocks, low = self.b, self.lanes, self.blocks, self.low
        unit = sliced(sliced(identity(low, float32), 0, 0, lanes), 1, 0, lanes)
        best = self._made(lanes, len(self.line_banks), name="best")
        for i, bank in enumerate(self.line_banks):
            at = i * (self.bank // lanes)
            for j in range(bank.sizes[1] // lanes):
                # All keys of a block on every partition.
                still = broadcast(sliced(self.keys, 1, at + j, 1), (lanes, lanes))
                b.op(
                    "nc_matmul",
                    sliced(bank, 1, j * lanes, lanes),
                    still,
                    unit,
                    is_moving_onezero=True,
                    accumulate=False,
                )
            b.op("tensor_reduce", sliced(best, 1, i, 1), bank, op="maximum", axis=(1,))
        if best.sizes[1] > 1:
            most = self._made(lanes, 1, name="most")
            b.op("tensor_reduce", most, best, op="maximum", axis=(1,))
            best = most
        hot = self._made(lanes, blocks, name="hot")
        b.op("tensor_scalar", hot, self.keys, best, op0="equal")
        b.op("scalar_tensor_tensor", self.closed, hot, TAKEN, self.closed, op0="multiply", op1="add")
        b.op("tensor_copy", picked(self.marks, 2, step), hot, engine="gpsimd")
        if self.wants_order:
            place = bits_of(sliced(best, 0, 0, 1))
            b.op("tensor_scalar", sliced(self.order, 1, step, 1), place, (1 << self.bits) - 1, op0="bitwise_and")
        return hot

    def _left(self, block: int) -> View:
        """[lanes, width]: the columns of a block that are not done."""
        return sliced(picked(self.m, 1, block), 1, self.first, self.m.sizes[2] - self.first)

    def _of_row(self, row: View, column: Affine) -> View:
        return sliced(row, 1, column + -self.first, 1)

    def _row(self, hot: View) -> View:
        """[lanes, width]: the marked row on every partition, in PSUM if there is room for it in a bank."""
        lanes, width = self.lanes, self.m.sizes[2] - self.first
        if width <= self.bank:
            return self._part(hot, 0, width)
        made = self._made(lanes, width, name="row")
        for at, size in tiled(self.b, width, self.bank, "c"):
            self.low.evict(sliced(made, 1, at, size), self._part(hot, at, size))
        return made

    def _part(self, hot: View, at: At, size: int) -> View:
        bank = sliced(self.row_bank, 1, 0, size)
        for j in range(self.blocks):
            still = broadcast(sliced(hot, 1, j, 1), (self.lanes, self.lanes))
            self.b.op("nc_matmul", bank, still, sliced(self._left(j), 1, at, size), accumulate=j > 0)
        return bank

    def _deliver(self, out: View) -> None:
        """The rows divided by their pivots, and rows and columns in order."""
        b, lanes, blocks, rows = self.b, self.lanes, self.blocks, self.rows
        inverse = self._tile(lanes, blocks, name="inverse")
        found = sliced(self.m, 2, 0, rows)
        for j in range(blocks):
            # Its own pivot is where a row is marked; no other is, but in rows beyond the last, which have none.
            own, place = self._made(lanes, rows, name="own"), self._made(lanes, 1, name="pivot")
            b.op("tensor_tensor", own, picked(self.marks, 1, j), self.pivots, op="multiply", engine="vector")
            b.op("tensor_reduce", place, own, op="add", axis=(1,))
            b.op("reciprocal", sliced(inverse, 1, j, 1), self._not_zero(place))
            part = picked(found, 1, j)
            b.op("tensor_scalar", part, part, sliced(inverse, 1, j, 1), op0="multiply")
        if not self.definite:
            unit = sliced(sliced(identity(self.low, float32), 0, 0, lanes), 1, 0, lanes)
            # The columns of what was found, and those of the marks, on partitions.
            columns, places = (self._tile(lanes, blocks, rows, name=name) for name in ("columns", "places"))
            self._multiply(columns, found, self.marks)
            for j in range(blocks):
                height = min(lanes, rows - j * lanes)
                part = sliced(sliced(places, 2, j * lanes, height), 0, 0, min(rows, lanes))
                self._multiply(part, sliced(self.marks, 1, j, 1), expanded(sliced(unit, 1, 0, height), 1))
            found = self._tile(lanes, blocks, rows, name="found")
            self._multiply(found, columns, places, self.rows)
        for j in range(blocks):
            height = min(lanes, rows - j * lanes)
            part = sliced(picked(found, 1, j), 0, 0, height)
            if out.on_chip:
                self.low.evict(sliced(picked(out, 1, j), 0, 0, height), part)
            else:
                b.op("dma_copy", sliced(out, 0, j * lanes, height), part)

    def _multiply(self, out: View, left: View, right: View, depth: int | None = None) -> None:
        """out = left transposed @ right, each [lanes, blocks, columns] with its rows in blocks; depth: rows, where
        partitions beyond them hold nothing."""
        lanes, width = self.lanes, right.sizes[2]
        for j in range(out.sizes[1]):
            height = min(lanes, left.sizes[2] - j * lanes)
            for first, size in parts_of(width, self.bank):
                bank = self.b.psum((height, size), float32, "product", depth=2)
                for k in range(right.sizes[1]):
                    some = lanes if depth is None else min(lanes, depth - k * lanes)
                    still, moving = (sliced(picked(x, 1, k), 0, 0, some) for x in (left, right))
                    still, moving = sliced(still, 1, j * lanes, height), sliced(moving, 1, first, size)
                    self.b.op("nc_matmul", bank, still, moving, accumulate=k > 0)
                self.low.evict(sliced(sliced(picked(out, 1, j), 0, 0, height), 1, first, size), bank)

    def _not_zero(self, numbers: View) -> View:
        """Numbers with 1 in place of 0."""
        made = self._made(*numbers.sizes, name="safe")
        self.b.op("scalar_tensor_tensor", made, numbers, 0.0, numbers, op0="equal", op1="add")
        return made
