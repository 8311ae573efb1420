"""Products of matrices inside a group: the left operand's block of rows stands still, the right operand moves past it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import DType, float32
from tilewright.ir.core import Op, Value
from tilewright.lower.homes import Chip
from tilewright.lower.roles import Roles
from tilewright.lower.views import At, expanded, permuted, picked, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.blocks import Block, BlockEmitter
    from tilewright.lower.fuse import Step


@dataclass(frozen=True, slots=True)
class Contracted:
    """An operand with the contracted dim on partitions: `view` is [lanes, k blocks, columns], of `k` rows in all."""

    view: View
    k: int

    def part(self, block: int, start: At, size: int) -> View:
        """Rows of one block of K, some columns."""
        lanes = self.view.sizes[0]
        rows = min(lanes, self.k - block * lanes)
        return sliced(sliced(picked(self.view, 1, block), 0, 0, rows), 1, start, size)

    @property
    def blocks(self) -> int:
        """Blocks of K."""
        return self.view.sizes[1]


class MatmulEmitter:
    """Writes the matmuls of one group."""

    def __init__(self, emitter: BlockEmitter) -> None:
        self.e = emitter
        self.b = emitter.b
        self.low = emitter.low
        self.right: dict[Value, Contracted] = {}
        self._identity: dict[DType, View] = {}

    # Right operands, before the loop over rows.

    def prepare(self) -> None:
        """Load what every block needs."""
        for step in self.e.steps:
            if step.op.name == "matmul" and not self._batched(step.op):
                self._right(step.op, [])

    def prepare_batch(self, batch: list[At]) -> None:
        """Load what every block of one trip of the batch loops needs."""
        for step in self.e.steps:
            if step.op.name == "matmul" and self._batched(step.op):
                self._right(step.op, batch)

    def _batched(self, op: Op) -> bool:
        y = op.operands[1]
        return any(n != 1 for n in y.type.shape[:-2])

    def _right(self, op: Op, batch: list[At]) -> None:
        y = op.operands[1]
        if y in self.right:
            return
        home = self.low.home(y)
        k, n = y.type.shape[-2:]
        lanes = min(self.e.lanes, k)
        blocks = -(-k // self.e.lanes)
        rank, out_rank = y.type.rank, op.result.type.rank
        roles = self.e.group.roles[op.result]
        picks = [
            batch[roles.batch.index(d + out_rank - rank)] if y.type.shape[d] != 1 else 0 for d in range(rank - 2)
        ]
        if isinstance(home, Chip) and home.rows == (rank - 2, rank - 1):
            view = home.view
            for at in picks:
                view = picked(view, 2, at)
            self.right[y] = Contracted(view, k)
            return
        if isinstance(home, Chip) and home.rows == (rank - 1, rank):
            # Its columns lie on partitions: turned block by block.
            view = home.view
            for at in picks:
                view = picked(view, 2, at)
            self.right[y] = self._turned(view, n, k)
            return
        source = self.low.in_hbm(y)
        for at in picks:
            source = picked(source, 0, at)
        if source.strides[1] == 1 or n == 1:
            made = self.b.sbuf((lanes, blocks, n), source.dtype, y.name or "right", depth=2)
            for i in range(blocks):
                rows = min(lanes, k - i * lanes)
                self.b.op("dma_copy", sliced(picked(made, 1, i), 0, 0, rows), sliced(source, 0, i * lanes, rows))
            self.right[y] = Contracted(made, k)
            return
        # Rows of the transposed operand are contiguous: load them and turn them.
        other = -(-n // self.e.lanes)
        rows_of = min(self.e.lanes, n)
        staged = self.b.sbuf((rows_of, other, k), source.dtype, y.name or "rows", depth=2)
        for i in range(other):
            rows = min(rows_of, n - i * rows_of)
            part = permuted(sliced(source, 1, i * rows_of, rows), (1, 0))
            self.b.op("dma_copy", sliced(picked(staged, 1, i), 0, 0, rows), part)
        self.right[y] = self._turned(staged, n, k)

    def _turned(self, rows: View, n: int, k: int) -> Contracted:
        """[n on partitions, blocks, k] as [k on partitions, blocks of k, n]."""
        lanes, dtype = self.e.lanes, rows.dtype
        kl = min(lanes, k)
        made = self.b.sbuf((kl, -(-k // lanes), n), dtype, "turned", depth=2)
        for i in range(rows.sizes[1]):
            count = min(rows.sizes[0], n - i * rows.sizes[0])
            part = sliced(picked(rows, 1, i), 0, 0, count)
            for j in range(made.sizes[1]):
                width = min(kl, k - j * kl)
                out = sliced(sliced(picked(made, 1, j), 0, 0, width), 1, i * rows.sizes[0], count)
                self.turn(out, sliced(part, 1, j * kl, width))
        return Contracted(made, k)

    def turn(self, out: View, tile: View) -> None:
        """out[c, r] = tile[r, c] by the Tensor engine."""
        bank = self.b.psum((out.sizes[0], out.sizes[1]), self._psum_dtype(tile.dtype), "turn", depth=2)
        rows = tile.sizes[0]
        self.b.op("nc_matmul", bank, tile, self.identity(rows, tile.dtype), is_transpose=True, is_moving_onezero=True)
        self.b.op("tensor_copy", out, bank)

    def _psum_dtype(self, dtype: DType) -> DType:
        return dtype if dtype.itemsize == 2 and self.b.target["features.transpose_16bit_psum"] else float32

    def identity(self, rows: int, dtype: DType) -> View:
        """An identity matrix of the operand's type."""
        key = ("identity", dtype)
        found = self.low.shared.get(key)
        if found is None:
            from tilewright.lower.patterns import identity

            found = self.low.shared[key] = identity(self.low, dtype)
        return sliced(sliced(found, 0, 0, rows), 1, 0, rows)

    # One block.

    def emit(self, step: Step, block: Block) -> set[Op]:
        """Write a matmul and, where one op alone reads it, that op on the banks as they fill."""
        op = step.op
        x, y = op.operands
        right = self.right[y]
        left = self._left(x, op, block)
        n = op.result.type.shape[-1]
        width = self.b.target["memory.psum_bank_bytes"] // float32.itemsize
        panel = width * 2
        sink = self._sink(op)
        result = None if sink is not None else self.e.destination(op.result)
        if sink is not None:
            self.e.destination(sink.op.result)
        whole, rest = divmod(n, panel)
        if whole:
            with self.b.loop(whole, "n", panel) as at:
                self._panel(op, left, right, at, panel, width, result, sink, block)
        if rest:
            self._panel(op, left, right, whole * panel, rest, width, result, sink, block)
        return {sink.op} if sink is not None else set()

    def _panel(
        self,
        op: Op,
        left: Contracted,
        right: Contracted,
        at: At,
        size: int,
        width: int,
        result: View | None,
        sink: Step | None,
        block: Block,
    ) -> None:
        bank = self.b.psum((block.partitions, size), float32, "acc", depth=2)
        for k in range(left.blocks):
            for start in range(0, size, width):
                count = min(width, size - start)
                from tilewright.lower.views import affine

                self.b.op(
                    "nc_matmul",
                    sliced(bank, 1, start, count),
                    left.part(k, 0, block.partitions),
                    right.part(k, affine(at) + start, count),
                )
        tile = expanded(bank, 1)
        if sink is None:
            assert result is not None
            self.b.op("tensor_copy", sliced(result, result.ndim - 1, at, size), tile)
            return
        self.e.on_panel(sink, op.result, tile, at, size)

    def _sink(self, op: Op) -> Step | None:
        """The only reader of a product, when it works element by element and its other operands are ready."""
        users = self.e.user_of[op.result]
        if len(users) != 1 or len(op.result.uses) != 1 or op.result in self.e.kept:
            return None
        step = users[0]
        if step.op.definition.family != "elementwise" or step.total is not None or step.op.name == "where":
            return None
        if step.op.result.type.shape != op.result.type.shape:
            return None
        if step.kind == "op" and step.op.name not in ("cast", "add", "subtract", "multiply", "maximum", "minimum"):
            return None
        position = self.e.steps.index(next(s for s in self.e.steps if s.op is op))
        ready = {s.op.result for s in self.e.steps[:position]}
        ready |= {s.total.result for s in self.e.steps[:position] if s.total is not None}
        for v in step.inputs():
            if v is not op.result and v in self.e.group.roles and v not in ready:
                return None
        return step

    def _left(self, x: Value, op: Op, block: Block) -> Contracted:
        """The block's rows of the left operand, turned so that K lies on partitions."""
        key = ("left", x)
        found = block.loaded.get(key)
        if found is None:
            k = x.type.shape[-1]
            lanes = self.e.lanes
            tile = self.e.value_tile(x, self._left_roles(x, op))
            rows = picked(tile, 1, 0)
            if rows.ndim > 2:
                from tilewright.lower.blocks import reshaped_tile

                rows = reshaped_tile(rows, (rows.sizes[0], k))
            made = self.b.sbuf((min(lanes, k), -(-k // lanes), block.partitions), tile.dtype, "left", depth=2)
            for i in range(made.sizes[1]):
                size = min(lanes, k - i * lanes)
                self.turn(sliced(picked(made, 1, i), 0, 0, size), sliced(rows, 1, i * lanes, size))
            found = block.loaded[key] = made
        return Contracted(found, x.type.shape[-1])

    def _left_roles(self, x: Value, op: Op) -> Roles:
        if x in self.e.group.roles:
            return self.e.group.roles[x]
        by = op.result.type.rank - x.type.rank
        roles = self.e.group.roles[op.result]
        return Roles((max(roles.rows[0] - by, 0), roles.rows[1] - by), tuple(d - by for d in roles.batch if d >= by))


_: Any = None
