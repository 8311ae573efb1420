"""What is computed of several parts of an array that overlap is computed of the array, once.

    f(x[:-2]), f(x[1:-1]), f(x[2:])  ->  y = f(x);  y[:-2], y[1:-1], y[2:]

Only where the array has fewer elements than the parts together: then who reads neighbours in patches does less.
"""

from __future__ import annotations

from math import prod

from tilewright.ir.core import Graph, Op, Value
from tilewright.lower.decisions import decided
from tilewright.tensor.build import insert_tree, value

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Starts and sizes."""


def compute_before_slices(graph: Graph) -> bool:
    """Compute of whole arrays what is computed of their parts; says whether there was any such thing."""
    changed = False
    while any(_compute_once(ops) for ops in _alike(graph)):
        changed = True
    return changed


def _alike(graph: Graph) -> list[dict[Op, Box]]:
    """Ops that do the same with parts of the same arrays, with the part of each."""
    found: dict[tuple, dict[Op, Box]] = {}
    for op in graph.ops:
        if op.definition.family != "elementwise" or len(op.results) != 1 or not op.values() or _is_free(op):
            continue
        parts = {x: _part(x) for x in op.values()}
        boxes = {box for _, box in parts.values()}
        first, box = next(iter(parts.values()))
        alike = all(x.type.shape == op.result.type.shape for x in parts) and len(boxes) == 1
        if alike and box[1] != first.type.shape and all(y.type.shape == first.type.shape for y, _ in parts.values()):
            of = tuple(parts[x][0] if isinstance(x, Value) else repr(x) for x in op.operands)
            key = op.name, repr(sorted(op.attrs.items(), key=lambda item: item[0])), op.result.type.dtype, of
            found.setdefault(key, {})[op] = box
    return list(found.values())


def _is_free(op: Op) -> bool:
    """True for a sum or product with a number that one op reads: its instruction takes that in."""
    numbers = any(not isinstance(x, Value) for x in op.operands)
    return op.name in ("add", "subtract", "multiply", "negative") and numbers and len(op.result.uses) == 1


def _part(x: Value) -> tuple[Value, Box]:
    """What a value is a part of, perhaps in another shape, and which part; itself, where it is no part."""
    op = x.producer
    while op is not None and op.name == "reshape":
        op = op.operands[0].producer
    if op is None or not _is_part(op):
        return x, ((0,) * x.type.rank, x.type.shape)
    sizes, starts = op.attrs["sizes"], (0,) * op.result.type.rank
    while op is not None and _is_part(op):
        x = op.operands[0]
        starts = tuple(a + b for a, b in zip(starts, op.attrs["starts"], strict=True))
        op = x.producer
    return x, (starts, sizes)


def _is_part(op: Op) -> bool:
    return op.name == "slice" and all(step == 1 for step in op.attrs["steps"])


def _compute_once(ops: dict[Op, Box]) -> bool:
    """Do for the whole arrays what some ops do for parts, if that is less; says whether it is."""
    first = next(iter(ops))
    whole = [_part(x)[0] if isinstance(x, Value) else x for x in first.operands]
    base = next(x for x in whole if isinstance(x, Value))
    if sum(prod(sizes) for _, sizes in set(ops.values())) <= base.type.size:
        return False
    decided("rule: computed before slices")
    made = value(first.name, *whole, **first.attrs)
    insert_tree(made, first)
    for op, (starts, sizes) in ops.items():
        part = value("slice", made, starts=starts, sizes=sizes, steps=(1,) * len(starts))
        if part.type.shape != op.result.type.shape:
            part = value("reshape", part, shape=op.result.type.shape)
        insert_tree(part, op)
        part.name = op.result.name
        op.result.replace_all_uses(part)
        op.erase()
    return True
