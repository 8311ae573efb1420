"""Operands that some rows share: each row gets its own, where the rows are settled by reductions.

In a norm over the channels of a group, a row is a group of an image, and its scales are those of the group, whatever
the image. What all rows of an image share is read as often as there are images; it is small beside what it scales.
"""

from __future__ import annotations

from math import prod

from tilewright.ir.core import OUTPUTS, Graph, Op, Value
from tilewright.lower.decisions import decided
from tilewright.lower.regions.axes import COMBINED
from tilewright.lower.tuning import TUNING
from tilewright.tensor.build import insert_tree, value

Shape = tuple[int, ...]


def spread_over_rows(graph: Graph) -> bool:
    """Repeat small operands over the leading dims that reductions leave; says whether there were any."""
    rows = _rows(graph)
    changed = False
    for op in list(graph.ops):
        count = rows.get(op)
        if count is None:
            continue
        for i, x in enumerate(op.operands):
            wanted = _wanted(x, op.result.type.shape, count) if isinstance(x, Value) else None
            if wanted is None:
                continue
            decided("rule: operands for every row")
            rank = len(wanted)
            same = x if x.type.rank == rank else value("reshape", x, shape=(1,) * (rank - x.type.rank) + x.type.shape)
            made = value("broadcast_to", same, shape=wanted)
            made.name = same.name = x.name
            insert_tree(made, op)
            op.replace_operand(i, made)
            changed = True
    return changed


def _rows(graph: Graph) -> dict[Op, int]:
    """Elementwise ops that are computed with rows which are reduced, and how many leading dims those have; short rows
    lie beside each other."""
    found: dict[Value, int] = {}
    for op in graph.ops:
        first = min(op.attrs["axes"], default=0) if op.name in COMBINED else 0
        if first and prod(op.operands[0].type.shape[first:]) >= TUNING.short_row:
            for x in (*op.values(), op.result):
                found[x] = min(found.get(x, x.type.rank), first)
    todo = list(found)
    while todo:
        x = todo.pop()
        for y in _beside(x):
            if y not in found or found[y] > found[x]:
                found[y] = found[x]
                todo.append(y)
    return {op: found[op.result] for op in graph.ops if _is_plain(op) and found.get(op.result, 0) > 1}


def _beside(x: Value) -> list[Value]:
    """Values of the same shape that are computed of one, or that it is computed of."""
    ops = [op for op in (x.producer, *x.uses) if op is not None and _is_plain(op)]
    return [y for op in ops for y in (*op.values(), op.result) if y.type.shape == x.type.shape]


def _is_plain(op: Op) -> bool:
    return op.definition is not OUTPUTS and op.definition.family == "elementwise"


def _wanted(x: Value, shape: Shape, count: int) -> Shape | None:
    """The shape of an operand that is there for every row, where it is for some of their dims alone; None for one that
    would be as large as rows are."""
    by = len(shape) - x.type.rank
    own = (1,) * by + x.type.shape
    lead = [(mine, whole) for mine, whole in zip(own[:count], shape[:count], strict=True) if whole != 1]
    if not any(mine == 1 for mine, _ in lead) or all(mine == 1 for mine, _ in lead):
        return None
    made = (*shape[:count], *own[count:])
    return made if made != shape or prod(shape[count:]) == 1 else None
