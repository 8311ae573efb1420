"""Addressed buffers: bytes that alias physically, and who lost what to whom (R-tensor.address-04).

Two buffers at overlapping addresses may exist at the same time; rotation through a few addresses is normal. What is
wrong is to read a value that another buffer has overwritten since. Nothing is tracked until two living buffers overlap
and one of them writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.sim.storage import Storage
from tilewright.target import Target
from tilewright.tile.memory import SBUF, Address, Buffer, MemoryRegion
from tilewright.tile.view import View

_OWNER = np.dtype(np.int32)


@dataclass(slots=True, eq=False)
class Place:
    """Where a storage lies, with whom it overlaps, and whether one of those may have overwritten it."""

    storage: Storage
    address: Address
    number: int
    rivals: list[Place] = field(default_factory=list)
    tracked: bool = False
    tainted: bool = False

    def overlaps(self, other: Place) -> bool:
        """True when some byte belongs to both."""
        mine, theirs = self.storage.buffer, other.storage.buffer
        return (
            self.address.byte < other.address.byte + theirs.row_bytes
            and other.address.byte < self.address.byte + mine.row_bytes
            and self.address.partition < other.address.partition + theirs.partitions
            and other.address.partition < self.address.partition + mine.partitions
        )


class Places:
    """The addressed buffers of one on-chip memory."""

    def __init__(self, memory: MemoryRegion, target: Target, with_bytes: bool) -> None:
        self.pitch: int = target["memory.sbuf_bytes" if memory is SBUF else "memory.psum_bytes"]
        self.total = target["limits.partitions"] * self.pitch
        self.bytes = np.empty(self.total if with_bytes else 0, np.uint8)
        self.owners: np.ndarray | None = None
        self.buffers: list[Buffer] = []
        # Buffers by the blocks of a partition they lie in, so that finding overlaps does not look at all of them.
        self.block: int = target["memory.psum_bank_bytes"]
        self.blocks: dict[int, list[Place]] = {}

    def storage(self, buffer: Buffer, address: Address) -> Storage:
        """Storage on the physical bytes at an address."""
        return Storage(buffer, self.bytes, address.partition * self.pitch + address.byte, self.pitch)

    def settle(self, storage: Storage, address: Address) -> None:
        """Watch a storage for overlaps with others."""
        self.buffers.append(storage.buffer)
        place = Place(storage, address, len(self.buffers))
        storage.place = place
        for block in self._blocks_of(place):
            for other in self.blocks.setdefault(block, []):
                if other not in place.rivals and other.overlaps(place):
                    place.rivals.append(other)
                    other.rivals.append(place)
            self.blocks[block].append(place)

    def release(self, place: Place) -> None:
        """Forget a buffer that nothing can reach any more."""
        for block in self._blocks_of(place):
            self.blocks[block].remove(place)
        for rival in place.rivals:
            rival.rivals.remove(place)

    def _blocks_of(self, place: Place) -> range:
        last = place.address.byte + place.storage.row_bytes - 1
        return range(place.address.byte // self.block, last // self.block + 1)

    def claim(self, place: Place, view: View, offset: int) -> None:
        """Note that a buffer wrote an access; call it for places that have rivals."""
        for each in (place, *place.rivals):
            if not each.tracked:
                each.tracked = True
                # Of two buffers that overlap only the older can have written before either was tracked.
                if each.storage.first_write >= 0:
                    self._rectangle(each)[...] = each.number
        for rival in place.rivals:
            rival.tainted = True
        self._owners(place, view, offset)[...] = place.number

    def loser(self, place: Place, view: View, offset: int) -> Buffer | None:
        """The buffer that overwrote something of an access, which the reader had written; None when nobody did."""
        owners = self._owners(place, view, offset)
        foreign = (owners != place.number).any(axis=-1) & place.storage.written_mask(view, offset)
        if not foreign.any():
            return None
        taken = owners[foreign]
        return self.buffers[int(taken[taken != place.number][0]) - 1]

    def _owners(self, place: Place, view: View, offset: int) -> np.ndarray:
        """The number of the buffer that last wrote each byte of an access; bytes are a trailing dim."""
        itemsize = view.dtype.itemsize
        partition, byte = divmod(offset * itemsize, place.storage.row_bytes)
        strides = (self.pitch, *[s * itemsize for s in view.strides[1:]], 1)
        start = (place.address.partition + partition) * self.pitch + place.address.byte + byte
        return self._window((*view.sizes, itemsize), start, strides)

    def _rectangle(self, place: Place) -> np.ndarray:
        start = place.address.partition * self.pitch + place.address.byte
        return self._window((place.storage.buffer.partitions, place.storage.row_bytes), start, (self.pitch, 1))

    def _window(self, sizes: tuple[int, ...], start: int, strides: tuple[int, ...]) -> np.ndarray:
        if self.owners is None:
            self.owners = np.zeros(self.total, _OWNER)
        size = _OWNER.itemsize
        return np.ndarray(sizes, _OWNER, self.owners, start * size, tuple([s * size for s in strides]))
