"""DMA transfers: a turn at being issued, the start, a share of the bandwidth, the end (docs/timing.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.target import Target
from tilewright.timing.node import Node

if TYPE_CHECKING:
    from tilewright.timing.issue import Queue


@dataclass(slots=True)
class Moved:
    """What transfers add up."""

    bytes: int = 0
    descriptors: int = 0
    transfers: int = 0
    ns: float = 0.0


def shared_by(target: Target, cores: int) -> Target:
    """The target as each of several cores of one kernel sees it: they share the bandwidth of their HBM stack."""
    share = target["hbm.kernel_bandwidth"] / cores
    if share >= target["dma.core_bandwidth"]:
        return target
    return target.replace({"dma.core_bandwidth": share}, target.name)


class Transfers:
    """The DMA engines of a core. turn: when the next transfer of any queue may be issued; last: the one before it."""

    __slots__ = ("_all", "_bandwidth", "_each", "_free", "_moving", "last", "moved", "turn")

    def __init__(self, target: Target) -> None:
        self._bandwidth = target["dma.core_bandwidth"]
        self._each = target["dma.engine_peak"]
        count: int = target["dma.engines_per_core"]
        self._all = (0, count)
        # When each engine has moved what it was given, and when any of them has.
        self._free = [0.0] * count
        self._moving = 0.0
        self.turn = 0.0
        self.last: Node | None = None
        self.moved = Moved()

    def wait_for_turn(self, queue: Queue) -> None:
        """A queue is free no sooner than the core may issue its next transfer."""
        if queue.free < self.turn:
            queue.free, queue.last = self.turn, self.last

    def start(self, node: Node) -> None:
        """Time a transfer that is issued at its `start`."""
        kind, issued = node.kind, node.start
        cost, queue = kind.cost, kind.queue
        first, count = cost.engines or self._all
        share = max(cost.busy_ns, kind.moved / min(self._bandwidth, count * self._each))
        self.turn = issued + cost.interval_ns
        queue.free = issued + max(cost.interval_ns, cost.queue_ns)
        begin = self._begin(issued + cost.start_ns, share, first, count)
        if begin > issued + cost.start_ns:
            node.begin, node.behind = begin, self.last
        self.last = node
        node.busy_end = begin + max(share, cost.queue_ns)
        node.end = node.busy_end + cost.latency_ns - cost.start_ns - cost.queue_ns
        # While some engine moves bytes, another's are counted once.
        alone = max(0.0, begin + share - max(begin, self._moving))
        self._moving = max(self._moving, begin + share)
        queue.busy_ns += alone
        moved = self.moved
        moved.ns += alone
        moved.bytes += kind.moved
        moved.descriptors += kind.descriptors
        moved.transfers += 1

    def _begin(self, ready: float, share: float, first: int, count: int) -> float:
        """Give each of some engines its share; when the last of them begins with it."""
        free = self._free
        begin = ready
        for engine in range(first, first + count):
            at = free[engine]
            if at < ready:
                at = ready
            elif at > begin:
                begin = at
            free[engine] = at + share
        return begin
