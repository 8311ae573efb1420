"""Factors of positive definite matrices, column by column: `cholesky_columns`.

Rows lie on partitions. A step multiplies nothing by a root: columns stay as they are, over their pivots they are taken
from what is left, and all of them are divided by the roots of the pivots in the end.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op
from tilewright.lower.kernels.eliminate import held_matrix, kept_matrix
from tilewright.lower.move.join import place_in_hbm
from tilewright.lower.move.moves import load_rows, store_rows
from tilewright.lower.write.homes import Hbm
from tilewright.lower.write.patterns import identity
from tilewright.lower.write.views import broadcast, picked, reshaped, sliced

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def cholesky_columns(low: Lowering, op: Op) -> None:
    """Column by column: a column over the root of its pivot, and the rest minus its square."""
    (a,) = op.operands
    *outer, rows, _ = a.type.shape
    batch, b = prod(outer), low.b
    if rows > low.target["limits.partitions"] or a.type.dtype is not float32:
        raise fail(
            "E501",
            f"the factors of {a.type}: a matrix has more rows than {low.target.name} has partitions",
            hint="factor float32 matrices of fewer rows: blocks of it one after another",
            location=op.location,
            error=TileNotImplementedError,
        )
    held, kept = (held_matrix(low, a), kept_matrix(low, op.result)) if batch == 1 else (None, None)
    source = None if held is not None else reshaped(low.contiguous(a), (batch, rows, rows))
    into = None
    if kept is None:
        out = place_in_hbm(low, op.result, "factor")
        low.homes[op.result] = Hbm(out)
        into = reshaped(out, (batch, rows, rows))
    unit = sliced(identity(low, float32), 0, 0, rows)
    with b.loop(batch, "m") as i:
        m = b.sbuf((rows, 1, rows), float32, "m", depth=2)
        made = b.sbuf((rows, 1, rows), float32, "factor", depth=2) if kept is None else kept
        if source is None:
            assert held is not None
            low.evict(m, held)
        else:
            load_rows(low, m, picked(source, 0, i))
        work, done = picked(m, 1, 0), picked(made, 1, 0)
        pivots = b.sbuf((rows, rows), float32, "pivots", depth=2)
        with b.loop(rows, "s") as step:
            row = b.psum((rows, rows), float32, "row", depth=2)
            b.op("nc_matmul", row, broadcast(sliced(unit, 1, step, 1), (rows, rows)), work)
            inverse, factor = (b.sbuf((rows, 1), float32, name, depth=2) for name in ("inverse", "factor"))
            pivot, own = sliced(row, 1, step, 1), sliced(work, 1, step, 1)
            b.op("reciprocal", inverse, pivot)
            b.op("tensor_tensor", factor, own, inverse, op="multiply", engine="vector")
            low.evict(sliced(pivots, 1, step, 1), pivot)
            b.op("tensor_copy", sliced(done, 1, step, 1), own, engine="gpsimd")
            b.op("scalar_tensor_tensor", work, row, factor, work, op0="multiply", op1="subtract", reverse1=True)
        b.op("activation", pivots, pivots, None, 1.0, op="sqrt")
        b.op("reciprocal", pivots, pivots)
        b.op("tensor_tensor", done, done, pivots, op="multiply", engine="vector")
        if into is not None:
            store_rows(low, picked(into, 0, i), made)
