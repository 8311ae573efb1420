"""Many rows of a few elements that are sorted or searched: columns are compared, all rows at once.

A search finds the best of a row by a few instructions for every block of rows, however short they are. Minimum and
maximum of two columns take one for as many rows as there are, and are computed together with what comes before and
after. So the median of five days or of 3 x 3 pixels is elementwise work on shifted parts of an array.
"""

from __future__ import annotations

from functools import reduce
from math import inf, nan

from tilewright.dtypes import float32
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import sort_topologically
from tilewright.lower.decisions import decided
from tilewright.target import Target
from tilewright.tensor.build import insert_tree, value
from tilewright.tensor.passes.simplify import EXACT, simplify

_COMPARING = 5
"""Passes over all elements to find the first place of the greatest."""
_SEARCH = 3
"""Instructions of a search for each block of rows, at least."""


def sort_short_rows(graph: Graph, target: Target) -> None:
    """Compare columns where rows are short and many."""
    found = [op for op in graph.ops if op.name == "topk" and not op.results[1].uses and _is_worth_it(op, target)]
    for op in found:
        decided("rule: short sorts")
        made = _compared(op)
        insert_tree(made, op)
        op.results[0].replace_all_uses(made)
    if found:
        sort_topologically(graph.body)
        simplify(graph, EXACT)


def search_short_axes(graph: Graph, target: Target) -> None:
    """Look for the greatest along a short axis by comparing, where lines are many.

    argmax(x) -> min(where(x == max(x) or x != x, place, size)). The greatest is NaN where there is one: then no element
    equals it, and those that do not equal themselves are left.
    """
    found = [op for op in graph.ops if op.name == "argmax" and _is_compared(op, target)]
    for op in found:
        decided("rule: short searches")
        (x,), axis = op.operands, op.attrs["axis"]
        size = x.type.shape[axis]
        greatest = value("max", x, axes=(axis,), keepdims=True)
        is_it = value("bitwise_or", value("equal", x, greatest), value("not_equal", x, x))
        shape = tuple(size if d == axis else 1 for d in range(x.type.rank))
        places = value("iota", shape=shape, dtype=float32, axis=axis, start=0.0, step=1.0)
        first = value("min", value("where", is_it, places, float(size)), axes=(axis,), keepdims=op.attrs["keepdims"])
        made = value("nearest", first, dtype=op.attrs["dtype"])
        insert_tree(made, op)
        op.result.replace_all_uses(made)
        op.erase()


def _is_compared(op: Op, target: Target) -> bool:
    """True where a few passes over all lines take less time than two instructions for each of them."""
    x = op.operands[0].type
    count = x.shape[op.attrs["axis"]]
    if x.dtype is not float32 or count < 2:
        return False
    fixed, lines = target["vector.overhead_cycles.other"], x.size // count / target["limits.partitions"]
    return _COMPARING * (fixed + lines * count) < 2 * lines * (fixed + count)


def _is_worth_it(op: Op, target: Target) -> bool:
    x, count = op.operands[0].type, op.operands[0].type.shape[op.attrs["axis"]]
    fixed, blocks = target["vector.overhead_cycles.other"], x.size // max(count, 1) / target["limits.partitions"]
    # More pairs than can pay are not listed.
    if count < 2 or 2 * count > _SEARCH * fixed:
        return False
    ops = 2 * (len(pairs(count)) + op.attrs["k"]) + (4 * count if x.dtype.is_float else 0)
    return ops * (fixed + blocks) < _SEARCH * (fixed + count) * blocks


def pairs(count: int) -> list[tuple[int, int]]:
    """Which of so many elements are compared, one pair after the other: Batcher's odd-even merges."""
    found: list[tuple[int, int]] = []
    run = 1
    while run < count:
        step = run
        while step:
            for start in range(step % run, count - step, 2 * step):
                inner = range(start, min(start + step, count - step))
                found += [(i, i + step) for i in inner if i // (2 * run) == (i + step) // (2 * run)]
            step //= 2
        run *= 2
    return found


def _is_of_parts(x: Value) -> bool:
    """True for windows of an array, and for arrays that were joined: their columns are parts of others."""
    op = x.producer
    while op is not None and op.definition.family == "shape" and op.name not in ("windows", "concatenate"):
        op = op.operands[0].producer
    return op is not None and op.name in ("windows", "concatenate")


def _compared(op: Op) -> Value:
    x, axis, largest, k = op.operands[0], op.attrs["axis"], op.attrs["largest"], op.attrs["k"]
    shape = x.type.shape
    count, column = shape[axis], (*shape[:axis], 1, *shape[axis + 1 :])

    def columns_of(whole: Value) -> list[Value]:
        starts = [tuple(i if d == axis else 0 for d in range(len(shape))) for i in range(count)]
        return [value("slice", whole, starts=each, sizes=column, steps=(1,) * len(shape)) for each in starts]

    columns, missing = columns_of(x), None
    if x.type.dtype.is_float:
        # NaN is greater than every number: those are infinite for the time, and counted. Rows that are parts of others
        # are never there as such.
        parts = columns if _is_of_parts(x) else [x]
        unknown = [value("not_equal", each, each) for each in parts]
        parts = [value("where", lacks, inf, each) for lacks, each in zip(unknown, parts, strict=True)]
        counted = [value("cast", each, dtype=float32) for each in unknown]
        if len(parts) == 1:
            columns = columns_of(parts[0])
            missing = value("sum", counted[0], axes=(axis,), keepdims=True)
        else:
            columns, missing = parts, reduce(lambda one, other: value("add", one, other), counted)
    for i, j in pairs(count):
        columns[i], columns[j] = value("minimum", columns[i], columns[j]), value("maximum", columns[i], columns[j])
    if missing is not None:
        last = [value("greater", missing, float(count - 1 - i)) for i in range(count)]
        columns = [value("where", lacks, nan, each) for lacks, each in zip(last, columns, strict=True)]
    best = (columns[::-1] if largest else columns)[:k]
    return value("concatenate", *best, axis=axis)
