"""Forms of a program that mean the same; each is lowered, and the kernel that takes less time by the clock is taken.

What the first kernel shows decides which forms are tried: regions of neighbours in patches, dims as digits, and the
rows of an axis for regions that took much longer than what they move and compute has to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tilewright.ir.core import Graph, Op
from tilewright.ir.fingerprint import fingerprint
from tilewright.lower.order.account import Account, account, hbm_bytes
from tilewright.lower.regions.grouping import Group
from tilewright.lower.regions.stencils import find_stencils
from tilewright.lower.rewrite.by_rows import compute_by_rows
from tilewright.lower.rewrite.digits import split_into_digits
from tilewright.lower.rewrite.leading_units import drop_leading_units
from tilewright.lower.rewrite.naming import name_values
from tilewright.lower.rewrite.prepare import prepare
from tilewright.lower.rewrite.row_axis import RowRegion, find_regions
from tilewright.lower.rewrite.spread_rows import spread_over_rows
from tilewright.lower.rewrite.spread_taps import spread_taps
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import device_dtype, is_view
from tilewright.target import Target

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowered

Clock = Callable[[Sequence[Op]], float]
"""How long some instructions take, in ns."""


class Form(NamedTuple):
    """A program, and whether its regions of neighbours are cut into patches."""

    program: Graph
    patched: bool = False


Make = Callable[[Form, float], "Lowered | None"]
"""Lowers a form; None where it does not fit, or is sure to take longer than so many ns."""


def best_form(made: Lowered, given: Graph, target: Target, clock: Clock, make: Make) -> tuple[Lowered, float | None]:
    """The kernel of the form that takes the least time, and that time, where the clock was asked.

    made: the kernel of the program as it is prepared
    """
    contest = _Contest(Form(_program(made)), made, _Timer(target, clock), make)
    for other in _other_forms(made, given, target):
        contest.enter(other)
    before = contest.form
    contest.by_rows()
    program, lanes = contest.form.program, target["limits.partitions"]
    if contest.form is not before and not before.patched and find_stencils(program, lanes):
        contest.enter(contest.form._replace(patched=True))
    return contest.made, contest.timer.known(contest.made)


@dataclass(slots=True)
class _Contest:
    """The form whose kernel takes the least time so far. seen: all that were lowered."""

    form: Form
    made: Lowered
    timer: _Timer
    make: Make
    seen: set[tuple[str, bool]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.seen.add(_key(self.form))

    def enter(self, other: Form) -> bool:
        """Lower another form, unless it is one of those before; says whether it is the best now."""
        if _key(other) in self.seen:
            return False
        self.seen.add(_key(other))
        found = self.make(other, _most_ns(self.made, self.timer))
        is_sooner = found is not None and _is_sooner(found, self.made, self.timer)
        if found is not None and is_sooner:
            self.form, self.made = other, found
        return is_sooner

    def by_rows(self) -> None:
        """Compute some regions by rows of an axis, where that takes less time."""
        left, target = TUNING.tried_ops, self.timer.target
        gained = True
        while gained:
            gained = False
            for taken, region in _wanting(self.made, self.timer):
                program = compute_by_rows(self.form.program, region, target)
                if program is None or (left := left - len(program.ops)) < 0 or not self._gains_alone(region, taken):
                    continue
                gained = self.enter(self.form._replace(program=program))
                break

    def _gains_alone(self, region: RowRegion, taken: float) -> bool:
        """True where a region by itself, by rows, takes less than it took in the whole kernel: most do not, and are
        cheap to ask beside programs of many ops."""
        program = self.form.program
        if 2 * len(region.ops) >= len(program.ops):
            return True
        alone = compute_by_rows(*region.alone(program), self.timer.target)
        found = None if alone is None else self.make(Form(alone), taken)
        return found is not None and self.timer.ns(found) < taken


def _key(form: Form) -> tuple[str, bool]:
    """What tells forms apart."""
    return fingerprint(form.program), form.patched


class _Timer:
    """How long kernels take: by the clock, each once, or by their busiest engines where replaying one takes longer than
    a user waits."""

    def __init__(self, target: Target, clock: Clock) -> None:
        self.target = target
        self._clock = clock
        # The kernels too: no other gets the number of one of them meanwhile.
        self._known: dict[int, tuple[Lowered, Account, float | None]] = {}

    def ns(self, *kernels: Lowered) -> float:
        """The time of the first, in the way in which all of them can be compared."""
        long = max(self._of(each)[1].instructions for each in kernels) > TUNING.timed_instructions
        made, taken, time = self._of(kernels[0])
        if long:
            return max(taken.engine_ns.values(), default=1.0)
        if time is None:
            time = self._clock(made.graph.ops)
            self._known[id(made)] = made, taken, time
        return time

    def known(self, made: Lowered) -> float | None:
        """What the clock said of a kernel."""
        return self._of(made)[2]

    def are_alike(self, one: Lowered, other: Lowered) -> bool:
        """True for kernels that are the same for all that can be told without the clock."""
        a, b = self._of(one)[1], self._of(other)[1]
        return (a.instructions, a.engine_ns, a.loops) == (b.instructions, b.engine_ns, b.loops)

    def _of(self, made: Lowered) -> tuple[Lowered, Account, float | None]:
        known = self._known.get(id(made))
        if known is None:
            known = self._known[id(made)] = made, account(made.graph.ops, self.target), None
        return known


def _program(made: Lowered) -> Graph:
    assert made.draft is not None
    return made.draft.program


def _other_forms(made: Lowered, given: Graph, target: Target) -> Iterator[Form]:
    """Forms of a whole program. made: the kernel of the one that was given."""
    program, lanes = _program(made), target["limits.partitions"]
    other = program.clone()
    other = other if drop_leading_units(other) else program
    if find_stencils(other, lanes):
        yield Form(other, True)
    other = given.clone()
    if spread_taps(other):
        prepare(other, target)
        if find_stencils(other, lanes):
            yield Form(other, True)
    other = given.clone()
    is_cut = split_into_digits(other)
    if is_cut:
        prepare(other, target)
        # Simplifying moves ops before reshapes again, where they have the dims of one side only.
        split_into_digits(other)
        name_values(other)
    else:
        other = program.clone()
    if spread_over_rows(other) or (is_cut and _moves_more(made, target)):
        yield Form(other)


def _wanting(made: Lowered, timer: _Timer) -> list[tuple[float, RowRegion]]:
    """Regions with an axis that all ops treat alike, which take much longer than they have to, and how long; the worst
    first."""
    draft, target = made.draft, timer.target
    assert draft is not None
    total = timer.ns(made)
    steps = [step.inside if isinstance(step, Group) else {step} for step in draft.steps]
    busy = [max(account(draft.written.get(at, ()), target).engine_ns.values(), default=0.0) for at in range(len(steps))]
    found: list[tuple[float, float, RowRegion]] = []
    for region in find_regions(draft.program, max(target["limits.partitions"] // 4, 2)):
        own = {op for op in region.ops if not is_view(op)}
        # What other steps do not account for is this region's: loads before the first step, and waiting.
        taken = total - sum(ns for ops, ns in zip(steps, busy, strict=True) if own.isdisjoint(ops))
        excess = taken - TUNING.rough * _least_ns(region, target)
        if excess > TUNING.least_excess * total:
            found.append((excess, taken, region))
    found.sort(key=lambda each: -each[0])
    return [(taken, region) for _, taken, region in found]


def _least_ns(region: RowRegion, target: Target) -> float:
    """How long a region takes at least: what it moves, or computes on two engines."""
    moved = sum(x.type.size * device_dtype(x.type.dtype).itemsize for x in region.moved)
    elements = region.work / target["limits.partitions"]
    return max(moved / target["dma.core_bandwidth"], elements / target["clock_ghz.vector"] / 2)


def _moves_more(made: Lowered, target: Target) -> bool:
    """True where more passes through HBM than is read and returned."""
    program = _program(made)
    least = sum(x.type.size * device_dtype(x.type.dtype).itemsize for x in (*program.inputs, *program.outputs))
    return hbm_bytes(made.graph.ops, target) > least


def _most_ns(made: Lowered, timer: _Timer) -> float:
    """What another form may take where this one is known: about as long, with fewer bytes."""
    return timer.ns(made) * TUNING.about_equal**2


def _is_sooner(one: Lowered, other: Lowered, timer: _Timer) -> bool:
    """True where a kernel takes less time than another by the clock, what it is bought with counted as for ways, or
    about as much with fewer bytes of HBM."""
    moved = [max(hbm_bytes(each.graph.ops, timer.target), 1) for each in (one, other)]
    ratio = 1.0 if timer.are_alike(one, other) else timer.ns(one, other) / timer.ns(other, one)
    ratio *= (moved[0] / moved[1]) ** TUNING.bytes_weight
    if 1 / TUNING.about_equal**2 < ratio < TUNING.about_equal**2:
        return moved[0] < moved[1]
    return ratio < 1
