"""Where accesses are found again: regions of a tensor in HBM, of a memory whose buffers have addresses, and of a buffer
that is accessed in many parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.tile.overlap import Extent

if TYPE_CHECKING:
    from tilewright.timing.instance import Region

_BLOCKS = 1 << 10
"""Parts of a tensor in HBM by which its regions are found."""

_SHORTEST = 1 << 6
"""Bytes of a part of an on-chip memory, or of a buffer there, at least."""


class Blocks:
    """Regions of a tensor in HBM, of which there may be thousands, by the part of it in which they begin.

    Parts are as long as the regions they hold, up to twice: a region that spans the tensor is no reason to look at all
    others whenever something is accessed.
    """

    __slots__ = ("_found", "_size")

    def __init__(self, tensor_bytes: int) -> None:
        self._size = -(-tensor_bytes // _BLOCKS)
        self._found: dict[int, dict[int, list[tuple[Extent, Region]]]] = {}

    def add(self, extent: Extent, region: Region) -> None:
        """One more."""
        width = self._size
        while width < extent.high - extent.low:
            width *= 2
        self._found.setdefault(width, {}).setdefault(extent.low // width, []).append((extent, region))

    def near(self, extent: Extent) -> Iterator[tuple[Extent, Region]]:
        """Those that begin before an access ends, and no further before it than they may be long."""
        for width, blocks in self._found.items():
            for block in range(max(0, extent.low - width) // width, (extent.high - 1) // width + 1):
                yield from blocks.get(block, ())


class Shelves:
    """Regions of an on-chip memory, or of a buffer there, by how long they are and where they begin.

    regions: all of them, as every instance at an address sees them. A shelf holds regions of about one length, up to
    twice, in parts of that length: a short access looks at the few that lie about it, however many there are elsewhere.
    Accesses of several partitions are together (under None), those of one by the partition, since a kernel that handles
    elements one by one has thousands of them.
    """

    __slots__ = ("_shelves", "regions")

    def __init__(self, regions: dict[Extent, Region] | None = None) -> None:
        self.regions: dict[Extent, Region] = {} if regions is None else regions
        self._shelves: dict[int, dict[int, dict[int | None, dict[Extent, Region]]]] = {}
        for extent, region in self.regions.items():
            self.add(extent, region)

    def add(self, extent: Extent, region: Region) -> None:
        """One more."""
        width = _width(extent)
        part = self._shelves.setdefault(width, {}).setdefault(extent.low // width, {})
        part.setdefault(_lane(extent), {})[extent] = region

    def near(self, extent: Extent) -> Iterator[tuple[Extent, Region]]:
        """Those that begin before an access ends, and no further before it than they may be long."""
        lane = _lane(extent)
        for width, parts in self._shelves.items():
            first, last = (extent.low - width) // width, (extent.high - 1) // width
            if last - first < len(parts):
                found = [parts[at] for at in range(first, last + 1) if at in parts]
            else:
                found = [part for at, part in parts.items() if first <= at <= last]
            for part in found:
                for some in part.values() if lane is None else (part.get(None), part.get(lane)):
                    if some:
                        yield from some.items()

    def remove(self, extent: Extent) -> None:
        """One that no access needs any more."""
        del self.regions[extent]
        width = _width(extent)
        del self._shelves[width][extent.low // width][_lane(extent)][extent]


def _width(extent: Extent) -> int:
    """About how long an access is, at least: a power of two."""
    return max(_SHORTEST, 1 << (extent.high - extent.low - 1).bit_length())


def _lane(extent: Extent) -> int | None:
    """The partition of an access that has one alone."""
    return extent.pattern[0] if extent.pattern[1] == 1 else None
