"""Ways that divide a group into smaller steps, each of which is written like a step of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tilewright.lower.regions.axes import COMBINED, SCANNED
from tilewright.lower.regions.grouping import Group, Step, in_two, middle, subdivide, totals_apart
from tilewright.lower.regions.planning import psum_room
from tilewright.lower.regions.residency import read_again, steps_reading
from tilewright.lower.schedule import data
from tilewright.lower.write.homes import Hbm

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.target import Target

DIVIDED, IN_TWO, BY_BLOCKS, TOTALS_APART = "divided", "in two", "by blocks", "totals apart"

Asked = tuple[Step, data.Step | None]
"""A step, and what a user asks of it."""


def _divided(target: Target, group: Group) -> list[Step]:
    """Products and joins by themselves, then every op."""
    whole = {op for op in group.ops if op.definition.family != "elementwise" and op.name not in (*COMBINED, *SCANNED)}
    apart = whole if whole and len(whole) < len(group.ops) else set() if group.tall else set(group.ops)
    return subdivide(group, target["limits.partitions"], apart)


def _by_blocks(target: Target, group: Group) -> list[Step]:
    """Groups that take in one block of rows after the other."""
    return subdivide(group, target["limits.partitions"], set(), psum_room(target))


def _totals_apart(target: Target, group: Group) -> list[Step]:
    """A group, then the reductions over its rows."""
    return totals_apart(group, target["limits.partitions"])


def _in_two(target: Target, group: Group) -> list[Step]:
    return in_two(group, target["limits.partitions"])


DIVISIONS: dict[str, Callable[[Target, Group], list[Step]]] = {
    DIVIDED: _divided,
    IN_TWO: _in_two,
    BY_BLOCKS: _by_blocks,
    TOTALS_APART: _totals_apart,
}
"""Kind -> the steps that a group becomes."""


def why_not(kind: str, group: Group) -> str | None:
    """Why a group cannot be divided so; None where it can."""
    if (kind == TOTALS_APART) != bool(group.totals):
        return "it has sums over its rows: totals apart" if group.totals else "it has no sums over its rows"
    if kind == BY_BLOCKS and group.tall is None:
        return "its rows are not reduced"
    if group.stencil is not None or (len(group.ops) == 1 and not group.totals):
        return "it is cut into patches" if group.stencil is not None else "it has one op"
    return "it has few ops" if kind == IN_TWO and not middle(group) else None


def write_divided(low: Lowering, group: Group, kind: str, steps: Sequence[Asked]) -> None:
    """Write the steps of a group; given up where they are worse than another way already."""
    with _held(low, group, [step for step, _ in steps] if kind == BY_BLOCKS else []):
        low.dividing += 1
        # Steps of a step are counted with it.
        contest = low.contest if low.dividing == 1 else None
        try:
            for step, asked in steps:
                before = tuple(low.b.graph.body.ops)
                low.step(step, asked)
                if contest is not None:
                    contest.add(low.b.since(before))
        finally:
            low.dividing -= 1


@contextmanager
def _held(low: Lowering, group: Group, steps: Sequence[Step]) -> Iterator[None]:
    """What several of some steps read is loaded once for them."""
    there = [value for value in group.reads if isinstance(low.homes.get(value), Hbm)]
    again = read_again(steps, there, steps_reading(steps), low.target) if steps else []
    held = [each.value for each in again if each.bytes <= low.room() and low.hold(each)]
    yield
    for value in held:
        low.let_go(value)
