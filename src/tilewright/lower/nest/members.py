"""Several members of a batch side by side.

A batch of small matrices has a few rows each, and a loop over its members would write an instruction for each of them.
Here a partition has the same row of several members: a tile is [rows, members, *free], and what computes, reduces,
loads and stores does that for all of them at once. Products are each by themselves, into columns of one bank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Value
from tilewright.lower.move.moves import load, replicate
from tilewright.lower.nest.blocks import BlockEmitter, is_plain
from tilewright.lower.nest.inside import INSIDE
from tilewright.lower.products.member_products import MemberProducts
from tilewright.lower.regions.axes import COMBINED
from tilewright.lower.regions.roles import Roles
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.block import Block, with_dims
from tilewright.lower.write.homes import Chip, Hbm, device_dtype, is_view
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.views import At, as_shape, dropped, expanded, merged, permuted, picked, sliced

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group
    from tilewright.target import Target
    from tilewright.tile.view import View

MULTIPLIED = ("matmul", "matmul_wide")
"""Products that members have side by side."""


def most_members(group: Group, target: Target) -> int:
    """How many members of the innermost batch loop may be side by side; 0 where none may."""
    products = [op for op in group.ops if op.name in MULTIPLIED]
    able = all(op in products or is_plain(op) or op.name in (*COMBINED, *INSIDE) or is_view(op) for op in group.ops)
    if not products or not able or not group.batch or group.rows > target["limits.partitions"]:
        return 0
    if not target["features.transpose_bit_exact"]:
        # Operands would have to be turned by squares, a member at a time.
        return 0
    widest = max(op.result.type.shape[-1] for op in products)
    return min(target["memory.psum_bank_bytes"] // float32.itemsize // max(widest, 1), group.batch[-1])


def members_at_a_time(group: Group, target: Target) -> Iterator[int]:
    """Numbers of them to try, most first."""
    most = most_members(group, target)
    while most > 1:
        # As even as can be.
        trips = -(-group.batch[-1] // most)
        yield -(-group.batch[-1] // trips)
        most = -(-group.batch[-1] // trips) // 2


class Members(BlockEmitter):
    """Writes one group, several members of its innermost batch loop at a time."""

    def __init__(self, low: Lowering, group: Group, count: int) -> None:
        self.count = count
        super().__init__(low, group, many_rows=True)
        self.is_wide = True
        self.matmul = self.products = MemberProducts(self)

    def _rows_per_partition(self) -> int:
        return self.count

    def _all_rows(self) -> None:
        self.early.end()
        self.early.begin()
        *outer, last = self.group.batch
        with ExitStack() as stack:
            batch: list[At] = []
            self.products.share(batch)
            for n in outer:
                batch.append(stack.enter_context(self.b.loop(n, "b")))
                self.products.share(batch)
            for first, count in tiled(self.b, last, self.count, "b"):
                self.per = count
                self.products.begin()
                self._load_batch([*batch, first])
                self._body(self._members(batch, first))

    def _members(self, batch: Sequence[At], first: At) -> Block:
        block = Block([*batch, first], 0, 0, self.group.rows, self.per)
        block.is_plain = True
        return block

    # What belongs to the members in work.

    def of_members(self, part: View, count: int) -> View:
        """[members, ...] of [*batch, ...], which has the last `count` of the batch dims; what does not differ from
        member to member is there once."""
        if not count:
            return expanded(part, 0)
        trips = self.block.batch[len(self.block.batch) - count :]
        for at in trips[:-1]:
            part = picked(part, 0, at if part.sizes[0] != 1 else 0)
        return part if part.sizes[0] == 1 else sliced(part, 0, trips[-1], self.per)

    def hbm_tile(self, view: View, roles: Roles) -> View:
        part = permuted(view, (*roles.batch, *range(*roles.rows), *roles.free_dims(view.ndim)))
        part = self.of_members(part, len(roles.batch))
        count = roles.rows[1] - roles.rows[0]
        rows = merged(part, 1, count) if count else expanded(part, 1)
        assert rows is not None, "rows that are not evenly apart are made contiguous before"
        return permuted(rows, (1, 0, *range(2, rows.ndim)))

    def chip_tile(self, chip: Chip, roles: Roles) -> View:
        outside = [d for d in range(len(chip.shape)) if not chip.rows[0] <= d < chip.rows[1]]
        looped = [d for d in roles.batch if d in outside]
        dims = [d for d in outside if d not in looped]
        part = picked(sliced(chip.view, 0, 0, self.block.partitions), 1, 0)
        part = permuted(part, (*[1 + outside.index(d) for d in looped], 0, *[1 + outside.index(d) for d in dims]))
        part = self.of_members(part, len(looped))
        part = permuted(part, (1, 0, *range(2, part.ndim)))
        return with_dims(part, dims, roles.free_dims(len(chip.shape)))

    def _fetch(self, x: Value, roles: Roles) -> View:
        return self._held_rows(x, roles) or super()._fetch(x, roles)

    def _held_rows(self, x: Value, roles: Roles) -> View | None:
        """Rows that trips of the loops read again, loaded before them."""
        shape, home = x.type.shape, self.low.home(x)
        trips, rows = prod(shape[d] for d in roles.batch), prod(shape[slice(*roles.rows)])
        size = x.type.size // max(rows, 1) * device_dtype(x.type.dtype).itemsize
        if rows != self.group.rows or rows == 1 or trips == prod(self.group.batch) or not isinstance(home, Hbm):
            return None
        if size > min(TUNING.part_bytes, self.low.room()):
            return None
        count = roles.rows[1] - roles.rows[0]
        whole = permuted(home.view, (*range(*roles.rows), *roles.batch, *roles.free_dims(x.type.rank)))
        whole = merged(whole, 0, count - 1)
        if whole is None:
            return None
        key = (x, roles.rows, roles.batch)
        if key not in self.early.tiles:
            with self.early.before():
                tile = self.early.tiles[key] = self.b.sbuf(whole.sizes, whole.dtype, x.name or "x")
                load(self.low, tile, whole)
        batch = len(roles.batch)
        order = (*range(1, 1 + batch), 0, *range(1 + batch, whole.ndim))
        part = self.of_members(permuted(self.early.tiles[key], order), batch)
        return permuted(part, (1, 0, *range(2, part.ndim)))

    def _held_for_trip(self, x: Value, own: Roles) -> View | None:
        found = self.low.shared.get(("shared", x, "trips"))
        if found is None:
            return None
        trips = [x.type.shape[d] for d in own.batch]
        whole = as_shape(found, (self.lanes, *trips, x.type.size // prod(trips)))
        part = self.of_members(permuted(whole, (*range(1, whole.ndim - 1), 0, whole.ndim - 1)), len(trips))
        return permuted(part, (1, 0, 2))

    def _replicate(self, x: Value, roles: Roles) -> View:
        part = permuted(self.low.in_hbm(x), (*roles.batch, *range(*roles.rows), *roles.free_dims(x.type.rank)))
        part = self.of_members(part, len(roles.batch))
        for _ in range(*roles.rows):
            part = dropped(part, 1)
        return replicate(self.low, part, self.lanes, x.name or "shared", x in self.low.signed)

    def beside(self, x: Value, roles: Roles) -> int:
        return self.per if roles.batch and x.type.shape[roles.batch[-1]] != 1 else 1
