"""Forms of a program that mean the same; each is lowered, and the kernel that takes less time by the clock is taken.

What the first kernel shows decides which forms are tried: regions of neighbours in patches, dims as digits, and the
rows of an axis for regions that took much longer than what they move and compute has to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from tilewright.ir.core import Graph, Op
from tilewright.ir.fingerprint import fingerprint
from tilewright.lower.order.account import Account, account, hbm_bytes
from tilewright.lower.regions.grouping import Group
from tilewright.lower.regions.in_place import REPLACES, replacing
from tilewright.lower.regions.stencils import find_stencils
from tilewright.lower.rewrite.by_rows import compute_by_rows
from tilewright.lower.rewrite.digits import split_into_digits
from tilewright.lower.rewrite.late_joins import join_late
from tilewright.lower.rewrite.naming import name_values
from tilewright.lower.rewrite.no_units import drop_units
from tilewright.lower.rewrite.one_order import keep_one_order
from tilewright.lower.rewrite.prepare import prepare
from tilewright.lower.rewrite.recompute import Recomputation, recomputation, recompute
from tilewright.lower.rewrite.row_axis import RowRegion, find_regions
from tilewright.lower.rewrite.shared_parts import compute_before_slices
from tilewright.lower.rewrite.short_axes import reduces_short_axis, take_short_axes_apart
from tilewright.lower.rewrite.spread_rows import spread_over_rows
from tilewright.lower.rewrite.spread_taps import spread_taps
from tilewright.lower.rewrite.turned_products import turn_products
from tilewright.lower.schedule.data import PLAIN
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import device_dtype, is_view
from tilewright.target import Target
from tilewright.tensor.passes.shifted_sums import share_shifted

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowered

Clock = Callable[[Sequence[Op]], float]
"""How long some instructions take, in ns."""


class Form(NamedTuple):
    """A program, whether its regions of neighbours are cut into patches, and what a schedule calls it."""

    program: Graph
    patched: bool = False
    name: str = PLAIN


Make = Callable[[Form, float], "Lowered | None"]
"""Lowers a form; None where it does not fit, or is sure to take longer than so many ns."""


def first_forms(plain: Form, target: Target, clock: Clock, make: Make) -> tuple[Lowered, Make]:
    """The kernel of a program as it is prepared, or with its regions of neighbours in patches where that is sure to be
    done sooner; and what lowers further forms.

    Patches come first: rows that have to be moved to each other are written in many ways, none of which is of use then.
    """
    patched = _in_patches(plain.program, target)
    first = None if patched is None else make(patched, inf)
    made = make(plain, inf if first is None else _most_ns(first, _Timer(target, clock)))

    def make_once(form: Form, most_ns: float) -> Lowered | None:
        return first if first is not None and form.name == PATCHED else make(form, most_ns)

    found = made or first
    assert found is not None
    return found, make_once


def best_form(
    made: Lowered, given: Graph, target: Target, clock: Clock, make: Make, plain: Graph
) -> tuple[Lowered, float | None]:
    """The kernel of the form that takes the least time, and that time, where the clock was asked.

    made: the kernel of one of the first forms. plain: the program as it is prepared.
    """
    contest = _Contest(Form(_program(made), made.form == PATCHED, made.form), made, _Timer(target, clock), make)
    suffix = ""
    if contest.copied():
        given, plain, suffix = replacing(given, ()), replacing(plain, ()), f", {COPIED}"
    for other in _other_forms(contest.made, given, target, plain):
        contest.enter(other._replace(name=other.name + suffix))
    before = contest.form
    contest.by_rows()
    contest.recomputed()
    apart = _with_axes_apart(given, target)
    if apart is not None:
        contest.enter(apart._replace(name=apart.name + suffix))
    contest.copied()
    program, lanes = contest.form.program, target["limits.partitions"]
    if contest.form is not before and not before.patched and find_stencils(program, lanes):
        contest.enter(contest.form._replace(patched=True, name=f"{contest.form.name}, {PATCHED}"))
    return contest.made, contest.timer.known(contest.made)


@dataclass(slots=True)
class _Contest:
    """The form whose kernel takes the least time so far. seen: all that were lowered."""

    form: Form
    made: Lowered
    timer: _Timer
    make: Make
    seen: set[tuple[str, bool, bool]] = field(default_factory=set)

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
            # What was made before has a program of its own, which is the same.
            self.form, self.made = other._replace(program=_program(found)), found
        return is_sooner

    def by_rows(self) -> None:
        """Compute some regions by rows of an axis, where that takes less time."""
        # One that is most of a large program is worth a look, however many ops it has.
        left, target = max(TUNING.tried_ops, 2 * len(self.form.program.ops)), self.timer.target
        gained = True
        while gained:
            gained = False
            for taken, number, region in _wanting(self.made, self.timer):
                program = compute_by_rows(self.form.program, region, target)
                if program is None or (left := left - len(program.ops)) < 0 or not self._gains_alone(region, taken):
                    continue
                name = f"{self.form.name}, {BY_ROWS} {number}"
                gained = self.enter(self.form._replace(program=program, name=name, patched=False))
                break

    def recomputed(self) -> None:
        """Compute what leaves the chip again where it is read again, where that takes less time."""
        left, gained = TUNING.tried_ops, True
        while gained:
            gained = False
            for asked in _sent_away(self.made):
                form = _recomputed(self.form, asked)
                if form is None or (left := left - len(form.program.ops)) < 0:
                    continue
                if self.enter(form):
                    gained = True
                    break

    def copied(self) -> bool:
        """Leave arguments as they are, where changing them step by step takes longer; says whether it does."""
        if set(self.made.graph.inputs).isdisjoint(self.made.graph.outputs):
            return False
        form = _changed(self.form, COPIED, self.timer.target)
        assert form is not None
        return self.enter(form._replace(name=f"{self.form.name}, {COPIED}"))

    def _gains_alone(self, region: RowRegion, taken: float) -> bool:
        """True where a region by itself, by rows, takes less than it took in the whole kernel: most do not, and are
        cheap to ask beside programs of many ops."""
        program = self.form.program
        if 2 * len(region.ops) >= len(program.ops):
            return True
        alone = compute_by_rows(*region.alone(program), self.timer.target)
        found = None if alone is None else self.make(Form(alone, name=BY_ROWS), taken)
        return found is not None and self.timer.ns(found) < taken


def _key(form: Form) -> tuple[str, bool, bool]:
    """What tells forms apart."""
    return fingerprint(form.program), form.patched, REPLACES in form.program.attrs


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


def _other_forms(made: Lowered, given: Graph, target: Target, program: Graph) -> Iterator[Form]:
    """Forms of a whole program. made: the kernel of the first one; program: as it is prepared."""
    others = (
        _in_one_order(given, target),
        _in_patches(program, target),
        _with_spread_taps(given, target),
        _with_turned_products(program, target),
    )
    late = _with_late_joins(given, target)
    if late is not None:
        yield late
        if find_stencils(late.program, target["limits.partitions"]):
            yield late._replace(patched=True, name=f"{LATE_JOINS}, {PATCHED}")
    yield from (found for found in others if found is not None)
    digits = _in_digits(given, target)
    if digits is not None:
        form, is_spread = digits
        if is_spread or _moves_more(made, target):
            yield form
        return
    spread = _with_spread_rows(program)
    if spread is not None:
        yield spread


def _in_patches(program: Graph, target: Target) -> Form | None:
    """Regions of neighbours in patches."""
    other = program.clone()
    changed = [drop_units(other), share_shifted(other), compute_before_slices(other)]
    name_values(other)
    other = other if any(changed) else program
    return Form(other, True, PATCHED) if find_stencils(other, target["limits.partitions"]) else None


def _with_spread_taps(given: Graph, target: Target) -> Form | None:
    """Convolutions as sums of shifted arrays, in patches."""
    other = given.clone()
    if not spread_taps(other):
        return None
    prepare(other, target)
    return Form(other, True, SPREAD_TAPS) if find_stencils(other, target["limits.partitions"]) else None


def _with_late_joins(given: Graph, target: Target) -> Form | None:
    """Parts that are computed with before they are joined."""
    other = given.clone()
    if not join_late(other):
        return None
    prepare(other, target)
    return Form(other, name=LATE_JOINS)


def _in_one_order(given: Graph, target: Target) -> Form | None:
    """Large values in the order in which they are made."""
    other = given.clone()
    if not keep_one_order(other, target):
        return None
    prepare(other, target)
    return Form(other, name=ONE_ORDER)


def _with_turned_products(program: Graph, target: Target) -> Form | None:
    """Products of few rows with their columns on partitions."""
    other = turn_products(program, target)
    return None if other is None else Form(other, name=TURNED)


def _with_axes_apart(given: Graph, target: Target) -> Form | None:
    """Elements of short axes as arrays of their own."""
    if not any(reduces_short_axis(op) for op in given.ops):
        return None
    other = given.clone()
    if not take_short_axes_apart(other, target):
        return None
    prepare(other, target)
    return Form(other, name=APART)


def _in_digits(given: Graph, target: Target) -> tuple[Form, bool] | None:
    """Dims as the digits that reshapes make of them, and whether rows were spread besides."""
    other = given.clone()
    if not split_into_digits(other):
        return None
    prepare(other, target)
    # Simplifying moves ops before reshapes again, where they have the dims of one side only.
    split_into_digits(other)
    name_values(other)
    is_spread = spread_over_rows(other)
    return Form(other, name=DIGITS), is_spread


def _with_spread_rows(program: Graph) -> Form | None:
    """Operands that some rows share, for every row."""
    other = program.clone()
    return Form(other, name=SPREAD_ROWS) if spread_over_rows(other) else None


# Forms by name.

ONE_ORDER, PATCHED, SPREAD_TAPS, TURNED, DIGITS = "one order", "patches", "spread taps", "turned products", "digits"
SPREAD_ROWS, BY_ROWS, RECOMPUTED = "spread rows", "by rows", "recomputed"
LATE_JOINS, APART, COPIED = "late joins", "short axes apart", "arguments copied"


def form_of(name: str, given: Graph, target: Target) -> Form | None:
    """The form that a schedule calls so; None where the program has none."""
    first, *others = name.split(", ")
    form = _whole_form(first, given, target)
    for other in others:
        form = None if form is None else _changed(form, other, target)
    return None if form is None else form._replace(name=name)


def forms_of(given: Graph, target: Target) -> list[str]:
    """The forms of a whole program that there are."""
    names = (PLAIN, ONE_ORDER, PATCHED, SPREAD_TAPS, TURNED, DIGITS, SPREAD_ROWS, LATE_JOINS, APART)
    return [name for name in names if form_of(name, given, target) is not None]


def _whole_form(name: str, given: Graph, target: Target) -> Form | None:
    if name == ONE_ORDER:
        return _in_one_order(given, target)
    if name == APART:
        return _with_axes_apart(given, target)
    if name == SPREAD_TAPS:
        return _with_spread_taps(given, target)
    if name == LATE_JOINS:
        return _with_late_joins(given, target)
    digits = _in_digits(given, target) if name in (DIGITS, SPREAD_ROWS) else None
    if name == DIGITS:
        return None if digits is None else digits[0]
    program = given.clone()
    prepare(program, target)
    if name == PATCHED:
        return _in_patches(program, target)
    if name == TURNED:
        return _with_turned_products(program, target)
    if name == SPREAD_ROWS:
        return _with_spread_rows(program) if digits is None else None
    return Form(program) if name == PLAIN else None


def _changed(form: Form, how: str, target: Target) -> Form | None:
    """A form with a further change: a region by rows, by its number, ops that are computed again, by theirs, patches,
    or arguments that are not written to."""
    if how == COPIED:
        return form._replace(program=replacing(form.program, ()))
    if how == PATCHED:
        return form._replace(patched=True) if find_stencils(form.program, target["limits.partitions"]) else None
    if how.startswith(f"{RECOMPUTED} "):
        return _recomputed(form, how.removeprefix(f"{RECOMPUTED} "))
    kind, _, number = how.rpartition(" ")
    if kind != BY_ROWS or not number.isdecimal():
        return None
    region = next(islice(_row_regions(form.program, target), int(number), None), None)
    program = None if region is None else compute_by_rows(form.program, region, target)
    return None if program is None else form._replace(program=program, patched=False)


def _row_regions(program: Graph, target: Target) -> list[RowRegion]:
    return find_regions(program, max(target["limits.partitions"] // 4, 2))


def _wanting(made: Lowered, timer: _Timer) -> list[tuple[float, int, RowRegion]]:
    """Regions with an axis that all ops treat alike, which take much longer than they have to: how long, and their
    numbers; the worst first."""
    draft, target = made.draft, timer.target
    assert draft is not None
    total = timer.ns(made)
    steps = [step.inside if isinstance(step, Group) else {step} for step in draft.steps]
    busy = [max(account(draft.written.get(at, ()), target).engine_ns.values(), default=0.0) for at in range(len(steps))]
    found: list[tuple[float, float, int, RowRegion]] = []
    for number, region in enumerate(_row_regions(draft.program, target)):
        own = {op for op in region.ops if not is_view(op)}
        # What other steps do not account for is this region's: loads before the first step, and waiting.
        taken = total - sum(ns for ops, ns in zip(steps, busy, strict=True) if own.isdisjoint(ops))
        writing = (at for at, ops in enumerate(steps) if not own.isdisjoint(ops))
        bytes_moved = hbm_bytes([op for at in writing for op in draft.written.get(at, ())], target)
        # What passes through HBM meanwhile need not.
        rough = 1.0 if bytes_moved > TUNING.rough * _moved_bytes(region) else TUNING.rough
        excess = taken - rough * _least_ns(region, target)
        if excess > TUNING.least_excess * total:
            found.append((excess, taken, number, region))
    found.sort(key=lambda each: -each[0])
    return [(taken, number, region) for _, taken, number, region in found]


def _sent_away(made: Lowered) -> list[str]:
    """How values that pass through HBM could be computed again by those who read them later, the largest first."""
    program, draft = _program(made), made.draft
    assert draft is not None
    step_of = {
        op: at for at, step in enumerate(draft.steps) for op in (step.ops if isinstance(step, Group) else [step])
    }
    found: list[tuple[int, str]] = []
    for value in made.sent:
        text = recomputation(program, value, step_of, made.sent - {value})
        if text is not None:
            found.append((-value.type.size, text))
    return [text for _, text in sorted(found)]


def _recomputed(form: Form, text: str) -> Form | None:
    """A form in which some passes compute for themselves what they read."""
    asked = Recomputation.parse(text)
    program = None if asked is None else recompute(form.program, asked)
    return None if program is None else form._replace(program=program, name=f"{form.name}, {RECOMPUTED} {text}")


def _least_ns(region: RowRegion, target: Target) -> float:
    """How long a region takes at least: what it moves, or computes on two engines."""
    elements = region.work / target["limits.partitions"]
    return max(_moved_bytes(region) / target["dma.core_bandwidth"], elements / target["clock_ghz.vector"] / 2)


def _moved_bytes(region: RowRegion) -> int:
    return sum(x.type.size * device_dtype(x.type.dtype).itemsize for x in region.moved)


def _moves_more(made: Lowered, target: Target) -> bool:
    """True where more passes through HBM than is read and returned."""
    program = _program(made)
    least = sum(x.type.size * device_dtype(x.type.dtype).itemsize for x in (*program.inputs, *program.outputs))
    return hbm_bytes(made.graph.ops, target) > least


def _most_ns(made: Lowered, timer: _Timer) -> float:
    """What another form may take where this one is known: about as long, with fewer bytes."""
    return timer.ns(made) * TUNING.about_equal**2


def _is_sooner(one: Lowered, other: Lowered, timer: _Timer) -> bool:
    """True where a kernel takes less time than another by the clock, or about as much with fewer bytes of HBM."""
    ratio = 1.0 if timer.are_alike(one, other) else timer.ns(one, other) / timer.ns(other, one)
    if 1 / TUNING.about_equal**2 < ratio < TUNING.about_equal**2:
        return hbm_bytes(one.graph.ops, timer.target) < hbm_bytes(other.graph.ops, timer.target)
    return ratio < 1
