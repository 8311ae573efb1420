"""Long arrays whose numbers are added up by places: in lines, so that what is computed of each number stays on chip.

A sum by places takes its numbers in any order. What leads to it is computed on [lines, length] instead: a group of
ordinary rows, whose results lie on partitions as the sum takes them.
"""

from __future__ import annotations

from math import prod

from tilewright.ir.core import Graph, Value
from tilewright.ir.walk import eliminate_dead_code, sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.regions.checks import CHECKS, counts, looks_up
from tilewright.lower.regions.even import longest_line
from tilewright.lower.rewrite.long_axes import Lines
from tilewright.target import Target
from tilewright.tensor.build import insert_tree, value


def count_in_lines(graph: Graph, target: Target) -> None:
    """combine_rows(x, i, part) -> combine_rows(x, lines(i), lines(part))            of many numbers that are computed

    combine_rows(x, reshape(i), part) -> combine_rows(x, i, reshape(part))            of such that have lines
    """
    changed = False
    for op in list(graph.ops):
        if op.name != "combine_rows" or not counts(op, target) or op.operands[1].type.rank != 1:
            continue
        x, index, part = op.operands
        counted = x.type
        # Rows of one number each are numbers.
        x, part = (_in_shape(v, shape) for v, shape in ((x, counted.shape[:1]), (part, index.type.shape)))
        places = _before_reshape(index)
        length = _length(index, part, target)
        if places is not None and prod(places.type.shape[:-1]) > 1:
            data = _in_shape(part, places.type.shape)
        elif length is not None:
            lines = Lines(index.type.shape, length)
            places, data = lines.value(index), lines.value(part)
            lines.replace(op)
        else:
            continue
        decided("rule: places in lines")
        known = part.producer
        if known is not None and known.name == "full":
            data = value("full", **{**known.attrs, "shape": places.type.shape})
        made = _in_shape(value("combine_rows", x, places, data, **op.attrs), counted.shape)
        insert_tree(made, op)
        op.result.replace_all_uses(made)
        changed = True
    if changed:
        sort_topologically(graph.body)
        eliminate_dead_code(graph)


def _before_reshape(index: Value) -> Value | None:
    """Places that are computed, perhaps checked, before they were reshaped to a line; None for others."""
    op = index.producer
    if op is None:
        return None
    if op.name in CHECKS:
        inner = _before_reshape(op.operands[0])
        return None if inner is None else value(op.name, inner, **op.attrs)
    if op.name != "reshape" or op.operands[0].type.rank < 2 or not _is_computed(op.operands[0]):
        return None
    return op.operands[0]


def _in_shape(x: Value, shape: tuple[int, ...]) -> Value:
    """A value in another shape, or what it was reshaped from if that has it."""
    if x.type.shape == shape:
        return x
    op = x.producer
    if op is not None and op.name == "reshape" and op.operands[0].type.shape == shape:
        return op.operands[0]
    return value("reshape", x, shape=shape)


def _length(index: Value, part: Value, target: Target) -> int | None:
    """How long the lines are in which numbers are computed before they are added up by places."""
    if not (_is_computed(index) or _is_computed(part)):
        return None
    lanes = target["limits.partitions"]
    length = longest_line(index.type.size, lanes)
    return length if length is not None and index.type.size // length % lanes == 0 else None


def _is_computed(x: Value) -> bool:
    """True for what is made element by element, or looked up, perhaps checked."""
    op = x.producer
    while op is not None and op.name in CHECKS:
        op = op.operands[0].producer
    return op is not None and (op.definition.family == "elementwise" or (op.name == "take" and looks_up(op)))
