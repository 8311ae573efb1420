"""Dims of one element, as `x[None]`, `np.stack` and columns that are compared make them, are left out of what is
computed element by element: who reads its neighbours in other dims finds all of it in one shape."""

from __future__ import annotations

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.rewrite import rewrite
from tilewright.lower.decisions import decided
from tilewright.tensor.build import insert_tree, read_instead, value
from tilewright.tensor.passes.simplify.views import reshape_of_reshape, reshape_to_itself


def drop_units(graph: Graph) -> bool:
    """Compute without dims of one element; says whether there were any."""
    found = [op for op in graph.ops if _has_units(op)]
    for op in found:
        decided("rule: no unit dims")
        shape = op.result.type.shape
        units = [d - len(shape) for d, n in enumerate(shape) if n == 1]
        made = value(op.name, *(_without(x, units) if isinstance(x, Value) else x for x in op.operands), **op.attrs)
        insert_tree(made, op)
        read_instead(op.result, made, op)
    rewrite(graph, (reshape_of_reshape, reshape_to_itself))
    return bool(found)


def _has_units(op: Op) -> bool:
    if op.definition.family != "elementwise" or len(op.results) != 1:
        return False
    shape = op.result.type.shape
    return 1 in shape and sum(n != 1 for n in shape) >= 2


def _without(x: Value, units: list[int]) -> Value:
    """A value without some dims of one element, counted from the last: what a reshape put them into, if it did no
    more."""
    rank = x.type.rank
    shape = tuple(n for d, n in enumerate(x.type.shape) if d - rank not in units)
    op = x.producer
    while op is not None and op.name == "reshape" and op.operands[0].type.shape == shape:
        (x,) = op.operands
        op = x.producer
    return x if x.type.shape == shape else value("reshape", x, shape=shape)
