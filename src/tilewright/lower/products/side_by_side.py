"""Products of several blocks of rows side by side: each by itself into neighbouring columns of a bank of PSUM, so that
one instruction turns, copies or computes on those of all of them.

Left operands are [K on partitions, blocks of K, members, rows]. Members are blocks of rows, with one right operand for
all of them, or those of a batch (`member_products.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decided
from tilewright.lower.products.matmul import MatmulEmitter
from tilewright.lower.regions.roles import PRODUCTS, Roles
from tilewright.lower.write.block import Block
from tilewright.lower.write.builder import transposed
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.views import affine, as_shape, broadcast, merged, permuted, picked, reshaped, sliced, split
from tilewright.tile.memory import PSUM
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.regions.fuse import Step


class SideBySide(MatmulEmitter):
    """Writes the matmuls of a group whose partitions have several rows."""

    def each(self, op: Op, block: Block) -> Callable[[View, int], None]:
        """What writes the product of a member into its columns of a bank."""
        raise NotImplementedError

    def emit(self, step: Step, blocks: Sequence[Block]) -> set[Op]:
        """Write the product of each member, and on all of them together the op that alone reads them."""
        (block,), op = blocks, step.op
        multiply = self.each(op, block)
        sink = self._sink(op)
        result = None if sink is not None else self.e.destination(step.result)
        if sink is not None:
            self.e.destination(sink.result)
            for v in sink.inputs():
                if v is not op.result:
                    self.e.operand(v, sink.op)
        n = op.result.type.shape[-1]
        bank = self.b.psum((block.partitions, block.per, n), float32, "acc", depth=self.single)
        for j in range(block.per):
            multiply(picked(bank, 1, j), j)
        ones = self.e.group.roles[op.result].free_dims(op.result.type.rank)[:-1]
        made = reshaped(bank, (*bank.sizes[:2], *[1 for _ in ones], n))
        assert made is not None, "dims of size 1 come"
        if sink is None:
            assert result is not None
            self.e.copy(result, made)
            return set()
        self.e.on_panel(sink, op.result, made, 0, n)
        return {sink.op}

    def turn_rows(self, rows: View, parts: int = 1) -> View:
        """[rows, members, K] as [K, blocks of K, members, rows], as many members at a time as a bank has room for."""
        (count, members, k), lanes = rows.sizes, self.e.lanes
        if parts > 1:
            members, k = members // parts, k * parts
            beside = reshaped(rows, (count, members, k))
            assert beside is not None, "rows of members lie beside each other"
            rows = beside
        made = self.b.sbuf((min(lanes, k), -(-k // lanes), members, count), rows.dtype, transposed(rows), depth=2)
        dtype, unit = self._psum_dtype(rows.dtype), self.unit(count, rows.dtype)
        each = min(max(self.bank // dtype.itemsize // count, 1), members)
        for i in range(made.sizes[1]):
            width = min(k - i * lanes, lanes)
            part = sliced(picked(made, 1, i), 0, 0, width)
            for first, some in tiled(self.b, members, each, "t"):
                bank = self.b.psum((width, some, count), dtype, transposed(rows, PSUM), depth=self.single)
                for j in range(some):
                    tile = sliced(picked(rows, 1, affine(first) + j), 1, i * lanes, width)
                    self.b.op("nc_matmul", picked(bank, 1, j), tile, unit, is_transpose=True, is_moving_onezero=True)
                self.e.copy(sliced(part, 1, first, some), bank)
        return made

    def turned_rows(self, x: Value, roles: Roles, parts: int = 1) -> View:
        """The rows of the block in work of a left operand, with K on partitions."""
        tile = self.e.whole_tile(x, roles)
        if parts > 1:
            # Elements that are all the same are there for one member.
            tile = broadcast(tile, (tile.sizes[0], self.e.block.per, *tile.sizes[2:]))
        wanted = (*tile.sizes[:2], x.type.shape[-1])
        rows = reshaped(tile, wanted)
        if rows is None or (parts > 1 and merged(rows, 1, 2) is None):
            rows = self.b.sbuf(wanted, tile.dtype, "rows", depth=2)
            shaped = as_shape(rows, tile.sizes)
            self.e.copy(shaped, tile)
        return self.turn_rows(rows, parts)


class RowProducts(SideBySide):
    """Writes the matmuls of a group, several blocks of short rows at a time."""

    def _share_banks(self) -> None:
        """As many banks as there are for two of each product, and for what is turned."""
        super()._share_banks()
        taken = sum(step.op.name in PRODUCTS for step in self.e.steps) + len(self.e.group.totals)
        self.single = 2 if 2 * (taken + 1) <= self.b.target["memory.psum_banks"] else 1

    def emit(self, step: Step, blocks: Sequence[Block]) -> set[Op]:
        """As it is for a block that is left over with one row in each partition."""
        if blocks[0].per == 1:
            return MatmulEmitter.emit(self, step, blocks)
        decided("product: blocks of rows side by side")
        return super().emit(step, blocks)

    def each(self, op: Op, block: Block) -> Callable[[View, int], None]:
        """Products of blocks of rows with one right operand."""
        x, y = op.operands
        k, n, lanes = *y.type.shape[-2:], self.e.lanes
        left = block.loaded.get(("turned", x))
        if left is None:
            left = self._kept_rows(x, block)
            left = self.turned_rows(x, self._left_roles(x, op)) if left is None else left
            block.loaded["turned", x] = left
        right = self.right[y, self.is_widened(op)]
        if right.source is not None:
            self._load_once(right, k, 0, n)

        def multiply(bank: View, j: int) -> None:
            for i in range(left.sizes[1]):
                stands = picked(picked(sliced(left, 0, 0, min(k - i * lanes, lanes)), 1, i), 1, j)
                self.b.op("nc_matmul", bank, stands, right.part(i, 0, n))

        return multiply

    def _kept_rows(self, x: Value, block: Block) -> View | None:
        """The rows of a left operand that lies on chip as products read it, [K, blocks of K, members, rows]."""
        kept = self._kept_turned(x)
        if kept is None:
            return None
        rows = sliced(kept, 2, block.start, block.partitions * block.per)
        if block.is_wide:
            return split(rows, 2, (block.per, block.partitions))
        return permuted(split(rows, 2, (block.partitions, block.per)), (0, 1, 3, 2))
