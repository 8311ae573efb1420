"""Groups within the memory there is: a group is written, measured, and written again another way if that is worse.

The first way that moves no more bytes through HBM than the group has to, and that takes hardly longer than its busiest
engine, is taken: those that come first need the fewest instructions. Otherwise the others are written too, and the one
that is done first by the clock that is handed in is taken, unless its bytes speak against it (`Cost.rank`).
Groups that are alike (`likeness.py`) are written as the first of them was, and those that are similar to several as
these were.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from math import log, prod
from typing import TYPE_CHECKING

from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op, Value
from tilewright.lower import decisions
from tilewright.lower.choose.attempt import Aside, State, settle
from tilewright.lower.choose.divide import DIVISIONS, write_divided
from tilewright.lower.choose.kinds import KINDS
from tilewright.lower.choose.likeness import likeness, similarity
from tilewright.lower.choose.outdone import Contest, Loses, OutdoneError
from tilewright.lower.choose.ways import Candidate, ways
from tilewright.lower.order.account import account, hbm_bytes
from tilewright.lower.regions.grouping import Group
from tilewright.lower.regions.later_views import torn
from tilewright.lower.regions.planning import Attempt
from tilewright.lower.schedule.data import Way
from tilewright.lower.schedule.taken import SINGLE
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Chip, Hbm, device_dtype, is_view

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

ALSO_ALONE = ("argmax", "take_along_axis", "put_along_axis")
"""Ops of groups that are lowered by themselves where their rows do not fit."""


GAVE_WAY = "gave way to a step that did not fit beside it: least reuse per byte"


def write_group(low: Lowering, group: Group) -> None:
    """Write a group so that it fits, the best way there is."""
    before = len(low.taken)
    choice = _Choice(low, group)
    if choice.write():
        low.took(choice.written, choice.taken, before)
        return
    op = group.ops[0]
    if op.name not in ALSO_ALONE or len(group.ops) > 1:
        raise choice.error or fail(
            "E501",
            f"{op.name} of {op.result.type} does not fit on chip",
            location=op.location,
            error=TileNotImplementedError,
        )
    write_op(low, op)


def write_op(low: Lowering, op: Op) -> None:
    """Write an op by itself, with fewer copies of its tiles or nothing else on chip if it has to be."""
    before = len(low.taken)
    if is_view(op):
        low.single(op)
        low.b.copied.clear()
        low.took(op, None, before)
        return
    for last in (False, True):
        state = State.of(low)
        alone = last or not (low.resident or low.shared)
        misfit, buffers = _write_single(low, op, state, alone)
        given_up = misfit is not None and not alone
        if given_up:
            state.restore(low)
        low.draft.tried(f"{op.name} by itself" + ", nothing else on chip" * last, misfit if given_up else None)
        if not given_up:
            low.took(op, Way(SINGLE, alone=last).with_buffers(buffers), before)
            return
        low.spill()


def _write_single(low: Lowering, op: Op, state: State, alone: bool) -> tuple[str | None, tuple[int, ...]]:
    """Write an op; what is wrong with that, and copies of its tiles. What is refused beside others may find room
    alone."""
    try:
        low.single(op)
    except TileNotImplementedError as error:
        if alone:
            raise
        low.b.copied = []
        return error.diagnostic.message, ()
    return settle(low, state, (TUNING.most_copies, 2, 1))


def write_way(low: Lowering, group: Group, way: Way) -> Way:
    """Write a group in a way, with smaller steps as the search finds them; the way with all that was left open."""
    for name in way.spills:
        low.send_away(low.draft.value(name), GAVE_WAY)
    if way.alone:
        low.spill()
    if way.kind in DIVISIONS:
        steps = DIVISIONS[way.kind](low.target, group)
        write_divided(low, group, way.kind, [(step, None) for step in steps])
        return way
    return KINDS[way.kind].write(low, group, way)


# Which way.


@dataclass(frozen=True, slots=True)
class Cost:
    """What ways are compared by: time, and how many HBM bytes it is bought with; what is about the same counts as such.

    least: the bytes that the group has to move. busy_ns: what keeps the busiest engine. ends_ns: what nothing overlaps.
    dma_ns: what keeps transfers; moving_ns: the same with long pieces.
    """

    hbm_bytes: int
    time_ns: float
    busy_ns: float
    least: int
    ends_ns: float = 0.0
    dma_ns: float = 0.0
    moving_ns: float = 0.0
    is_timed: bool = True
    """Whether time is the clock's; what is too long for that has the time of its busiest engine, and takes more."""
    is_lost: bool = False
    """Whether another form of the program is sooner than all that is written so."""

    @property
    def is_wasteful(self) -> bool:
        """True where transfers take much longer than their bytes: they are of pieces that are too short."""
        return self.dma_ns >= self.busy_ns and self.dma_ns > TUNING.rough * self.moving_ns

    @property
    def is_least(self) -> bool:
        """True where no way moves fewer bytes to speak of."""
        return self.hbm_bytes <= self.least * TUNING.about_equal

    @property
    def is_enough(self) -> bool:
        """True where no other way of the same work is much better."""
        is_near = self.time_ns <= self.busy_ns * TUNING.overlapped_time + self.ends_ns
        return is_near and self.is_least and not self.is_lost

    @property
    def excess(self) -> float:
        """What time counts for more because of bytes: the clock is of one kernel, but HBM is shared with others."""
        return max(self.hbm_bytes / max(self.least, 1), 1.0) ** TUNING.bytes_weight

    @property
    def rank(self) -> tuple[int, int]:
        """Less is better."""
        likely = self.time_ns if self.is_timed else self.time_ns * TUNING.rough
        return _size_class(likely * self.excess), _size_class(self.excess)

    def against(self, best: Cost) -> str:
        """What speaks against a way, where another was taken."""
        if self.rank == best.rank:
            return "takes no fewer HBM bytes and no less time"
        found: list[str] = []
        if _size_class(self.time_ns) > _size_class(best.time_ns):
            found.append(f"takes {self.time_ns / 1e3:.1f} us where {best.time_ns / 1e3:.1f} do")
        if self.hbm_bytes > best.hbm_bytes * TUNING.about_equal:
            found.append(f"{self.hbm_bytes} HBM bytes, later reads included, where {best.hbm_bytes} do")
        if self.is_timed < best.is_timed:
            found.append("has too many instructions for the clock")
        return "; ".join(found) or "takes slightly more HBM bytes and time"


def _size_class(x: float) -> int:
    return round(log(max(x, 1.0), TUNING.about_equal))


@dataclass(frozen=True, slots=True)
class Chosen:
    """How a group was written: the number of the way among those there are, its kind and size, and what was tried."""

    number: int
    kind: tuple[str, int]
    notes: tuple[Attempt, ...]


@dataclass(slots=True)
class Choices:
    """How groups were written, by what they have in common with others (likeness.py); similar ones one after the
    other."""

    alike: dict[Hashable, Chosen] = field(default_factory=dict)
    similar: dict[Hashable, list[Chosen]] = field(default_factory=dict)

    def settled(self, similar: Hashable) -> Chosen | None:
        """How similar groups are written, where the last few were searched and all came out the same."""
        last = self.similar.get(similar, [])[-TUNING.settled_after :]
        is_settled = len(last) == TUNING.settled_after and len({each.kind for each in last}) == 1
        return last[-1] if is_settled else None


class _Choice:
    """Tries ways to write a group until one cannot be bettered."""

    def __init__(self, low: Lowering, group: Group) -> None:
        self.low, self.group = low, group
        self.state = State.of(low)
        self.error: TileNotImplementedError | None = None
        """The first reason for which a way cannot be written at all."""
        self.settled: dict[tuple[str, int], Way] = {}
        """The ways that fit, with the copies of their tiles."""
        self.taken: Way | None = None
        self.written = group
        """The group in the layout that was taken."""

    def write(self) -> bool:
        """Write the best way; says whether there is one that fits."""
        choices, alike = self.low.chosen, likeness(self.low, self.group)
        known = choices.alike.get(alike)
        if known is not None and self._write_again(known):
            return True
        similar = similarity(self.low, self.group)
        settled = choices.settled(similar)
        if settled is not None and self._write_similar(settled):
            return True
        found = self._search()
        if found is not None:
            choices.alike[alike] = found
            choices.similar.setdefault(similar, []).append(found)
        return found is not None

    def _write_again(self, known: Chosen) -> bool:
        """Write a group as one like it; says whether that fits here too."""
        way = next(islice(ways(self.low, self.group), known.number, None), None)
        if way is None or (way.kind, way.size) != known.kind:
            return False
        return self._write_as(way, known.notes)

    def _write_similar(self, settled: Chosen) -> bool:
        """Write a group as those that are similar; says whether that fits here too."""
        way = next((each for each in ways(self.low, self.group) if (each.kind, each.size) == settled.kind), None)
        return way is not None and self._write_as(way, (Attempt(self._of_part(way)),))

    def _write_as(self, way: Candidate, notes: Iterable[Attempt]) -> bool:
        """Write a way that is known to be good; says whether it fits."""
        if self._try(way) is not None:
            self.state.restore(self.low)
            return False
        self._note(notes)
        self._take(way)
        return True

    def _search(self) -> Chosen | None:
        """Try ways and write the best."""
        least = least_bytes(self.low, self.group)
        misfits: list[Attempt] = []
        fitting: dict[tuple[str, int], tuple[Cost, Candidate]] = {}
        numbers: dict[tuple[str, int], int] = {}
        aside: tuple[Candidate, Aside] | None = None
        for number, way in enumerate(ways(self.low, self.group)):
            key = way.kind, way.size
            if key in fitting:
                continue
            if way.is_last_resort and self._will_do(fitting.values()):
                continue
            if way.instead_of is not None and fitting and _best(fitting.values())[1].kind != way.instead_of:
                continue
            misfit = self._try(way, _loses_to(_best(fitting.values())[0]) if fitting else None)
            if misfit is not None:
                misfits.append(Attempt(self._of_part(way), misfit))
            else:
                fitting[key] = cost, _ = self._cost(least), way
                numbers[key] = number
                is_best = _best(fitting.values())[1] is way
                if cost.is_enough and not (cost.is_wasteful and self.group.twins) and is_best:
                    break
                if is_best:
                    aside = way, self.state.set_aside(self.low)
                    continue
            self.state.restore(self.low)
        else:
            if fitting:
                self._write_best(_best(fitting.values())[1], aside)
        notes = misfits + (self._compared(fitting.values()) if fitting else [])
        self._note(notes)
        if not fitting:
            return None
        taken = _best(fitting.values())[1]
        self._take(taken)
        kind = taken.kind, taken.size
        return Chosen(numbers[kind], kind, tuple(notes))

    def _write_best(self, way: Candidate, aside: tuple[Candidate, Aside] | None) -> None:
        """Leave a way that fits written: as it was, or once more."""
        if aside is not None and aside[0] is way:
            aside[1].put_back(self.low)
        else:
            self._try(way)

    def _note(self, attempts: Iterable[Attempt]) -> None:
        """Note ways that were tried, ahead of what smaller steps noted."""
        notes = self.low.draft.attempts.setdefault(self.low.draft.at, [])
        notes[self.state.notes : self.state.notes] = attempts

    def _take(self, taken: Candidate) -> None:
        """Note the way that was taken, and let the plan have its layout."""
        self.taken, self.written = self.settled[taken.kind, taken.size], taken.twin or self.group
        steps, at = self.low.draft.steps, self.low.draft.at
        if taken.twin is not None and steps[at] is self.group:
            steps[at] = taken.twin

    def _will_do(self, fitting: Collection[tuple[Cost, Candidate]]) -> bool:
        """True where there is no need for the last resort. A part of a group, itself an attempt, does with any way."""
        return any(self.low.dividing or cost.is_least for cost, _ in fitting)

    def _try(self, way: Candidate, loses: Loses | None = None) -> str | None:
        """Write a way; says why it does not do. loses: why it is not worth going on, from what it takes so far."""
        if way.hopeless is not None:
            return way.hopeless
        decisions.decided(f"way: {way.kind}")
        # A part of a group is counted by whoever writes the parts.
        if not self.low.dividing:
            self.low.contest = None if loses is None else Contest(self.low.target, loses)
        try:
            made = write_way(self.low, way.twin or self.group, way.way)
        except TileNotImplementedError as error:
            self.error, self.low.b.copied = self.error or error, []
            return error.diagnostic.message
        except OutdoneError as outdone:
            self.low.b.copied = []
            return str(outdone)
        misfit, copies = settle(self.low, self.state, way.copies)
        self.settled[way.kind, way.size] = made.with_buffers(made.buffers or copies)
        return misfit

    def _compared(self, fitting: Collection[tuple[Cost, Candidate]]) -> list[Attempt]:
        """The ways that fit, with what speaks against them; the best is last."""
        best, taken = _best(fitting)
        others = [Attempt(self._of_part(way), cost.against(best)) for cost, way in fitting if way is not taken]
        return [*others, Attempt(self._of_part(taken))]

    def _of_part(self, way: Candidate) -> str:
        """A way of writing a group, which may be a part of the step in work."""
        step = self.low.draft.steps[self.low.draft.at]
        if step is self.group:
            return way.name
        return f"{', '.join(dict.fromkeys(op.name for op in self.group.ops))}: {way.name}"

    def _cost(self, least: int) -> Cost:
        """What was written since costs, and what later steps have to read from HBM because of it."""
        low = self.low
        new = low.b.since(self.state.ops)
        taken = account(new, low.target)
        busy = max(taken.engine_ns.values(), default=0.0)
        later_bytes = self._later_bytes()
        total = hbm_bytes(new, low.target) + later_bytes
        later = later_bytes / low.target["dma.core_bandwidth"]
        is_lost = low.whole is not None and low.whole.loses(0, busy) is not None
        if low.clock is None or is_lost or taken.instructions > TUNING.timed_instructions:
            return Cost(total, busy + later, busy, least, is_timed=False, is_lost=is_lost)
        # The first load and the last store.
        ends = 2 * low.target["dma.static_start_ns"]
        moving = hbm_bytes(new, low.target) / low.target["dma.core_bandwidth"]
        dma = taken.engine_ns.get("dma", 0.0)
        return Cost(total, low.clock(new) + later, busy, least, ends, dma, moving)

    def _later_bytes(self) -> int:
        """Bytes that later steps read of values which were to be on chip, and are not."""
        low = self.low
        wanted = [v for v in self.group.results if v in low.draft.residents and low.draft.is_kept(v)]
        away = [v for v in wanted if isinstance(low.homes.get(v), Hbm)]
        away += [known.value for known, _ in low.draft.away[self.state.away :]]
        later = sum(low.draft.later_reads(value) * _nbytes(value) for value in away)
        return later + self._copied_bytes() + self._torn_bytes()

    def _torn_bytes(self) -> int:
        """Bytes that later views of what is on chip move to HBM and back."""
        low = self.low
        alone = {step for step in low.draft.steps[low.draft.at :] if isinstance(step, Op)}
        taken, lanes = 0, low.target["limits.partitions"]
        for value in self.group.results:
            home = low.homes.get(value)
            if isinstance(home, Chip) and value not in low.outputs:
                size = device_dtype(value.type.dtype).itemsize
                taken += 2 * size * torn(value, home.rows, lanes, alone.__contains__)
        return taken

    def _copied_bytes(self) -> int:
        """Bytes that results of the program take to get from where they were put to where they belong."""
        low, taken = self.low, 0
        for value in self.group.results:
            home = low.homes.get(value)
            for out in low.outputs.get(value, ()):
                if isinstance(home, Hbm) and home.view.buffer is not out.buffer and out.buffer not in low.delivered:
                    taken += 2 * _nbytes(value)
        return taken


def _best(fitting: Iterable[tuple[Cost, Candidate]]) -> tuple[Cost, Candidate]:
    """Of equals the first, which needs the fewest instructions."""
    return min(fitting, key=lambda each: each[0].rank)


def _loses_to(best: Cost) -> Loses:
    """Why a way that takes so many bytes and so much time at least is not taken where this one is known."""

    def loses(hbm_bytes: int, time_ns: float) -> str | None:
        so_far = Cost(hbm_bytes, time_ns, time_ns, best.least)
        return f"{so_far.against(best)}, before all of it is written" if so_far.rank > best.rank else None

    return loses


def least_bytes(low: Lowering, group: Group) -> int:
    """The HBM bytes that a group has to move: what lies there is read once, what is to go there is written once."""
    read = 0
    for value in group.reads:
        home = low.homes.get(value)
        if value.producer is not None and value.producer.name == "constant" and home is None:
            read += _nbytes(value)
        elif isinstance(home, Hbm):
            view = home.view
            distinct = prod(n for n, stride in zip(view.sizes, view.strides, strict=True) if stride)
            read += distinct * view.dtype.itemsize
    written = [*(v for v in group.results for _ in low.outputs.get(v, ()))]
    written += [v for v in group.results if v not in low.outputs and not low.draft.is_kept(v)]
    return read + sum(_nbytes(v) for v in written)


def _nbytes(value: Value) -> int:
    return value.type.size * device_dtype(value.type.dtype).itemsize
