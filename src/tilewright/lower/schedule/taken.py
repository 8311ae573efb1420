"""The schedule that a kernel was lowered by: what was taken of each step, told in the names of the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.ir.core import Graph, Op, Value
from tilewright.lower.regions.axes import Axes
from tilewright.lower.regions.grouping import Group
from tilewright.lower.regions.grouping import Step as Planned
from tilewright.lower.regions.roles import Roles
from tilewright.lower.schedule.axes import axis_name
from tilewright.lower.schedule.data import (
    ACCUMULATED,
    CHANNELS,
    FREE,
    IN_HBM,
    LOOP,
    PARTITION,
    PATCHES,
    REDUCED_ROWS,
    REPLICATED,
    RESIDENT,
    SPILLED,
    Dim,
    Home,
    Schedule,
    ScheduledOp,
    Step,
    Way,
)
from tilewright.lower.write.homes import is_view

if TYPE_CHECKING:
    from tilewright.lower.regions.planning import Draft

SINGLE = "single op"
"""The way of an op that no group computes."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A step as it was written: in which layout and way, and the steps that it was divided into."""

    step: Planned
    way: Way | None
    inner: tuple[Taken, ...] = ()


def schedule_of(draft: Draft, form: str, taken: Mapping[int, Taken]) -> Schedule:
    """The schedule of a kernel; taken: by the position of the step."""
    names = draft.names
    steps = tuple(_step(taken[at], names) for at in range(len(draft.steps)))
    away = {known.value for known, _ in draft.away}
    homes = [
        Home(names[each.value], RESIDENT if each.keep else SPILLED if each.value in away else IN_HBM)
        for each in draft.residents.values()
    ]
    is_frugal = draft.before is not None
    return Schedule(
        signature(draft.program), draft.target.name, form, steps, () if is_frugal else tuple(homes), is_frugal
    )


def signature(program: Graph) -> str:
    """What a program is called, and what it takes."""
    return f"{program.name}({', '.join(f'{x.name}: {x.type}' for x in program.inputs)})"


def _step(taken: Taken, names: Mapping[Value, str]) -> Step:
    step = taken.step
    inner = tuple(_step(each, names) for each in taken.inner)
    if isinstance(step, Op):
        return Step((_op(step, names),), taken.way, steps=inner, is_view=is_view(step))
    return Step(tuple(_ops(step, names)), taken.way, layout_of(step), inner)


def layout_of(group: Group) -> str:
    """What a group is where it is not blocks of rows."""
    if group.stencil is not None:
        return PATCHES
    if group.tall is not None:
        return CHANNELS if group.tall.channels > 1 else REDUCED_ROWS
    return ""


def _op(op: Op, names: Mapping[Value, str], dims: tuple[Dim, ...] | None = None, place: str = "") -> ScheduledOp:
    return ScheduledOp(tuple(names[value] for value in op.results), op.name, dims, place)


def _ops(group: Group, names: Mapping[Value, str]) -> Iterator[ScheduledOp]:
    axes = Axes(group)
    yield from (_op(op, names, place=REPLICATED) for op in group.shared)
    for op in group.ops:
        yield _op(op, names, dims_of(op.result, group.roles[op.result], axes))
    yield from (_op(op, names, place=ACCUMULATED) for op in group.totals)


def dims_of(value: Value, roles: Roles, axes: Axes) -> tuple[Dim, ...]:
    """How a value lies."""
    made: list[Dim] = []
    for d, size in enumerate(value.type.shape):
        if roles.is_free(d):
            axis = axes.of(value, d)
            made.append(Dim(size, FREE, "" if axis is None else axis_name(axis)))
        else:
            made.append(Dim(size, LOOP if d in roles.batch else PARTITION))
    return tuple(made)
