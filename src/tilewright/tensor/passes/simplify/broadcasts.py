"""Broadcasts that an elementwise op or a product does anyway."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import maker
from tilewright.tensor.passes.simplify.views import ELEMENTWISE


@rule("broadcast_to")
def broadcast_to_itself(op: Op) -> Any:
    """broadcast_to(x, its own shape) -> x"""
    (x,) = op.operands
    return x if x.type.shape == op.attrs["shape"] else None


@rule("broadcast_to")
def broadcast_of_broadcast(op: Op) -> Any:
    """broadcast_to(broadcast_to(x, a), b) -> broadcast_to(x, b)"""
    inner = maker(op.operands[0], "broadcast_to")
    return None if inner is None else value("broadcast_to", inner.operands[0], shape=op.attrs["shape"])


@rule("broadcast_to")
def broadcast_with_ones(op: Op) -> Any:
    """broadcast_to(reshape(x, (1, .., x.shape)), s) -> broadcast_to(x, s)"""
    x = op.operands[0]
    short = without_leading_ones(x)
    return None if short is x else value("broadcast_to", short, shape=op.attrs["shape"])


def without_leading_ones(x: Value) -> Value:
    """What a reshape only put dims of size 1 in front of."""
    inner = maker(x, "reshape")
    if inner is None:
        return x
    source, shape = inner.operands[0], x.type.shape
    own = source.type.shape
    extra = len(shape) - len(own)
    return source if extra > 0 and shape[extra:] == own and set(shape[:extra]) == {1} else x


@rule(*ELEMENTWISE)
def sink_broadcast(op: Op) -> Any:
    """f(broadcast_to(x), y) -> f(x, y)        where the shapes still give the result, or all was broadcast"""
    arrays = [x for x in op.operands if isinstance(x, Value)]
    plain = {x: _before(x) for x in arrays}
    if len(op.results) != 1 or all(x is y for x, y in plain.items()):
        return None
    shape = op.result.type.shape
    found = np.broadcast_shapes(*(x.type.shape for x in plain.values()))
    if found != shape and prod(found) == prod(shape):
        return _sink_some(op, plain)
    operands = [plain[x] if isinstance(x, Value) else x for x in op.operands]
    out = value(op.name, *operands, **op.attrs)
    return out if found == shape else value("broadcast_to", out, shape=shape)


def _before(x: Value) -> Value:
    inner = maker(x, "broadcast_to")
    return inner.operands[0] if inner is not None else without_leading_ones(x)


def _sink_some(op: Op, plain: dict[Value, Value]) -> Any:
    """One operand at a time: another's broadcast may be the one that is needed."""
    for index, x in enumerate(op.operands):
        if not isinstance(x, Value) or plain[x] is x:
            continue
        rest = [y.type.shape for i, y in enumerate(op.operands) if i != index and isinstance(y, Value)]
        if np.broadcast_shapes(plain[x].type.shape, *rest) == op.result.type.shape:
            operands = [plain[x] if i == index else y for i, y in enumerate(op.operands)]
            return value(op.name, *operands, **op.attrs)
    return None


@rule("matmul")
def sink_batch(op: Op) -> Any:
    """broadcast_to(x) @ y -> x @ y        where batch dims still give the same result"""
    for index, x in enumerate(op.operands):
        inner = maker(x, "broadcast_to")
        if inner is None or inner.operands[0].type.rank < 2:
            continue
        small = inner.operands[0]
        if small.type.shape[-2:] != x.type.shape[-2:]:
            continue
        operands = [small if i == index else y for i, y in enumerate(op.operands)]
        found = value("matmul", *operands)
        if found.type == op.result.type:
            return found
    return None


_ELEMENTWISE = frozenset(ELEMENTWISE)
_DEEPEST = 16
"""So many elementwise ops in a row are looked through."""


@rule("transpose")
def transpose_before_broadcast(op: Op) -> Any:
    """transpose(f(x, y), p) -> f(transpose(x, p), transpose(y, p))        where x and y have fewer elements together

    f may be several elementwise ops that nothing else reads.
    """
    x, perm = op.operands[0], op.attrs["perm"]
    leaves: list[Value] = []
    if not _leaves(x, x.type.shape, leaves, _DEEPEST) or leaves == [x]:
        return None
    if 2 * sum(leaf.type.size for leaf in set(leaves)) > x.type.size:
        return None
    return _permuted(x, x.type.shape, perm)


def _is_inner(x: Value, shape: tuple[int, ...]) -> bool:
    """Whether a value of the whole shape is computed element by element for one reader."""
    made = x.producer
    alone = made is not None and made.name in _ELEMENTWISE and len(made.results) == 1 and len(x.uses) == 1
    return alone and x.type.shape == shape


def _leaves(x: Value, shape: tuple[int, ...], found: list[Value], depth: int) -> bool:
    """What elementwise ops of a shape, one after the other, begin with; False where they are too many."""
    if not _is_inner(x, shape):
        found.append(x)
        return True
    assert x.producer is not None
    return depth > 0 and all(_leaves(y, shape, found, depth - 1) for y in x.producer.values())


def _permuted(x: Value, shape: tuple[int, ...], perm: tuple[int, ...]) -> Value:
    """The same with dims of the shape in another order, made of the leaves in that order."""
    if _is_inner(x, shape):
        made = x.producer
        assert made is not None
        operands = [_permuted(y, shape, perm) if isinstance(y, Value) else y for y in made.operands]
        return value(made.name, *operands, **made.attrs)
    missing = len(shape) - x.type.rank
    lined_up = x if not missing else value("reshape", x, shape=(1,) * missing + x.type.shape)
    return value("transpose", lined_up, perm=perm)
