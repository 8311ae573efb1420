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

_SHELVES = 1 << 6
"""Parts of an on-chip memory, or of a buffer there, likewise."""


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
    """Regions of an on-chip memory, or of a buffer there, by the parts of it that they touch.

    regions: all of them, as every instance at an address sees them. A shelf holds what touches a part of the bytes of a
    partition: accesses of several partitions together (under None), those of one by the partition, since a kernel that
    handles elements one by one has thousands of them.
    """

    __slots__ = ("_shelves", "_size", "regions")

    def __init__(self, memory_bytes: int, regions: dict[Extent, Region] | None = None) -> None:
        self.regions: dict[Extent, Region] = {} if regions is None else regions
        self._size = -(-memory_bytes // _SHELVES)
        self._shelves: list[dict[int | None, dict[Extent, Region]]] = [{} for _ in range(_SHELVES)]
        for extent, region in self.regions.items():
            self.add(extent, region)

    def _of(self, extent: Extent) -> list[dict[int | None, dict[Extent, Region]]]:
        return self._shelves[extent.low // self._size : (extent.high - 1) // self._size + 1]

    def add(self, extent: Extent, region: Region) -> None:
        """One more."""
        for shelf in self._of(extent):
            shelf.setdefault(_lane(extent), {})[extent] = region

    def near(self, extent: Extent) -> Iterator[tuple[Extent, Region]]:
        """Those that touch a part which an access touches, each once."""
        shelves, lane = self._of(extent), _lane(extent)
        parts = [
            part
            for shelf in shelves
            for part in (shelf.values() if lane is None else (shelf.get(None), shelf.get(lane)))
            if part
        ]
        if len(shelves) == 1:
            for part in parts:
                yield from part.items()
            return
        found: dict[Extent, Region] = {}
        for part in parts:
            found.update(part)
        yield from found.items()

    def remove(self, extent: Extent) -> None:
        """One that no access needs any more."""
        del self.regions[extent]
        for shelf in self._of(extent):
            del shelf[_lane(extent)][extent]


def _lane(extent: Extent) -> int | None:
    """The partition of an access that has one alone."""
    return extent.pattern[0] if extent.pattern[1] == 1 else None
