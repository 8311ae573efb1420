"""How many columns are in work at a time, where that is for a group to choose: loads, work and stores of parts overlap.

An axis that no op combines can be cut without reading anything twice: outer dims first, the last one as long as what
lies together in HBM makes a good transfer.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from tilewright.ir.core import Value
from tilewright.lower.nest.columns import Cut
from tilewright.lower.regions.axes import Axes, Axis, tiles_of
from tilewright.lower.regions.roles import PRODUCTS, Roles
from tilewright.lower.regions.tall import SAME
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import device_dtype

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group


class Columns:
    """The free dims of the widest value of a group."""

    def __init__(self, axes: Axes, widest: Value, roles: Roles) -> None:
        self.axes, self.shape = axes, widest.type.shape
        self.itemsize = device_dtype(widest.type.dtype).itemsize
        self.dims = [(axes.of(widest, d), d) for d in roles.free_dims(widest.type.rank) if self.shape[d] != 1]
        self.able = {axis: d for axis, d in self.dims if axis is not None and not axis.combined}
        self.all = prod(self.shape[d] for _, d in self.dims)

    def cut(self, most: int) -> dict[Axis, int]:
        """So much of each axis that there are not more columns, as far as that goes."""
        last = max((d for _, d in self.dims), default=0)
        least = {axis: TUNING.long_run // self.itemsize if d == last else 1 for axis, d in self.able.items()}
        sizes = {axis: self.shape[d] for axis, d in self.able.items()}
        while prod(sizes[axis] if axis in sizes else self.shape[d] for axis, d in self.dims) > most:
            long = [axis for axis in self.able if sizes[axis] > least[axis]]
            if not long:
                break
            sizes[long[0]] = max(-(-sizes[long[0]] // 2), least[long[0]])
        return {axis: n for axis, n in sizes.items() if n < axis.size}


def tall_cuts(low: Lowering, group: Group) -> Iterator[tuple[Cut, int]]:
    """For a group that has all rows in work: columns, fewer and fewer, with the pieces of their rows."""
    columns = _tall_columns(group)
    each = columns.itemsize * -(-group.rows // low.target["limits.partitions"])
    seen: set[tuple[tuple[Axis, int], ...]] = set()
    goal = TUNING.part_bytes
    while goal >= TUNING.long_run:
        wanted = min(goal, max(each * columns.all // TUNING.tall_pieces, TUNING.least_tall_part))
        outer = columns.cut(min(wanted // each, TUNING.tall_columns))
        key = tuple(outer.items())
        if key not in seen:
            seen.add(key)
            yield Cut(columns.axes, outer, {}), TUNING.tall_pieces * (1 if outer else 2)
        goal //= 2


def streamed_cuts(low: Lowering, group: Group) -> Iterator[tuple[Cut, int]]:
    """The same for rows that do not stay on chip."""
    columns = _tall_columns(group)
    outer = columns.cut(TUNING.tall_columns)
    held = prod(outer[axis] if axis in outer else columns.shape[d] for axis, d in columns.dims)
    each = -(-group.rows // low.target["limits.partitions"])
    size = TUNING.piece_bytes
    while size >= TUNING.long_run and each > 1:
        yield Cut(columns.axes, outer, {}), max(-(-each * held * columns.itemsize // size), 2)
        size //= 4


def _tall_columns(group: Group) -> Columns:
    assert group.tall is not None
    tall = {v: group.tall.place(v.type.shape) for v in (*group.roles, *group.reads) if group.roles.get(v) != SAME}
    widest, rows = max(((v, at) for v, at in tall.items() if at is not None), key=lambda each: each[0].type.size)
    return Columns(Axes(group), widest, Roles(rows))


def overlapping_cut(low: Lowering, group: Group) -> Cut | None:
    """For a group whose only block of rows is long: parts of it."""
    if group.batch or group.rows > low.target["limits.partitions"] or any(op.name in PRODUCTS for op in group.ops):
        return None
    tiles = tiles_of(group)
    widest = max(tiles, key=lambda v: v.type.size)
    columns = Columns(Axes(group), widest, tiles[widest])
    if columns.all * columns.itemsize < TUNING.tile_bytes:
        return None
    parts = columns.cut(columns.all // TUNING.tall_pieces)
    return Cut(columns.axes, columns.cut(max(columns.all // (2 * TUNING.tall_pieces), 1)), {}) if parts else None
