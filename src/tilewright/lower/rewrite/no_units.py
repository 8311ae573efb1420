"""Dims of one element, as `x[None]`, `np.stack`, a batch of one and columns that are compared make them, are left out
of what is computed element by element or moved: who reads its neighbours in other dims finds all of it in one shape."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.rewrite import rewrite
from tilewright.lower.decisions import decided
from tilewright.tensor.build import insert_tree, read_instead, value
from tilewright.tensor.passes.simplify.shared import share
from tilewright.tensor.passes.simplify.views import reshape_of_reshape, reshape_to_itself

MOVING: dict[str, tuple[str, ...]] = {
    "slice": ("starts", "sizes", "steps"),
    "pad": ("low", "high"),
    "update_slice": ("starts", "steps"),
    "concatenate": (),
}
"""Ops that move elements, with their attributes that have a number for each dim."""


def drop_units(graph: Graph) -> bool:
    """Compute without dims of one element; says whether there were any."""
    found = [op for op in graph.ops if _units(op)]
    for op in found:
        decided("rule: no unit dims")
        units = _units(op)
        operands = (_without(x, units) if isinstance(x, Value) else x for x in op.operands)
        made = value(op.name, *operands, **_attrs(op, units))
        insert_tree(made, op)
        read_instead(op.result, made, op)
    rewrite(graph, (reshape_of_reshape, reshape_to_itself))
    share(graph)
    return bool(found)


def _units(op: Op) -> list[int]:
    """The dims of one element that an op can do without, counted from the last."""
    if len(op.results) != 1 or not (op.definition.family == "elementwise" or op.name in MOVING):
        return []
    shape = op.result.type.shape
    units = [d - len(shape) for d, n in enumerate(shape) if n == 1]
    if op.name in MOVING:
        # A part of one element is no such dim.
        units = [d for d in units if all(x.type.shape[d] == 1 for x in op.values())]
        units = [d for d in units if op.name != "concatenate" or d != op.attrs["axis"] - len(shape)]
        return units if len(shape) - len(units) >= 2 else []
    return units if sum(n != 1 for n in shape) >= 2 else []


def _attrs(op: Op, units: list[int]) -> dict[str, Any]:
    """The attributes of an op without some dims."""
    rank, attrs = op.result.type.rank, dict(op.attrs)
    for name in MOVING.get(op.name, ()):
        attrs[name] = tuple(each for d, each in enumerate(attrs[name]) if d - rank not in units)
    if op.name == "concatenate":
        attrs["axis"] -= sum(rank + d < attrs["axis"] for d in units)
    return attrs


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
