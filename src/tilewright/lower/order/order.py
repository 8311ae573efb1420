"""The order of straight code: of instructions that stand by themselves, each as soon as its engine can have it.

Groups are written op by op, as the program has them. Where steps follow from each other, engines wait: the Scalar
engine loads a table for every other function, what the next step needs stands behind what nothing waits for.
Instructions between loops are put in the order in which they would start, the one first that most depends on; a
function whose table is loaded goes before one whose table is not.

Expects a kernel before its tiles have places; guarantees the same results: of two instructions that access the same
element, one of which writes it, the first stays first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from tilewright.ir.core import Op
from tilewright.lower.tuning import TUNING
from tilewright.target import Target
from tilewright.tile.costed import op_cost
from tilewright.tile.memory import PSUM, Buffer, usable_psum_banks
from tilewright.tile.ops import ALLOC
from tilewright.tile.overlap import Extent
from tilewright.tile.patterns import extent_of
from tilewright.tile.record import Cost, Record


@dataclass(eq=False, slots=True)
class Node:
    """An instruction: what it takes, whom it waits for (with how long after their ends), and who waits for it.

    rest: how long it takes from its start to the end of all that depends on it.
    """

    op: Op
    at: int
    engine: str
    cost: Cost
    waits: dict[Node, None] = field(default_factory=dict)
    followers: list[Node] = field(default_factory=list)
    rest: float = 0.0
    left: int = 0
    ready: float = 0.0
    start: float = 0.0
    opens: list[Buffer] = field(default_factory=list)

    @property
    def is_transfer(self) -> bool:
        return bool(self.cost.descriptors)


def in_order(ops: Sequence[Op], target: Target, window: float = TUNING.ahead_of_others) -> list[Op]:
    """A kernel's instructions with straight code in the order in which it starts.

    window: by how many instructions one may come before others that were written before it
    """
    return [op for part in _parts(ops) for op in _ordered(part, target, window)]


def straight_ns(ops: Sequence[Op], target: Target) -> float:
    """How long straight code keeps its busiest engine."""
    busy: dict[str, float] = {}
    for op in _instructions(ops):
        engine, cost = op_cost(op, target)
        busy[engine] = busy.get(engine, 0.0) + cost.interval_ns
    return max(busy.values(), default=0.0)


def _parts(ops: Sequence[Op]) -> Iterator[list[Op]]:
    """Straight code, and what stands between: loops, and what is neither an instruction nor a tile, one by one."""
    part: list[Op] = []
    for op in ops:
        if isinstance(op.definition, Record) or op.definition is ALLOC:
            part.append(op)
        else:
            yield part
            yield [op]
            part = []
    yield part


def _instructions(part: Sequence[Op]) -> list[Op]:
    return [op for op in part if isinstance(op.definition, Record)]


def _ordered(part: list[Op], target: Target, window: float) -> list[Op]:
    """Straight code in the order in which it starts; as it is where PSUM has no room for that."""
    ops = _instructions(part)
    order = _scheduled(ops, target, window) if len(ops) > 1 else None
    if order is None:
        return part
    made: list[Op] = []
    allocs = {op.result: op for op in part if op.definition is ALLOC}
    for node in order:
        for value in dict.fromkeys(node.op.values()):
            alloc = allocs.pop(value, None)
            if alloc is not None:
                made.append(alloc)
        made.append(node.op)
    return [*made, *allocs.values()]


def _scheduled(ops: Sequence[Op], target: Target, window: float) -> list[Node] | None:
    """Instructions in the order in which they start; None where PSUM has no room for that."""
    banks = usable_psum_banks(target)
    tries = (_Schedule(_nodes(ops, target), target, kept, window).run() for kept in (0, banks // 2, banks - 1))
    return next((order for order in tries if order is not None), None)


def scheduled(ops: Sequence[Op], target: Target) -> list[Node]:
    """Some straight instructions in the order in which they start, with all engines idle before; none where PSUM has no
    room for that."""
    return _scheduled(_instructions(ops), target, inf) or []


# Who waits for whom.


@dataclass(slots=True)
class Touched:
    """An access of a buffer that later ones may have to wait for."""

    extent: Extent
    terms: tuple
    writes: bool
    node: Node

    def meets(self, other: Touched) -> bool:
        """True where both may touch an element. An index of a loop around moves both alike, or nobody knows how."""
        return self.terms != other.terms or self.extent.meets(other.extent)

    def covers(self, other: Touched) -> bool:
        """True where this has every element of the other."""
        return self.terms == other.terms and self.extent.covers(other.extent)


def _nodes(ops: Sequence[Op], target: Target) -> list[Node]:
    made: list[Node] = []
    touched: dict[Buffer, list[Touched]] = {}
    openers: dict[Buffer, Node] = {}
    holder: Node | None = None
    for at, op in enumerate(ops):
        record: Record = op.definition
        node = Node(op, at, *op_cost(op, target))
        for view, _, writes in record.accesses(op.operands):
            own = Touched(extent_of(view), view.terms, writes, node)
            known = touched.setdefault(view.buffer, [])
            if view.buffer.memory is PSUM and (opener := openers.setdefault(view.buffer, node)) is not node:
                # Another part of it may be written by then.
                node.waits[opener] = None
            elif writes and view.buffer.memory is PSUM and not known:
                node.opens.append(view.buffer)
            for other in known:
                if other.node is not node and (writes or other.writes) and own.meets(other):
                    node.waits[other.node] = None
            if writes:
                known[:] = [other for other in known if not own.covers(other) or other.node is node]
            known.append(own)
        if _holds_state(op):
            if holder is not None:
                node.waits[holder] = None
            holder = node
        made.append(node)
    _link(made, target)
    return made


def _holds_state(op: Op) -> bool:
    """True where a register of an engine goes from one instruction to the next: sums, random numbers."""
    record: Record = op.definition
    if "state" not in record.asked:
        return False
    sums = [x for name, x in zip(record.operands, op.operands, strict=False) if record.operands[name].writes][1:]
    return op.attrs.get("reduce_cmd") != "idle" or any(x is not None for x in sums)


def _link(nodes: Sequence[Node], target: Target) -> None:
    semaphore = target["semaphore.engine_ns"]
    for node in reversed(nodes):
        after = max((semaphore * (n.engine != node.engine) + n.rest for n in node.followers), default=0.0)
        node.rest = node.cost.latency_ns + after
        node.left = len(node.waits)
        for before in node.waits:
            before.followers.append(node)


# Who starts when.


@dataclass(eq=False, slots=True)
class _Line:
    """Instructions before an engine that wait for no other: those that could start, and those that are ready later."""

    engine: str
    table: str | None
    now: list[tuple[float, int, Node]] = field(default_factory=list)
    later: list[tuple[float, float, int, Node]] = field(default_factory=list)


class _Schedule:
    """Starts instructions one after the other, by clocks of the engines.

    kept: banks of PSUM that only the instruction that is next as written may take, so that none waits for ever.
    window: by how many instructions one may come before others that were written before it.
    """

    def __init__(self, nodes: Sequence[Node], target: Target, kept: int, window: float) -> None:
        self.nodes, self.kept, self.window = nodes, kept, window
        self.lines: dict[tuple[str, str | None, bool], _Line] = {}
        self.early: list[tuple[int, Node]] = []
        self.openers = deque(node for node in nodes if node.opens)
        self.semaphore, self.table_load = target["semaphore.engine_ns"], target["scalar.table_load_ns"]
        self.bank = target["memory.psum_bank_bytes"]
        self.banks = usable_psum_banks(target)
        self.begun: set[Node] = set()
        self.oldest = 0
        self.free: dict[str, float] = {}
        self.tables: dict[str, str] = {}
        self.uses: dict[Buffer, int] = {}
        mine = {node.op for node in nodes}
        for node in nodes:
            for buffer in self._in_psum(node):
                self.uses[buffer] = self.uses.get(buffer, 0) + 1
        # What is used elsewhere too is there all the time.
        for buffer in [b for b in self.uses if any(use not in mine for use in b.uses)]:
            self.banks -= self._size(buffer)
            del self.uses[buffer]

    def run(self) -> list[Node] | None:
        """The instructions in the order of their starts; None where banks of PSUM do not do."""
        for node in self.nodes:
            if not node.left:
                self._enter(node)
        order: list[Node] = []
        while True:
            starts = [found for line in self.lines.values() if (found := self._next(line)) is not None]
            if not starts:
                return order if len(order) == len(self.nodes) else None
            start, _, _, node = min(starts)
            self._begin(node, start)
            order.append(node)
            for follower in node.followers:
                follower.left -= 1
                if not follower.left:
                    self._enter(follower)
            while self.early and self.early[0][0] - self.oldest <= self.window:
                self._enter(heappop(self.early)[1])

    def _enter(self, node: Node) -> None:
        """Put an instruction that waits for no other into the line before its engine."""
        if node.at - self.oldest > self.window:
            heappush(self.early, (node.at, node))
            return
        key = node.engine, node.cost.table, bool(node.opens)
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = _Line(node.engine, node.cost.table)
        heappush(line.later, (node.ready, -node.rest, node.at, node))

    def _next(self, line: _Line) -> tuple[float, float, int, Node] | None:
        """Which of a line is the first to start, and when: of those that could now, the one that most depends on."""
        free = self.free.get(line.engine, 0.0)
        if line.table is not None and self.tables.get(line.engine) != line.table:
            free += self.table_load
        later, now = line.later, line.now
        while later and (later[0][3] in self.begun or later[0][0] <= free):
            _, rest, at, node = heappop(later)
            if node not in self.begun:
                heappush(now, (rest, at, node))
        while now and now[0][2] in self.begun:
            heappop(now)
        node = now[0][2] if now else later[0][3] if later else None
        if node is not None and not self._has_room(node):
            # The oldest may take the banks that are kept for it.
            node = self.openers[0] if not self.openers[0].left and self._line_of(self.openers[0]) is line else None
            node = node if node is not None and self._has_room(node) else None
        return None if node is None else (max(node.ready, free), -node.rest, node.at, node)

    def _line_of(self, node: Node) -> _Line | None:
        return self.lines.get((node.engine, node.cost.table, bool(node.opens)))

    def _begin(self, node: Node, start: float) -> None:
        cost = node.cost
        if cost.table is not None:
            self.tables[node.engine] = cost.table
        self.free[node.engine] = start + cost.interval_ns
        node.start = start
        end = start + cost.latency_ns
        for follower in node.followers:
            follower.ready = max(follower.ready, end + self.semaphore * (follower.engine != node.engine))
        self.banks -= self._opened(node)
        self.begun.add(node)
        while self.oldest < len(self.nodes) and self.nodes[self.oldest] in self.begun:
            self.oldest += 1
        while self.openers and self.openers[0] in self.begun:
            self.openers.popleft()
        for buffer in self._in_psum(node):
            if buffer in self.uses:
                self.uses[buffer] -= 1
                if not self.uses[buffer]:
                    self.banks += self._size(buffer)

    def _has_room(self, node: Node) -> bool:
        if not node.opens:
            return True
        return self._opened(node) <= self.banks - (0 if node is self.openers[0] else self.kept)

    def _opened(self, node: Node) -> int:
        """Banks of PSUM that an instruction is the first to use."""
        return sum(self._size(buffer) for buffer in node.opens if buffer in self.uses)

    def _size(self, buffer: Buffer) -> int:
        return -(-buffer.row_bytes // self.bank)

    @staticmethod
    def _in_psum(node: Node) -> list[Buffer]:
        record: Record = node.op.definition
        views = (view for view, _, _ in record.accesses(node.op.operands))
        return [*dict.fromkeys(view.buffer for view in views if view.memory is PSUM)]
