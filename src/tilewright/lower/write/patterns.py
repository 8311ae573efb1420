"""Tiles that a rule describes: made on chip, once, instead of loaded.

What depends on the row is a table with a column per block of rows; what depends on a free dim is a row that every
partition has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, float32
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


@contextmanager
def at_start(low: Lowering) -> Iterator[None]:
    """Write at the start of the kernel, whatever loop is being written."""
    b = low.b
    outer = b.region, b._depth, b.times
    b.region, b._depth, b.times = b.graph.body, 0, 1
    before = len(b.region.ops)
    yield
    new = b.region.ops[before:]
    b.at_start += len(new)
    b.region.ops[:] = [*new, *b.region.ops[:before]]
    b.region, b._depth, b.times = outer


def once(low: Lowering, key: tuple, make: Callable[[], View]) -> View:
    """A tile made at the start of the kernel the first time it is asked for."""
    found = low.shared.get(key)
    if found is None:
        with at_start(low):
            found = make()
        low.shared[key] = found
    return found


def identity(low: Lowering, dtype: DType) -> View:
    """The identity matrix of the size of the Tensor engine."""
    lanes = low.target["limits.partitions"]

    def make() -> View:
        ones, made = low.b.sbuf((lanes, lanes), dtype, "ones"), low.b.sbuf((lanes, lanes), dtype, "identity")
        low.b.op("memset", ones, value=1.0)
        # p - f == 0 on the diagonal
        low.b.op(
            "affine_select", made, ones, 0.0, pattern=((-1, lanes),), channel_multiplier=1, cmp_op="equal", offset=0
        )
        return made

    return once(low, ("identity", dtype), make)


def ones(low: Lowering, rows: int, columns: int, dtype: DType) -> View:
    """[rows, columns] of ones: what sums up partitions, or spreads a row over them."""

    def make() -> View:
        made = low.b.sbuf((rows, columns), dtype, "ones")
        low.b.op("memset", made, value=1.0)
        return made

    return once(low, ("ones", rows, columns, dtype), make)


def row_numbers(low: Lowering, rows: int, dtype: DType = float32) -> View:
    """[lanes, blocks]: the number of each row, partition p of block b being row b * lanes + p."""
    lanes = low.target["limits.partitions"]
    blocks = -(-rows // lanes)

    def make() -> View:
        made = low.b.sbuf((lanes, blocks), dtype, "numbers")
        low.b.op("iota", made, pattern=((lanes, blocks),), offset=0, channel_multiplier=1)
        return made

    return once(low, ("rows", blocks, dtype), make)


def multiples(low: Lowering, count: int, step: int) -> View:
    """[lanes, count] in float32: on every partition 0, step, 2 * step, ..."""
    lanes = low.target["limits.partitions"]

    def make() -> View:
        made = low.b.sbuf((lanes, count), float32, "multiples")
        low.b.op("iota", made, pattern=((step, count),), offset=0, channel_multiplier=0)
        return made

    return once(low, ("multiples", count, step), make)


def column_numbers(low: Lowering, columns: int, dtype: DType = float32) -> View:
    """[lanes, columns]: on every partition 0, 1, 2, ..."""
    lanes = low.target["limits.partitions"]

    def make() -> View:
        made = low.b.sbuf((lanes, columns), dtype, "columns")
        low.b.op("iota", made, pattern=((1, columns),), offset=0, channel_multiplier=0)
        return made

    return once(low, ("columns", columns, dtype), make)
