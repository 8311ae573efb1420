"""Products of one matrix with a few columns each, of which none is made of another: one product with all columns.

Complex numbers as pairs multiply the real and the imaginary part by each of two matrices. The Tensor engine takes as
long for one column as for some dozens. The same holds for a few rows each that are multiplied by one matrix.
"""

from __future__ import annotations

from collections import defaultdict

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.tuning import TUNING
from tilewright.tensor.build import insert_tree, value


def join_products(graph: Graph) -> None:
    """Join what can be computed at the same time."""
    numbers = {op: i for i, op in enumerate(graph.ops)}
    by_matrix: dict[tuple[Value, int], list[Op]] = defaultdict(list)
    for op in graph.ops:
        if op.name == "matmul" and all(x.type.rank == 2 for x in op.values()):
            for side in (0, 1):
                if _width(op, side) <= TUNING.joined_columns < min(op.operands[side].type.shape):
                    by_matrix[op.operands[side], side].append(op)
    joined = [some for (_, side), ops in by_matrix.items() for some in _together(ops, side, numbers)]
    for side, ops in joined:
        decided("rule: joined products")
        _join(ops, side)
    if joined:
        sort_topologically(graph.body)


def _width(op: Op, side: int) -> int:
    """Columns or rows of what is multiplied by the matrix on a side."""
    return op.operands[1 - side].type.shape[1 - side]


def _together(ops: list[Op], side: int, numbers: dict[Op, int]) -> list[tuple[int, list[Op]]]:
    """Products that follow each other, and do not need each other's results."""
    found: list[tuple[int, list[Op]]] = []
    current: list[Op] = []
    for op in [*ops, None]:
        fits = op is not None and (
            not current
            or (
                op.operands[1 - side].type.dtype is current[0].operands[1 - side].type.dtype
                and sum(_width(each, side) for each in (*current, op)) <= TUNING.joined_columns
                and not _needs(op, current, numbers)
            )
        )
        if op is not None and fits:
            current.append(op)
            continue
        if len(current) > 1:
            found.append((side, current))
        current = [] if op is None else [op]
    return found


def _needs(op: Op, others: list[Op], numbers: dict[Op, int]) -> bool:
    """True where an op is made of what one of the others, which come before it, makes."""
    wanted, first = set(others), min(numbers[each] for each in others)
    todo, seen = [op], set[Op]()
    while todo:
        for x in todo.pop().values():
            made = x.producer
            if made is None or made in seen or numbers.get(made, -1) < first:
                continue
            if made in wanted:
                return True
            seen.add(made)
            todo.append(made)
    return False


def _join(ops: list[Op], side: int) -> None:
    axis = 1 - side
    first = ops[0]
    both = [first.operands[side], value("concatenate", *(op.operands[axis] for op in ops), axis=axis)]
    whole = value("matmul", *(both if side == 0 else reversed(both)))
    insert_tree(whole, first)
    at = 0
    for op in ops:
        old, starts = op.result, [0, 0]
        starts[axis] = at
        at += old.type.shape[axis]
        part = value("slice", whole, starts=tuple(starts), sizes=old.type.shape, steps=(1, 1))
        part.name = old.name
        insert_tree(part, first)
        old.replace_all_uses(part)
    for op in ops:
        op.erase()
