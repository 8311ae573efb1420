"""Which parts of a large product are in work at a time: those that take the least time by a closed form.

The Tensor engine multiplies and turns operands that do not have K on partitions, once for each time they pass; DMA
brings each operand as often as the other's parts ask for; Vector adds up what parts of K give.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float32
from tilewright.ir.core import Op, Value
from tilewright.lower.select.terms import SPLIT_TERMS
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Hbm, device_dtype

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


@dataclass(frozen=True, slots=True)
class Parts:
    """What is in work at a time: columns, blocks of rows, blocks of K.

    rows_first: with all of K, the rows stay while columns pass by; otherwise the columns stay.
    """

    columns: int
    row_blocks: int
    k_blocks: int
    rows_first: bool = False


def parts_of(low: Lowering, op: Op) -> Iterator[Parts]:
    """Parts to try, the fastest of those that fit first, then those that may fit."""
    product = _Product(low, op)
    room = low.target["memory.sbuf_usable_bytes"] - sum(low.resident.values())
    every = product.every()
    deepest = every[0].k_blocks
    # Sums over short parts of K keep the Vector engine as long as the products take.
    long = [each for each in every if each.k_blocks >= min(TUNING.least_k_blocks, deepest)]
    fitting = [each for each in long if product.held(each) <= room]
    tight = [each for each in long if product.held(each) > room >= product.held(each) // 2]
    for some in (fitting, tight, [each for each in every if each not in long and product.held(each) <= room]):
        yield from sorted(some, key=product.rank)
    yield every[-1]


class _Product:
    """A product as the closed form sees it."""

    def __init__(self, low: Lowering, op: Op) -> None:
        self.target = low.target
        self.lanes = self.target["limits.partitions"]
        self.bank = self.target["memory.psum_bank_bytes"] // float32.itemsize
        self.m, self.n = op.result.type.shape[-2:]
        left, right = op.operands
        self.k = left.type.shape[-1]
        self.terms = SPLIT_TERMS if op.name == "matmul_split" else 1
        self.sizes = tuple(device_dtype(v.type.dtype).itemsize for v in (left, right, op.result))
        self.turned = _is_turned(low, left, -2), _is_turned(low, right, -1)
        self.narrow = right.type.dtype is not float32

    def every(self) -> list[Parts]:
        """Parts to choose from; the last are the least."""
        columns = _between(min(self.n, TUNING.panel), self.bank)
        rows = _between(min(-(-self.m // self.lanes), TUNING.large_row_blocks), 1)
        deep = _halves(min(-(-self.k // self.lanes), TUNING.large_k_blocks), 1)
        return [
            Parts(c, r, k, first)
            for c in columns
            for r in rows
            for k in deep
            for first in ((True, False) if k * self.lanes >= self.k else (False,))
        ]

    def held(self, parts: Parts) -> int:
        """Bytes per partition, second copies included."""
        left, right, out = self.sizes
        rows = self.lanes if self.turned[0] and not parts.rows_first else parts.row_blocks * self.lanes
        lefts = rows * (left + (self.terms * bfloat16.itemsize if self.terms > 1 else 0))
        total = parts.k_blocks * (lefts + parts.columns * right)
        total += (
            parts.k_blocks
            * self.lanes
            * sum(n for n, is_turned in zip((left, right), self.turned, strict=False) if is_turned)
        )
        total += parts.columns * (parts.row_blocks * float32.itemsize if self._passes(parts) > 1 else out)
        return 2 * total

    def rank(self, parts: Parts) -> tuple[int, float]:
        """When the busiest engine is done, the first parts being there; of what is about the same, what is moved."""
        left, right, out = self.sizes
        rows = parts.row_blocks * self.lanes
        again = -(-self.n // parts.columns), -(-self.m // rows)
        if self._passes(parts) == 1:
            again = (1, again[1]) if parts.rows_first else (again[0], 1)
        runs = [parts.k_blocks * self.lanes if self.turned[i] else n for i, n in enumerate((rows, parts.columns))]
        moved = again[0] * self._bytes_moved(self.m * self.k * left, runs[0] * left)
        moved += again[1] * self._bytes_moved(self.k * self.n * right, runs[1] * right)
        moved += self._bytes_moved(self.m * self.n * out, parts.columns * out)
        begin = parts.k_blocks * self.lanes * (rows * left + parts.columns * right)
        rate = self.target["dma.core_bandwidth"]
        deep = -(-self.k // self.lanes)
        # Vector adds up what parts of K give, and empties the banks in which squares are turned.
        copied = (self._passes(parts) - 1) * self.n * -(-self.m // self.lanes) + deep * self._squares(
            again
        ) * self.lanes
        copying = copied / self.target["clock_ghz.vector"]
        busiest = max(self._tensor_ns(again), moved / rate, copying) + begin / rate
        return round(log(busiest, TUNING.about_equal)), moved

    def _passes(self, parts: Parts) -> int:
        return -(-self.k // (parts.k_blocks * self.lanes))

    def _bytes_moved(self, count: int, run: int) -> float:
        """Bytes that take as long at the full rate: short runs take longer."""
        return count * (1 + self.target["dma.efficient_bytes_severe"] / (2 * run))

    def _tensor_ns(self, again: tuple[int, int]) -> float:
        target, kind = self.target, "other" if self.narrow else "float32"
        overhead = target["tensor.issue_overhead_cycles" if self.narrow else "tensor.issue_overhead_float32_cycles"]
        columns = target["tensor.cycles_per_column.bfloat16" if self.narrow else "tensor.cycles_per_column.float32"]
        deep, high = (-(-size // self.lanes) for size in (self.k, self.m))
        each = self.n * columns + -(-self.n // self.bank) * overhead
        turn = self.lanes * target[f"tensor.transpose_cycles_per_column.{kind}"] + overhead
        return deep * (self.terms * high * each + self._squares(again) * turn) / target["clock_ghz.tensor"]

    def _squares(self, again: tuple[int, int]) -> int:
        """Squares that are turned of a block of K."""
        high, wide = (-(-size // self.lanes) for size in (self.m, self.n))
        return again[0] * high * self.turned[0] + again[1] * wide * self.turned[1]


def _is_turned(low: Lowering, x: Value, dim: int) -> bool:
    """True for an operand whose other dim than K, `dim`, has gaps in HBM: it has to be turned."""
    home = low.homes.get(x)
    if not isinstance(home, Hbm):
        return dim == -2
    return home.view.strides[dim] != 1 and home.view.sizes[dim] != 1


def _between(most: int, unit: int) -> list[int]:
    """A number, halves of it, and what lies in the middle of two of them, in units; the least is last."""
    halves = _halves(most, unit)
    middle = {(one + other) // 2 for one, other in pairwise(halves)}
    return sorted({*halves, *(n for n in middle if n % unit == 0)}, reverse=True)


def _halves(most: int, least: int) -> list[int]:
    """A number, half of it, and so on; the last is not below the least, unless the first is."""
    found = [most]
    while found[-1] > least:
        found.append(max(-(-found[-1] // 2), least))
    return found
