"""The driver: a decomposed tensor program becomes one kernel in tile IR.

Steps (groups, views, single ops) are lowered in order; `homes` says where each value lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, prod
from typing import Any, TypeVar

import numpy as np

from tilewright.dtypes import DType, as_dtype
from tilewright.errors import ERROR, TileNotImplementedError, fail
from tilewright.ir.core import Graph, Op, Value
from tilewright.lower.choose.asked import write_asked
from tilewright.lower.choose.fit import Choices, write_group, write_op
from tilewright.lower.choose.outdone import Contest, Loses, OutdoneError
from tilewright.lower.decisions import decided
from tilewright.lower.forms import Form, best_form, first_forms, form_of, forms_of
from tilewright.lower.move.join import fill_hbm, place_in_hbm
from tilewright.lower.move.moves import copy_out, load_in_parts
from tilewright.lower.move.rehome import rehomed, slice_rows, update_rows
from tilewright.lower.order.account import hbm_bytes
from tilewright.lower.order.dead import erase_dead
from tilewright.lower.order.engines import share_out
from tilewright.lower.order.finish import Kernel, finish
from tilewright.lower.order.placement import GREEDY
from tilewright.lower.order.rebalance import Clock
from tilewright.lower.order.reuse import reuse
from tilewright.lower.order.strips import strips
from tilewright.lower.plan.plan import Plan
from tilewright.lower.plan.telling import tell
from tilewright.lower.regions.delivery import (
    behind_join,
    behind_views,
    can_deliver,
    placed_parts,
    result_place,
    written_in_place,
)
from tilewright.lower.regions.grouping import Group, Step
from tilewright.lower.regions.planning import Draft, draft, planned_steps, value_names
from tilewright.lower.regions.residency import Resident
from tilewright.lower.rewrite.zeros import shown_signs
from tilewright.lower.schedule.data import PLAIN, Schedule, Way
from tilewright.lower.schedule.data import Step as Asked
from tilewright.lower.schedule.given import Given
from tilewright.lower.schedule.refusals import FIT, FORM, refused
from tilewright.lower.schedule.taken import Taken, schedule_of
from tilewright.lower.select.select import Selector
from tilewright.lower.special import SPECIAL
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import TileBuilder
from tilewright.lower.write.homes import Chip, Hbm, Home, device_dtype, is_view, renumberings, view_of
from tilewright.lower.write.views import as_shape, permuted, reshaped
from tilewright.rules import STRICT
from tilewright.target import Target
from tilewright.tensor.interpret import run_op
from tilewright.tile.lifetime import insert_deallocs
from tilewright.tile.memory import Buffer
from tilewright.tile.verify import verify_graph
from tilewright.tile.view import View, whole

S = TypeVar("S", Group, Op)

Progress = Callable[[int, int], None]
"""Called with the number of a step and how many there are."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel in tile IR; `constants` are the arrays of its trailing inputs.

    draft: what was decided; a kernel that was read from a file has its plan instead, as data. sent: values of its
    program that pass through HBM.
    """

    graph: Graph
    constants: tuple[np.ndarray, ...]
    draft: Draft | None
    told: Mapping[str, Any] | None = None
    form: str = PLAIN
    taken: Mapping[int, Taken] = field(default_factory=dict)
    text: str = ""
    """The schedule of a kernel that was read from a file."""
    sent: frozenset[Value] = frozenset()

    @property
    def schedule(self) -> Schedule:
        """How the program was cut into steps, and how each was written."""
        return schedule_of(self.draft, self.form, self.taken) if self.draft is not None else Schedule.parse(self.text)

    @property
    def plan(self) -> Plan:
        """What was decided, and what came of it."""
        if self.told is not None:
            return Plan.from_dict(self.told)
        assert self.draft is not None
        return tell(self.draft, self.graph)


@dataclass(slots=True)
class Lowering:
    """What is known while a program is lowered."""

    draft: Draft
    b: TileBuilder
    clock: Clock | None = None
    homes: dict[Value, Home] = field(default_factory=dict)
    results: list[tuple[Value, View]] = field(default_factory=list)
    """What the kernel returns, and where."""
    outputs: dict[Value, list[View]] = field(default_factory=dict)
    """The same by value, and what results are views of."""
    constants: list[np.ndarray] = field(default_factory=list)
    resident: dict[Value, int] = field(default_factory=dict)
    shared: dict[tuple, View] = field(default_factory=dict)
    selector: Selector | None = None
    refused: dict[Value, str] = field(default_factory=dict)
    """Why a result of the step in work was not left on chip."""
    done: set[Op] = field(default_factory=set)
    given: dict[Value, View] = field(default_factory=dict)
    """Inputs that are kept on chip, as they are in HBM."""
    places: dict[Value, View] = field(default_factory=dict)
    """Where joins go, parts of which groups write there at once."""
    is_roomy: bool = False
    """Whether patches have to leave room for the next ones."""
    whole: Contest | None = None
    """What the kernel is measured against."""
    in_place: dict[Op, View] = field(default_factory=dict)
    """Updates of arguments that are changed where they lie, and where that is."""
    placed: dict[Value, None] = field(default_factory=dict)
    """Parts that groups write to where a join has them."""
    delivered: dict[Value, None] = field(default_factory=dict)
    """Results of the kernel that blocks of rows have written as a whole."""
    moved: dict[tuple[Value, tuple[int, int]], Chip] = field(default_factory=dict)
    """Values on chip that have been moved to other rows too."""
    row_of: dict[Buffer, View] = field(default_factory=dict)
    """Tiles that a row of another tile was copied to, with that row: who needs it elsewhere takes it from there."""
    dividing: int = 0
    """Whether what is written is part of a group, an attempt of many steps."""
    contest: Contest | None = None
    """What the way in work is measured against, where it is written in steps."""
    signed: frozenset[Value] = frozenset()
    """Values whose zeros keep their signs wherever they are moved."""
    taken: list[Taken] = field(default_factory=list)
    """How steps were written, those of a step before it is."""
    schedule: Given | None = None
    asked: Mapping[int, Asked] = field(default_factory=dict)
    """What a user asks of steps, by position."""
    steps_taken: dict[int, Taken] = field(default_factory=dict)
    """The same by the position of the step."""
    chosen: Choices = field(default_factory=Choices)
    """How groups were written."""

    @property
    def program(self) -> Graph:
        """The tensor program."""
        return self.draft.program

    @property
    def target(self) -> Target:
        """What it is lowered for."""
        return self.draft.target

    @property
    def frugal(self) -> bool:
        """Nothing stays on chip from one step to the next."""
        return self.draft.before is not None

    # Homes.

    def home(self, value: Value) -> Home:
        """Where a value lives; a constant is put into HBM when it is first asked for."""
        found = self.homes.get(value)
        if found is None:
            assert value.producer is not None and value.producer.definition.family == "creation", value
            (array,) = run_op(value.producer, {})
            found = self.homes[value] = Hbm(self.constant(array))
        return found

    def constant(self, array: np.ndarray) -> View:
        """An array of the program's own as a trailing input of the kernel."""
        data = np.ascontiguousarray(array.view(np.uint8) if array.dtype == np.bool_ else array)
        for known, value in zip(self.constants, self.b.graph.inputs[-len(self.constants) :], strict=False):
            if known.dtype == data.dtype and known.shape == data.shape and known.tobytes() == data.tobytes():
                return whole(value)  # type: ignore[arg-type]
        self.constants.append(data)
        shape = data.shape or (1,)
        view = self.b.input(f"const{len(self.constants) - 1}", as_dtype(data.dtype), shape)
        made = reshaped(view, data.shape) if not data.shape else view
        assert made is not None
        return made

    def in_hbm(self, value: Value) -> View:
        """A value as a view in HBM, stored there first when it lives on chip."""
        home = self.home(value)
        if isinstance(home, Hbm):
            return home.view
        if value in self.given:
            return self.given[value]
        made = self._place(home, device_dtype(value.type.dtype), value.name or "spill")
        self.store(home, made)
        self.homes[value] = Hbm(made)
        self.refused[value] = "on chip until a step read it in an order that it is brought to by way of HBM"
        return made

    def _place(self, home: Chip, dtype: DType, name: str) -> View:
        """A tensor in HBM for what is on chip: the elements of a partition lie together where many rows would not."""
        shape = home.shape
        rows = [d for d in range(*home.rows) if shape[d] != 1]
        free = [d for d in range(len(shape)) if not home.rows[0] <= d < home.rows[1]]
        inner = [d for d in free if shape[d] != 1]
        if prod(shape) <= TUNING.few_elements or not rows or not inner or rows[-1] < inner[-1]:
            return self.b.hbm(shape, dtype, name)
        strides = dict(zip(free, home.view.strides[2:], strict=True))
        order = (*range(*home.rows), *sorted(free, key=lambda d: -strides[d]))
        made = self.b.hbm(tuple(shape[d] for d in order), dtype, name)
        return permuted(made, tuple(order.index(d) for d in range(len(shape))))

    def store(self, home: Home, out: View) -> None:
        """Copy a value to HBM."""
        copy_out(self, home, out)

    def fill(self, value: Value, out: View) -> bool:
        """Write an array of one number to HBM without reading it anywhere; says whether it was one."""
        op = value.producer
        if op is None or op.name != "full":
            return False
        fill_hbm(self, out, op.attrs["value"])
        return True

    def evict(self, out: View, bank: View) -> None:
        """Copy out of PSUM, on the engine that has done less of it."""
        self.selecting.copy(out, bank)

    @property
    def selecting(self) -> Selector:
        """Writes what no group does."""
        if self.selector is None:
            self.selector = Selector(self.b)
        return self.selector

    def room(self) -> int:
        """Bytes per partition that residents may still take."""
        return 0 if self.frugal else self.draft.room[self.draft.at] - sum(self.resident.values())

    def moved_bytes(self) -> int:
        """Bytes per partition of copies of residents with other rows."""
        return sum(buffer.row_bytes for buffer in {chip.view.buffer for chip in self.moved.values()})

    def may_keep(self, value: Value, size: int) -> bool:
        """True for a value that the plan keeps on chip, as long as there is room for so many bytes per partition."""
        if not self.draft.is_kept(value):
            return False
        if size > self.room():
            self.refused[value] = f"takes {size} bytes per partition where {max(self.room(), 0)} are left"
            return False
        return True

    def kept(self) -> list[Buffer]:
        """The buffers of values that are kept on chip."""
        homes = (self.homes.get(value) for value in self.resident)
        return [home.view.buffer for home in homes if isinstance(home, Chip)]

    def reuse_tiles(self, before: Sequence[Op]) -> None:
        """Let the tiles of what was written since share storage, but for those that later steps read."""
        chips = [home for home in (*self.homes.values(), *self.moved.values()) if isinstance(home, Chip)]
        needed = {view.buffer for view in (*[chip.view for chip in chips], *self.shared.values())}
        strips(self.b, self.b.since(before))
        share_out(self.b, self.b.since(before))
        gone = set(reuse(self.b.since(before), needed))
        self.b.copied = [buffer for buffer in self.b.copied if buffer not in gone]

    def release(self, values: list[Value]) -> None:
        """End the life of values that nothing reads any more."""
        for value in values:
            if value in self.resident:
                del self.resident[value]

    # The whole program.

    def run(self, progress: Progress | None = None, whole: Contest | None = None) -> None:
        """Write every step of the plan; whole: what the kernel is measured against, given up where it is worse."""
        self.whole = whole
        self._written(-1, self.keep_inputs)
        for i, step in enumerate(self.draft.steps):
            if progress is not None:
                progress(i, len(self.draft.steps))
            self._written(i, partial(self.step, step, self.asked.get(i)))
            (self.steps_taken[i],) = self.taken
            self.taken.clear()
            self._settle_residents(i)
            if whole is not None:
                whole.add(self.draft.written[i])
        self._written(len(self.draft.steps), self._deliver)

    def _written(self, at: int, write: Callable[[], None]) -> None:
        """Write a step and note what it consists of."""
        self.draft.at = at
        ops = self.b.graph.body.ops
        before, count = ops[-1] if ops else None, len(ops)
        write()
        # What is made once for all stands at the start of the kernel, and moves the rest on.
        begin = 0 if before is None else ops.index(before, count - 1) + 1
        strips(self.b, ops[begin:])
        self.draft.written[at] = ops[begin:]

    def _settle_residents(self, at: int) -> None:
        """Note which results did not stay on chip, and forget what nothing reads any more."""
        step = self.draft.steps[at]
        for value in [*self.refused, *(step.results if isinstance(step, Group) else ())]:
            if not isinstance(self.homes.get(value), Chip):
                self.draft.sent_away(value, self.refused.get(value, "the step was written so that it goes to HBM"))
        self.refused.clear()
        self.release(self.draft.ends(list(self.resident)))

    def _deliver(self) -> None:
        for value, view in self.results:
            self._finish(value, view)

    def took(self, step: Step, way: Way | None, before: int) -> None:
        """Note how a step was written; what was noted since are the steps that it was divided into."""
        inner = tuple(self.taken[before:])
        self.taken[before:] = [Taken(step, way, inner)]

    def step(self, step: Step, asked: Asked | None = None) -> None:
        """Lower a group, or an op that belongs to none; asked: how, where a user says that."""
        if isinstance(step, Group):
            self.b.location = step.ops[0].location
            self._write(step, write_group, asked)
            self.done.update(step.inside)
        else:
            self.b.location = step.location
            self._write(step, write_op, asked)
            self.done.add(step)
            # Copies that an op asked for by itself are settled.
            self.b.copied.clear()
        if self.frugal:
            self.shared = {key: view for key, view in self.shared.items() if key[0] != "shared"}
            self.moved.clear()

    def _write(self, step: S, search: Callable[[Lowering, S], None], asked: Asked | None) -> None:
        """Write a step as asked for, or the best way there is."""
        if asked is None or asked.way is None or self.schedule is None:
            search(self, step)
        else:
            write_asked(self, step, asked, self.schedule)

    def spill(self) -> None:
        """Send everything that is kept on chip to HBM."""
        for value in list(self.resident):
            self.send_away(value, "made room for a step that fits only with nothing else on chip")
        self.moved.clear()
        self.shared = {key: view for key, view in self.shared.items() if key[0] != "shared"}

    def least_reused(self) -> list[Value]:
        """What is kept on chip, the least traffic saved per byte first."""
        known = self.draft.residents
        return sorted(self.resident, key=lambda value: known[value].reuse if value in known else 0.0)

    def send_away(self, value: Value, why: str) -> None:
        """Send a value that is kept on chip to HBM, where an input still is."""
        self.draft.sent_away(value, why)
        if value in self.given:
            self.homes[value] = Hbm(self.given[value])
        elif isinstance(self.homes[value], Chip):
            self.in_hbm(value)
        del self.resident[value]
        self.moved = {key: chip for key, chip in self.moved.items() if key[0] is not value}

    def keep_inputs(self) -> None:
        """Load once what several steps read."""
        for resident in self.draft.residents.values():
            if resident.is_input and resident.keep:
                self.hold(resident)

    def hold(self, resident: Resident) -> bool:
        """Load a value that is in HBM to stay on chip, by rows; says whether its rows lie so that this can be done."""
        value, shape, rows = resident.value, resident.value.type.shape, resident.rows
        home, lanes = self.homes[value], self.target["limits.partitions"]
        assert isinstance(home, Hbm) and rows is not None
        count, free = prod(shape[: rows[1]]), shape[rows[1] :]
        there = reshaped(home.view, (count, *free))
        if there is None:
            return False
        view = self.b.sbuf((min(lanes, count), -(-count // lanes), *free), there.dtype, value.name or "kept")
        load_in_parts(self, view, there)
        self.given[value], self.homes[value] = home.view, Chip(view, shape, rows)
        self.resident[value] = resident.bytes
        return True

    def let_go(self, value: Value) -> None:
        """A value that was loaded is read from HBM again."""
        self.homes[value] = Hbm(self.given.pop(value))
        self.resident.pop(value, None)
        self.moved = {key: chip for key, chip in self.moved.items() if key[0] is not value}

    def _finish(self, value: Value, out: View) -> None:
        if not value.type.size or out.buffer in self.delivered:
            return
        if self.fill(value, out):
            return
        home = self.home(value)
        if isinstance(home, Hbm) and home.view.buffer is out.buffer:
            return
        self.b.location = value.producer.location if value.producer is not None else None
        self.store(home, out)

    def single(self, op: Op) -> None:
        """Lower an op that belongs to no group."""
        if is_view(op):
            home = self.home(op.operands[0])
            made = view_of(home, op)
            if made is None and isinstance(home, Chip):
                others = (view_of(each, op) for each in renumberings(home, self.target["limits.partitions"]))
                made = next((each for each in others if each is not None), None)
            if made is None and isinstance(home, Chip):
                copy = self.dense(home)
                made = None if copy is None else view_of(copy, op)
            if made is None and isinstance(home, Chip) and op.name == "slice":
                made = slice_rows(self, home, op)
            if made is None:
                made = view_of(Hbm(self.contiguous(op.operands[0])), op)
            assert made is not None
            self.homes[op.result] = made
            return
        if op.name == "update_slice" and update_rows(self, op):
            return
        rule = SPECIAL.get(op.name)
        if rule is None:
            raise fail(
                "E501",
                f"{op.name} is not lowered yet",
                location=op.location,
                error=TileNotImplementedError,
            )
        decided(f"op: {op.name}")
        rule(self, op)

    def is_free(self, buffer: Buffer, op: Op) -> bool:
        """True when nothing but an op will read a buffer again: neither the value it was made for nor a view of it."""
        held = [value for value, home in self.homes.items() if home.view.buffer is buffer]
        return all(use is op or use in self.done for value in held for use in value.uses)

    def with_rows(self, value: Value, rows: tuple[int, int]) -> Chip | None:
        """A value on chip with these dims on partitions, moved there once if need be."""
        home = self.homes.get(value)
        if not isinstance(home, Chip):
            return None
        found = self.moved.get((value, rows))
        if found is None:
            found = rehomed(self, home, rows)
            if found is not None:
                self.moved[value, rows] = found
        return found

    def dense(self, chip: Chip) -> Chip | None:
        """A copy on chip whose rows lie without gaps, where there is room for one."""
        size = chip.view.sizes[1] * prod(chip.free) * chip.view.dtype.itemsize
        if chip.view.is_contiguous() or size > self.room():
            return None
        made = self.b.sbuf(chip.view.sizes, chip.view.dtype, "dense")
        self.evict(made, chip.view)
        return Chip(made, chip.shape, chip.rows)

    def contiguous(self, value: Value) -> View:
        """A value in HBM in row-major order without gaps."""
        view = self.in_hbm(value)
        if view.offset == 0 and not view.terms and view.is_contiguous():
            return view
        out = result_place(value, self.results) or self.b.hbm(value.type.shape, view.dtype, value.name or "copy")
        self.store(Hbm(view), out)
        self.homes[value] = Hbm(out)
        return out


def lower(
    program: Graph,
    target: Target,
    progress: Progress | None = None,
    placement: str = GREEDY,
    profile: str = STRICT,
    clock: Clock | None = None,
    schedule: Schedule | None = None,
) -> Lowered:
    """Lower a decomposed program to a kernel in tile IR that fits on chip; `progress` is told of every step.

    placement: how addresses are found (`lower.placement`). profile: whose rules the kernel keeps (`rules.PROFILES`).
    clock: by which ways to write a group are compared; without one, by what keeps their busiest engine.
    schedule: how the program is to be lowered, as far as it says.
    """
    maker = _Maker(target, progress, placement, profile, clock)
    made, time = _asked(program, schedule, maker) if schedule is not None and schedule != Schedule() else None, None
    if made is None:
        prepared = form_of(PLAIN, program, target)
        assert prepared is not None
        if clock is None:
            made = maker.make(prepared, inf)
            assert made is not None
        else:
            made, make = first_forms(prepared, target, clock, maker.make)
            made, time = best_form(made, program, target, clock, make, prepared.program)
    replaced = {} if clock is None else finish(maker.kernels[made.graph], clock, profile, time)
    plan = made.draft
    assert plan is not None
    for at, ops in plan.written.items():
        plan.written[at] = [new for op in ops for new in replaced.get(op, (op,)) if new.parent is not None]
    insert_deallocs(made.graph)
    _verified(made.graph, target, profile)
    return made


def _asked(program: Graph, schedule: Schedule, maker: _Maker) -> Lowered:
    """The kernel that a schedule asks for."""
    target = maker.target
    form = form_of(schedule.form or PLAIN, program, target)
    if form is None:
        hint = f"it has: {', '.join(forms_of(program, target))}"
        raise refused(FORM, f"the program has no form {schedule.form}", hint, schedule.file, schedule.line)
    given = Given(schedule, form.program, target, value_names(form.program), SPECIAL)
    given.check_head()
    made = maker.make(form, inf, given)
    assert made is not None
    return made


@dataclass(slots=True)
class _Maker:
    """Makes kernels of forms of a program. chosen: how groups of any of them were written."""

    target: Target
    progress: Progress | None
    placement: str
    profile: str
    clock: Clock | None
    chosen: Choices = field(default_factory=Choices)
    kernels: dict[Graph, Kernel] = field(default_factory=dict)

    def make(self, form: Form, most_ns: float, given: Given | None = None) -> Lowered | None:
        """A kernel that fits; None for a form other than the first that does not, and for a kernel that is sure to take
        longer than `most_ns`. given: what a user asks for; that is not given up.

        Where patches leave no room for the next ones, smaller ones are tried too: only whole kernels show what that
        costs.
        """
        made = self._make(form, most_ns, given)
        if made is None or not form.patched or given is not None or self.clock is None:
            return made
        taken = self.clock(made.graph.ops)
        other = self._make(form, taken, None, is_roomy=True)
        if other is None:
            return made
        # Room is not bought with more of a border.
        most = hbm_bytes(made.graph.ops, self.target) * TUNING.about_equal
        is_less = hbm_bytes(other.graph.ops, self.target) <= most and self.clock(other.graph.ops) < taken
        return other if is_less else made

    def _make(self, form: Form, most_ns: float, given: Given | None, is_roomy: bool = False) -> Lowered | None:
        """One kernel.    is_roomy: whether patches have to leave room for others."""
        is_first = form.name == PLAIN
        chosen = Choices() if is_roomy else self.chosen
        misfit = None if given is None or not given.schedule.frugal else "the schedule says so"
        for _ in range(2):
            try:
                plan, asked = _drafted(form.program, self.target, misfit, form.patched, given)
                made = _lower(plan, self.progress, self.profile, self.clock, chosen, given, asked, most_ns, is_roomy)
            except OutdoneError:
                return None
            except TileNotImplementedError:
                if is_first or given is not None:
                    raise
                return None
            kernel = self.kernels[made.graph] = Kernel(made.graph, self.target, self.placement)
            misfit = kernel.place()
            if misfit is None:
                return replace(made, form=form.name)
            if given is not None:
                hint = "take smaller sizes or fewer buffers, send values to HBM (hbm VALUE), or write nothing resident"
                raise given.refused(FIT, f"the kernel {misfit}", hint, given.schedule.line)
            if not is_first:
                return None
        hint = "compile parts of the program by themselves, or for fewer rows at a time"
        raise fail("E501", f"the kernel {misfit}", hint=hint, error=TileNotImplementedError)


def _drafted(
    program: Graph, target: Target, misfit: str | None, patched: bool, given: Given | None
) -> tuple[Draft, dict[int, Asked]]:
    """The plan of a program, and what is asked of its steps by position."""
    if given is None:
        return draft(program, target, misfit, patched), {}
    steps = given.steps(planned_steps(program, target, patched), patched)
    plan = draft(program, target, misfit, patched, [step for step, _ in steps])
    given.check_homes(plan)
    return plan, {at: asked for at, (_, asked) in enumerate(steps) if asked is not None}


def _verified(graph: Graph, target: Target, profile: str) -> None:
    """E504 for a kernel that breaks a rule, before anybody gets it: its fault is the compiler's, not the user's."""
    found = [each for each in verify_graph(graph, target, profile) if each.severity == ERROR]
    if found:
        first = found[0]
        raise fail(
            "E504",
            f"the kernel written for this line breaks {first.rule or first.code}: {first.message}",
            hint="tilewright is at fault: report the function; written another way, it may compile",
            location=first.location,
            operands=first.operands,
            notes=tuple(f"{each.rule or each.code}: {each.message}" for each in found[1:]),
        )


def _change_in_place(low: Lowering) -> dict[int, View]:
    """Have arguments changed where they lie; the outputs that this makes, and where they are."""
    found: dict[int, View] = {}
    for each in written_in_place(low.program, low.draft.steps):
        home = place = low.homes[each.argument]
        places: dict[Op, View] = {}
        for op in each.path:
            if op in each.updates:
                places[op] = place.view
            elif (place := view_of(place, op)) is None:
                break
        # Views may leave the elements in another order than the argument has.
        if place is not None and _strides(place.view) == _strides(home.view):
            decided("update: of an argument")
            found[each.output] = home.view
            low.in_place |= places
    return found


def _strides(view: View) -> list[tuple[int, int]]:
    """Where the elements of a view lie beside each other."""
    return [(size, step) for size, step in zip(view.sizes, view.strides, strict=True) if size != 1]


def _place_parts(low: Lowering) -> None:
    """Let groups write what is joined to where the join puts it."""
    for op, parts in placed_parts(low.draft.steps, low.target).items():
        out = low.places[op.result] = place_in_hbm(low, op.result, op.result.name or op.name)
        for x, at in behind_join(op, out):
            if x in parts:
                low.outputs.setdefault(x, []).append(at)
                low.placed[x] = None


def _too_long(most_ns: float) -> Loses:
    """What is wrong with a kernel whose busiest engine takes longer than it may, whatever is saved afterwards."""
    most = most_ns / (1 - TUNING.most_gain)
    return lambda _, time_ns: "takes longer than another form of the program" if time_ns > most else None


def _lower(
    plan: Draft,
    progress: Progress | None,
    profile: str,
    clock: Clock | None,
    chosen: Choices,
    schedule: Given | None,
    asked: Mapping[int, Asked],
    most_ns: float = inf,
    is_roomy: bool = False,
) -> Lowered:
    program, b = plan.program, TileBuilder(plan.program.name, plan.target, profile)
    signed = shown_signs(program)
    low = Lowering(plan, b, clock, signed=signed, chosen=chosen, schedule=schedule, asked=asked, is_roomy=is_roomy)
    for i, value in enumerate(program.inputs):
        shape = value.type.shape or (1,)
        view = b.input(value.name or f"x{i}", device_dtype(value.type.dtype), shape)
        made = as_shape(view, value.type.shape)
        low.homes[value] = Hbm(made)
    replaced = _change_in_place(low)
    for i, value in enumerate(program.outputs):
        if i in replaced:
            low.results.append((value, replaced[i]))
            low.outputs.setdefault(value, []).append(replaced[i])
            b.returned(replaced[i].buffer)
            continue
        shape = value.type.shape or (1,)
        out = b.output(f"out{i}" if len(program.outputs) > 1 else "out", device_dtype(value.type.dtype), shape)
        made = as_shape(out, value.type.shape)
        low.results.append((value, made))
        low.outputs.setdefault(value, []).append(made)
        behind = behind_views(value, made)
        group = next(
            (step for step in plan.steps if behind and isinstance(step, Group) and behind[0] in step.roles), None
        )
        if behind is not None and group is not None and can_deliver(group, *behind):
            low.outputs.setdefault(behind[0], []).append(behind[1])
    _place_parts(low)
    low.run(progress, None if most_ns == inf else Contest(plan.target, _too_long(most_ns)))
    if schedule is not None:
        schedule.check_kept(plan)
    erase_dead(b.graph)
    kept = {view.buffer for _, view in low.results}
    sent = {
        value
        for value, home in low.homes.items()
        if isinstance(home, Hbm) and value.producer is not None and home.view.buffer not in kept
    }
    return Lowered(b.graph, tuple(low.constants), plan, taken=low.steps_taken, sent=frozenset(sent))
