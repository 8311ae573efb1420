"""Where accesses are found again: regions of a tensor in HBM, and of a memory whose buffers have addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.timing.overlap import Extent

if TYPE_CHECKING:
    from tilewright.timing.instance import Region

_BLOCKS = 1 << 10
"""Parts of a tensor in HBM by which its regions are found."""

_SHELVES = 1 << 6
"""Parts of an on-chip memory, likewise."""


class Blocks:
    """Regions of a tensor in HBM, of which there may be thousands, by the part of it in which they begin."""

    __slots__ = ("_found", "_longest", "_size")

    def __init__(self, tensor_bytes: int) -> None:
        self._size = -(-tensor_bytes // _BLOCKS)
        self._longest = 0
        self._found: dict[int, list[tuple[Extent, Region]]] = {}

    def add(self, extent: Extent, region: Region) -> None:
        """One more."""
        self._found.setdefault(extent.low // self._size, []).append((extent, region))
        self._longest = max(self._longest, extent.high - extent.low)

    def near(self, extent: Extent) -> Iterator[tuple[Extent, Region]]:
        """Those that begin before an access ends, and no further before it than the longest reaches."""
        for block in range(max(0, extent.low - self._longest) // self._size, (extent.high - 1) // self._size + 1):
            yield from self._found.get(block, ())


class Shelves:
    """Regions of an on-chip memory by the parts of it that they touch: buffers come and go, and may overlap.

    regions: all of them, as every instance at an address sees them.
    """

    __slots__ = ("_shelves", "_size", "regions")

    def __init__(self, memory_bytes: int) -> None:
        self.regions: dict[Extent, Region] = {}
        self._size = -(-memory_bytes // _SHELVES)
        self._shelves: list[dict[Extent, Region]] = [{} for _ in range(_SHELVES)]

    def _of(self, extent: Extent) -> list[dict[Extent, Region]]:
        return self._shelves[extent.low // self._size : (extent.high - 1) // self._size + 1]

    def add(self, extent: Extent, region: Region) -> None:
        """One more."""
        for shelf in self._of(extent):
            shelf[extent] = region

    def near(self, extent: Extent) -> Iterator[tuple[Extent, Region]]:
        """Those that touch a part which an access touches, each once."""
        shelves = self._of(extent)
        if len(shelves) == 1:
            yield from shelves[0].items()
            return
        found: dict[Extent, Region] = {}
        for shelf in shelves:
            found.update(shelf)
        yield from found.items()

    def remove(self, extent: Extent) -> None:
        """One that no access needs any more."""
        del self.regions[extent]
        for shelf in self._of(extent):
            del shelf[extent]
