"""Elimination with a loop over its steps: `gauss` (systems and determinants) and `cholesky_columns`.

Rows lie on partitions, in blocks. A row that all others need comes to every partition by a product with a matrix that
has ones in the row's place. Rows are not exchanged: the one with the greatest element is marked, and in the end a
product with all marks brings them into order.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float32, int32
from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op
from tilewright.lower.decisions import decision
from tilewright.lower.homes import Hbm
from tilewright.lower.join import place_in_hbm
from tilewright.lower.loops import tiled
from tilewright.lower.moves import load_rows, store_rows
from tilewright.lower.patterns import column_numbers, identity, once, row_numbers
from tilewright.lower.search import match8
from tilewright.lower.views import Affine, broadcast, expanded, picked, reshaped, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

TAKEN = -1e30
"""Added to the size of an element whose row has been chosen before."""


def gauss(low: Lowering, op: Op) -> None:
    """Every matrix of a batch by itself."""
    (m,) = op.operands
    *outer, rows, columns = m.type.shape
    batch = prod(outer)
    taken = -(-rows // low.target["limits.partitions"]) * (columns + 2 * rows) * float32.itemsize
    if m.type.dtype is not float32 or taken > low.target["memory.sbuf_usable_bytes"] // 2:
        raise fail(
            "E501",
            f"elimination in {m.type}: a matrix takes {taken} bytes per partition",
            hint="solve systems of fewer equations, or with structure (triangular, positive definite)",
            location=op.location,
            error=TileNotImplementedError,
        )
    source = reshaped(low.contiguous(m), (batch, rows, columns))
    outs: list[View | None] = []
    for value in op.results:
        if not value.type.size:
            outs.append(None)
            continue
        view = place_in_hbm(low, value, "eliminated")
        low.homes[value] = Hbm(view)
        flat = reshaped(view, (batch, *value.type.shape[len(outer) :]))
        assert flat is not None
        outs.append(flat)
    assert source is not None
    with low.b.loop(batch, "m") as i:
        Elimination(low, rows, columns).run(
            picked(source, 0, i), [None if out is None else picked(out, 0, i) for out in outs]
        )


class Elimination:
    """One matrix [rows, columns]: its first columns become, but for the order, multiples of the identity's."""

    def __init__(self, low: Lowering, rows: int, columns: int) -> None:
        self.low, self.b, self.rows, self.columns = low, low.b, rows, columns
        self.lanes = min(rows, low.target["limits.partitions"])
        self.blocks = -(-rows // self.lanes)
        self.bank = low.target["memory.psum_bank_bytes"] // float32.itemsize
        self.width = max(self.blocks * self.lanes, low.target["limits.max8_width"])

    def _tile(self, *sizes: int, name: str) -> View:
        return self.b.sbuf(sizes, float32, name)

    def _made(self, *sizes: int, name: str) -> View:
        return self.b.sbuf(sizes, float32, name, depth=2)

    def run(self, source: View, outs: list[View | None]) -> None:
        """Load, all steps, deliver; there may be nothing behind the first columns."""
        b, lanes, blocks, rows = self.b, self.lanes, self.blocks, self.rows
        self.m = self._tile(lanes, blocks, self.columns, name="m")
        if rows % lanes:
            b.op("memset", self.m, value=0.0)
        load_rows(self.low, self.m, source)
        self.closed = self._tile(lanes, blocks, name="closed")
        numbers = sliced(row_numbers(self.low, blocks * lanes), 0, 0, lanes)
        b.op("tensor_scalar", self.closed, numbers, float(rows), TAKEN, op0="greater_equal", op1="multiply")
        self.own = self._tile(lanes, blocks, name="pivots")
        b.op("memset", self.own, value=0.0)
        self.marks = self._tile(lanes, blocks, rows, name="marks")
        self.line = self._tile(1, self.width, name="line")
        if self.width > blocks * lanes:
            b.op("memset", self.line, value=TAKEN)
        self.pivots, self.order = (self._tile(1, rows, name=name) for name in ("pivots", "order"))
        with b.loop(rows, "s") as step:
            self._step(step)
        rest, pivots, order = outs
        assert pivots is not None and order is not None
        if rest is not None:
            self._deliver(rest)
        b.op("dma_copy", expanded(pivots, 0), self.pivots)
        places = b.sbuf((1, rows), int32, "order")
        b.op("tensor_copy", places, self.order)
        b.op("dma_copy", expanded(order, 0), places)

    def _step(self, step: Affine) -> None:
        b, lanes, blocks = self.b, self.lanes, self.blocks
        column = picked(self.m, 2, step)
        mark = self._choose(column, step)
        hot = picked(mark, 2, 0)
        row = self._row(mark)
        pivot = sliced(row, 1, step, 1)
        # A column without a pivot is zero where rows are open: nothing is divided by it.
        safe, inverse = self._made(lanes, 1, name="safe"), self._made(lanes, 1, name="inverse")
        b.op("scalar_tensor_tensor", safe, pivot, 0.0, pivot, op0="equal", op1="add")
        b.op("reciprocal", inverse, safe)
        factors = self._made(lanes, blocks, name="factors")
        b.op("scalar_tensor_tensor", factors, column, inverse, hot, op0="multiply", op1="subtract")
        b.op("scalar_tensor_tensor", self.closed, hot, TAKEN, self.closed, op0="multiply", op1="add")
        b.op("scalar_tensor_tensor", self.own, hot, pivot, self.own, op0="multiply", op1="add")
        b.op("tensor_copy", picked(self.marks, 2, step), hot, engine="gpsimd")
        b.op("tensor_copy", sliced(self.pivots, 1, step, 1), sliced(pivot, 0, 0, 1), engine="gpsimd")
        with b.loop(blocks, "j") as j:
            own = picked(self.m, 1, j)
            factor = sliced(factors, 1, j, 1)
            b.op("scalar_tensor_tensor", own, row, factor, own, op0="multiply", op1="subtract", reverse1=True)

    @decision("gauss: pivot")
    def _choose(self, column: View, step: Affine) -> View:
        """[lanes, blocks, lanes]: ones in the row whose element of a column is the greatest among the open ones."""
        b, lanes, blocks, low = self.b, self.lanes, self.blocks, self.low
        sizes = self._made(lanes, blocks, name="sizes")
        b.op("scalar_tensor_tensor", sizes, column, 0.0, self.closed, op0="abs", op1="add")
        unit = sliced(sliced(identity(low, float32), 0, 0, lanes), 1, 0, lanes)
        for at in range(0, blocks, self.bank // lanes):
            some = min(self.bank // lanes, blocks - at)
            bank = b.psum((1, some * lanes), float32, "line", depth=2)
            for j in range(some):
                into = sliced(bank, 1, j * lanes, lanes)
                own = sliced(sizes, 1, at + j, 1)
                b.op("nc_matmul", into, own, unit, is_transpose=True, is_moving_onezero=True)
            low.evict(sliced(self.line, 1, at * lanes, some * lanes), bank)
        eight = low.target["limits.max8_width"]
        best, unread = self._made(1, eight, name="best"), b.sbuf((1, self.width), bfloat16, "unread", depth=2)
        b.op("max8", best, self.line)
        place = match8(low, self.line, best, unread)
        at = sliced(self.order, 1, step, 1)
        b.op("tensor_copy", at, sliced(place, 1, 0, 1))
        chosen = self._made(1, blocks * lanes, name="chosen")
        ramp = sliced(column_numbers(low, blocks * lanes), 0, 0, 1)
        b.op("tensor_scalar", chosen, ramp, at, op0="equal")
        ones = sliced(sliced(_ones(low), 0, 0, 1), 1, 0, lanes)
        mark = self._made(lanes, blocks, lanes, name="mark")
        for first in range(0, blocks, self.bank // lanes):
            some = min(self.bank // lanes, blocks - first)
            bank = b.psum((lanes, some, lanes), float32, "mark", depth=2)
            for j in range(some):
                still = sliced(chosen, 1, (first + j) * lanes, lanes)
                b.op("nc_matmul", picked(bank, 1, j), still, ones, is_stationary_onezero=True, is_moving_onezero=True)
            low.evict(sliced(mark, 1, first, some), bank)
        return mark

    def _row(self, mark: View) -> View:
        """[lanes, columns]: the marked row on every partition."""
        made = self._made(self.lanes, self.columns, name="row")
        for at, size in tiled(self.b, self.columns, self.bank, "c"):
            bank = self.b.psum((self.lanes, size), float32, "row", depth=2)
            for j in range(self.blocks):
                part = sliced(picked(self.m, 1, j), 1, at, size)
                self.b.op("nc_matmul", bank, picked(mark, 1, j), part)
            self.low.evict(sliced(made, 1, at, size), bank)
        return made

    def _deliver(self, rest: View) -> None:
        """The columns behind the first, divided by the pivots, in the order of these."""
        b, lanes, blocks, rows = self.b, self.lanes, self.blocks, self.rows
        width = self.columns - rows
        safe, inverse = self._tile(lanes, blocks, name="safe"), self._tile(lanes, blocks, name="inverse")
        b.op("scalar_tensor_tensor", safe, self.own, 0.0, self.own, op0="equal", op1="add")
        b.op("reciprocal", inverse, safe)
        for j in range(blocks):
            own = sliced(picked(self.m, 1, j), 1, rows, width)
            b.op("tensor_scalar", own, own, sliced(inverse, 1, j, 1), op0="multiply")
        for at, height in tiled(b, rows, self.lanes, "r"):
            for first, size in tiled(b, width, self.bank, "c"):
                bank = b.psum((height, size), float32, "out", depth=2)
                for j in range(blocks):
                    moving = sliced(picked(self.m, 1, j), 1, Affine(rows) + first, size)
                    b.op("nc_matmul", bank, sliced(picked(self.marks, 1, j), 1, at, height), moving)
                tile = self._made(height, size, name="out")
                self.low.evict(tile, bank)
                b.op("dma_copy", sliced(sliced(rest, 0, at, height), 1, first, size), tile)


def _ones(low: Lowering) -> View:
    lanes = low.target["limits.partitions"]

    def make() -> View:
        made = low.b.sbuf((1, lanes), float32, "ones")
        low.b.op("memset", made, value=1.0)
        return made

    return once(low, ("row of ones",), make)


def cholesky_columns(low: Lowering, op: Op) -> None:
    """Column by column: a column over the root of its pivot, and the rest minus its square."""
    (a,) = op.operands
    *outer, rows, _ = a.type.shape
    batch, b = prod(outer), low.b
    if rows > low.target["limits.partitions"] or a.type.dtype is not float32:
        raise fail(
            "E501",
            f"the factors of {a.type}: a matrix has more rows than {low.target.name} has partitions",
            location=op.location,
            error=TileNotImplementedError,
        )
    out = place_in_hbm(low, op.result, "factor")
    low.homes[op.result] = Hbm(out)
    source, into = (reshaped(view, (batch, rows, rows)) for view in (low.contiguous(a), out))
    assert source is not None and into is not None
    unit = sliced(identity(low, float32), 0, 0, rows)
    with b.loop(batch, "m") as i:
        m, made = (b.sbuf((rows, 1, rows), float32, name, depth=2) for name in ("m", "factor"))
        load_rows(low, m, picked(source, 0, i))
        work, done = picked(m, 1, 0), picked(made, 1, 0)
        with b.loop(rows, "s") as step:
            bank = b.psum((rows, rows), float32, "row", depth=2)
            b.op("nc_matmul", bank, broadcast(sliced(unit, 1, step, 1), (rows, rows)), work)
            row = b.sbuf((rows, rows), float32, "row", depth=2)
            low.evict(row, bank)
            root, scale, factor = (b.sbuf((rows, 1), float32, name, depth=2) for name in ("root", "scale", "factor"))
            b.op("activation", root, sliced(row, 1, step, 1), None, 1.0, op="sqrt")
            b.op("reciprocal", scale, root)
            own = sliced(done, 1, step, 1)
            b.op("tensor_scalar", own, sliced(work, 1, step, 1), scale, op0="multiply")
            b.op("tensor_tensor", factor, own, scale, op="multiply", engine="vector")
            b.op("scalar_tensor_tensor", work, row, factor, work, op0="multiply", op1="subtract", reverse1=True)
        store_rows(low, picked(into, 0, i), made)
