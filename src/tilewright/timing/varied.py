"""The same instructions timed again and again, while some of them move to other engines.

What an instruction accesses, and which earlier ones it waits for, does not depend on its engine: it is worked out once.
Only what follows, when each is issued, is replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tilewright.ir.core import Op
from tilewright.target import Target
from tilewright.tile.ops import FOR, trips
from tilewright.tile.record import Record
from tilewright.timing.balance import Balance, is_open
from tilewright.timing.issue import Scheduled
from tilewright.timing.node import Kind, Node
from tilewright.timing.replay import WINDOW, Replay
from tilewright.timing.stream import Stream, cost_on
from tilewright.timing.transfers import Transfers


@dataclass(frozen=True, slots=True)
class _Execution:
    """One execution of an instruction: its number among them, how many earlier ones it waits for, the PSUM banks that
    it accesses, and by number who waits for it, and why."""

    instruction: int
    waiting: int
    banks: tuple[int, ...]
    followers: tuple[tuple[int, str], ...]


class _HeldBack(Scheduled):
    """Issues nothing. nodes: what was admitted, with what each waits for."""

    __slots__ = ("nodes",)

    def __init__(self, transfers: Transfers) -> None:
        super().__init__(transfers)
        self.nodes: list[Node] = []

    def admit(self, node: Node) -> None:
        self.nodes.append(node)


class _Held(Replay):
    """Takes instructions in program order, no more than the window has room for."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, regions=[])
        self._order = self.held = _HeldBack(self.transfers)
        self._all_banks = True

    def finish(self) -> None:
        """Nothing is issued."""


class _Admission(Stream):
    """Finds what instructions wait for. order: which of them each execution is of."""

    def __init__(self, target: Target, replay: _Held) -> None:
        super().__init__(target, replay, by_line=False)
        self.known: dict[Op, int] = {}
        self.order: list[int] = []

    def instruction(self, op: Op) -> None:
        super().instruction(op)
        self.order.append(self.known.setdefault(op, len(self.known)))


class Varied:
    """Some instructions, and what each waits for."""

    def __init__(self, target: Target, instructions: Sequence[Op], executions: Sequence[_Execution]) -> None:
        self._target = target
        self._instructions = instructions
        self._executions = executions

    @staticmethod
    def of(ops: Sequence[Op], target: Target) -> Varied | None:
        """Instructions of a kernel; None where more are executed than a replay sees at once."""
        if _executed(ops) >= WINDOW:
            return None
        replay = _Held(target)
        admission = _Admission(target, replay)
        admission.run_ops(ops)
        executions = [
            _Execution(at, node.waiting, node.banks, tuple([(other.order, why) for other, why in node.followers or ()]))
            for at, node in zip(admission.order, replay.held.nodes, strict=True)
        ]
        replay.forget()
        return Varied(target, [*admission.known], executions)

    def ns(self) -> float:
        """How long they take with the attributes that they have now."""
        replay = Replay(self._target)
        nodes = [Node(number, kind) for number, kind in enumerate(self._kinds(replay))]
        for node, each in zip(nodes, self._executions, strict=True):
            node.waiting = each.waiting
            node.followers = [(nodes[number], why) for number, why in each.followers]
            if node.kind.holds:
                node.banks = each.banks
        replay.admit_all(nodes)
        replay.finish()
        replay.forget()
        return replay.end

    def _kinds(self, replay: Replay) -> list[Kind]:
        """The engine and cost of each execution; engines that are left open go by what came before (`Stream.kind`)."""
        balance = Balance(self._target, partial(cost_on, self._target))
        are_open = [is_open(op) for op in self._instructions]
        known: dict[tuple[int, str | None], Kind] = {}
        made: list[Kind] = []
        for each in self._executions:
            at = each.instruction
            op = self._instructions[at]
            chosen = balance.choose(op, at) or None if are_open[at] else None
            kind = known.get((at, chosen))
            if kind is None:
                cost = cost_on(self._target, op, chosen)
                kind = known[at, chosen] = replay.kind(op.definition.name, *cost, op.location, op)
            balance.add(kind.engine, kind.cost.interval_ns)
            made.append(kind)
        return made


def _executed(ops: Sequence[Op]) -> int:
    """How many instructions are executed."""
    return sum(
        len(trips(op)) * _executed(op.regions[0].ops) if op.definition is FOR else isinstance(op.definition, Record)
        for op in ops
    )
