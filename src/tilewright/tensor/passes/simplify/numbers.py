"""Numbers as operands: arrays of one number become Python numbers, written in one way and standing last."""

from __future__ import annotations

import numpy as np

import tilewright.tensor.ops  # noqa: F401  (fills the table)
from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import make
from tilewright.tensor.passes.match import in_dtype, number
from tilewright.tensor.record import TABLE
from tilewright.tensor.types import Scalar

COMMUTATIVE = (
    *("add", "multiply", "maximum", "minimum", "equal", "not_equal"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
)
"""Ops whose two operands may change places."""

MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
"""The comparison that holds with the operands in the other order."""

_SEVERAL = tuple(r.name for r in TABLE.values() if r.family == "elementwise" and len(r.operands) > 1)


@rule(*_SEVERAL)
def number_as_operand(op: Op) -> Op | None:
    """f(x, full(c)) -> f(x, c)        where the shape of the result stays"""
    first = 1 if op.name == "where" else 0  # a condition is no number
    arrays = [i for i in range(first, len(op.operands)) if isinstance(op.operands[i], Value)]
    if len(arrays) < 2:
        return None
    for index in reversed(arrays):
        found = number(op.operands[index])
        if found is not None and _shape_without(op, index) == op.results[0].type.shape:
            op.replace_operand(index, found)
            return op
    return None


def _shape_without(op: Op, index: int) -> tuple[int, ...]:
    shapes = {x.type.shape for i, x in enumerate(op.operands) if i != index and isinstance(x, Value)}
    return next(iter(shapes)) if len(shapes) == 1 else np.broadcast_shapes(*shapes)


@rule(*_SEVERAL)
def number_in_its_type(op: Op) -> Op | None:
    """f(x, c) -> f(x, c')        c' being c as the element type of x holds it: a bool, an int or a float"""
    for index, x in enumerate(op.operands):
        if isinstance(x, Value):
            continue
        # The last array decides, as it does when the op runs.
        dtype = next(y.type.dtype for y in reversed(op.operands) if isinstance(y, Value))
        plain: Scalar = float(x) if dtype.is_float and dtype.itemsize >= float32.itemsize else in_dtype(x, dtype)
        if plain.__class__ is not x.__class__ or (plain != x and x == x):
            op.replace_operand(index, plain)
            return op
    return None


@rule(*COMMUTATIVE, *MIRRORED)
def number_last(op: Op) -> Op | None:
    """f(c, x) -> f(x, c), c < x -> x > c"""
    x, y = op.operands
    if isinstance(x, Value) or not isinstance(y, Value):
        return None
    return make(MIRRORED.get(op.name, op.name), y, x)
