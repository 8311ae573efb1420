"""Replay of an instruction stream against per-engine clocks: when each instruction runs and what it waited for.

Instructions enter a window in program order, learn which earlier ones they wait for (`instance`, `room`), and are
issued by their engines (`issue`): as written or as scheduled. Only the window, the last accesses of live buffers and
one chain of causes are kept, so that a kernel of a million instructions is timed in bounded memory. Costs come from the
records through `Cost`; no instruction is known by name.

An instruction waits for its inputs to be written, for what it overwrites to be read (a semaphore's time later when that
happens on another engine), and for a place for its destination: PSUM banks, or a slot of its SBUF ring. Transfers
stand in queues, each of which starts one at a time; all queues share the bandwidth (`transfers`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from tilewright.errors import Location
from tilewright.target import Target
from tilewright.tile.overlap import Extent
from tilewright.tile.record import Cost
from tilewright.timing.instance import Access, Instance, Region, depend
from tilewright.timing.issue import Queue, Scheduled, Written
from tilewright.timing.node import DATA, ENGINE, PORT, Kind, Node
from tilewright.timing.ports import Array, Ports
from tilewright.timing.room import Room
from tilewright.timing.throttle import Clock
from tilewright.timing.transfers import Transfers

WINDOW = 4096
"""Instructions that a replay sees before it issues one."""

SCHEDULED, WRITTEN = "scheduled", "written"
ORDERS = {SCHEDULED: Scheduled, WRITTEN: Written}


class Replay:
    """Clocks of one core. Feed it with `step`, then call `finish`.

    end: when the last result is seen, `last` the instruction that made it. instructions, table_loads: how many there
    were so far. watch: called with every instruction as it is issued, in that order. regions: a list for all that were
    accessed, so that they can be forgotten at once.
    """

    def __init__(
        self,
        target: Target,
        order: str = SCHEDULED,
        watch: Callable[[Node], None] | None = None,
        window: int = WINDOW,
        regions: list[Region] | None = None,
    ) -> None:
        self.watch = watch
        self.transfers = Transfers(target)
        self.room = Room(target)
        self.end = 0.0
        self.last: Node | None = None
        self.instructions = 0
        self.table_loads = 0
        self._window = window
        self._regions = regions
        self._all_banks = False
        self._queues: dict[Hashable, Queue] = {}
        self._order = ORDERS[order](self.transfers)
        self._clock = Clock(target)
        self._ports = Ports(target)
        self._array = Array()
        self._semaphore = target["semaphore.engine_ns"]
        self._line_from = target["launch.argument_transfers_ns"]
        self._table_load = target["scalar.table_load_ns"]
        self._count = 0

    def kind(self, name: str, engine: str, cost: Cost, line: Location | None, site: Hashable = None) -> Kind:
        """What all executions of an instruction share; made once and given to every `step`.

        A transfer stands in the queue of its `site` (by default its source line), any other instruction in that of its
        engine.
        """
        key = (site or line) if cost.descriptors else engine
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = Queue(len(self._queues), bool(cost.descriptors))
            self._order.join(queue)
        return Kind(name, engine, cost, line, queue, self._ports.of(cost))

    # Admission, in program order.

    def step(self, kind: Kind, accesses: Sequence[Access], tag: Any = None) -> None:
        """Take the next instruction of the program."""
        node = Node(self._count, kind, tag)
        if kind.in_line:
            node.ready = self._line_from
        self._count += 1
        semaphore = self._semaphore
        touched: list[Region] = []
        for instance, extent, reads, writes in accesses:
            if writes and not instance.placed:
                self.room.place(instance)
            region = instance.regions.get(extent)
            if region is None:
                region = self._new_region(instance, extent)
                if writes and instance.before:
                    self.room.wait_for_banks(node, instance, extent)
            touched.append(region)
            depend(node, region, reads, writes, semaphore)
        if kind.after or kind.joins:
            self._keep_phase(node)
        if self._ports.by_bank and (kind.holds or self._all_banks):
            node.banks = tuple(
                [bank for access in accesses if access[0].users is not None for bank in self.room.banks(access)]
            )
        # Only now: an instruction does not wait for itself.
        for (instance, _, reads, writes), region in zip(accesses, touched, strict=True):
            if writes:
                if kind.is_transfer:
                    instance.slices += 1
                instance.note_write(region, node)
            if reads:
                region.read(node)
            if instance.users is not None:
                instance.users.add(node)
            instance.remaining -= 1
            if not instance.remaining:
                self.release(instance)
        self._order.admit(node)
        while self._count - self.instructions >= self._window:
            self._issue()

    def _new_region(self, instance: Instance, extent: Extent) -> Region:
        """What has not been accessed in this way before."""
        made = instance.new_region(extent)
        if self._regions is not None:
            self._regions.append(made)
        return made

    def _keep_phase(self, node: Node) -> None:
        """Let a transfer wait for those that its tensor needs, and others for it."""
        for users in node.kind.after:
            for earlier in users.nodes:
                node.wait_for(earlier, DATA, self._semaphore)
        for users in node.kind.joins:
            users.add(node)

    def skip(self, accesses: Sequence[Access]) -> None:
        """An instruction of the program is left out: its accesses are over."""
        for instance, *_ in accesses:
            instance.remaining -= 1
            if not instance.remaining:
                self.release(instance)

    def admit_all(self, nodes: Sequence[Node]) -> None:
        """Take instructions of which it is known what they wait for: no more than the window has room for."""
        assert len(nodes) < self._window
        self._count = len(nodes)
        for node in nodes:
            self._order.admit(node)

    def finish(self) -> None:
        """Issue what is left in the window."""
        while self.instructions < self._count:
            self._issue()

    def forget(self) -> None:
        """Let go of what refers to itself in a circle: to find it takes Python longer than to have it freed at once."""
        for region in self._regions or ():
            region.others, region.covered = [], []
        for queue in self._queues.values():
            queue.last = None
        self.room.forget()

    def release(self, instance: Instance) -> None:
        """A buffer's last access has been admitted."""
        self.room.release(instance)
        if instance.life is not None:
            instance.life.finish()

    # Issue, in time.

    def _issue(self) -> None:
        """Start the instruction that can start first."""
        node, at = self._order.take()
        holder, why = (self._ports.holder(node) if node.kind.wants else None), PORT
        if self._array.held and node.kind.engine == "tensor":
            holder, why = self._array.holder(node), ENGINE
        if holder is None or holder.busy_end <= at:
            self._start(node, at)
            return
        # Another instruction has a port, or a part of the array, that it needs: it is ready when that is free.
        node.ready, node.cause, node.why = holder.busy_end, holder, why
        if why is ENGINE and node.kind.cost.tile is None:
            # Those that came after it do not keep the array from one that needs all of it.
            node.kind.queue.free = holder.busy_end
        self._order.put_back(node)

    def _start(self, node: Node, at: float) -> None:
        kind = node.kind
        queue = kind.queue
        if at > node.ready and queue.last is not None:
            node.cause, node.why = queue.last, ENGINE
        node.start = at
        if kind.is_transfer:
            self.transfers.start(node)
        else:
            self._run(node, kind, queue)
        queue.last = node
        self._order.started(queue)
        kind.count += 1
        self.instructions += 1
        if node.end >= self.end:
            self.end, self.last = node.end, node
        followers, node.followers = node.followers, None
        assert followers is not None
        for follower, why in followers:
            follower.resolve(node, why, self._semaphore)
            follower.waiting -= 1
            if not follower.waiting:
                self._order.wake(follower)
        if self.watch is not None:
            self.watch(node)
            node.tag = None
        else:
            # Nobody asks why: a chain of causes would keep every instruction.
            node.cause = node.behind = None

    def _run(self, node: Node, kind: Kind, queue: Queue) -> None:
        """Time an instruction of an engine."""
        cost = kind.cost
        interval, latency = cost.interval_ns, cost.latency_ns
        if cost.table is not None and cost.table != queue.table:
            self._load_table(queue, node, cost.table)
        at, taken = node.start, interval
        if kind.engine == "tensor":
            factor = self._clock.factor(at)
            taken = interval if cost.tile is None else cost.tile.ns
            interval, taken, latency = interval * factor, taken * factor, latency + taken * (factor - 1)
            self._clock.use(at, taken, cost.activity)
        queue.free = at + interval
        node.busy_end = at + taken
        node.end = at + latency
        if cost.tile is not None or (self._array.held and kind.engine == "tensor"):
            # While one part of the array is busy, another's time is counted once.
            taken = self._array.hold(node)
        queue.busy_ns += taken
        if kind.holds:
            self._ports.hold(node)

    def _load_table(self, queue: Queue, node: Node, table: str) -> None:
        """The engine loads a table as soon as it is free, whether or not the instruction is ready."""
        loaded = queue.free + self._table_load
        queue.table = table
        self.table_loads += 1
        if loaded > node.start:
            node.start = loaded
            if queue.last is not None:
                node.cause, node.why = queue.last, ENGINE

    def busy_ns(self) -> dict[str, float]:
        """Busy time by engine; all DMA queues together."""
        total: dict[str, float] = {}
        for name, queue in self._queues.items():
            unit = "dma" if queue.is_dma else str(name)
            total[unit] = total.get(unit, 0.0) + queue.busy_ns
        return total
