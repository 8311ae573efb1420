"""Issue orders: which instruction of the window starts next, and when.

Engines and DMA queues are queues. As scheduled, each takes its oldest instruction that is ready; as written, each keeps
to program order, and the transfers of the core keep to it across their queues, since who comes first would otherwise be
a matter of a few nanoseconds, and a longer instruction could make a kernel faster.

There are few engines, but there may be as many DMA queues as a kernel has lines: those are kept in heaps.

Some transfers stand in one line besides (`Kind.in_line`): the instructions of one engine that issue them, as a compiler
wrote them down. Each stands behind the last instruction of an engine that it waits for, so that loads come as early as
there is a place for what they load. Whoever is first and not ready, a store for instance, holds up all behind it. Those
that wait for other transfers alone are not in anybody's way: compilers know how long these take.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from tilewright.timing.node import Node
from tilewright.timing.transfers import Transfers

_NEVER = float("inf")
_AT_ONCE = -1.0
_CALLED = -1


class Queue:
    """An engine, or transfers that follow each other: when it is free, what it ran last, and what stands in it.

    As scheduled, `ready` holds what can start when the queue is free (oldest first), `later` what is ready after that
    (earliest first), and `next` is when the first of them can start; for `offered` and `is_due` see `_Turns`. As
    written, `line` holds all in program order. number: queues are told apart by who came first.
    """

    __slots__ = (
        "busy_ns",
        "free",
        "is_dma",
        "is_due",
        "last",
        "later",
        "line",
        "next",
        "number",
        "offered",
        "ready",
        "table",
    )

    def __init__(self, number: int, is_dma: bool) -> None:
        self.number = number
        self.is_dma = is_dma
        self.free = 0.0
        self.busy_ns = 0.0
        self.last: Node | None = None
        self.table: str | None = None
        self.next = self.offered = _NEVER
        self.is_due = False
        self.ready: list[tuple[int, Node]] = []
        self.later: list[tuple[float, int, Node]] = []
        self.line: deque[Node] = deque()

    def take(self) -> Node:
        """The oldest instruction that can start when the queue is free, or else the one that is ready first."""
        ready, later = self.ready, self.later
        while later and later[0][0] <= self.free:
            _, order, node = heappop(later)
            heappush(ready, (order, node))
        node = heappop(ready)[1] if ready else heappop(later)[2]
        self.next = _AT_ONCE if ready else later[0][0] if later else _NEVER
        return node


class _Turns:
    """DMA queues that have something to start: `_due` when the core's next turn comes, `_later` after that.

    A queue that can start earlier than it was offered is offered again; the old offer is recognised by its time.
    """

    __slots__ = ("_due", "_later")

    def __init__(self) -> None:
        self._due: list[tuple[int, Queue]] = []
        self._later: list[tuple[float, int, Queue]] = []

    def offer(self, queue: Queue) -> None:
        """A queue may have something to start, earlier than before."""
        when = max(queue.next, queue.free)
        if not queue.is_due and when < queue.offered:
            queue.offered = when
            heappush(self._later, (when, queue.number, queue))

    def first(self, turn: float) -> tuple[float, Queue | None]:
        """Who is next, and when."""
        due, later = self._due, self._later
        while later and (later[0][0] <= turn or later[0][0] != later[0][2].offered):
            when, number, queue = heappop(later)
            if when == queue.offered and not queue.is_due:
                queue.is_due = True
                heappush(due, (number, queue))
        if due:
            return turn, due[0][1]
        return (later[0][0], later[0][2]) if later else (_NEVER, None)

    def remove(self, queue: Queue) -> None:
        """The first of them has had its turn."""
        if queue.is_due:
            heappop(self._due)
        else:
            heappop(self._later)
        queue.is_due = False
        queue.offered = _NEVER


class Scheduled:
    """Each queue takes its oldest instruction that is ready."""

    __slots__ = ("_engines", "_line", "_transfers", "_turns")

    def __init__(self, transfers: Transfers) -> None:
        self._transfers = transfers
        self._engines: list[Queue] = []
        self._turns = _Turns()
        self._line: list[tuple[int, int, Node]] = []

    def join(self, queue: Queue) -> None:
        """One more queue."""
        if not queue.is_dma:
            self._engines.append(queue)

    def admit(self, node: Node) -> None:
        """Take the next instruction of the program."""
        if node.kind.in_line and node.place >= 0:
            heappush(self._line, (node.place, node.order, node))
        if not node.waiting:
            self.wake(node)

    def wake(self, node: Node) -> None:
        """All that the instruction waits for is timed."""
        if not node.kind.in_line or node.place < 0:
            self.put_back(node)
        elif self._line[0][2] is node:
            self._call(node)

    def _call(self, node: Node) -> None:
        """Who is ready and first in the line may start; one that comes in front of it later does not change that."""
        node.waiting = _CALLED
        self.put_back(node)

    def put_back(self, node: Node) -> None:
        """The instruction starts when its queue is free and it is ready."""
        queue = node.kind.queue
        if node.ready <= queue.free:
            heappush(queue.ready, (node.order, node))
            queue.next = _AT_ONCE
        else:
            heappush(queue.later, (node.ready, node.order, node))
            if node.ready < queue.next:
                queue.next = node.ready
        if queue.is_dma:
            self._turns.offer(queue)

    def take(self) -> tuple[Node, float]:
        """The instruction that can start first, and when; of several the one whose queue is older."""
        at, best = self._turns.first(self._transfers.turn)
        number = -1 if best is None else best.number
        for queue in self._engines:
            when = queue.next if queue.next > queue.free else queue.free
            if when <= at and queue.next < _NEVER and (when < at or queue.number < number):
                best, at, number = queue, when, queue.number
        assert best is not None, "instructions wait for each other in a circle"
        if not best.is_dma:
            return best.take(), at
        self._transfers.wait_for_turn(best)
        self._turns.remove(best)
        return best.take(), at

    def started(self, queue: Queue) -> None:
        """A queue has started an instruction, and is free again at a known time."""
        if not queue.is_dma:
            return
        line = self._line
        while line and line[0][2].start >= 0:
            heappop(line)
        if line and not line[0][2].waiting:
            self._call(line[0][2])
        if queue.next < _NEVER:
            self._turns.offer(queue)


class Written:
    """Each queue keeps to program order, and so do all transfers together."""

    __slots__ = ("_engines", "_order", "_transfers")

    def __init__(self, transfers: Transfers) -> None:
        self._transfers = transfers
        self._engines: list[Queue] = []
        self._order: deque[Node] = deque()

    def join(self, queue: Queue) -> None:
        """One more queue."""
        if not queue.is_dma:
            self._engines.append(queue)

    def admit(self, node: Node) -> None:
        """Take the next instruction of the program."""
        queue = node.kind.queue
        (self._order if queue.is_dma else queue.line).append(node)

    def wake(self, node: Node) -> None:
        """All that the instruction waits for is timed: it starts when its turn comes."""

    def put_back(self, node: Node) -> None:
        """What was taken cannot start yet."""
        node.kind.queue.line.appendleft(node)

    def take(self) -> tuple[Node, float]:
        """The instruction that can start first, and when; of several the one whose queue is older."""
        best: Queue | None = None
        at, number = _NEVER, -1
        if self._order and not self._order[0].waiting:
            best = self._order[0].kind.queue
            self._transfers.wait_for_turn(best)
            at, number = max(best.free, self._order[0].ready), best.number
        for queue in self._engines:
            if not queue.line or queue.line[0].waiting:
                continue
            when = max(queue.free, queue.line[0].ready)
            if when < at or (when == at and queue.number < number):
                best, at, number = queue, when, queue.number
        assert best is not None, "instructions wait for each other in a circle"
        return (self._order if best.is_dma else best.line).popleft(), at

    def started(self, queue: Queue) -> None:
        """A queue has started an instruction: the next one of the program follows anyway."""
