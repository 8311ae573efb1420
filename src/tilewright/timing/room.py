"""Places on chip: PSUM banks and rings of SBUF buffers, and what a buffer's first write waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from tilewright.target import Target
from tilewright.tile.memory import PSUM, SBUF, Buffer
from tilewright.tile.overlap import Extent
from tilewright.timing.instance import Access, Instance
from tilewright.timing.node import BANK, Node, Users

_LEAST_PLACES = 2
"""However many pieces a tile has, the next one is filled while the last one is used, as long as SBUF has room."""


class Ring:
    """Buffers that follow each other in a few places: how many are alive, and were at most; whose places can be had."""

    __slots__ = ("live", "most", "places")

    def __init__(self) -> None:
        self.live = self.most = 0
        self.places: deque[Instance] = deque()


class Pack:
    """Short PSUM tensors of one line that share a bank, as the legacy compiler lays them out.

    before: who had the bank earlier; users: who has used the tensors that are no more; used: bytes; live: how many are.
    """

    __slots__ = ("bank", "before", "live", "used", "users")

    def __init__(self, bank: int, before: Users) -> None:
        self.bank = bank
        self.before = before
        self.users = Users()
        self.used = self.live = 0


class Room:
    """Which banks are free, and which buffers of a line wait to be replaced.

    sbuf_used: bytes per partition of live buffers and of those whose places wait for the next.
    """

    __slots__ = (
        "_bank_bytes",
        "_bank_users",
        "_free_banks",
        "_live",
        "_packed",
        "_packs",
        "_released",
        "_reserved",
        "_ring_depth",
        "_rings",
        "_sbuf_room",
        "_semaphore",
        "sbuf_used",
    )

    def __init__(self, target: Target) -> None:
        self._bank_bytes = target["memory.psum_bank_bytes"]
        self._free_banks: deque[int] = deque(range(target["memory.psum_banks"]))
        self._bank_users = [Users() for _ in self._free_banks]
        self._rings: dict[Hashable, Ring] = {}
        # Where tensors share banks, the pack of each line that has room left.
        self._packed = target["compiler.psum_packed"]
        self._packs: dict[Hashable, Pack] = {}
        self.sbuf_used = 0
        # Of these the bytes that are in use, and not only kept for the next.
        self._live = 0
        self._released = 0
        self._reserved = 0
        self._sbuf_room = target["memory.sbuf_usable_bytes"]
        self._ring_depth = target["memory.compiler_ring_depth"]
        self._semaphore = target["semaphore.engine_ns"]

    def reserve(self, end: int) -> None:
        """SBUF is taken up to a byte by buffers that have addresses."""
        self.sbuf_used += max(0, end - self._reserved)
        self._reserved = max(self._reserved, end)

    def place(self, instance: Instance) -> None:
        """At its first write a buffer gets a place: its earlier user's last accesses come first."""
        instance.placed = True
        buffer = instance.buffer
        if buffer.memory is PSUM:
            self._place_in_banks(instance)
        elif buffer.memory is SBUF:
            ring = self._join(instance)
            old = self._replaced(instance, ring)
            self.sbuf_used += buffer.row_bytes
            self._live += buffer.row_bytes
            if old is None and instance.depth is not None and self.sbuf_used > self._sbuf_room:
                self._make_room(ring)
            if old is None and ring.places and self._live <= self._sbuf_room < self.sbuf_used:
                # SBUF is full: no further place for this line, unless tiles are spilled anyway.
                old = ring.places.popleft()
            elif old is None and instance.is_by_line and self._live <= self._sbuf_room < self.sbuf_used:
                # Nor for its first one: it lies where another line's tile was, and that line's next one has to wait.
                old = self._taken_over(buffer.row_bytes)
            if old is not None:
                # The new buffer lies where an old one was: each part of it waits for that part's last users.
                instance.regions = {**old.regions, **instance.regions} if instance.regions else old.regions
                self.sbuf_used -= old.buffer.row_bytes
                if instance.life is not None:
                    instance.life.follow(old.life)

    def _taken_over(self, wanted: int) -> Instance | None:
        """The place of another line's tile that was left longest ago and is large enough."""
        free = [ring for ring in self._rings.values() if ring.places and ring.places[0].buffer.row_bytes >= wanted]
        if not free:
            return None
        return min(free, key=lambda ring: ring.places[0].left).places.popleft()

    def _make_room(self, wanting: Ring) -> None:
        """Buffers that are no more give back their places, where each op has its own."""
        for site, ring in self._rings.items():
            if ring is wanting or ring.live or not isinstance(site, Buffer):
                continue
            while ring.places and self.sbuf_used > self._sbuf_room:
                self.sbuf_used -= ring.places.popleft().buffer.row_bytes

    def wait_for_banks(self, node: Node, instance: Instance, extent: Extent) -> None:
        """The first write of a part of a PSUM tensor waits for those that had the banks of this part."""
        first, end = extent.low // self._bank_bytes, -(-extent.high // self._bank_bytes)
        for users in instance.before[first:end]:
            for user in users.nodes:
                node.wait_for(user, BANK, self._semaphore)

    def _place_in_banks(self, instance: Instance) -> None:
        if instance.depth is not None:
            # Trips of a loop that say how many copies they have take turns in banks of their own.
            old = self._replaced(instance, self._join(instance))
            if old is not None:
                assert old.users is not None, "the users of a PSUM tensor are known"
                instance.banks, old.banks = old.banks, []
                instance.before = [old.users] * len(instance.banks)
                return
        elif self._packed and 2 * instance.buffer.row_bytes <= self._bank_bytes:
            self._pack(instance)
            return
        wanted = -(-instance.buffer.row_bytes // self._bank_bytes)
        if wanted > len(self._free_banks):
            self._take_back(wanted)
        count = min(wanted, len(self._free_banks))
        instance.banks = [self._free_banks.popleft() for _ in range(count)]
        instance.before = [self._bank_users[bank] for bank in instance.banks]

    def _pack(self, instance: Instance) -> None:
        """A short tensor lies beside the last ones of its line, as long as their bank has room."""
        size = instance.buffer.row_bytes
        pack = self._packs.get(instance.site)
        if pack is None:
            if not self._free_banks:
                self._take_back(1)
            if not self._free_banks:
                return
            bank = self._free_banks.popleft()
            pack = self._packs[instance.site] = Pack(bank, self._bank_users[bank])
        pack.used += size
        pack.live += 1
        instance.banks, instance.pack, instance.before = [pack.bank], pack, [pack.before]
        if pack.used + size > self._bank_bytes:
            del self._packs[instance.site]

    def _leave(self, instance: Instance, pack: Pack) -> None:
        """A tensor of a pack is no more; the last one of a full pack frees the bank."""
        assert instance.users is not None
        for user in instance.users.nodes:
            pack.users.add(user)
        pack.live -= 1
        instance.pack = None
        if not pack.live and pack not in self._packs.values():
            self._give_back(pack)

    def _give_back(self, pack: Pack) -> None:
        self._bank_users[pack.bank] = pack.users
        self._free_banks.append(pack.bank)

    def _take_back(self, wanted: int) -> None:
        """Free banks of packs that nobody uses and of loops that are over, oldest first, until there are so many."""
        for site, pack in list(self._packs.items()):
            if not pack.live and wanted > len(self._free_banks):
                del self._packs[site]
                self._give_back(pack)
        for ring in self._rings.values():
            while ring.places and ring.live == 0 and wanted > len(self._free_banks):
                self._free(ring.places.popleft())

    def _free(self, instance: Instance) -> None:
        if instance.pack is not None:
            self._leave(instance, instance.pack)
        elif instance.users is not None:
            for bank in instance.banks:
                self._bank_users[bank] = instance.users
                self._free_banks.append(bank)
            instance.banks = []

    def _join(self, instance: Instance) -> Ring:
        ring = self._rings.get(instance.site)
        if ring is None:
            ring = self._rings[instance.site] = Ring()
        ring.live += 1
        ring.most = max(ring.most, ring.live)
        instance.ring = ring
        return ring

    def _replaced(self, instance: Instance, ring: Ring) -> Instance | None:
        """The instance whose place a new one takes when its ring is full."""
        places, live = ring.places, ring.live
        if not places:
            return None
        if instance.depth is None:
            depth = max(_LEAST_PLACES, -(-self._ring_depth // max(1, places[0].slices)))
            # Of several that are alive at once, the next set is filled while the last one is used.
            depth = max(depth, 2 * ring.most) if ring.most > 1 else depth
        else:
            depth = instance.depth
        return places.popleft() if len(places) + live > max(depth, live) else None

    def release(self, instance: Instance) -> None:
        """The buffer's last access is behind it: its place is free for the next."""
        if instance.depth is None:
            self._free(instance)
        ring = instance.ring
        if ring is not None:
            ring.places.append(instance)
            self._released += 1
            instance.left = self._released
            ring.live -= 1
            if instance.buffer.memory is SBUF:
                self._live -= instance.buffer.row_bytes
        if instance.buffer.memory is not SBUF:
            instance.regions = {}

    def forget(self) -> None:
        """Nobody takes the place of a buffer any more."""
        for ring in self._rings.values():
            ring.places.clear()

    def banks(self, access: Access) -> list[int]:
        """The PSUM banks of an access."""
        instance, extent = access[:2]
        first, end = extent.low // self._bank_bytes, -(-extent.high // self._bank_bytes)
        if instance.buffer.address is not None:
            return list(range(first, end))
        return instance.banks[first:end]
