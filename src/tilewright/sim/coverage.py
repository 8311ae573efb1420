"""Which part of a large tensor was written, as boxes: what shape mode remembers instead of one entry per element."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright.tile.view import View, is_row_major

Box = tuple[tuple[int, int], ...]
"""Start and stop along each dim of a buffer."""


def box_of(view: View, offset: int) -> Box | None:
    """The box of its buffer that an access covers, or None when it is not one (strided, or of another type)."""
    buffer = view.buffer
    if view.dtype.itemsize != buffer.dtype.itemsize:
        return None
    walked = sorted(((s, n) for s, n in zip(view.strides, view.sizes, strict=True) if n > 1 and s != 0), reverse=True)
    sizes = [n for _, n in walked]
    if offset == 0 and prod(sizes) == prod(buffer.shape) and is_row_major(sizes, [s for s, _ in walked]):
        # All elements, in whatever dims and order.
        return tuple((0, size) for size in buffer.shape)
    starts: list[int] = []
    for stride in buffer.strides:
        start, offset = divmod(offset, stride)
        starts.append(start)
    extents = [1] * len(buffer.shape)
    for stride, size in sorted(zip(view.strides, view.sizes, strict=True)):
        # A repeated element covers no more than the element.
        if size > 1 and stride != 0 and not _walk(buffer.shape, buffer.strides, starts, extents, stride, size):
            return None
    return tuple((start, start + extent) for start, extent in zip(starts, extents, strict=True))


def _walk(
    shape: tuple[int, ...], strides: tuple[int, ...], starts: list[int], extents: list[int], stride: int, size: int
) -> bool:
    """Extend the box by `size` steps of `stride`: along one dim, or over whole dims and on into the next outer one."""
    for dim in reversed(range(len(shape))):
        if shape[dim] == 1 or strides[dim] * extents[dim] != stride:
            continue
        room = shape[dim] - starts[dim]
        if extents[dim] * size <= room:
            extents[dim] *= size
            return True
        if starts[dim] or (extents[dim] * size) % shape[dim]:
            return False
        size, stride = extents[dim] * size // shape[dim], strides[dim] * shape[dim]
        extents[dim] = shape[dim]
    return size == 1


@dataclass(frozen=True, slots=True)
class Missing:
    """What of a box is not covered: how many elements, and the first of them."""

    count: int
    first: tuple[int, ...]


class Boxes:
    """A growing union of boxes."""

    def __init__(self) -> None:
        self._boxes: dict[Box, None] = {}

    def __bool__(self) -> bool:
        return bool(self._boxes)

    def add(self, box: Box) -> None:
        """Cover a box."""
        self._boxes[box] = None

    def missing(self, box: Box) -> Missing | None:
        """What of a box is not covered; None when all of it is."""
        if box in self._boxes:
            return None
        parts = [cut for each in self._boxes if (cut := _cut(each, box)) is not None]
        # Between two neighbouring edges along every dim lies a cell that is covered whole or not at all.
        edges = [
            sorted({start, stop, *(edge for part in parts for edge in part[dim])})
            for dim, (start, stop) in enumerate(box)
        ]
        positions = [{edge: i for i, edge in enumerate(each)} for each in edges]
        covered = np.zeros([len(each) - 1 for each in edges], bool)
        for part in parts:
            covered[tuple(slice(p[a], p[b]) for p, (a, b) in zip(positions, part, strict=True))] = True
        holes = np.argwhere(~covered)
        if not len(holes):
            return None
        count = sum(prod(e[i + 1] - e[i] for e, i in zip(edges, cell, strict=True)) for cell in holes)
        return Missing(int(count), tuple(e[i] for e, i in zip(edges, holes[0], strict=True)))


def _cut(box: Box, by: Box) -> Box | None:
    """The part of a box that lies in another."""
    cut = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, by, strict=True))
    return None if any(start >= stop for start, stop in cut) else cut
