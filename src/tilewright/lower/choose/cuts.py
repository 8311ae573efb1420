"""Ways to cut a group whose rows do not fit: how much of which of its axes is in work at a time."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tilewright.lower.nest.columns import Cut
from tilewright.lower.regions.axes import COMBINED, SCANNED, Axes, Axis, tiles_of
from tilewright.lower.regions.grouping import Group
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import device_dtype


def cuts(group: Group, room: int) -> Iterator[Cut]:
    """Parts of the axes of a group, larger ones first; room: bytes per partition for its tiles."""
    axes = Axes(group)
    if not axes.all:
        return
    sizes = _sizes(axes, group, room)
    while sizes is not None:
        outer = {axis: size for axis, size in sizes.items() if not axis.combined}
        inner = {axis: size for axis, size in sizes.items() if axis.combined}
        if is_uniform(axes, group, list(inner)):
            yield Cut(axes, outer, inner)
        if all(size == 1 for size in sizes.values()):
            return
        longest, size = max(sizes.items(), key=lambda item: item[1])
        sizes = {**sizes, longest: -(-size // 2)}


def held_cuts(group: Group) -> Iterator[Cut]:
    """Parts of the longest axis that ops combine, whole rows of what is read again being on chip."""
    if any(op.name in PRODUCTS for op in group.ops):
        return
    axes = Axes(group)
    combined = [axis for axis in axes.all if axis.combined]
    if not combined:
        return
    axis = combined[0]
    for parts in (2, 4, 8):
        size = -(-axis.size // parts)
        if axis.size % parts:
            size = -(-size // TUNING.aligned) * TUNING.aligned
        if TUNING.least_part <= size < axis.size:
            yield Cut(axes, {}, {axis: size}, held=True)


def is_uniform(axes: Axes, group: Group, inner: list[Axis]) -> bool:
    """True when every value has all of the inner axes or none, and every reduction is over all of them or none."""
    if len(inner) < 2:
        return True
    for op in group.ops:
        for v in (*op.values(), op.result):
            if len({axes.has(v, axis) for axis in inner}) > 1:
                return False
        if op.name in SCANNED:
            return False
        if op.name in COMBINED:
            x = op.operands[0]
            over = {axes.of(x, a) for a in op.attrs["axes"]}
            if len({axis in over for axis in inner if axes.has(x, axis)}) > 1:
                return False
    return True


def _sizes(axes: Axes, group: Group, room: int) -> dict[Axis, int] | None:
    """How much of which axes may be in work: one axis if that suffices, one that no op combines rather than others."""
    for axis in sorted(axes.all, key=lambda axis: axis.combined):
        size = _size(axes, group, {}, axis, room)
        if size >= min(axis.size, TUNING.least_part):
            return {axis: size}
    sizes: dict[Axis, int] = {}
    for axis in axes.all:
        size = _size(axes, group, sizes, axis, room)
        sizes[axis] = max(size, 1)
        if size:
            return sizes
    return sizes or None


def _size(axes: Axes, group: Group, fixed: dict[Axis, int], axis: Axis, room: int) -> int:
    """The largest part of an axis with which there is room for several copies of everything; 0: none."""
    size = min(axis.size, TUNING.longest_part)
    while size and TUNING.copies * _bytes(axes, group, {**fixed, axis: size}) > room:
        size //= 2
    if not size:
        return 0
    parts = -(-axis.size // size)
    even = -(-axis.size // parts)
    return min(size, -(-even // TUNING.aligned) * TUNING.aligned)


def _bytes(axes: Axes, group: Group, sizes: dict[Axis, int]) -> int:
    """Bytes per partition of one tile of every value."""
    total = 0
    for value, roles in tiles_of(group).items():
        free = roles.free_dims(value.type.rank)
        held = [min(sizes.get(axes.of(value, d), value.type.shape[d]), value.type.shape[d]) for d in free]  # type: ignore[call-overload]
        total += prod(held) * device_dtype(value.type.dtype).itemsize
    return total
