"""Replay of an instruction stream against per-engine clocks: when each instruction runs and what it waited for.

Instructions enter a window in program order, learn which earlier ones they wait for, and are issued by their engines:
as written (each engine in program order) or as scheduled (each engine takes the oldest instruction that is ready). Only
the window, the last accesses of live buffers and one chain of causes are kept, so that a kernel of a million
instructions is timed in bounded memory. Costs come from the records through `Cost`; no instruction is known by name.

An instruction waits for its inputs to be written, for what it overwrites to be read (a semaphore's time later when that
happens on another engine), and for a place for its destination: PSUM banks, or a slot of its SBUF ring.

Transfers of one source line share a queue, which starts one at a time; all queues share the bandwidth. As written they
are issued in program order across the queues, since who comes first would otherwise be a matter of a few nanoseconds,
and a longer instruction could make a kernel faster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple

from tilewright.errors import Location
from tilewright.target import Target
from tilewright.tile.memory import PSUM, SBUF, Buffer
from tilewright.tile.record import Cost
from tilewright.timing.overlap import Pattern, covers, overlaps, span
from tilewright.timing.ports import Ports
from tilewright.timing.throttle import Clock

SCHEDULED, WRITTEN = "scheduled", "written"
DATA, OVERWRITE, READER, BANK, SLOT, ENGINE, START = "data", "overwrite", "reader", "psum bank", "buffer", "engine", ""
BANDWIDTH, PORT = "bandwidth", "port"


class Access(NamedTuple):
    """One operand of an instruction: the buffer's instance, the elements, and whether they are read or written."""

    instance: Instance
    pattern: Pattern
    reads: bool
    writes: bool


class Node:
    """An instruction in the window, and afterwards a link of the chain that led to a moment."""

    __slots__ = (
        "banks",
        "begin",
        "behind",
        "busy_end",
        "cause",
        "cost",
        "depth",
        "end",
        "engine",
        "followers",
        "line",
        "name",
        "order",
        "past",
        "ready",
        "start",
        "waiting",
        "why",
    )

    def __init__(self, order: int, name: str, engine: str, cost: Cost, line: Location | None) -> None:
        self.order = order
        self.name = name
        self.engine = engine
        self.cost = cost
        self.line = line
        self.waiting = 0
        self.ready = 0.0
        self.cause: Node | None = None
        self.why = START
        # PSUM banks that it accesses, where these may be in the way of another engine.
        self.banks: tuple[int, ...] = ()
        self.followers: list[tuple[Node, str]] | None = []
        self.start = self.busy_end = self.end = -1.0
        # A transfer that found the bandwidth taken: when its bytes began to move, after those of which other.
        self.begin = -1.0
        self.behind: Node | None = None
        # For timing.critical: how many links of the chain lead here, and the sum of those before them.
        self.depth = 0
        self.past: Any = None


class _Users:
    """Instructions of which the last to finish matters. An engine may finish them in another order than the program's.

    Those that are issued are thinned out to the last of each engine now and then; no more than a window's are not.
    """

    __slots__ = ("limit", "nodes")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.limit = _FEW

    def add(self, node: Node) -> None:
        self.nodes.append(node)
        if len(self.nodes) > self.limit:
            self._thin()

    def _thin(self) -> None:
        read: dict[str, Node] = {}
        done: dict[str, Node] = {}
        kept: list[Node] = []
        for node in self.nodes:
            if node.followers is not None:
                kept.append(node)
                continue
            last = read.get(node.engine)
            if last is None or node.busy_end > last.busy_end:
                read[node.engine] = node
            last = done.get(node.engine)
            if last is None or node.end > last.end:
                done[node.engine] = node
        kept += dict.fromkeys((*read.values(), *done.values()))
        self.nodes = kept
        self.limit = 2 * len(kept) + _FEW


_FEW = 8


class _Region:
    """The instructions that last wrote and last read one pattern of a buffer."""

    __slots__ = ("readers", "writer")

    def __init__(self) -> None:
        self.writer: Node | None = None
        self.readers = _Users()


class Instance:
    """One life of a buffer: from its allocation to its last access.

    remaining: accesses to come, or negative when the end of a region ends it. depth: how many instances of a loop's
    buffer may be alive at once; None where the compiler decides.
    """

    __slots__ = ("banks", "buffer", "depth", "last", "placed", "regions", "remaining", "site", "slices")

    def __init__(self, buffer: Buffer, remaining: int, depth: int | None = None) -> None:
        self.buffer = buffer
        self.remaining = remaining
        self.depth = depth
        # What shares a ring: instances of one buffer of a loop, or all buffers that one source line allocates.
        self.site: Buffer | Location = buffer if depth is not None or buffer.location is None else buffer.location
        self.regions: dict[Pattern, _Region] = {}
        self.placed = False
        self.banks: list[int] = []
        self.last = _Users()
        # How many pieces transfers have filled it with: the unit in which the compiler reuses space.
        self.slices = 0


class _Engine:
    """An engine's queue: instructions that are ready, those that will be, and in program order those that wait."""

    __slots__ = ("busy_ns", "free", "is_dma", "last", "later", "queue", "ready", "table")

    def __init__(self) -> None:
        self.free = 0.0
        self.is_dma = False
        self.busy_ns = 0.0
        self.last: Node | None = None
        self.ready: list[tuple[int, Node]] = []
        self.later: list[tuple[float, int, Node]] = []
        self.queue: deque[Node] = deque()
        self.table: str | None = None


@dataclass(slots=True)
class Totals:
    """What a replay adds up."""

    instructions: int = 0
    dma_bytes: int = 0
    descriptors: int = 0
    dma_transfers: int = 0
    transfer_ns: float = 0.0
    table_loads: int = 0
    waits: dict[str, float] = field(default_factory=dict)


class Replay:
    """Clocks of one core. Feed it with `step`, then call `finish`."""

    def __init__(
        self,
        target: Target,
        order: str = SCHEDULED,
        watch: Callable[[Node], None] | None = None,
        window: int = 4096,
    ) -> None:
        self.target = target
        self.order = order
        self.watch = watch
        self.window = window
        self.engines: dict[str, _Engine] = {}
        self.clock = Clock(target)
        self.ports = Ports(target)
        self.totals = Totals()
        self.end = 0.0
        self.last: Node | None = None
        self._count = 0
        self._pending = 0
        self._transfers_free = 0.0
        self._free_banks: deque[int] = deque(range(target["memory.psum_banks"]))
        self._bank_users = [_Users() for _ in self._free_banks]
        self._rings: dict[Buffer | Location, deque[Instance]] = {}
        self._live_at: dict[Buffer | Location, int] = {}
        # As written: transfers in program order.
        self._transfer_order: deque[Node] = deque()
        self._semaphore = target["semaphore.engine_ns"]
        self._table_load = target["scalar.table_load_ns"]
        self._issue_free = 0.0
        self._last_transfer: Node | None = None
        # Bytes per partition of live buffers and of those whose places wait for the next.
        self._sbuf_used = 0
        self._sbuf_room = target["memory.sbuf_usable_bytes"]
        self._ring_depth = target["memory.compiler_ring_depth"]
        self._bandwidth = target["dma.core_bandwidth"]

    # Admission, in program order.

    def step(self, name: str, engine: str, cost: Cost, accesses: Sequence[Access], line: Location | None) -> None:
        """Take the next instruction of the program."""
        node = Node(self._count, name, engine, cost, line)
        self._count += 1
        for access in accesses:
            self._depend(node, access)
        if self.ports.by_bank:
            node.banks = tuple([bank for access in accesses if access.instance.banks for bank in self._banks(access)])
        for access in accesses:
            self._note(node, access)
        self._enqueue(node)
        self._pending += 1
        while self._pending >= self.window:
            self._issue()

    def finish(self) -> None:
        """Issue what is left in the window."""
        while self._pending:
            self._issue()

    def _depend(self, node: Node, access: Access) -> None:
        instance, pattern = access.instance, access.pattern
        if access.writes and not instance.placed:
            instance.placed = True
            self._take_place(node, instance)
        for known, region in instance.regions.items():
            if known is not pattern and not overlaps(known, pattern):
                continue
            if region.writer is not None:
                self._after(node, region.writer, DATA if access.reads else OVERWRITE)
            if access.writes:
                for reader in region.readers.nodes:
                    self._after(node, reader, READER)

    def _banks(self, access: Access) -> list[int]:
        """The PSUM banks of an access."""
        size = self.target["memory.psum_bank_bytes"]
        low, high = span(access.pattern)
        return access.instance.banks[low // size : -(-high // size)]

    def _after(self, node: Node, earlier: Node, why: str) -> None:
        """`node` waits for `earlier`."""
        if earlier is node:
            return
        if earlier.followers is None:
            self._resolve(node, earlier, why)
        else:
            earlier.followers.append((node, why))
            node.waiting += 1

    def _resolve(self, node: Node, earlier: Node, why: str) -> None:
        """`earlier` is timed: when may `node` start because of it?"""
        if node.engine != earlier.engine:
            at = (earlier.busy_end if why == READER else earlier.end) + self._semaphore
        elif why == DATA:
            at = earlier.end
        else:
            # An engine's own earlier access is seen in order; only reading a result back waits for the pipeline.
            at = earlier.busy_end
            if why == OVERWRITE:
                # A short instruction's result does not arrive before that of a long one in front of it.
                at = max(at, earlier.end - node.cost.latency_ns)
        if at > node.ready:
            node.ready, node.cause, node.why = at, earlier, why

    def _take_place(self, node: Node, instance: Instance) -> None:
        """At its first write a buffer gets a place: its earlier user's last accesses come first."""
        buffer = instance.buffer
        if buffer.memory is PSUM:
            count = min(-(-buffer.row_bytes // self.target["memory.psum_bank_bytes"]), len(self._free_banks))
            instance.banks = [self._free_banks.popleft() for _ in range(count)]
            for bank in instance.banks:
                for user in self._bank_users[bank].nodes:
                    self._after(node, user, BANK)
            old = self._replaced(instance) if instance.depth is not None else None
            if old is not None:
                for user in old.last.nodes:
                    self._after(node, user, BANK)
        elif buffer.memory is SBUF:
            old = self._replaced(instance)
            self._sbuf_used += buffer.row_bytes
            ring = self._rings.get(instance.site)
            if old is None and ring and self._sbuf_used > self._sbuf_room:
                # SBUF is full: no further place for this line.
                old = ring.popleft()
            if old is not None:
                # The new buffer lies where an old one was: each part of it waits for that part's last users.
                instance.regions = old.regions
                self._sbuf_used -= old.buffer.row_bytes

    def _replaced(self, instance: Instance) -> Instance | None:
        """The instance whose place a new one takes when its ring is full."""
        site = instance.site
        live = self._live_at[site] = self._live_at.get(site, 0) + 1
        ring = self._rings.get(site)
        if not ring:
            return None
        depth = instance.depth or -(-self._ring_depth // max(1, ring[0].slices))
        return ring.popleft() if len(ring) + live > max(depth, live) else None

    def _note(self, node: Node, access: Access) -> None:
        instance, pattern = access.instance, access.pattern
        regions = instance.regions
        if access.writes:
            for known in [known for known in regions if known is not pattern and covers(pattern, known)]:
                del regions[known]
        region = regions.get(pattern)
        if region is None:
            region = regions[pattern] = _Region()
        if access.writes and node.cost.descriptors:
            instance.slices += 1
        if access.writes:
            region.writer = node
            region.readers = _Users()
        if access.reads:
            region.readers.add(node)
        instance.last.add(node)
        instance.remaining -= 1
        if instance.remaining == 0:
            self.release(instance)

    def release(self, instance: Instance) -> None:
        """The buffer's last access is behind it: its place is free for the next."""
        for bank in instance.banks:
            self._bank_users[bank] = instance.last
            self._free_banks.append(bank)
        instance.banks = []
        if instance.placed and (instance.buffer.memory is SBUF or instance.depth is not None):
            self._rings.setdefault(instance.site, deque()).append(instance)
            self._live_at[instance.site] -= 1
        if instance.buffer.memory is not SBUF:
            instance.regions = {}

    # Issue, in time.

    def _enqueue(self, node: Node) -> None:
        engine = self._engine(node)
        if self.order == WRITTEN:
            engine.queue.append(node)
            if engine.is_dma:
                self._transfer_order.append(node)
        elif node.waiting == 0:
            heappush(engine.later, (node.ready, node.order, node))

    def _engine(self, node: Node) -> _Engine:
        """The queue a node stands in: its engine's, or for a transfer that of its source line."""
        key = f"dma:{node.line}" if node.cost.descriptors else node.engine
        engine = self.engines.get(key)
        if engine is None:
            engine = self.engines[key] = _Engine()
            engine.is_dma = bool(node.cost.descriptors)
        return engine

    def _candidate(self, engine: _Engine) -> float | None:
        """When the engine could start its next instruction, if it knows one."""
        if engine.is_dma and engine.free < self._issue_free:
            engine.free = self._issue_free
            engine.last = self._last_transfer
        if self.order == WRITTEN:
            if not engine.queue or engine.queue[0].waiting:
                return None
            if engine.is_dma and engine.queue[0] is not self._transfer_order[0]:
                return None
            return max(engine.free, engine.queue[0].ready)
        while engine.later and engine.later[0][0] <= engine.free:
            _, order, node = heappop(engine.later)
            heappush(engine.ready, (order, node))
        if engine.ready:
            return engine.free
        return engine.later[0][0] if engine.later else None

    def _issue(self) -> None:
        """Start the instruction that can start first."""
        best: _Engine | None = None
        at = float("inf")
        for engine in self.engines.values():
            candidate = self._candidate(engine)
            if candidate is not None and candidate < at:
                best, at = engine, candidate
        assert best is not None, "instructions wait for each other in a circle"
        if self.order == WRITTEN:
            node = best.queue.popleft()
            if best.is_dma:
                self._transfer_order.popleft()
        elif best.ready:
            node = heappop(best.ready)[1]
        else:
            node = heappop(best.later)[2]
        holder = self.ports.holder(node)
        if holder is None or holder.busy_end <= at:
            self._start(best, node, at)
            return
        # Another engine has a port that it needs: it is ready when that is free.
        node.ready, node.cause, node.why = holder.busy_end, holder, PORT
        if self.order == WRITTEN:
            best.queue.appendleft(node)
        else:
            heappush(best.later, (node.ready, node.order, node))

    def _start(self, engine: _Engine, node: Node, at: float) -> None:
        if at > node.ready and engine.last is not None:
            node.cause, node.why = engine.last, ENGINE
        node.start = at
        cost = node.cost
        if cost.descriptors:
            self._transfer(engine, node, cost)
        else:
            interval, latency = cost.interval_ns, cost.latency_ns
            if cost.table is not None and cost.table != engine.table:
                at = self._load_table(engine, node, cost.table)
            if node.engine == "tensor":
                factor = self.clock.factor(at)
                interval, latency = interval * factor, latency + interval * (factor - 1)
                self.clock.use(at, interval)
            engine.free = node.busy_end = at + interval
            engine.busy_ns += interval
            node.end = at + latency
            self.ports.hold(node)
        engine.last = node
        self._pending -= 1
        self.totals.instructions += 1
        if node.end >= self.end:
            self.end, self.last = node.end, node
        self._wake(node)
        if self.watch is not None:
            self.watch(node)
        else:
            # Nobody asks why: a chain of causes would keep every instruction.
            node.cause = node.behind = None

    def _load_table(self, engine: _Engine, node: Node, table: str) -> float:
        """The engine loads a table as soon as it is free, whether or not the instruction is ready; when it starts."""
        loaded = engine.free + self._table_load
        engine.table = table
        self.totals.table_loads += 1
        if loaded > node.start:
            node.start = loaded
            if engine.last is not None:
                node.cause, node.why = engine.last, ENGINE
        return node.start

    def busy_ns(self) -> dict[str, float]:
        """Busy time by engine; all DMA queues together."""
        total: dict[str, float] = {}
        for name, engine in self.engines.items():
            kind = "dma" if engine.is_dma else name
            total[kind] = total.get(kind, 0.0) + engine.busy_ns
        return total

    def _transfer(self, engine: _Engine, node: Node, cost: Cost) -> None:
        """A DMA: a turn at issuing, its start latency, its share of the queues, its completion."""
        moved = sum(size * count for size, count in cost.descriptors)
        share = max(cost.busy_ns, moved / self._bandwidth)
        self._issue_free = node.start + cost.interval_ns
        engine.free = node.start + max(cost.interval_ns, cost.queue_ns)
        begin = max(node.start + cost.start_ns, self._transfers_free)
        if begin > node.start + cost.start_ns:
            node.begin, node.behind = begin, self._last_transfer
        self._last_transfer = node
        self._transfers_free = begin + share
        node.busy_end = begin + max(share, cost.queue_ns)
        node.end = node.busy_end + cost.latency_ns - cost.start_ns - cost.queue_ns
        totals = self.totals
        engine.busy_ns += share
        totals.transfer_ns += share
        totals.dma_bytes += moved
        totals.descriptors += sum(count for _, count in cost.descriptors)
        totals.dma_transfers += 1

    def _wake(self, node: Node) -> None:
        followers, node.followers = node.followers, None
        assert followers is not None
        for follower, why in followers:
            self._resolve(follower, node, why)
            follower.waiting -= 1
            if follower.waiting == 0 and self.order == SCHEDULED:
                heappush(self._engine(follower).later, (follower.ready, follower.order, follower))
