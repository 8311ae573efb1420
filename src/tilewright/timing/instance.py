"""Last accesses of live buffers: which earlier instructions an access has to wait for.

A region is a set of elements that some instruction accessed, with its last writer and the readers since. Regions of one
buffer may overlap. Each knows those that it meets, so that an access that was seen before looks at these alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.tile.memory import PSUM, Address, Buffer
from tilewright.tile.overlap import Extent
from tilewright.timing.index import Blocks, Shelves
from tilewright.timing.node import DATA, OVERWRITE, READER, Node, Users

if TYPE_CHECKING:
    from tilewright.timing.room import Pack, Ring


class Lifetime(Protocol):
    """Who wants to know when a buffer's last access has been admitted, and in whose place a buffer lies."""

    def finish(self) -> None: ...

    def follow(self, earlier: Any) -> None: ...


_MANY = 90
"""Regions of a buffer on chip from which on they are found by an index, and those that a write covers are forgotten
instead of kept for the next access."""


class Region:
    """The last writer of some elements, and who read them since.

    others: regions that share an element with it; covered: those of them that lie within it. owner: the buffer whose
    elements they were last. passed: some of it was written after all of its readers. last: the instruction that
    accessed it last, by its number. settled: the last one that wrote all of it, after every access before of what it
    shares elements with: who waits for that one need not wait for those.
    """

    __slots__ = ("covered", "extent", "last", "others", "owner", "passed", "readers", "settled", "writer")

    def __init__(self, extent: Extent, owner: Buffer) -> None:
        self.extent = extent
        self.owner = owner
        self.writer: Node | None = None
        self.readers = Users()
        self.others: list[Region] = []
        self.covered: list[Region] = []
        self.passed = False
        self.last = self.settled = -1

    def read(self, node: Node) -> None:
        """`node` reads all of it: after what was written since, and so after the readers before that."""
        if self.passed:
            self.readers.clear()
            self.passed = False
        self.readers.add(node)
        self.last = node.order

    def write(self, node: Node) -> None:
        """`node` writes all of it: what was there before no longer matters."""
        self.writer = node
        self.last = max(self.last, node.order)
        self.readers.clear()


class Instance:
    """One life of a buffer: from its allocation to its last access.

    remaining: accesses to come, or negative when the end of a program region ends it. depth: how many instances of a
    loop's buffer may be alive at once; None where the compiler decides. site: what shares a ring, by default all
    buffers of one size that one source line allocates. users: of a PSUM tensor, whose banks are waited for as a
    whole; before: who had each of its banks earlier. slices: how many pieces transfers have filled it with, the unit in
    which the compiler reuses space. place: of a buffer at an address, where this instance lies; it shares its regions
    with all that have addresses. index: where the regions of a tensor in HBM, of a memory whose buffers have addresses,
    or of a buffer that has many of them are found. left: which end of a life this one's was, once it is over.
    """

    __slots__ = (
        "banks",
        "before",
        "buffer",
        "depth",
        "index",
        "left",
        "life",
        "pack",
        "place",
        "placed",
        "regions",
        "remaining",
        "ring",
        "site",
        "slices",
        "users",
    )

    def __init__(self, buffer: Buffer, remaining: int, depth: int | None = None, site: Buffer | None = None) -> None:
        self.buffer = buffer
        self.remaining = remaining
        self.depth = depth
        self.site: Hashable = site or (buffer.location and (buffer.location, buffer.row_bytes)) or buffer
        self.regions: dict[Extent, Region] = {}
        self.index: Blocks | Shelves | None = None if buffer.on_chip else Blocks(buffer.row_bytes)
        self.placed = False
        self.ring: Ring | None = None
        self.banks: list[int] = []
        self.before: list[Users] = []
        self.pack: Pack | None = None
        self.users = Users() if buffer.memory is PSUM else None
        self.slices = 0
        self.place: Address | None = None
        self.life: Lifetime | None = None
        self.left = 0

    @property
    def is_by_line(self) -> bool:
        """True where its source line says who it follows; in tile IR every op has its own places."""
        return not isinstance(self.site, Buffer)

    def region(self, extent: Extent) -> Region:
        """The region of these elements."""
        known = self.regions.get(extent)
        return self.new_region(extent) if known is None else known

    def new_region(self, extent: Extent) -> Region:
        """The region of elements that were not accessed in this way before."""
        made = Region(extent, self.buffer)
        low, high, pattern = extent.low, extent.high, extent.pattern
        first, after = pattern[0], pattern[0] + pattern[1]
        for other, region in self._near(extent):
            # Most are elsewhere: not worth a call each.
            if low >= other.high or other.low >= high or other.pattern[0] >= after:
                continue
            if first < other.pattern[0] + other.pattern[1] and extent.meets(other):
                made.others.append(region)
                region.others.append(made)
                if extent.covers(other):
                    made.covered.append(region)
                if other.covers(extent):
                    region.covered.append(made)
        self.regions[extent] = made
        if self.index is not None:
            self.index.add(extent, made)
        elif len(self.regions) > _MANY:
            self.index = Shelves(self.regions)
        return made

    def _near(self, extent: Extent) -> Iterable[tuple[Extent, Region]]:
        """Regions that may share an element with an access: all of them where there are few."""
        return self.regions.items() if self.index is None else self.index.near(extent)

    def put_at(self, place: Address, memory: Shelves) -> None:
        """Its place is given, and so is who was there before."""
        self.place, self.placed = place, True
        self.regions, self.index = memory.regions, memory

    def note_write(self, region: Region, node: Node) -> None:
        """`node` writes a region, and with it all that lies within."""
        region.write(node)
        region.settled = node.order
        region.owner = self.buffer
        if region.covered:
            for each in region.covered:
                each.write(node)
                each.settled = node.order
            if self.place is not None:
                # What was at this address before will not be accessed again.
                self._forget([each for each in region.covered if each.owner is not self.buffer])
            elif self.buffer.on_chip and len(self.regions) > _MANY:
                self._forget(region.covered)

    def _forget(self, regions: list[Region]) -> None:
        """Leave out regions within one that was just written: it stands for them."""
        gone = set(regions)
        for each in {other for one in gone for other in one.others} - gone:
            each.others = [other for other in each.others if other not in gone]
            each.covered = [other for other in each.covered if other not in gone]
        for each in gone:
            if isinstance(self.index, Shelves):
                self.index.remove(each.extent)
            elif self.regions.get(each.extent) is each:
                del self.regions[each.extent]


Access = tuple[Instance, Extent, bool, bool]
"""One operand of an instruction: the buffer's instance, the elements, whether they are read, whether written."""


def depend(node: Node, region: Region, reads: bool, writes: bool, semaphore: float) -> None:
    """An access of a region waits for its last writer and, when it writes, for the readers since."""
    why = DATA if reads else OVERWRITE
    seen = region.writer
    if seen is not None:
        if seen.order > node.place and not seen.kind.is_transfer:
            node.place = seen.order
        if seen.followers is None:
            node.resolve(seen, why, semaphore)
        else:
            node.wait_for(seen, why, semaphore)
    if writes:
        for reader in region.readers.nodes:
            node.wait_for(reader, READER, semaphore)
    settled = region.settled
    for other in region.others:
        if other.last <= settled:
            continue
        writer = other.writer
        # Regions within one that was written as a whole all have the same writer.
        if writer is not None and writer is not seen:
            # Most are over long before the node is ready: not worth a call each.
            ready = node.ready
            if writer.order > node.place and not writer.kind.is_transfer:
                node.place = writer.order
            if writer.followers is not None or writer.end + semaphore > ready or writer.busy_end + semaphore > ready:
                node.wait_for(writer, why, semaphore)
            seen = writer
        if writes and other.readers.nodes:
            other.passed = True
            for reader in other.readers.nodes:
                ready = node.ready
                if reader.order > node.place and not reader.kind.is_transfer:
                    node.place = reader.order
                if (
                    reader.followers is not None
                    or reader.end + semaphore > ready
                    or reader.busy_end + semaphore > ready
                ):
                    node.wait_for(reader, READER, semaphore)
