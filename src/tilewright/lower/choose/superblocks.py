"""Several blocks of rows at a time, for products whose right operands do not fit on chip.

Right operands pass through a few tiles, each of which serves all blocks in work: they are read once for so many rows,
and the Tensor engine has more to do with a tile than it takes to load the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.ir.core import Op
from tilewright.lower.nest.blocks import BlockEmitter
from tilewright.lower.products.matmul import MatmulEmitter
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.block import Block
from tilewright.lower.write.views import At

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group

MOST_TOGETHER = 6
"""Blocks of rows that have banks of PSUM to themselves at a time; the rest is for what is turned."""

FEW_TOGETHER = 3
"""Of so few blocks at a time, one fewer would be many passes more."""


def together(group: Group, lanes: int) -> Iterator[int]:
    """How many blocks of rows may be in work at a time, most first; none where that gains nothing."""
    blocks = -(-group.rows // lanes)
    large = [op for op in group.ops if op.name in PRODUCTS and op.operands[1].type.nbytes > TUNING.small_operand_bytes]
    if blocks < 2 or group.batch or not large:
        return
    # As even as can be: all superblocks take as long. Products by terms have banks for the first and for the others.
    most = MOST_TOGETHER // 2 if any(op.name == "matmul_split" for op in large) else MOST_TOGETHER
    trips = -(-blocks // most)
    count = -(-blocks // trips)
    while count > 1:
        # What is left over is written again: one block fewer is better where that leaves none.
        if not (blocks % count and blocks % (count - 1) == 0 and count > FEW_TOGETHER):
            yield count
        trips += 1
        while trips < blocks and -(-blocks // trips) == count:
            trips += 1
        count = -(-blocks // trips)


class Superblocks(BlockEmitter):
    """Writes one group, several blocks of rows at a time."""

    def __init__(self, low: Lowering, group: Group, count: int, keep: bool = True) -> None:
        super().__init__(low, group, keep)
        self.count = count
        self.causal = None
        self.least_passing = 2
        self.matmul = _Streaming(self, count)

    def _rows_per_partition(self) -> int:
        return 1

    def _all_rows(self) -> None:
        self.early.end()
        self.matmul.prepare()
        self.early.begin()
        whole, rest = divmod(self.group.rows, self.lanes)
        trips, left = divmod(whole, self.count)
        if trips:
            with self.b.loop(trips, "r") as i:
                self.write_blocks(self._blocks(i * self.count, self.count))
        last = trips * self.count
        blocks = self._blocks(last, left)
        if rest:
            blocks.append(Block([], whole * self.lanes, whole, rest, 1))
        if blocks:
            self.write_blocks(blocks)

    def _blocks(self, first: At, count: int) -> list[Block]:
        numbers = (first + i for i in range(count))
        return [Block([], number * self.lanes, number, self.lanes, 1) for number in numbers]


class _Streaming(MatmulEmitter):
    """Large right operands pass through a few tiles."""

    def __init__(self, emitter: Superblocks, count: int) -> None:
        super().__init__(emitter)
        self.panel_banks = 1
        # Where there are few blocks, a second set of banks is filled while the first is emptied.
        banks = count * (1 + any(self._has_terms(step.op) for step in emitter.steps))
        self.depth = 2 if 2 * banks <= MOST_TOGETHER else 1
        self.single = 1

    def _is_read_once(self, op: Op) -> bool:
        y = op.operands[1]
        return y.type.nbytes > TUNING.small_operand_bytes

    def is_widened(self, op: Op) -> bool:
        return super().is_widened(op) and not self._is_read_once(op)
