"""Reductions over nothing, of reductions, and with dims kept."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.ops.reduction import reduced_shape
from tilewright.tensor.passes.match import maker, reduces_leading, used_once

REDUCTIONS = ("sum", "prod", "max", "min", "any", "all")


@rule(*REDUCTIONS)
def reduce_single(op: Op) -> Any:
    """sum(x, axes) -> reshape(x)        where the axes have size 1; of any and all where x is bool"""
    (x,) = op.operands
    if any(x.type.shape[a] != 1 for a in op.attrs["axes"]):
        return None
    if op.name in ("any", "all") and x.type.dtype != "bool":
        return None
    # Whether a sum starts from 0, which makes -0.0 positive, or from its first element is not settled in NumPy.
    return value("reshape", x, shape=op.result.type.shape)


@rule("max", "min", "any", "all")
def reduce_of_reduce(op: Op) -> Any:
    """max(max(x, a), b) -> max(x, a and b)        also min, any, all: a sum would be rounded in another order"""
    inner = maker(op.operands[0], op.name)
    if inner is None or not used_once(inner.result):
        return None
    x = inner.operands[0]
    first = inner.attrs["axes"]
    left = range(x.type.rank) if inner.attrs["keepdims"] else [a for a in range(x.type.rank) if a not in first]
    axes = tuple(sorted({*first, *(left[a] for a in op.attrs["axes"])}))
    keepdims = op.attrs["keepdims"]
    found = value(op.name, x, axes=axes, keepdims=keepdims)
    return found if found.type == op.result.type else value("reshape", found, shape=op.result.type.shape)


@rule("reshape")
def keep_dims(op: Op) -> Any:
    """reshape(f(sum(x, axes))) -> f(sum(x, axes, keepdims))        where that is the shape; f are elementwise ops of
    one array, and nothing else uses what is between
    """
    between: list[Op] = []
    at = op.operands[0]
    while used_once(at) and at.producer is not None and at.producer.definition.family == "elementwise":
        arrays = [x for x in at.producer.operands if isinstance(x, Value)]
        if len(arrays) != 1 or len(at.producer.results) != 1:
            return None
        between.append(at.producer)
        at = arrays[0]
    inner = maker(at, *REDUCTIONS)
    if inner is None or inner.attrs["keepdims"] or not used_once(at):
        return None
    x, axes = inner.operands[0], inner.attrs["axes"]
    if op.attrs["shape"] != reduced_shape(x.type.shape, axes, True) or reduces_leading(inner):
        return None
    found = value(inner.name, x, axes=axes, keepdims=True)
    for each in reversed(between):
        found = value(each.name, *(found if isinstance(y, Value) else y for y in each.operands), **each.attrs)
    return found


@rule(*REDUCTIONS)
def drop_leading_dims(op: Op) -> Any:
    """sum(x, (0, 1), keepdims) -> reshape(sum(x, (0, 1)))        elementwise ops need no leading dims of size 1"""
    if not op.attrs["keepdims"] or not op.attrs["axes"] or not reduces_leading(op):
        return None
    found = value(op.name, *op.operands, axes=op.attrs["axes"], keepdims=False)
    return value("reshape", found, shape=op.result.type.shape)


@rule("max", "min", "any", "all")
def reduce_of_transpose(op: Op) -> Any:
    """max(transpose(x, p), axes) -> transpose(max(x, p[axes]))        also min, any, all"""
    inner = maker(op.operands[0], "transpose")
    if inner is None or not used_once(inner.result):
        return None
    x, perm = inner.operands[0], inner.attrs["perm"]
    axes = tuple(sorted(perm[a] for a in op.attrs["axes"]))
    if op.attrs["keepdims"]:
        return value("transpose", value(op.name, x, axes=axes, keepdims=True), perm=perm)
    kept = [a for a in range(len(perm)) if a not in axes]
    order = tuple(kept.index(perm[a]) for a in range(len(perm)) if perm[a] not in axes)
    return value("transpose", value(op.name, x, axes=axes, keepdims=False), perm=order)
