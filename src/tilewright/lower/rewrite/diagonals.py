"""Diagonals of matrices that a kernel computes: an element of each row, where the row is.

    np.diag(s), s[np.arange(n), np.arange(n)], np.einsum("ii->i", s)

are every (n + 1)th element of all, a view. Of an array in memory that is a transfer; a matrix on chip would have to go
there first, whole.
"""

from __future__ import annotations

from tilewright.dtypes import int32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value

_VIEWS = ("reshape", "slice", "constant")


@rule("slice")
def pick_diagonal(op: Op) -> Value | None:
    """slice(reshape(x, (n * m,)), start, step m + 1) -> take_along_axis(x, start + i, 1)            x is computed"""
    flat = op.operands[0].producer
    if flat is None or flat.name != "reshape" or op.result.type.rank != 1:
        return None
    (x,) = flat.values()
    if x.type.rank != 2 or x.producer is None or x.producer.name in _VIEWS or not x.type.dtype.is_float:
        return None
    (rows, columns), count = x.type.shape, op.attrs["sizes"][0]
    above, first = op.attrs["starts"][0], 0
    if above >= columns:
        first, above = divmod(above, columns)
    # Who else reads the matrix has its rows on chip; by itself the diagonal is better read from where it lies.
    is_shared = len(x.uses) > 1
    is_diagonal = op.attrs["steps"] == (columns + 1,) and above + count <= columns and count > 1
    if not is_diagonal or not is_shared:
        return None
    if first or count < rows:
        x = value("slice", x, starts=(first, 0), sizes=(count, columns), steps=(1, 1))
    at = value("iota", shape=(count, 1), dtype=int32, axis=0, start=above, step=1)
    return value("reshape", value("take_along_axis", x, at, axis=1), shape=(count,))
