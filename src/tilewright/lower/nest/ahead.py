"""What several trips of a loop load and store together.

A transfer takes the time of its issue however little it brings. Where a trip needs little (a small matrix of a batch, a
block of short rows), the loop is cut: one transfer brings what some trips read, the trips follow, one transfer takes
away what they made. Of blocks of rows, each partition has rows that follow each other in memory, a row for each trip.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.ir.core import Value
from tilewright.lower.decisions import decision
from tilewright.lower.move.early import Early, least_transfer
from tilewright.lower.move.moves import load
from tilewright.lower.regions.even import even_parts
from tilewright.lower.regions.roles import PRODUCTS, Roles
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Hbm, device_dtype
from tilewright.lower.write.views import At, expanded, merged, permuted, picked, sliced, split
from tilewright.target import Target
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.nest.blocks import BlockEmitter
    from tilewright.lower.nest.operands import Operands


class Ahead(Early):
    """Some trips: `count` of them from `first` on, of the innermost loop over a batch or of that over blocks of rows.

    index: the trip in work.
    """

    def __init__(self, e: Operands, first: At, count: int, by_rows: bool) -> None:
        super().__init__(e)
        self.first, self.count, self.by_rows = first, count, by_rows
        self.index: At = 0
        self.made: dict[Value, tuple[View, list[View]]] = {}
        self.begin()

    def chunk(self, view: View, roles: Roles) -> View | None:
        """[rows, trips, *free]: what belongs to the trips of a value in HBM; None for one that does not differ."""
        e, group = self.e, self.e.group
        trips = prod(group.batch) * (group.rows // e.lanes if self.by_rows else 1)
        if not is_little(e.low.target, prod(view.sizes) * view.dtype.itemsize // trips):
            return None
        if not self.by_rows and (len(roles.batch) != len(group.batch) or view.sizes[roles.batch[-1]] == 1):
            return None
        part = permuted(view, (*roles.batch, *range(*roles.rows), *roles.free_dims(view.ndim)))
        outer = e._trips(roles) if self.by_rows else e._trips(roles)[:-1]
        for at in outer:
            part = picked(part, 0, at if part.sizes[0] != 1 else 0)
        lead = 0 if self.by_rows else 1
        rows = roles.rows[1] - roles.rows[0]
        if rows == 0:
            part = expanded(part, lead)
        elif rows > 1:
            together = merged(part, lead, lead + rows - 1)
            if together is None:
                return None
            part = together
        if part.sizes[lead] != group.rows:
            return None
        if self.by_rows:
            return split(sliced(part, 0, self.first, e.lanes * self.count), 0, (e.lanes, self.count))
        part = sliced(part, 0, self.first, self.count)
        return permuted(part, (1, 0, *range(2, part.ndim)))

    def rows(self, x: Value, view: View, roles: Roles) -> View | None:
        """[rows, 1, *free]: an operand in HBM for the trip in work."""
        found = self.all_trips(x, view, roles)
        return None if found is None else expanded(picked(found, 1, self.index), 1)

    @decision("load: for several trips", if_found=True)
    def all_trips(self, x: Value, view: View, roles: Roles) -> View | None:
        """[rows, trips, *free]: an operand in HBM for all of them."""
        key = (x, roles.rows, roles.batch)
        found = self.tiles.get(key)
        source = self.chunk(view, roles) if found is None else None
        if source is not None:
            with self.before():
                found = self.tiles[key] = self.b.sbuf(source.sizes, view.dtype, x.name or "x", depth=2)
                load(self.e.low, found, source)
        return found

    def matrices(self, y: Value, source: View) -> View:
        """[rows, columns]: a matrix of an operand [trips, rows, columns] in HBM for the trip in work."""
        key = ("matrix", y, source.strides)
        found = self.tiles.get(key)
        if found is None:
            with self.before():
                part = permuted(sliced(source, 0, self.first, self.count), (1, 0, 2))
                found = self.b.sbuf(part.sizes, source.dtype, y.name or "right", depth=2)
                self.b.op("dma_copy", found, part)
            self.tiles[key] = found
        return picked(found, 1, self.index)

    def place(self, value: Value) -> View | None:
        """[rows, 1, *free]: where the trip in work puts a result; None for one that is stored by itself."""
        known = self.made.get(value)
        if known is None:
            roles, views = self.e.group.roles[value], self.e.places(value)
            parts = [self.chunk(view, roles) for view in views]
            chunks = [part for part in parts if part is not None]
            if len(chunks) < len(parts) or not chunks:
                return None
            with self.before():
                tile = self.b.sbuf(chunks[0].sizes, device_dtype(value.type.dtype), value.name or "t", depth=2)
            known = self.made[value] = tile, chunks
        return expanded(picked(known[0], 1, self.index), 1)

    @decision("store: for several trips")
    def store(self) -> None:
        """Send away what the trips have made, after them."""
        for tile, parts in self.made.values():
            for part in parts:
                self.b.op("dma_copy", part, tile)
                self.e.low.delivered[part.buffer] = None


def trips_at_a_time(e: BlockEmitter) -> tuple[int, bool]:
    """How many trips share transfers, and whether they are blocks of rows; 1: each has its own."""
    group, low, lanes = e.group, e.low, e.lanes
    products = [op for op in group.ops if op.name in PRODUCTS]
    if not products or not e.is_whole or e.per != 1 or e.causal is not None or low.frugal:
        return 1, False
    by_rows = prod(group.batch) == 1 or group.rows > lanes
    blocks = group.rows // lanes if by_rows else group.batch[-1]
    if blocks < 2:
        return 1, False
    if by_rows and (any(e.reads_chip(op) for op in group.ops) or any(map(_is_described, group.reads))):
        return 1, False
    rights = {op.operands[1] for op in products}
    shared = () if by_rows else tuple(v for v in rights if v.type.rank > 2 and v.type.shape[-2] <= lanes)
    moved = [v for v in (*group.reads, *group.results) if v not in rights]
    if any(not isinstance(low.homes.get(v), Hbm) for v in group.results):
        return 1, False
    trips = prod(group.batch) * (blocks if by_rows else 1)
    sizes = [v.type.size * v.type.dtype.itemsize // max(trips, 1) for v in (*moved, *shared)]
    most = max(sizes, default=0)
    if not most or not is_little(low.target, most):
        return 1, False
    # Bytes per partition of each of the tiles.
    each = max(most // min(group.rows, lanes), 1)
    alone = prod(group.batch[: None if by_rows else -1]) == 1
    limit = min(TUNING.piece_bytes // each, blocks // (TUNING.tall_pieces if alone else 1))
    if by_rows:
        # As even as can be.
        parts = -(-blocks // max(limit, 1))
        return max(blocks // parts, 1), True
    # Rows of each matrix are pieces of their own, which a queue moves one after the other.
    limit = min(limit, TUNING.ahead_pieces // group.rows)
    return max(even_parts(blocks, limit), default=1), False


def is_little(target: Target, size: int) -> bool:
    """True for so few bytes that a transfer of them takes less time than the next one waits."""
    return 2 * size <= least_transfer(target)


def _is_described(x: Value) -> bool:
    return x.producer is not None and x.producer.name in ("iota", "band")
