"""What an attempt to write a step changes, so that it can be forgotten, or set aside and put back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numpy import ndarray

from tilewright.ir.core import Op, Region, Value
from tilewright.ir.walk import walk
from tilewright.lower import decisions
from tilewright.lower.regions.planning import Attempt
from tilewright.lower.schedule.taken import Taken
from tilewright.lower.write.occupancy import occupancy_of, surely_fits
from tilewright.tile.record import Record
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def settle(low: Lowering, state: State, copies: Sequence[int]) -> tuple[str | None, tuple[int, ...]]:
    """Leave what was written as many copies of its tiles as fit; why it does not fit at all, and how many."""
    copied, low.b.copied = low.b.copied, []
    misfit = None
    for most in copies:
        for buffer in copied:
            buffer.depth = min(buffer.depth, most)
        misfit = state.misfit(low)
        if misfit is None or not copied:
            break
    return misfit, (max(buffer.depth for buffer in copied),) if copied else ()


KNOWN = ("homes", "resident", "shared", "given", "moved", "delivered", "refused", "row_of")


@dataclass(frozen=True, slots=True)
class State:
    """What lowering knew and had written before an attempt."""

    ops: tuple[Op, ...]
    at_start: int
    load: dict[str, float]
    arguments: int
    constants: int
    known: dict[str, dict]
    done: frozenset[Op]
    away: int
    notes: int
    decisions: int
    taken: int

    @staticmethod
    def of(low: Lowering) -> State:
        """The state now."""
        body, draft = low.b.graph.body, low.draft
        return State(
            tuple(body.ops),
            low.b.at_start,
            dict(low.selecting.load),
            len(body.arguments),
            len(low.constants),
            {name: dict(getattr(low, name)) for name in KNOWN},
            frozenset(low.done),
            len(draft.away),
            len(draft.attempts.get(draft.at, ())),
            decisions.count(),
            len(low.taken),
        )

    def restore(self, low: Lowering) -> None:
        """Forget what was written since."""
        body, draft = low.b.graph.body, low.draft
        for op in low.b.since(self.ops):
            op.unregister()
            op.drop_inner_uses()
        body.ops[:] = self.ops
        low.b.at_start = self.at_start
        low.selecting.load = dict(self.load)
        del body.arguments[self.arguments :]
        del low.constants[self.constants :]
        for name, content in self.known.items():
            getattr(low, name).clear()
            getattr(low, name).update(content)
        low.done &= self.done
        decisions.forget(self.decisions)
        del low.taken[self.taken :]
        draft.back(self.away)
        del draft.attempts.get(draft.at, [])[self.notes :]

    def set_aside(self, low: Lowering) -> Aside:
        """The same, but so that it can be put back."""
        body, draft = low.b.graph.body, low.draft
        new = [op for each in low.b.since(self.ops) for op in walk(each)]
        made = Aside(
            State.of(low),
            [(op, op.parent) for op in new if op.parent is not None],
            [(region, list(region.ops)) for op in new for region in op.regions],
            body.arguments[self.arguments :],
            low.constants[self.constants :],
            [(known.value, known.why) for known, _ in draft.away[self.away :]],
            draft.attempts.get(draft.at, [])[self.notes :],
            decisions.since(self.decisions),
            low.taken[self.taken :],
        )
        self.restore(low)
        return made

    def misfit(self, low: Lowering) -> str | None:
        """Why what was written since does not fit beside what is kept; None where it does."""
        new = low.b.since(self.ops)
        kept, found = low.kept(), None
        if not surely_fits(new, low.target, kept):
            found = occupancy_of(new, low.target, kept).misfit(low.target)
        limit = low.target["limits.vector_free_max_sbuf"]
        if found is None and not _is_in_reach(new, limit):
            return f"an instruction would count more than {limit} elements per partition"
        return found


@dataclass(frozen=True, slots=True)
class Aside:
    """What an attempt wrote, taken out of the kernel.

    state: after it. ops: all of them in the order of the text, each with where it stands. The rest is what the attempt
    added to lists.
    """

    state: State
    ops: list[tuple[Op, Region]]
    regions: list[tuple[Region, list[Op]]]
    arguments: list[Value]
    constants: list[ndarray]
    away: list[tuple[Value, str]]
    notes: list[Attempt]
    decisions: list[str]
    taken: list[Taken]

    def put_back(self, low: Lowering) -> None:
        """Let the kernel be as it was after the attempt; it has to be as it was before."""
        body, draft, state = low.b.graph.body, low.draft, self.state
        for region, ops in self.regions:
            region.ops[:] = ops
        body.ops[:] = state.ops
        for op, region in self.ops:
            op.register(region)
        low.b.at_start = state.at_start
        low.selecting.load = dict(state.load)
        body.arguments += self.arguments
        low.constants += self.constants
        for name, content in state.known.items():
            getattr(low, name).clear()
            getattr(low, name).update(content)
        low.done |= state.done
        for value, why in self.away:
            draft.sent_away(value, why)
        draft.attempts.setdefault(draft.at, []).extend(self.notes)
        low.taken += self.taken
        for name in self.decisions:
            decisions.decided(name)


def _is_in_reach(ops: Sequence[Op], limit: int) -> bool:
    """True when no instruction touches more of a partition than its engine can count."""
    for op in ops:
        if op.regions:
            if not _is_in_reach(op.regions[0].ops, limit):
                return False
        elif isinstance(op.definition, Record) and "dma" not in op.definition.engines:
            if any(isinstance(view, View) and view.on_chip and view.free > limit for view in op.operands):
                return False
    return True
