"""The plan of a program before any tile IR exists: steps, what each reads how, and which values stay on chip.

Writing follows it. What only writing can tell (whether a group fits, how many copies of its tiles do) is measured then,
and amends the plan: `attempts` has every way that was tried with what was wrong with it, `written` the instructions of
each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.dtypes import float32
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.text import Printer
from tilewright.lower.regions.grouping import Group, Step, rows_read, schedule
from tilewright.lower.regions.residency import Resident, readers, residents, rooms, root
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.target import Target
from tilewright.tensor.text import TENSOR


@dataclass(frozen=True, slots=True)
class Attempt:
    """A way of writing a step, and why it was given up; None: it was taken."""

    way: str
    misfit: str | None = None


@dataclass(slots=True)
class Draft:
    """What is decided about a program.

    room: bytes per partition that values may take together, by step. read_by: the steps that read a value or a view.
    before: why an earlier draft was given up. The rest is noted while it is written, by position of the step; what
    stands before the first step has -1. away: what did not stay on chip after all, with the reason why it was to.
    """

    program: Graph
    target: Target
    steps: list[Step]
    room: dict[int, int]
    residents: dict[Value, Resident]
    read_by: dict[Value, list[int]]
    before: str | None = None
    attempts: dict[int, list[Attempt]] = field(default_factory=dict)
    written: dict[int, list[Op]] = field(default_factory=dict)
    away: list[tuple[Resident, str]] = field(default_factory=list)
    at: int = -1
    _names: dict[Value, str] = field(default_factory=dict)

    @property
    def names(self) -> dict[Value, str]:
        """The name of every value in the text of the program."""
        if not self._names:
            self._names = value_names(self.program)
        return self._names

    def value(self, name: str) -> Value:
        """The value of this name."""
        return next(value for value, own in self.names.items() if own == name)

    def tried(self, way: str, misfit: str | None = None) -> None:
        """Note a way of writing the step in work."""
        self.attempts.setdefault(self.at, []).append(Attempt(way, misfit))

    def is_kept(self, value: Value) -> bool:
        """False for a value that was sent to HBM when the plan was made."""
        known = self.residents.get(value)
        return known is None or known.keep

    def sent_away(self, value: Value, why: str) -> None:
        """Note that a value does not stay on chip after all."""
        known = self.residents.get(value)
        if known is not None and known.keep:
            self.away.append((known, known.why))
            known.keep, known.why = False, why

    def back(self, count: int) -> None:
        """Forget what was sent away but for the first so many."""
        while len(self.away) > count:
            known, why = self.away.pop()
            known.keep, known.why = True, why

    def ends(self, values: Sequence[Value]) -> list[Value]:
        """Those that nothing reads after the step in work: what that made for itself alone is among them."""
        known = ((v, self.read_by.get(v) or self.read_by.get(root(v)) or [-1]) for v in values)
        return [v for v, steps in known if steps[-1] <= self.at]

    def later_reads(self, value: Value) -> int:
        """How many steps after the one in work read a value."""
        return sum(at > self.at for at in self.read_by.get(value, ()))


def value_names(program: Graph) -> dict[Value, str]:
    """What each value of a program is called in its text."""
    printer = Printer(TENSOR)
    values = (*program.inputs, *(value for op in program.ops for value in op.results))
    return {value: printer.define(value).removeprefix("%") for value in values}


BY_ROWS, AS_RIGHT, EVERYWHERE = "block by block", "whole, as a right operand", "whole, on every partition"
BY_PATCHES = "patch by patch"
"""How a group takes what it reads: its blocks of rows one after the other, or all of it for each of them."""


def reads(group: Group) -> dict[Value, str]:
    """How a group takes each value that it reads from outside."""
    if group.stencil is not None:
        return dict.fromkeys(group.reads, BY_PATCHES)
    found: dict[Value, str] = {}
    for op in (*group.shared, *group.ops):
        by_rows = rows_read(op, group.roles[op.result]) if op.result in group.roles else {}
        for i, value in enumerate(op.operands):
            if isinstance(value, Value) and value in group.reads:
                right = op.name in PRODUCTS and i == 1
                found.setdefault(value, AS_RIGHT if right else BY_ROWS if value in by_rows else EVERYWHERE)
    return found


def psum_room(target: Target) -> int:
    """Elements per partition of PSUM that may be taken for as long as the loops of a group run: half of it."""
    return target["memory.psum_banks"] // 2 * target["memory.psum_bank_bytes"] // float32.itemsize


def planned_steps(program: Graph, target: Target, patched: bool = False) -> list[Step]:
    """The steps of a program; patched: regions of neighbours are cut into patches."""
    return schedule(program, target["limits.partitions"], psum_room(target), patched)


def draft(
    program: Graph,
    target: Target,
    before: str | None = None,
    patched: bool = False,
    given: list[Step] | None = None,
) -> Draft:
    """Decide steps and residents; `before` says why an earlier draft failed, and nothing stays on chip then.

    patched: as of `planned_steps`. given: steps that are decided already.
    """
    steps = planned_steps(program, target, patched) if given is None else given
    room = rooms(steps, target) if before is None else dict.fromkeys(range(-1, len(steps) + 1), 0)
    read_by = readers(steps, program)
    return Draft(program, target, steps, room, residents(steps, program, target, room), read_by, before)
