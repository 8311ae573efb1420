"""Ops in a row, for rules that replace one op by many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import bool_, int32
from tilewright.ir.core import Op, Value
from tilewright.tensor.build import make


class Chain:
    """Ops in the order they were made: a rule that returns them all is no deep tree to put in place."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def __call__(self, name: str, *operands: Any, **attrs: Any) -> Value:
        op = make(name, *operands, **attrs)
        self.ops.append(op)
        return op.result

    def all(self, name: str, *operands: Any, **attrs: Any) -> Sequence[Value]:
        """All results of an op."""
        op = make(name, *operands, **attrs)
        self.ops.append(op)
        return op.results

    def part(self, x: Value, rows: tuple[int, int], columns: tuple[int, int]) -> Value:
        """x[..., rows, columns] for ranges of rows and columns."""
        shape = x.type.shape
        starts = (*(0 for _ in shape[:-2]), rows[0], columns[0])
        sizes = (*shape[:-2], rows[1] - rows[0], columns[1] - columns[0])
        return x if sizes == shape else self("slice", x, starts=starts, sizes=sizes, steps=(1,) * len(shape))

    def swapped(self, x: Value) -> Value:
        """x with its last two dims swapped; a column becomes a row without moving anything."""
        shape = x.type.shape
        if 1 in shape[-2:]:
            return self("reshape", x, shape=(*shape[:-2], shape[-1], shape[-2]))
        axes = range(len(shape) - 2)
        return self("transpose", x, perm=(*axes, len(shape) - 1, len(shape) - 2))

    def band(self, n: int, low: int | None, high: int | None) -> Value:
        """The mask of a band of an n x n matrix."""
        return self("band", shape=(n, n), dtype=bool_, low=low, high=high, inside=True, outside=False)

    def rows(self, n: int, axis: int = 0) -> Value:
        """The numbers of the rows, as a column (or of the columns, as a row)."""
        shape = (n, 1) if axis == 0 else (1, n)
        return self("iota", shape=shape, dtype=int32, axis=axis, start=0, step=1)
