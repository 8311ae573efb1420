"""Names of values, which become names of tiles: the variable that holds a value, or what computes it."""

from __future__ import annotations

from itertools import zip_longest

from tilewright.errors import assigned_name
from tilewright.ir.core import Graph, Op
from tilewright.lower.write.homes import is_view


def name_values(program: Graph) -> None:
    """Give names to values that have none.

    The ops of a source line follow each other; the last one computes what the line assigns to its variable.
    """
    for op, following in zip_longest(program.ops, program.ops[1:]):
        last = following is None or following.location != op.location
        for value in op.results:
            value.name = value.name or (assigned_name(op.location) if last else None) or _described(op)


def _described(op: Op) -> str:
    """A value by its op; another view of a value is called the same."""
    return (op.operands[0].name if is_view(op) else None) or op.name
