"""Slices of one array that differ in their columns alone: parts of the same rows, which are loaded once.

    x[1:-1, 2:] - x[1:-1, :-2]

are two slices of x[1:-1]. Each by itself would be loaded by itself, as blocks of its rows begin where no block of x
does.
"""

from __future__ import annotations

from tilewright.ir.core import Graph, Op, Value
from tilewright.lower.decisions import decided
from tilewright.tensor.build import insert_tree, value

Part = tuple[int, int, int]
"""Start, size and step."""


def share_rows(graph: Graph) -> None:
    """Let slices of the same rows be slices of one."""
    slices: dict[Value, list[Op]] = {}
    for op in graph.ops:
        if op.name == "slice" and op.result.type.rank > 1:
            slices.setdefault(op.operands[0], []).append(op)
    for x, found in slices.items():
        _share(x, found)


def _share(x: Value, slices: list[Op]) -> None:
    """Slices of an array by their dims up to the first in which they differ; they come in the program's order."""
    rank = x.type.rank
    parts = {op: _parts(op) for op in slices}
    differing = [d for d in range(rank) if len({part[d] for part in parts.values()}) > 1]
    if not differing or differing[0] == rank - 1:
        return
    lead = differing[0] + 1
    whole = [(0, n, 1) for n in x.type.shape]
    by_rows: dict[tuple[Part, ...], list[Op]] = {}
    for op, part in parts.items():
        by_rows.setdefault(tuple(part[:lead]), []).append(op)
    for rows, group in by_rows.items():
        if len(group) < 2 or list(rows) == whole[:lead] or rows[-1][1] == 1:
            continue
        decided("rule: slices of the same rows")
        base = _slice(x, [*rows, *whole[lead:]])
        insert_tree(base, group[0])
        for op in group:
            inner = _slice(base, [*((0, n, 1) for _, n, _ in rows), *parts[op][lead:]])
            insert_tree(inner, op)
            op.result.replace_all_uses(inner)
            op.erase()


def _parts(op: Op) -> list[Part]:
    attrs = op.attrs
    return list(zip(attrs["starts"], attrs["sizes"], attrs["steps"], strict=True))


def _slice(x: Value, parts: list[Part]) -> Value:
    starts, sizes, steps = (tuple(each) for each in zip(*parts, strict=True))
    return value("slice", x, starts=starts, sizes=sizes, steps=steps)
