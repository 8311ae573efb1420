"""Several takes from one table that is too large for a partition become one: the table is brought to all of them once.

    x[i], x[j]  ->  y = x[[i, j]];  y[0], y[1]

as bilinear samples, neighbours of a node, or the columns of a lookup are. Only where that takes less time than to fetch
every row by itself.
"""

from __future__ import annotations

from math import prod

from tilewright.dtypes import int32
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.regions.checks import is_table
from tilewright.lower.tuning import TUNING
from tilewright.target import Target
from tilewright.tensor.build import insert_tree, value


def join_takes(graph: Graph, target: Target) -> None:
    """Join what is taken from the same table at indices of the same shape, none of which depends on another."""
    found: dict[tuple[Value, tuple[int, ...]], list[Op]] = {}
    for op in graph.ops:
        if op.name == "take" and op.attrs["axis"] == 0 and op.operands[1].type.dtype is int32 and not is_table(op):
            found.setdefault((op.operands[0], op.operands[1].type.shape), []).append(op)
    for takes in found.values():
        chosen = _independent(takes)
        if len(chosen) > 1 and _is_worth_it(chosen, target):
            decided("rule: takes from one table")
            _join(graph, chosen)


def _is_worth_it(takes: list[Op], target: Target) -> bool:
    """True where looking up in parts of the table, once for all of them, takes less time than to fetch the rows."""
    x, index = takes[0].operands
    width, count = prod(x.type.shape[1:]), len(takes) * index.type.size
    clock, lanes = target["clock_ghz.vector"], target["limits.partitions"]
    if width >= TUNING.long_run or count < TUNING.looked_up:
        return False
    spread = x.type.size / target["vector.elements_per_cycle.shuffle"] / clock
    return 2 * spread < count / lanes * target["dma.swdge_indirect_block_ns"]


def _independent(takes: list[Op]) -> list[Op]:
    """Those whose indices are not computed with any of those before them."""
    chosen: list[Op] = []
    for op in takes:
        behind = _ancestors(op.operands[1])
        if not any(other in behind for other in chosen):
            chosen.append(op)
    return chosen


def _ancestors(x: Value) -> set[Op]:
    """All ops that a value is computed by."""
    seen: set[Op] = set()
    left = [x]
    while left:
        op = left.pop().producer
        if op is not None and op not in seen:
            seen.add(op)
            left += op.values()
    return seen


def _join(graph: Graph, takes: list[Op]) -> None:
    x, index = takes[0].operands
    shape, rest = index.type.shape, x.type.shape[1:]
    rows = [value("reshape", op.operands[1], shape=(1, *shape)) for op in takes]
    made = value("take", x, value("concatenate", *rows, axis=0), axis=0)
    insert_tree(made, takes[-1])
    for i, op in enumerate(takes):
        starts, sizes = (i, *(0 for _ in (*shape, *rest))), (1, *shape, *rest)
        part = value("slice", made, starts=starts, sizes=sizes, steps=(1,) * len(sizes))
        new = value("reshape", part, shape=op.result.type.shape)
        insert_tree(new, takes[-1])
        op.result.replace_all_uses(new)
    for op in takes:
        op.erase()
    sort_topologically(graph.body)
