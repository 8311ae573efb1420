"""Arrays of one number, and of none."""

from __future__ import annotations

import numpy as np

import tilewright.tensor.ops  # noqa: F401  (fills the table)
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import make
from tilewright.tensor.passes.match import as_scalar, compute, number
from tilewright.tensor.record import TABLE

_ELEMENTWISE = tuple(r.name for r in TABLE.values() if r.family == "elementwise" and r.name != "frexp")
_MOVES = ("reshape", "transpose", "broadcast_to", "slice")


@rule("constant")
def uniform_constant(op: Op) -> Op | None:
    """constant([c, c, ...]) -> full(c)"""
    array, dtype = op.attrs["value"].array, op.attrs["value"].dtype
    if not array.size or not _is_uniform(array):
        return None
    return make("full", shape=array.shape, dtype=dtype, value=as_scalar(array.ravel()[:1]))


def _is_uniform(array: np.ndarray) -> bool:
    flat = array.reshape(-1)
    # Bit patterns: a NaN is like itself, and zeros differ by their sign.
    bits = flat.view(f"u{flat.dtype.itemsize}")
    return bits[0] == bits[-1] and bool((bits == bits[0]).all())


_EVERY = tuple(r.name for r in TABLE.values() if r.family != "collective" and not r.has_side_effects)


@rule(*_EVERY)
def nothing_to_compute(op: Op) -> Op | None:
    """f(...) -> full        where the result has no elements"""
    if len(op.results) != 1 or op.name == "full" or op.result.type.size:
        return None
    return make("full", shape=op.result.type.shape, dtype=op.result.type.dtype, value=0)


_OF_NOTHING = {"sum": 0, "prod": 1, "any": False, "all": True, "matmul": 0}


@rule("pad", *_OF_NOTHING)
def made_of_nothing(op: Op) -> Op | None:
    """sum(x) -> full(0), pad(x, c) -> full(c), x @ y -> full(0), ...        where the operands have no elements"""
    type = op.result.type
    if not type.size or any(x.type.size for x in op.values()):
        return None
    found = op.attrs["value"] if op.name == "pad" else _OF_NOTHING[op.name]
    return make("full", shape=type.shape, dtype=type.dtype, value=float(found) if type.dtype.is_float else found)


@rule(*_ELEMENTWISE)
def fold_numbers(op: Op) -> Op | None:
    """f(full(a), full(b)) -> full(f(a, b))"""
    numbers = [number(x) for x in op.operands]
    if any(x is None for x in numbers):
        return None
    type = op.result.type
    if op.name == "where":
        condition, x, y = numbers
        return make("full", shape=type.shape, dtype=type.dtype, value=x if condition else y)
    dtype = next(x.type.dtype for x in reversed(op.operands) if isinstance(x, Value))
    found = compute(op.name, dtype, *numbers, **op.attrs)  # type: ignore[arg-type]
    return make("full", shape=type.shape, dtype=type.dtype, value=found)


@rule(*_MOVES)
def move_number(op: Op) -> Op | None:
    """move(full(c)) -> full(c)        for reshape, transpose, broadcast_to, slice"""
    found = number(op.operands[0])
    type = op.result.type
    return None if found is None else make("full", shape=type.shape, dtype=type.dtype, value=found)


@rule("max", "min", "any", "all")
def reduce_number(op: Op) -> Op | None:
    """max(full(c)) -> full(c)        for max and min, and for any and all of bool"""
    found, x, type = number(op.operands[0]), op.operands[0], op.result.type
    if found is None or not x.type.size or (op.name in ("any", "all") and not isinstance(found, bool)):
        return None
    return make("full", shape=type.shape, dtype=type.dtype, value=found)
