"""Issue orders: which instruction of the window starts next, and when.

Engines and DMA queues are queues. As scheduled, each takes its oldest instruction that is ready; as written, each keeps
to program order, and the transfers of the core keep to it across their queues, since who comes first would otherwise be
a matter of a few nanoseconds, and a longer instruction could make a kernel faster.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from tilewright.timing.node import Node
from tilewright.timing.transfers import Transfers

_NEVER = float("inf")
_AT_ONCE = -1.0


class Queue:
    """An engine, or the transfers of one source line: when it is free, what it ran last, and what stands in it.

    As scheduled, `ready` holds what can start when the queue is free (oldest first), `later` what is ready after that
    (earliest first), and `next` is when the first of them can start. As written, `line` holds all in program order.
    """

    __slots__ = ("busy_ns", "free", "is_dma", "last", "later", "line", "next", "ready", "table")

    def __init__(self, is_dma: bool) -> None:
        self.is_dma = is_dma
        self.free = 0.0
        self.busy_ns = 0.0
        self.last: Node | None = None
        self.table: str | None = None
        self.next = _NEVER
        self.ready: list[tuple[int, Node]] = []
        self.later: list[tuple[float, int, Node]] = []
        self.line: deque[Node] = deque()


class Scheduled:
    """Each queue takes its oldest instruction that is ready."""

    __slots__ = ("_queues", "_transfers")

    def __init__(self, transfers: Transfers) -> None:
        self._transfers = transfers
        self._queues: list[Queue] = []

    def join(self, queue: Queue) -> None:
        """One more queue."""
        self._queues.append(queue)

    def admit(self, node: Node) -> None:
        """Take the next instruction of the program."""
        if not node.waiting:
            self.wake(node)

    def wake(self, node: Node) -> None:
        """All that the instruction waits for is timed."""
        queue = node.kind.queue
        if node.ready <= queue.free:
            heappush(queue.ready, (node.order, node))
            queue.next = _AT_ONCE
        else:
            heappush(queue.later, (node.ready, node.order, node))
            if node.ready < queue.next:
                queue.next = node.ready

    put_back = wake

    def take(self) -> tuple[Node, float]:
        """The instruction that can start first, and when."""
        best: Queue | None = None
        at = _NEVER
        turn = self._transfers.turn
        for queue in self._queues:
            when = queue.next
            free = queue.free
            if when < free:
                when = free
            if when < turn and queue.is_dma:
                when = turn
            if when < at:
                best, at = queue, when
        assert best is not None, "instructions wait for each other in a circle"
        if best.is_dma:
            self._transfers.wait_for_turn(best)
        ready, later = best.ready, best.later
        while later and later[0][0] <= best.free:
            _, order, node = heappop(later)
            heappush(ready, (order, node))
        node = heappop(ready)[1] if ready else heappop(later)[2]
        best.next = _AT_ONCE if ready else later[0][0] if later else _NEVER
        return node, at


class Written:
    """Each queue keeps to program order, and so do all transfers together."""

    __slots__ = ("_queues", "_transfer_order", "_transfers")

    def __init__(self, transfers: Transfers) -> None:
        self._transfers = transfers
        self._queues: list[Queue] = []
        self._transfer_order: deque[Node] = deque()

    def join(self, queue: Queue) -> None:
        """One more queue."""
        self._queues.append(queue)

    def admit(self, node: Node) -> None:
        """Take the next instruction of the program."""
        queue = node.kind.queue
        queue.line.append(node)
        if queue.is_dma:
            self._transfer_order.append(node)

    def wake(self, node: Node) -> None:
        """All that the instruction waits for is timed: it starts when its turn comes."""

    def put_back(self, node: Node) -> None:
        """What was taken cannot start yet."""
        node.kind.queue.line.appendleft(node)

    def take(self) -> tuple[Node, float]:
        """The instruction that can start first, and when."""
        best: Queue | None = None
        at = _NEVER
        first = self._transfer_order[0] if self._transfer_order else None
        for queue in self._queues:
            if not queue.line:
                continue
            node = queue.line[0]
            if node.waiting or (queue.is_dma and node is not first):
                continue
            if queue.is_dma:
                self._transfers.wait_for_turn(queue)
            when = max(queue.free, node.ready)
            if when < at:
                best, at = queue, when
        assert best is not None, "instructions wait for each other in a circle"
        node = best.line.popleft()
        if best.is_dma:
            self._transfer_order.popleft()
        return node, at
