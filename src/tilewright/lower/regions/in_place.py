"""Arguments that a program changes: updates that are written where the argument lies, not into a copy of it.

`x[5] = row` is a new value to a tensor program, as large as `x`. A kernel may write to its arguments: only what changes
has to be moved then. Whatever reads the old value comes before the update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    """What can be written in place, as far as the program tells: nothing needs the old value and the new one at a time,
    and nothing is moved from one place of an argument to another."""
    places = {op: at for at, op in enumerate(program.ops)} if REPLACES in program.attrs else {}
    found: list[Replacement] = []
    for argument, output in program.attrs.get(REPLACES, ()):
        x = program.inputs[argument]
        path = updates_of(program.outputs[output], x)
        made = None if path is None else Replacement(x, output, path)
        if made is not None and made.updates and not any(_is_torn(program, op, places) for op in made.updates):
            found.append(made)
    return found


def _is_torn(program: Graph, op: Op, places: Mapping[Op, int]) -> bool:
    """Whether an update needs the old value and the new one at a time. places: of all ops in the program."""
    if any(_shown(x) is _shown(op.operands[0]) for x in op.values()[1:]):
        return True
    others = list(old_readers(op))
    if any(use.definition is OUTPUTS for use in others):
        return True
    late = [use for use in others if places[use] > places[op]]
    return bool(late) and not _behind(program, op).isdisjoint(late)


def _shown(x: Value) -> Value:
    """What a value is a view of."""
    while x.producer is not None and is_view(x.producer):
        (x,) = x.producer.values()
    return x


def _behind(program: Graph, op: Op) -> set[Op]:
    """All that needs the result of an op."""
    found = {op}
    for other in program.ops:
        if any(x.producer in found for x in other.values()):
            found.add(other)
    return found - {op}


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
