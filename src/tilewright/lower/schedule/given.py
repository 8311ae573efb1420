"""What a schedule that a user gives means for a program: its steps as groups, in order; what is not legal is refused.

A step that the plan has as well is that one. Any other is grown of its own ops by the rules by which groups are grown
anyway: what those do not put into one loop nest, or not in this layout, is not legal.
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tilewright.ir.core import Graph, Op, Value
from tilewright.lower.plan.reasons import why_apart
from tilewright.lower.regions.axes import Axes
from tilewright.lower.regions.grouping import Group, groups_of, made_by, needs, schedule_around
from tilewright.lower.regions.grouping import Step as Planned
from tilewright.lower.regions.planning import Draft, psum_room
from tilewright.lower.regions.totals import totals_of
from tilewright.lower.schedule import refusals
from tilewright.lower.schedule.data import (
    ACCUMULATED,
    IN_HBM,
    REPLICATED,
    RESIDENT,
    Dim,
    Home,
    Schedule,
    ScheduledOp,
    Step,
)
from tilewright.lower.schedule.taken import SINGLE, dims_of, layout_of, signature
from tilewright.lower.write.homes import is_view
from tilewright.target import Target

Asked = tuple[Planned, Step | None]
"""A step of the plan, and what the schedule says of it."""


@dataclass(frozen=True, slots=True)
class Given:
    """A schedule for a program in the form that it asks for.

    names: of all values. singles: names of ops that can be lowered by themselves.
    """

    schedule: Schedule
    program: Graph
    target: Target
    names: dict[Value, str]
    singles: Container[str]
    values: dict[str, Value] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", {name: value for value, name in self.names.items()})

    @property
    def lanes(self) -> int:
        """How many partitions there are."""
        return self.target["limits.partitions"]

    def refused(self, code: str, message: str, hint: str, line: int) -> Exception:
        """The error to raise for a line of the schedule."""
        return refusals.refused(code, message, hint, self.schedule.file, line)

    # Names.

    def value(self, name: str, line: int) -> Value:
        """A value by its name; E852 where the program has none."""
        found = self.values.get(name)
        if found is None:
            near = difflib.get_close_matches(name, self.values, n=3)
            hint = (
                f"near matches: {', '.join(near)}"
                if near
                else "compile without it, and print k.schedule: it has all names"
            )
            raise self.refused(refusals.UNKNOWN, f"the program has no value {name}", hint, line)
        return found

    def op(self, asked: ScheduledOp) -> Op:
        """The op of a line; E852 where it computes something else."""
        made = [self.value(name, asked.line) for name in asked.values]
        op = made[0].producer
        if op is None or op.definition.family == "creation":
            what = "an input" if op is None else "a constant"
            hint = "steps have ops only: leave the line out"
            raise self.refused(refusals.UNKNOWN, f"{asked.values[0]} is {what} of the program", hint, asked.line)
        if op.name != asked.name or list(op.results) != made:
            results = ", ".join(self.names[value] for value in op.results)
            message = f"{', '.join(asked.values)} is not computed by {asked.name}"
            raise self.refused(refusals.UNKNOWN, message, f"write {results} = {op.name}", asked.line)
        self._check_dims(asked, op)
        return op

    def _check_dims(self, asked: ScheduledOp, op: Op) -> None:
        """E855 unless a layout is one of the value's shape."""
        shape = op.results[0].type.shape
        if asked.dims is not None and tuple(dim.size for dim in asked.dims) != shape:
            message = f"{asked.values[0]} has the shape {list(shape)}, its layout {[dim.size for dim in asked.dims]}"
            raise self.refused(
                refusals.NEST, message, "a layout has a dim for each of the value's, in order", asked.line
            )

    def ops(self, asked: Step, place: str = "") -> list[Op]:
        """The ops of a step that have this place."""
        return [self.op(each) for each in asked.ops if each.place == place]

    # The program.

    def check_head(self) -> None:
        """E851 unless the schedule is one of this program and target."""
        own, line = self.schedule, self.schedule.line
        if own.target and own.target != self.target.name:
            message = f"the schedule is for {own.target}, the program is compiled for {self.target.name}"
            hint = "compile for that target, or leave the first line out to try"
            raise self.refused(refusals.OTHER_PROGRAM, message, hint, line)
        if own.program and own.program != signature(self.program):
            message = f"the schedule is one of {own.program}, the program is {signature(self.program)}"
            hint = "compile what it is a schedule of, or leave the first line out to try"
            raise self.refused(refusals.OTHER_PROGRAM, message, hint, line)

    def steps(self, own: list[Planned], patched: bool) -> list[Asked]:
        """The steps of the program: those of the schedule, and what is found for the rest."""
        found = self._resolved(self.schedule.steps, own)
        covered = {op for step, _ in found for op in made_by(step)}
        rest = [op for step in own for op in made_by(step) if op not in covered and not is_view(op)]
        if not rest:
            return self._ordered(found, own)
        self._check_order(found)
        asked = {id(step): each for step, each in found}
        steps, groups = own, [step for step, _ in found]
        if [id(step) for step in own if id(step) in asked] != [*asked]:
            steps = schedule_around(self.program, groups, self.lanes, psum_room(self.target), patched)
        return [(step, asked.get(id(step))) for step in steps]

    def inner_steps(self, group: Group, own: list[Planned], asked: Step) -> list[Asked]:
        """The steps that a step is divided into: those below it, or those that are found where there are none."""
        if not asked.steps:
            return [(step, None) for step in own]
        found = self._resolved(asked.steps, own)
        inside = {op for step in own for op in made_by(step)} | {*group.ops, *group.totals, *group.shared}
        for step, each in found:
            other = next((op for op in made_by(step) if op not in inside), None)
            if other is not None:
                message = f"{self.names[other.results[0]]} is no op of the step that is divided"
                hint = "steps below a step have its ops"
                raise self.refused(refusals.TWICE_OR_MISSING, message, hint, each.line)
        covered = {op for step, _ in found for op in made_by(step)}
        missing = [op for step in own for op in made_by(step) if op not in covered and not is_view(op)]
        if missing:
            message = f"{self.names[missing[0].results[0]]} is in none of the steps below"
            hint = "steps below a step have all of its ops"
            raise self.refused(refusals.TWICE_OR_MISSING, message, hint, asked.line)
        return self._ordered(found, own)

    def _resolved(self, asked: Sequence[Step], own: list[Planned]) -> list[tuple[Planned, Step]]:
        """Steps of the plan for those of the schedule; E853 where an op is in two."""
        seen: set[Op] = set()
        for step in asked:
            for each in step.ops:
                op = self.op(each)
                if op in seen and each.place != REPLICATED:
                    message = f"{each.values[0]} is computed twice"
                    hint = "an op is in one step; small ones may be replicated in others"
                    raise self.refused(refusals.TWICE_OR_MISSING, message, hint, each.line)
                seen |= {op} if each.place != REPLICATED else set()
        return [(self._find(step, own), step) for step in asked]

    def _ordered(self, found: Sequence[tuple[Planned, Step]], own: list[Planned]) -> list[Asked]:
        """Steps in the order of the schedule, views that it does not have as soon as they can be; E854 where a step
        reads what comes later."""
        inside = {value for step in own for op in made_by(step) for value in op.results}
        views = [step for step in own if isinstance(step, Op) and is_view(step)]
        views = [op for op in views if all(op is not step for step, _ in found)]
        ready, made = set[Value](), list[Asked]()

        def add(step: Planned, each: Step | None) -> None:
            made.append((step, each))
            ready.update(value for op in made_by(step) for value in op.results)

        for step, each in found:
            for op in list(views):
                if all(v in ready or v not in inside for v in op.values()):
                    add(op, None)
                    views.remove(op)
            late = next((v for v in needs(step) if v in inside and v not in ready), None)
            if late is not None:
                message = f"the step reads {self.names[late]}, which a later step computes"
                raise self.refused(refusals.ORDER, message, "put the step behind those that it reads from", each.line)
            add(step, each)
        return [*made, *((op, None) for op in views)]

    def _check_order(self, found: Sequence[tuple[Planned, Step]]) -> None:
        """E854 where a step needs what is made of a later one."""
        before: list[tuple[set[Op], Step]] = []
        for step, each in found:
            behind = self._behind(made_by(step))
            early = next((asked for ops, asked in before if not behind.isdisjoint(ops)), None)
            if early is not None:
                message = f"the step needs what a later one, with {each.ops[0].values[0]}, computes"
                raise self.refused(refusals.ORDER, message, "put the step behind that one", early.line)
            before.append((set(made_by(step)), each))

    def _behind(self, ops: Iterable[Op]) -> set[Op]:
        """All ops that read what some ops make, directly or not, but for these."""
        inside, found = set(ops), set[Op]()
        work = list(inside)
        while work:
            for use in (use for value in work.pop().results for use in value.uses):
                if use not in found and use not in inside:
                    found.add(use)
                    work.append(use)
        return found

    # Groups.

    def _find(self, asked: Step, own: list[Planned]) -> Planned:
        """The step of the plan that has these ops and a layout as asked for, or one that is made for them."""
        ops, totals, shared = self.ops(asked), self.ops(asked, ACCUMULATED), self.ops(asked, REPLICATED)
        if not ops:
            hint = "a step has an op of its own that others may be replicated for"
            raise self.refused(refusals.NEST, "a step of replicated or accumulated ops alone", hint, asked.line)
        for step in own:
            if isinstance(step, Op):
                if [step] == ops and not totals and not shared and self._may_be_single(asked):
                    return step
            elif {*step.ops} == {*ops} and {*step.totals} == {*totals} and {*shared} <= {*step.shared}:
                fitting = self.layouts(step, asked)
                if fitting and not self._is_single(asked):
                    # What is searched for has the layout that is asked for.
                    return step if asked.way is not None or not _has_dims(asked) else replace(fitting[0], twins=[])
        if self._is_single(asked) or (len(ops) == 1 and is_view(ops[0])):
            return self._single(ops, asked)
        return self._grown(asked, ops, totals, shared)

    def _may_be_single(self, asked: Step) -> bool:
        return asked.way is None or asked.way.kind == SINGLE

    def _is_single(self, asked: Step) -> bool:
        return asked.way is not None and asked.way.kind == SINGLE

    def _single(self, ops: list[Op], asked: Step) -> Op:
        """An op by itself; E856 for several, and for what only a group computes."""
        line = asked.line if asked.way is None else asked.way.line
        if len(ops) != 1:
            raise self.refused(
                refusals.WAY, f"{len(ops)} ops are no single op", "write them as a group: row blocks", line
            )
        if not (is_view(ops[0]) or ops[0].name in self.singles):
            hint = "write it as a group of one: row blocks"
            raise self.refused(refusals.WAY, f"{ops[0].name} is no single op", hint, line)
        return ops[0]

    def layouts(self, group: Group, asked: Step) -> list[Group]:
        """A group in those of its layouts that are as asked for."""
        return [each for each in (group, *group.twins) if self._lies_so(each, asked)]

    def _lies_so(self, group: Group, asked: Step) -> bool:
        if asked.layout and asked.layout != layout_of(group):
            return False
        axes = Axes(group)
        told = [(self.op(each).result, each.dims) for each in asked.ops if each.dims is not None]
        return all(_agrees(dims_of(value, group.roles[value], axes), dims) for value, dims in told if dims is not None)

    def _grown(self, asked: Step, ops: list[Op], totals: list[Op], shared: list[Op]) -> Planned:
        """A group of these ops; E854 or E855 where there is none."""
        inside = {*ops, *totals, *shared}
        behind = {value for op in self._behind(inside) for value in op.results}
        for each, op in ((each, self.op(each)) for each in asked.ops):
            late = next((v for v in op.values() if v in behind), None)
            if late is not None:
                message = f"{each.values[0]} reads {self.names[late]}, which is computed from the step's own values"
                hint = f"put what lies between into the step too, or {each.values[0]} into a later one"
                raise self.refused(refusals.ORDER, message, hint, each.line)
        made = {value for op in inside for value in op.results}
        values = (*self.program.inputs, *(value for op in self.program.ops for value in op.results))
        ready = {value for value in values if value not in made and value not in behind}
        order = {op: i for i, op in enumerate(self.program.ops) if op in inside}
        found = groups_of({op: i for op, i in order.items() if op not in totals}, ops, ready, self.lanes)
        whole = [group for group in found if {*group.ops} == {*ops} and {*group.shared} == {*shared}]
        for group in whole:
            if not self._lies_so(group, asked):
                continue
            if totals:
                group.totals = totals_of(group, set(totals), ready, self.lanes, psum_room(self.target))
            if {*group.totals} == {*totals}:
                return group
        if not whole and len(ops) == 1 and ops[0].name in self.singles and self._may_be_single(asked):
            return ops[0]
        raise self._no_group(asked, ops, totals, found, whole, ready)

    def _no_group(
        self, asked: Step, ops: list[Op], totals: list[Op], found: list[Group], whole: list[Group], ready: set[Value]
    ) -> Exception:
        """Why ops do not share a loop nest, or not in a layout."""
        if whole:
            fitting = [group for group in whole if self._lies_so(group, asked)]
            if totals and fitting:
                message = f"{self.names[totals[0].result]} cannot be taken in block by block"
                return self.refused(refusals.NEST, message, "put it into a later step of its own", asked.line)
            value, name = ops[0].result, self.names[ops[0].result]
            able = dict.fromkeys(_text(dims_of(value, group.roles[value], Axes(group))) for group in whole)
            message = "the step's ops cannot lie so together"
            return self.refused(refusals.NEST, message, f"{name} may lie as {' or '.join(able)}", asked.line)
        if not found:
            hint = "ops that are lowered by themselves are a step each: write single op"
            message = f"{ops[0].name} is computed by no loop nest with others"
            return self.refused(refusals.NEST, message, hint, asked.line)
        best = max(found, key=lambda group: len(group.ops))
        rest = [op for op in ops if op not in best.ops]
        if not rest:
            message = "what is replicated is not what the step's ops ask for"
            return self.refused(refusals.NEST, message, "leave replicated ops as they were printed", asked.line)
        # What reads nothing of the others cannot tell why.
        reading = (op for op in rest if any(value in best.roles for value in op.values()))
        left = next(reading, rest[0])
        is_apart = all(value not in best.roles for value in left.values())
        why = "it reads none of their values" if is_apart else why_apart(left, best, best.roles, ready.__contains__)
        line = next(each.line for each in asked.ops if self.op(each) is left)
        message = f"{self.names[left.results[0]]} cannot share the loops of the step: {why}"
        return self.refused(refusals.NEST, message, "put it into a step of its own, or choose another layout", line)

    # Values that stay on chip.

    def check_homes(self, draft: Draft) -> None:
        """Let values live where the schedule says; E859 for those that pass from no step to another."""
        for home in self.schedule.homes:
            value = self.value(home.value, home.line)
            known = draft.residents.get(value)
            if known is None:
                message = f"{home.value} is not passed from one step to another"
                hint = f"these are: {', '.join(self.names[each] for each in draft.residents) or 'none'}"
                raise self.refused(refusals.HOME, message, hint, home.line)
            wanted = home.place != IN_HBM
            if wanted and self.schedule.frugal:
                hint = "leave one of both out"
                raise self.refused(refusals.HOME, f"{home.value} where nothing is resident", hint, home.line)
            if known.keep != wanted:
                known.keep, known.why = wanted, "the schedule says so"

    def check_kept(self, draft: Draft) -> None:
        """E859 for a value that was to stay on chip and did not."""
        for home in self.schedule.homes:
            known = draft.residents[self.value(home.value, home.line)]
            if home.place == RESIDENT and not known.keep:
                raise self._not_kept(home, known.why)

    def _not_kept(self, home: Home, why: str) -> Exception:
        hint = f"write hbm {home.value}, or the steps that make and read it another way"
        return self.refused(refusals.HOME, f"{home.value} does not stay on chip: {why}", hint, home.line)


def _has_dims(asked: Step) -> bool:
    return bool(asked.layout) or any(each.dims is not None for each in asked.ops)


def _agrees(own: tuple[Dim, ...], asked: tuple[Dim, ...]) -> bool:
    """True where dims have the roles that are asked for, and the axes where those are told."""
    return len(own) == len(asked) and all(
        mine.role == other.role and other.axis in ("", mine.axis) for mine, other in zip(own, asked, strict=True)
    )


def _text(dims: tuple[Dim, ...]) -> str:
    return f"[{', '.join(f'{dim.size} {dim.role}' for dim in dims)}]"
