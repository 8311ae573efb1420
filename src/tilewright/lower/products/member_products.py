"""Products of several members of a batch side by side: each by itself into neighbouring columns of a bank of PSUM, so
that one instruction turns, copies or computes on those of all of them.

Operands are [K on partitions, blocks of K, members, columns]; one that all members share has a single one. Where K is
as high as a part of the Tensor engine's array, each part has a member: operands are then [K of several members on
partitions, 1, members of each part, columns]. One instruction turns those of all parts, and their products run at the
same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decided
from tilewright.lower.move.moves import load
from tilewright.lower.products.side_by_side import SideBySide
from tilewright.lower.regions.roles import PRODUCTS, Roles
from tilewright.lower.write.block import Block
from tilewright.lower.write.homes import Chip, Hbm
from tilewright.lower.write.transfers import transfer
from tilewright.lower.write.views import At, permuted, picked, reshaped, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.nest.members import Members
    from tilewright.lower.regions.fuse import Step


class MemberProducts(SideBySide):
    """Writes the matmuls of a group, some members of its batch at a time."""

    e: Members

    def __init__(self, emitter: Members) -> None:
        super().__init__(emitter)
        self.rights: dict[tuple[Value, int], View] = {}

    def begin(self) -> None:
        """Other members come, and with them right operands of their own; these are loaded when they are needed."""
        own = {step.op.operands[1] for step in self._products(len(self.e.group.batch))}
        self.rights = {key: view for key, view in self.rights.items() if key[0] not in own}

    def share(self, batch: Sequence[At]) -> None:
        """Find the right operands that need the indices of these loops and of none inside of them."""
        inside = [0] * (len(self.e.group.batch) - len(batch))
        self.e.block = Block([*batch, *inside], 0, 0, self.e.group.rows, 1)
        for step in self._products(len(batch)):
            self.b.location = step.op.location
            self._rights_of(step.op, 1)

    def _products(self, loops: int) -> list[Step]:
        """Those whose right operand has to be inside of so many loops."""
        return [step for step in self.e.steps if step.op.name in PRODUCTS and self._loops_around(step.op) == loops]

    def each(self, op: Op, block: Block) -> Callable[[View, int], None]:
        """Products of members, in a part of the array each where it has one."""
        parts = self._parts(op)
        left, right = self._lefts_of(op, block, parts), self._rights_of(op, parts)
        return lambda bank, j: self._multiply_member(op, bank, left, right, j, parts)

    def _multiply_member(self, op: Op, bank: View, left: View, right: View, j: int, parts: int) -> None:
        """The product of one member, in a part of the array where it has one."""
        k, lanes = op.operands[1].type.shape[-2], self.e.lanes
        if parts > 1:
            start = j % parts * k
            operands = (picked(picked(sliced(view, 0, start, k), 1, 0), 1, j // parts) for view in (left, right))
            place = {"tile_position": (start, 0), "tile_size": (k, self.b.target["limits.pe_columns"])}
            self.b.op("nc_matmul", bank, *operands, **place)
            return
        for i in range(left.sizes[1]):
            rows = min(k - i * lanes, lanes)
            operands = (_member(view, i, j, rows) for view in (left, right))
            self.b.op("nc_matmul", bank, *operands)

    def _parts(self, op: Op) -> int:
        """Parts of the array that have a member each; 1 where K is not as high as a part, or members share operands."""
        (x, y), target = op.operands, self.b.target
        k, rows = x.type.shape[-1], target["limits.pe_rows"]
        if k not in target["limits.pe_tile_sizes"] or self.e.per % (rows // k):
            return 1
        in_hbm = [isinstance(self.low.home(v), Hbm) for v in (x, y) if v not in self.e.group.roles]
        rank, roles = op.result.type.rank, self.e.group.roles[op.result]
        last = [roles.batch[-1] - (rank - v.type.rank) for v in (x, y)]
        apart = all(d >= 0 and v.type.shape[d] != 1 for d, v in zip(last, (x, y), strict=True))
        return rows // k if all(in_hbm) and apart else 1

    def _lefts_of(self, op: Op, block: Block, parts: int) -> View:
        """The left operands of all members."""
        x = op.operands[0]
        key = ("left", x, parts)
        found = block.loaded.get(key)
        if found is None:
            roles = self._left_roles(x, op)
            found = self._left_as_it_lies(x, roles, parts) or self.turned_rows(x, roles, parts)
            block.loaded[key] = found
        return found

    def _left_as_it_lies(self, x: Value, roles: Roles, parts: int) -> View | None:
        """A left operand whose rows of K lie together in memory."""
        if x in self.e.group.roles or x in self.e.block.tiles or isinstance(self.low.home(x), Chip):
            return None
        part = self.e.fetch_view(x, roles)
        part = reshaped(part, (*part.sizes[:2], x.type.shape[-1]))
        if part is None or part.strides[0] != 1 or part.strides[2] == 1:
            return None
        return self._loaded(x, permuted(part, (2, 1, 0)), parts)

    def _rights_of(self, op: Op, parts: int) -> View:
        """The right operands of all members, or the one that they share."""
        key = op.operands[1], parts
        if key not in self.rights:
            self.rights[key] = self._right_of(op, *key)
        return self.rights[key]

    def _right_of(self, op: Op, y: Value, parts: int) -> View:
        rank = y.type.rank
        rows, columns = (rank - 2, rank - 1), (rank - 1, rank)
        home = self.low.moved.get((y, rows)) or self.low.home(y)
        if isinstance(home, Chip) and home.rows in (rows, columns):
            # [lanes, blocks, *batch, free]
            view = self._of_members(op, permuted(home.view, (*range(2, rank), 0, 1, rank)))
            view = permuted(view, (1, 2, 0, 3))
            if home.rows == rows:
                return view
            self._has_few_columns(op)
            return self.turn_rows(sliced(picked(view, 1, 0), 0, 0, y.type.shape[-1]))
        part = self._of_members(op, self.low.in_hbm(y))
        if part.strides[2] == 1 or part.sizes[2] == 1:
            return self._loaded(y, permuted(part, (1, 0, 2)), parts)
        self._has_few_columns(op)
        part = permuted(part, (2, 0, 1))
        staged = self.b.sbuf(part.sizes, part.dtype, y.name or "rows", depth=2)
        load(self.low, staged, part)
        return self.turn_rows(staged, parts)

    def _of_members(self, op: Op, view: View) -> View:
        """[members, ...] of a right operand [*dims before its matrices, ...]."""
        y = op.operands[1]
        by, looped = op.result.type.rank - y.type.rank, self.e.group.roles[op.result].batch
        batch = [d - by for d in looped if d >= by]
        # Others have one element.
        others = [d for d in range(y.type.rank - 2) if d not in batch]
        part = permuted(view, (*others, *batch, *range(y.type.rank - 2, view.ndim)))
        for _ in others:
            part = picked(part, 0, 0)
        return self.e.of_members(part, len(batch))

    def _has_few_columns(self, op: Op) -> None:
        if op.result.type.shape[-1] > self.e.lanes:
            raise fail(
                "E501",
                f"{op.name}: a right operand that is turned has more columns than there are partitions",
                location=op.location,
                error=TileNotImplementedError,
            )

    def _loaded(self, x: Value, part: View, parts: int) -> View:
        """[K, members, columns] in HBM as [lanes, blocks of K, members, columns]."""
        k, lanes = part.sizes[0], self.e.lanes
        if parts > 1:
            each = part.sizes[1] // parts
            made = self.b.sbuf((parts * k, 1, each, part.sizes[2]), part.dtype, x.name or "member", depth=2)
            source = permuted(split(part, 1, (each, parts)), (2, 0, 1, 3))
            transfer(self.b, split(picked(made, 1, 0), 0, (parts, k)), source, lanes=2)
            return made
        shape = (min(lanes, k), -(-k // lanes), *part.sizes[1:])
        made = self.b.sbuf(shape, part.dtype, x.name or "member", depth=2)
        for i in range(shape[1]):
            rows = min(k - i * lanes, lanes)
            load(self.low, sliced(picked(made, 1, i), 0, 0, rows), sliced(part, 0, i * lanes, rows))
        decided("product: operands of several members loaded together")
        return made


def _member(view: View, block: int, member: int, rows: int) -> View:
    """[K, columns]: a block of K of one member."""
    part = picked(sliced(view, 0, 0, rows), 1, block)
    return picked(part, 1, member if part.sizes[1] > 1 else 0)
