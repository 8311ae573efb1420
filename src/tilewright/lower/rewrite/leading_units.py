"""Leading dims of one element, as `x[None]` and `np.stack` make them, are left out of what is computed element by
element: who reads its neighbours in other dims finds all of it in one shape."""

from __future__ import annotations

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.rewrite import rewrite
from tilewright.lower.decisions import decided
from tilewright.tensor.build import insert_tree, read_instead, value
from tilewright.tensor.passes.simplify.views import reshape_of_reshape, reshape_to_itself


def drop_leading_units(graph: Graph) -> bool:
    """Compute without leading dims of one element; says whether there were any."""
    found = [op for op in graph.ops if _has_leading_unit(op)]
    for op in found:
        decided("rule: no leading unit dims")
        made = value(op.name, *(_without(x) if isinstance(x, Value) else x for x in op.operands), **op.attrs)
        insert_tree(made, op)
        read_instead(op.result, made, op)
    rewrite(graph, (reshape_of_reshape, reshape_to_itself))
    return bool(found)


def _has_leading_unit(op: Op) -> bool:
    if op.definition.family != "elementwise" or len(op.results) != 1 or op.result.type.rank < 3:
        return False
    return op.result.type.shape[0] == 1 and op.result.type.size > 1


def _without(x: Value) -> Value:
    """A value without leading dims of one element: what a reshape put them before, if that is all it did."""
    shape = x.type.shape
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    op = x.producer
    while op is not None and op.name == "reshape" and op.operands[0].type.shape == shape:
        (x,) = op.operands
        op = x.producer
    return x if x.type.shape == shape else value("reshape", x, shape=shape)
