"""Arguments that a program changes: updates that are written where the argument lies, not into a copy of it.

`x[5] = row` is a new value to a tensor program, as large as `x`. A kernel may write to its arguments: only what changes
has to be moved then. Whatever reads the old value comes before the update.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tilewright.ir.core import OUTPUTS, Graph, Op, Value
from tilewright.lower.write.homes import is_view
from tilewright.tensor.updates import UPDATES, updates_of

REPLACES = "replaces"
"""The attribute of a program that has the pairs (input, output) of arguments and what takes their place."""


class Replacement(NamedTuple):
    """An argument, the number of the output that takes its place, and what makes the one of the other: updates, and
    views between them."""

    argument: Value
    output: int
    path: tuple[Op, ...]

    @property
    def updates(self) -> list[Op]:
        """Those that write."""
        return [op for op in self.path if op.name in UPDATES]


def replacing(program: Graph, replaced: Sequence[tuple[int, int]]) -> Graph:
    """A program whose arguments these outputs take the place of; none: every output is a tensor of its own."""
    made = program.clone()
    others = {name: x for name, x in program.attrs.items() if name != REPLACES}
    made.attrs = {**others, REPLACES: tuple(replaced)} if replaced else others
    return made


def replaceable(program: Graph) -> list[Replacement]:
    """What can be written in place, as far as the program tells: all that reads old values can come before what changes
    them, and nothing is moved from one place of an argument to another."""
    found: list[Replacement] = []
    for argument, output in program.attrs.get(REPLACES, ()):
        x = program.inputs[argument]
        path = updates_of(program.outputs[output], x)
        made = None if path is None else Replacement(x, output, path)
        if made is None or not made.updates or any(_moves_itself(op) for op in made.updates):
            continue
        readers = [use for op in made.updates for use in old_readers(op)]
        if all(use.definition is not OUTPUTS for use in readers) and _have_order(program, [*found, made]):
            found.append(made)
    return found


def _moves_itself(op: Op) -> bool:
    """Whether an update brings elements of the value that it changes."""
    return any(_shown(x) is _shown(op.operands[0]) for x in op.values()[1:])


def _have_order(program: Graph, together: Sequence[Replacement]) -> bool:
    """Whether the ops have an order in which every update comes after all that reads what it changes."""
    behind: dict[Op, list[Op]] = {}
    left = dict.fromkeys(program.ops, 0)
    waits = {op: [*old_readers(op)] for each in together for op in each.updates}
    for op in program.ops:
        for before in dict.fromkeys([*(x.producer for x in op.values()), *waits.get(op, ())]):
            if before is not None:
                behind.setdefault(before, []).append(op)
                left[op] += 1
    able = [op for op, count in left.items() if not count]
    done = 0
    while able:
        done += 1
        for op in behind.get(able.pop(), ()):
            left[op] -= 1
            if not left[op]:
                able.append(op)
    return done == len(left)


def _shown(x: Value) -> Value:
    """What a value is a view of."""
    while x.producer is not None and is_view(x.producer):
        (x,) = x.producer.values()
    return x


def old_readers(op: Op) -> Iterator[Op]:
    """What else reads the value that an update changes, perhaps through views."""
    todo = [_shown(op.operands[0])]
    while todo:
        for use in todo.pop().uses:
            if use.definition is not OUTPUTS and is_view(use):
                todo += use.results
            elif use is not op:
                yield use


def awaited(program: Graph) -> dict[Op, list[Value]]:
    """The updates that can be written in place, and what each of them has to wait for."""
    return {
        op: [x for use in old_readers(op) for x in use.results] for each in replaceable(program) for op in each.updates
    }
