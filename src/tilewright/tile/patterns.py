"""Views as patterns: the partitions and bytes that an access touches."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.tile.indirect import index_of
from tilewright.tile.memory import Address
from tilewright.tile.overlap import Extent, Pattern, extent
from tilewright.tile.view import View


def pattern_of(view: View, offset: int) -> Pattern:
    """The elements of an access that begins at `offset` as partitions and bytes within them."""
    itemsize = view.dtype.itemsize
    if index_of(view) is not None:
        # Which columns the offsets choose is not known: all that they may.
        view = view.choices()
    elif view.dynamic is not None:
        # Which elements a run-time index reaches is not known: all that it may reach.
        buffer = view.buffer
        return 0, buffer.partitions, 0, ((buffer.row_bytes, 1),), 1
    if view.on_chip:
        partition, byte = divmod(offset * itemsize, view.buffer.row_bytes)
        return partition, view.sizes[0], byte, byte_dims(view.sizes[1:], view.strides[1:], itemsize), itemsize
    return 0, 1, offset * itemsize, byte_dims(view.sizes, view.strides, itemsize), itemsize


def extent_at(view: View, offset: int) -> Extent:
    """The elements of an access whose place is known, also where a run-time index has led it there."""
    fixed = view if view.dynamic is None else View(view.buffer, view.dtype, offset, view.sizes, view.strides)
    return extent(pattern_of(fixed, offset))


def extent_of(view: View, place: Address | None = None) -> Extent:
    """The elements of an access before loop indices move it, of a buffer at that place if it has one.

    The view remembers them: a kernel that is timed or ordered again and again asks for them every time.
    """
    known = view.extent_
    if known is None or known[0] != place:
        pattern = pattern_of(view, view.offset)
        known = view.extent_ = place, extent(pattern if place is None else at_address(pattern, place))
    return known[1]


def at_address(pattern: Pattern, place: Address) -> Pattern:
    """The same elements counted from the beginning of the memory."""
    partition, partitions, byte, dims, itemsize = pattern
    return partition + place.partition, partitions, byte + place.byte, dims, itemsize


def byte_dims(sizes: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[tuple[int, int], ...]:
    """(size, byte stride) of the dims that are longer than one."""
    return tuple([(n, s * itemsize) for n, s in zip(sizes, strides, strict=True) if n != 1])
