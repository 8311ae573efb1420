"""Right operands of products, which move past the left one: loaded once and kept, or passing through a few tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.move.early import least_transfer
from tilewright.lower.products.left import Contracted, LeftOperands
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Chip, Hbm
from tilewright.lower.write.views import At, expanded, permuted, picked, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.nest.blocks import BlockEmitter


class RightOperands(LeftOperands):
    """Finds and loads the right operands of one group."""

    def __init__(self, emitter: BlockEmitter) -> None:
        super().__init__(emitter)
        self.right: dict[tuple[Value, bool], Contracted] = {}
        self.loads_first = False
        """Whether right operands are there before the first block."""

    @property
    def is_pending(self) -> bool:
        """True while a right operand is yet to be loaded: the first block does that."""
        return any(each.source is not None and not each.once for each in self.right.values())

    def all_loaded(self) -> None:
        """The first block is written."""
        for each in self.right.values():
            each.source = each.source if each.once else None

    def prepare(self) -> None:
        """Find what every block needs."""
        for step in self.e.steps:
            if step.op.name in PRODUCTS and not self._loops_around(step.op):
                self._right(step.op, [])
                if not self.e.group.batch:
                    self.e.early.begin()

    def prepare_batch(self, batch: Sequence[At]) -> None:
        """Find what every block of one trip of the innermost of these loops needs, and of those inside of it."""
        for step in self.e.steps:
            if step.op.name in PRODUCTS and self._loops_around(step.op) == len(batch):
                self._right(step.op, batch)
                if len(batch) == len(self.e.group.batch):
                    self.e.early.begin()

    def _loops_around(self, op: Op) -> int:
        """How many of the batch loops, from the outermost on, a right operand has to be inside of."""
        y, roles = op.operands[1], self.e.group.roles[op.result]
        by = op.result.type.rank - y.type.rank
        own = [roles.batch.index(d + by) for d, n in enumerate(y.type.shape[:-2]) if n != 1]
        return max(own, default=-1) + 1

    def is_widened(self, op: Op) -> bool:
        """True where a narrow right operand is cast to float32: that is less work than to split the left one in terms.

        Its columns are few, and its rows serve many blocks.
        """
        k, n = op.operands[1].type.shape[-2:]
        if op.name != "matmul_split" or self.e.group.rows <= self.e.lanes:
            return False
        size = -(-k // self.e.lanes) * n * float32.itemsize
        return n * float32.itemsize <= self.bank and size <= TUNING.part_bytes

    def _right(self, op: Op, batch: Sequence[At]) -> None:
        key = op.operands[1], self.is_widened(op)
        if key not in self.right:
            found = self._found(op, batch)
            self.right[key] = self._widened(found) if key[1] else found

    @decision("right: widened")
    def _widened(self, narrow: Contracted) -> Contracted:
        """A right operand cast to float32."""
        lanes, blocks, columns = narrow.view.sizes
        made = self.b.sbuf((lanes, blocks, columns), float32, "wide", depth=2)
        whole, rest = divmod(narrow.k, lanes)
        if whole:
            self.e.copy(sliced(made, 1, 0, whole), sliced(narrow.view, 1, 0, whole))
        if rest:
            self.e.copy(*(sliced(picked(view, 1, whole), 0, 0, rest) for view in (made, narrow.view)))
        return Contracted(made, narrow.k)

    def _found(self, op: Op, batch: Sequence[At]) -> Contracted:
        """A right operand where it is, or as it is loaded."""
        y = op.operands[1]
        k, n = y.type.shape[-2:]
        rank, out_rank = y.type.rank, op.result.type.rank
        home = self.low.moved.get((y, (rank - 2, rank - 1))) or self.low.home(y)
        roles = self.e.group.roles[op.result]
        picks = [batch[roles.batch.index(d + out_rank - rank)] if y.type.shape[d] != 1 else 0 for d in range(rank - 2)]
        lanes = self.e.lanes
        if isinstance(home, Chip) and home.rows in ((rank - 2, rank - 1), (rank - 1, rank)):
            view = home.view
            for at in picks:
                view = picked(view, 2, at)
            turned = home.rows == (rank - 1, rank)
            return self._turned(view, n, k) if turned else Contracted(view, k)
        source = self.low.in_hbm(y)
        ahead = self._found_ahead(y, source, picks, self._loops_around(op))
        if ahead is not None:
            return ahead
        for at in picks:
            source = picked(source, 0, at)
        if source.strides[1] == 1 or n == 1:
            if self._is_read_once(op):
                shape = (min(lanes, k), -(-k // lanes), n)
                view = View(source.buffer, source.dtype, 0, shape, (0, 0, 0))
                return Contracted(view, k, source, once=True)
            made = self.b.sbuf((min(lanes, k), -(-k // lanes), n), source.dtype, y.name or "right", depth=2)
            # What serves several trips of a loop is there before the first.
            again = self.loads_first or self._serves_trips(op) or self.is_widened(op)
            if again or source.nbytes <= (
                TUNING.causal_operand_bytes if self.e.causal is not None else TUNING.small_operand_bytes
            ):
                self._load_blocks(made, source)
                return Contracted(made, k)
            return Contracted(made, k, source)
        # Rows of the transposed operand are contiguous: load them and turn them.
        other, rows_of = -(-n // lanes), min(lanes, n)
        staged = self.b.sbuf((rows_of, other, k), source.dtype, y.name or "rows", depth=2)
        rows = permuted(source, (1, 0))
        # In pieces, so that the first can be turned while the others are on their way.
        least = -(-least_transfer(self.low.target) * other // source.nbytes)
        each = min(max(-(-other // TUNING.operand_load_pieces), least), other)
        for first in range(0, other, each):
            count = min(each, other - first)
            stop = min((first + count) * lanes, n)
            self._load_blocks(sliced(staged, 1, first, count), sliced(rows, 0, first * lanes, stop - first * lanes))
        return self._turned(staged, n, k)

    @decision("right: for several trips", if_found=True)
    def _found_ahead(self, y: Value, source: View, picks: Sequence[At], loops: int) -> Contracted | None:
        """A small right operand that comes with those of other trips."""
        ahead, group = self.e.ahead, self.e.group
        k, n = y.type.shape[-2:]
        if ahead is None or ahead.by_rows or loops < len(group.batch) or k > self.e.lanes:
            return None
        for at in picks[:-1]:
            source = picked(source, 0, at)
        if source.strides[2] == 1 or n == 1:
            return Contracted(expanded(ahead.matrices(y, source), 1), k)
        if n > self.e.lanes:
            return None
        return self._turned(expanded(ahead.matrices(y, permuted(source, (0, 2, 1))), 1), n, k)

    def _is_read_once(self, op: Op) -> bool:
        """True when a right operand serves a single block of rows of a single trip, and a single product."""
        y = op.operands[1]
        readers = [step.op for step in self.e.steps if step.op.name in PRODUCTS and step.op.operands[1] is y]
        return self.e.group.rows <= self.e.lanes and len(readers) == 1 and not self._serves_trips(op)

    def _serves_trips(self, op: Op) -> bool:
        """True for a right operand of several trips of a loop."""
        return prod(self.e.group.batch[self._loops_around(op) :]) > 1

    def is_in_turn(self, op: Op) -> bool:
        x, y = op.operands
        homes = [self.low.homes.get(v) for v in (x, y)]
        views = [home.view for home in homes if isinstance(home, Hbm)]
        plain = x.type.rank == y.type.rank == 2 and op.name != "matmul_split" and x not in self.e.group.roles
        alone = self._is_read_once(op) and [step.op for step in self.e.user_of_any(x)] == [op]
        if len(views) < 2 or not plain or not alone or self.e.group.rows > self.e.lanes:
            return False
        (k, n), m = y.type.shape, x.type.shape[0]
        # Both lie so in HBM, and rows of one are short.
        lies = views[0].strides[0] == 1 and views[0].strides[1] != 1 and views[1].strides[1] == 1
        short = min(m * views[0].dtype.itemsize, n * views[1].dtype.itemsize)
        long = short >= self.b.target["dma.efficient_bytes_minimum"]
        return lies and not long and min(m, n) > 1 and k > self.e.lanes and k % self.e.lanes == 0

    @decision("right: read once")
    def _load_once(self, right: Contracted, k: int, at: At, size: int) -> None:
        """Load the rows up to k of some columns, unless they are there."""
        before = right.loaded.get((at, size), 0)
        if k > before:
            right.loaded[at, size] = k
            self._load_panel(right, at, size, before, k)

    def _load_panel(self, right: Contracted, at: At, size: int, start: int, stop: int) -> None:
        """Some columns of a right operand, in transfers of about the size that a DMA moves at full rate."""
        assert right.source is not None
        lanes = right.view.sizes[0]
        source = sliced(right.source, 1, at, size)
        tile = sliced(right.view, 2, at, size)
        each = max(TUNING.transfer_bytes // (lanes * size * source.dtype.itemsize), 1)
        whole = stop // lanes
        for first in range(start // lanes, whole, each):
            count = min(each, whole - first)
            self._load_blocks(sliced(tile, 1, first, count), sliced(source, 0, first * lanes, count * lanes))
        rest = stop - whole * lanes
        if rest:
            part = sliced(picked(tile, 1, whole), 0, 0, rest)
            self.b.op("dma_copy", part, sliced(source, 0, whole * lanes, rest))
