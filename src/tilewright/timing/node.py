"""What a replay knows of an instruction: its kind (all that every execution shares) and its node (one execution)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.errors import Location
from tilewright.tile.record import Cost

if TYPE_CHECKING:
    from tilewright.timing.issue import Queue

DATA, OVERWRITE, READER, BANK, SLOT, ENGINE, START = "data", "overwrite", "reader", "psum bank", "buffer", "engine", ""
BANDWIDTH, PORT = "bandwidth", "port"

Port = tuple[str, bool]
"""A memory port by name, and whether every PSUM bank has one of its own."""


class Kind:
    """Instructions of one source line that cost the same, and what follows from that.

    unit: "dma" for transfers, which run on the DMA engines whoever triggers them, otherwise the engine. moved,
    descriptors: bytes and pieces of a transfer. wants: ports that another engine may hold against it; holds: ports of
    its own that others may want. after: writes that all of these wait for, joins: those that they are among (see
    timing.phases). in_line: transfers that one engine issues in order (see timing.issue). count: how many were issued.
    """

    __slots__ = (
        "after",
        "cost",
        "count",
        "descriptors",
        "engine",
        "holds",
        "in_line",
        "is_transfer",
        "joins",
        "line",
        "moved",
        "name",
        "queue",
        "unit",
        "wants",
    )

    def __init__(
        self,
        name: str,
        engine: str,
        cost: Cost,
        line: Location | None,
        queue: Queue,
        ports: tuple[tuple[Port, ...], tuple[Port, ...]],
    ) -> None:
        self.name = name
        self.engine = engine
        self.cost = cost
        self.line = line
        self.queue = queue
        self.wants, self.holds = ports
        self.is_transfer = bool(cost.descriptors)
        self.unit = "dma" if self.is_transfer else engine
        self.moved = sum(size * count for size, count in cost.descriptors)
        self.descriptors = sum(count for _, count in cost.descriptors)
        self.after: tuple[Users, ...] = ()
        self.joins: tuple[Users, ...] = ()
        self.in_line = False
        self.count = 0


class Node:
    """An instruction in the window, and afterwards a link of the chain that led to a moment.

    followers: (node, reason) of those that wait for it, None once it is issued. begin, behind: of a transfer that found
    the bandwidth taken, when its bytes began to move, after those of which other. depth, past: see timing.critical.
    banks: PSUM banks that it accesses, where these may be in the way of another engine. place: the number of the last
    instruction of an engine that it waits for, -1 for none. tag: whatever the caller of `Replay.step` wants back when
    it is issued.
    """

    __slots__ = (
        "banks",
        "begin",
        "behind",
        "busy_end",
        "cause",
        "depth",
        "end",
        "followers",
        "kind",
        "order",
        "past",
        "place",
        "ready",
        "start",
        "tag",
        "waiting",
        "why",
    )

    def __init__(self, order: int, kind: Kind, tag: Any = None) -> None:
        self.order = order
        self.place = -1
        self.kind = kind
        self.tag = tag
        self.waiting = 0
        self.ready = 0.0
        self.cause: Node | None = None
        self.why = START
        self.banks: tuple[int, ...] = ()
        self.followers: list[tuple[Node, str]] | None = []
        self.start = self.busy_end = self.end = self.begin = -1.0
        self.behind: Node | None = None
        self.depth = 0
        self.past: Any = None

    def wait_for(self, earlier: Node, why: str, semaphore: float) -> None:
        """Start no sooner than `earlier` allows, which may not be known yet."""
        if earlier.order > self.place and not earlier.kind.is_transfer:
            self.place = earlier.order
        if earlier.followers is None:
            self.resolve(earlier, why, semaphore)
        elif earlier is not self:
            followers = earlier.followers
            if followers and followers[-1] == (self, why):
                # It waits for several accesses of one instruction.
                return
            followers.append((self, why))
            self.waiting += 1

    def resolve(self, earlier: Node, why: str, semaphore: float) -> None:
        """`earlier` is timed: when may this one start because of it?"""
        if self.kind.engine != earlier.kind.engine:
            at = (earlier.busy_end if why == READER else earlier.end) + semaphore
        elif why == DATA:
            at = earlier.end
        else:
            # An engine's own earlier access is seen in order; only reading a result back waits for the pipeline.
            at = earlier.busy_end
            if why == OVERWRITE:
                # A short instruction's result does not arrive before that of a long one in front of it.
                at = max(at, earlier.end - self.kind.cost.latency_ns)
        if at > self.ready:
            self.ready, self.cause, self.why = at, earlier, why


_FEW = 8


class Users:
    """Instructions of which the last to finish matters. An engine may finish them in another order than the program's.

    Those that are issued are thinned out to the last of each engine now and then; no more than a window's are not.
    """

    __slots__ = ("limit", "nodes")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.limit = _FEW

    def add(self, node: Node) -> None:
        """One more."""
        self.nodes.append(node)
        if len(self.nodes) > self.limit:
            self._thin()

    def clear(self) -> None:
        """They no longer matter."""
        if self.nodes:
            self.nodes = []
            self.limit = _FEW

    def _thin(self) -> None:
        read: dict[str, Node] = {}
        done: dict[str, Node] = {}
        kept: list[Node] = []
        for node in self.nodes:
            if node.followers is not None:
                kept.append(node)
                continue
            engine = node.kind.engine
            last = read.get(engine)
            if last is None or node.busy_end > last.busy_end:
                read[engine] = node
            last = done.get(engine)
            if last is None or node.end > last.end:
                done[engine] = node
        kept += dict.fromkeys((*read.values(), *done.values()))
        self.nodes = kept
        self.limit = 2 * len(kept) + _FEW
