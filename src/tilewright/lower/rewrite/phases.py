"""Slices of every other element, as parts of a dim of their own.

    x[0::2] + x[1::2]

are rows of which each has two elements side by side, and two slices of these. Steps of two thus leave the rows of a
group as they are: whoever makes x and whoever reads the slices have the same.
"""

from __future__ import annotations

from tilewright.ir.core import Graph, Op
from tilewright.lower.decisions import decided
from tilewright.tensor.build import insert_tree, value


def slice_phases(graph: Graph) -> bool:
    """Give the elements between those that a slice takes a dim of their own; says whether there were any."""
    found = [
        op for op in graph.ops if op.name == "slice" and any(_has_phases(op, d) for d in range(op.result.type.rank))
    ]
    for op in found:
        decided("rule: slices of every other element")
        _slice_phase(op)
    return bool(found)


def _has_phases(op: Op, d: int) -> bool:
    """True for a dim of which a slice takes every second, third, ... element, and that has as many of all of them."""
    step, size = op.attrs["steps"][d], op.operands[0].type.shape[d]
    return step > 1 and size % step == 0 and op.attrs["sizes"][d] > 1


def _slice_phase(op: Op) -> None:
    (x,) = op.operands
    shape: list[int] = []
    parts: list[tuple[int, int, int]] = []
    for d, part in enumerate(zip(op.attrs["starts"], op.attrs["sizes"], op.attrs["steps"], strict=True)):
        start, size, step = part
        if _has_phases(op, d):
            shape += [x.type.shape[d] // step, step]
            parts += [(start // step, size, 1), (start % step, 1, 1)]
        else:
            shape.append(x.type.shape[d])
            parts.append(part)
    starts, sizes, steps = (tuple(each) for each in zip(*parts, strict=True))
    phases = value("slice", value("reshape", x, shape=tuple(shape)), starts=starts, sizes=sizes, steps=steps)
    made = value("reshape", phases, shape=op.result.type.shape)
    insert_tree(made, op)
    op.result.replace_all_uses(made)
    op.erase()
