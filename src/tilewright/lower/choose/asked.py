"""Steps that are written as a user's schedule says: the way is checked, written once, and refused where it does not
fit. Nothing else is tried."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.errors import TileNotImplementedError
from tilewright.ir.core import Op
from tilewright.lower.choose.attempt import State, settle
from tilewright.lower.choose.divide import DIVISIONS, write_divided
from tilewright.lower.choose.divide import why_not as why_not_divided
from tilewright.lower.choose.kinds import KINDS
from tilewright.lower.regions.grouping import Group
from tilewright.lower.schedule import refusals
from tilewright.lower.schedule.data import Step, Way
from tilewright.lower.schedule.given import Given
from tilewright.lower.schedule.taken import SINGLE
from tilewright.lower.schedule.text import way_text
from tilewright.lower.tuning import TUNING

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

SAID_SO = "the schedule sends it away"
MOST_BUFFERS = 16


def write_asked(low: Lowering, step: Group | Op, asked: Step, given: Given) -> None:
    """Write a step as asked for."""
    assert asked.way is not None
    before = len(low.taken)
    made = _Asked(low, step, asked, asked.way, given).written()
    low.took(made[0], made[1], before)


class _Asked:
    """One step with its way."""

    def __init__(self, low: Lowering, step: Group | Op, asked: Step, way: Way, given: Given) -> None:
        self.low, self.step, self.asked, self.way, self.given = low, step, asked, way, given

    def refused(self, code: str, message: str, hint: str) -> Exception:
        """The error to raise at the line of the way."""
        return self.given.refused(code, message, hint, self.way.line or self.asked.line)

    def written(self) -> tuple[Group | Op, Way]:
        """Write it; the group in its layout, and the way with the copies of its tiles."""
        low, way = self.low, self.way
        group = self.step if isinstance(self.step, Op) else self.given.layouts(self.step, self.asked)[0]
        self._check(group)
        self._send_away()
        state = State.of(low)
        try:
            made = self._write(group)
        except TileNotImplementedError as error:
            raise self._does_not_fit(error.diagnostic.message) from None
        misfit, copies = settle(low, state, way.buffers[:1] or _copies(way))
        if misfit is not None:
            raise self._does_not_fit(misfit)
        made = made.with_buffers(made.buffers or copies)
        if way.buffers and made.buffers != way.with_buffers(way.buffers).buffers:
            raise self._other_buffers(made.buffers)
        low.draft.tried(f"{way_text(way)}, as the schedule says")
        self._lay_out(group)
        return group, made

    def _other_buffers(self, buffers: tuple[int, ...]) -> Exception:
        count = f"its tiles have {' and '.join(map(str, buffers))}" if buffers else "none of its tiles takes turns"
        return self.refused(refusals.SIZE, f"{way_text(self.way)}: {count}", "leave buffers out, or ask for those")

    def _does_not_fit(self, why: str) -> Exception:
        hint = "take smaller sizes or fewer buffers, or send values to HBM: hbm VALUE, or spill VALUE in the way"
        return self.refused(refusals.FIT, f"{way_text(self.way)} does not fit: {why}", hint)

    def _write(self, group: Group | Op) -> Way:
        low, way = self.low, self.way
        if isinstance(group, Op):
            low.single(group)
            return replace(way, buffers=())
        if way.kind in DIVISIONS:
            own = DIVISIONS[way.kind](low.target, group)
            write_divided(low, group, way.kind, self.given.inner_steps(group, own, self.asked))
            return replace(way, buffers=())
        return KINDS[way.kind].write(low, group, way)

    def _lay_out(self, group: Group | Op) -> None:
        steps, at = self.low.draft.steps, self.low.draft.at
        if steps[at] is self.step:
            steps[at] = group

    # What is legal.

    def _check(self, group: Group | Op) -> None:
        """E856 for a way that the step does not have, E857 for sizes that it cannot have."""
        way = self.way
        if any(not 1 <= count <= MOST_BUFFERS for count in way.buffers):
            hint = f"each is from 1 to {MOST_BUFFERS}"
            raise self.refused(refusals.SIZE, f"buffers {' and '.join(map(str, way.buffers))}", hint)
        if self.asked.steps and way.kind not in DIVISIONS:
            hint = f"a step with steps below it is written as one of: {', '.join(DIVISIONS)}"
            raise self.refused(refusals.WAY, f"{way.kind} does not divide a step", hint)
        if isinstance(group, Op):
            if way.sizes:
                raise self.refused(refusals.SIZE, f"{way.kind} has no size {way.sizes[0][0]}", "it has none")
            return
        why = self._why_not(group)
        if why is not None:
            able = ", ".join(kind for kind in (*KINDS, *DIVISIONS) if self._why_not(group, kind) is None)
            raise self.refused(refusals.WAY, f"the step cannot be written as {way.kind}: {why}", f"its ways: {able}")
        wrong = None if way.kind in DIVISIONS else KINDS[way.kind].wrong(self.low, group, way)
        if wrong is None and way.kind in DIVISIONS and way.sizes:
            wrong = "it has no sizes"
        if wrong is not None:
            raise self.refused(refusals.SIZE, f"{way_text(way)}: {wrong}", "print k.schedule for sizes that are legal")

    def _why_not(self, group: Group, kind: str | None = None) -> str | None:
        kind = kind or self.way.kind
        if kind in DIVISIONS:
            return why_not_divided(kind, group)
        if kind == SINGLE:
            return "it is a group"
        return KINDS[kind].why_not(self.low.target, group) if kind in KINDS else "there is no such way"

    def _send_away(self) -> None:
        """Values that are to go to HBM first; E859 for one that is not on chip."""
        low = self.low
        for name in self.way.spills:
            value = self.given.value(name, self.way.line)
            if value not in low.resident:
                on_chip = ", ".join(self.given.names[each] for each in low.resident) or "nothing"
                raise self.refused(refusals.HOME, f"{name} is not on chip before the step", f"on chip is: {on_chip}")
            low.send_away(value, SAID_SO)
        if self.way.alone:
            low.spill()


def _copies(way: Way) -> tuple[int, ...]:
    return (TUNING.most_copies, 2, 1) if way.kind == SINGLE else (TUNING.most_copies, 1)
