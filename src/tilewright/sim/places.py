"""Addressed buffers: bytes that alias physically, and who lost what to whom (R-tensor.address-04).

Two buffers at overlapping addresses may exist at the same time; rotation through a few addresses is normal. What is
wrong is to read a value that another buffer has overwritten since. Nothing is tracked until two living buffers overlap
and one of them writes. Kernels keep thousands of buffers in a few places, so that it is the places that are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

import numpy as np

from tilewright.sim.storage import Storage
from tilewright.target import Target
from tilewright.tile.memory import SBUF, Address, Buffer, MemoryRegion
from tilewright.tile.view import View


@dataclass(slots=True, eq=False)
class Slot:
    """Buffers that share one rectangle of memory, as those do that rotate through an address.

    contested: more than one of them, or one of a rival, has lived at a time; what is written is claimed since.
    fresh: those whose writes nobody has claimed yet. The last claim of a place, and the last of any other place before
    it, as claims are counted.
    """

    address: Address
    row_bytes: int
    partitions: int
    rivals: list[Slot] = field(default_factory=list)
    live: int = 0
    contested: bool = False
    fresh: dict[Place, None] = field(default_factory=dict)
    last: Place | None = None
    claimed: int = 0
    before: int = 0

    def overlaps(self, other: Slot) -> bool:
        """True when some byte belongs to both."""
        return (
            self.address.byte < other.address.byte + other.row_bytes
            and other.address.byte < self.address.byte + self.row_bytes
            and self.address.partition < other.address.partition + other.partitions
            and other.address.partition < self.address.partition + self.partitions
        )

    def claim(self, place: Place, number: int) -> None:
        """A place of this slot claims what it has written."""
        if self.last is not place:
            self.last, self.before = place, self.claimed
        self.claimed = number


@dataclass(slots=True, eq=False)
class Place:
    """Where a storage lies. since: the claim by which it first had written something; none yet."""

    storage: Storage
    slot: Slot
    number: int
    since: int | None = None

    @property
    def address(self) -> Address:
        """Its first byte."""
        return self.slot.address

    def meets(self, other: Place) -> bool:
        """True when some byte belongs to both."""
        return other.slot is self.slot or other.slot in self.slot.rivals

    @property
    def tainted(self) -> bool:
        """Whether another may have overwritten something of it."""
        slot, since = self.slot, self.since
        if since is None or not slot.contested:
            return False
        if (slot.before if slot.last is self else slot.claimed) > since:
            return True
        return any(rival.claimed > since for rival in slot.rivals)


class Places:
    """The addressed buffers of one on-chip memory."""

    def __init__(self, memory: MemoryRegion, target: Target, with_bytes: bool) -> None:
        self.pitch: int = target["memory.sbuf_bytes" if memory is SBUF else "memory.psum_bytes"]
        self.total = target["limits.partitions"] * self.pitch
        self.bytes = np.empty(self.total if with_bytes else 0, np.uint8)
        # The number of the buffer that last wrote each grain: the largest number of bytes that all of them are made of.
        self.owners: np.ndarray | None = None
        self.grain = _MOST_GRAIN
        self.buffers: list[Buffer] = []
        self.slots: dict[tuple[Address, int, int], Slot] = {}
        self.claims = 0

    def storage(self, buffer: Buffer, address: Address) -> Storage:
        """Storage on the physical bytes at an address."""
        return Storage(buffer, self.bytes, address.partition * self.pitch + address.byte, self.pitch)

    def settle(self, storage: Storage, address: Address) -> None:
        """Watch a storage for overlaps with others."""
        buffer = storage.buffer
        self.buffers.append(buffer)
        self._divide(gcd(address.byte, buffer.row_bytes, buffer.dtype.itemsize))
        if self.owners is not None and len(self.buffers) > np.iinfo(self.owners.dtype).max:
            self.owners = self.owners.astype(np.int32)
        slot = self._slot(address, buffer.row_bytes, buffer.partitions)
        place = storage.place = Place(storage, slot, len(self.buffers))
        slot.live += 1
        slot.fresh[place] = None
        if slot.live > 1:
            slot.contested = True
        for rival in slot.rivals:
            if rival.live:
                slot.contested = rival.contested = True

    def _slot(self, address: Address, row_bytes: int, partitions: int) -> Slot:
        key = (address, row_bytes, partitions)
        slot = self.slots.get(key)
        if slot is None:
            slot = Slot(*key)
            for other in self.slots.values():
                if other.overlaps(slot):
                    slot.rivals.append(other)
                    other.rivals.append(slot)
            self.slots[key] = slot
        return slot

    def release(self, place: Place) -> None:
        """Forget a buffer that nothing can reach any more."""
        place.slot.live -= 1
        place.slot.fresh.pop(place, None)

    def claim(self, place: Place, view: View, offset: int) -> None:
        """Note that a buffer wrote an access; call it for places that are contested."""
        slot = place.slot
        for each in (slot, *slot.rivals):
            for fresh in each.fresh:
                # Of two buffers that overlap only the older can have written before anything was claimed.
                if fresh.storage.first_write >= 0:
                    fresh.since = self.claims
                    self._rectangle(fresh)[...] = fresh.number
            each.fresh.clear()
        self.claims += 1
        slot.claim(place, self.claims)
        if place.since is None:
            place.since = self.claims
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
        """The number of the buffer that last wrote each grain of an access; those of an element are a trailing dim."""
        itemsize = view.dtype.itemsize
        self._divide(itemsize)
        partition, byte = divmod(offset * itemsize, place.storage.row_bytes)
        strides = (self.pitch, *[s * itemsize for s in view.strides[1:]], self.grain)
        address = place.slot.address
        start = (address.partition + partition) * self.pitch + address.byte + byte
        return self._window((*view.sizes, itemsize // self.grain), start, strides)

    def _rectangle(self, place: Place) -> np.ndarray:
        slot = place.slot
        start = slot.address.partition * self.pitch + slot.address.byte
        return self._window((slot.partitions, slot.row_bytes // self.grain), start, (self.pitch, self.grain))

    def _window(self, sizes: tuple[int, ...], start: int, strides: tuple[int, ...]) -> np.ndarray:
        """Entries of owners, from a byte on and so many bytes apart."""
        owners, grain = self.owners, self.grain
        if owners is None:
            kind = np.int16 if len(self.buffers) <= np.iinfo(np.int16).max else np.int32
            owners = self.owners = np.zeros(self.total // grain, kind)
        size = owners.itemsize
        apart = tuple([s // grain * size for s in strides])
        return np.ndarray(sizes, owners.dtype, owners, start // grain * size, apart)

    def _divide(self, size: int) -> None:
        """Use grains that something of this size is made of."""
        grain = gcd(self.grain, size)
        if grain < self.grain and self.owners is not None:
            self.owners = np.repeat(self.owners, self.grain // grain)
        self.grain = grain


_MOST_GRAIN = 4
