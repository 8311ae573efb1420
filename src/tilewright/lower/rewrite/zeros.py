"""Where the sign of a zero shows: what may be -0.0 and is read by an op that tells it from 0.0.

A product with ones, which is how the Tensor engine brings numbers to other partitions, makes 0.0 of -0.0. Almost no
program can tell: two zeros are equal. But one divided by them is not, nor are their bits. Sums and products of matrices
have zeros of either sign in NumPy itself, as their terms are grouped.
"""

from __future__ import annotations

from math import copysign
from typing import Any

from tilewright.ir.core import Graph, Op, Value
from tilewright.tensor.ranges import DEPTH, Depth, range_of

SUMS = frozenset({"sum", "matmul", "matmul_wide", "matmul_split", "conv", "combine_rows"})
POSITIVE = frozenset({"abs", "exp", "square", "sigmoid", "relu"})
"""Ops whose zeros are positive, whatever the signs of their operands'."""
TELLS = frozenset({"reciprocal", "rsqrt", "bitcast"})
SAME_OF_BOTH = frozenset({"log", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
"""Ops that give the same for zeros of either sign; those of `POSITIVE` do too."""


def shown_signs(program: Graph) -> frozenset[Value]:
    """The values of which some zero may be negative and some op tells."""
    told = told_signs(program)
    negative = {x for x in program.inputs if x.type.dtype.is_float}
    depth = Depth(DEPTH, {})
    for op in program.ops:
        if _may_be_negative(op, negative, depth):
            negative.update(x for x in op.results if x.type.dtype.is_float)
    return frozenset(told & negative)


def told_signs(program: Graph) -> set[Value]:
    """The values of which some op tells the signs of zeros."""
    told: set[Value] = set()
    for op in reversed(program.ops):
        told.update(x for i, x in enumerate(op.operands) if isinstance(x, Value) and _tells(op, i, told))
    return told


def _tells(op: Op, place: int, told: set[Value]) -> bool:
    """Whether the sign of a zero of an operand makes a difference."""
    x = op.operands[place]
    if not x.type.dtype.is_float or op.name in SUMS or op.name in POSITIVE or op.name in SAME_OF_BOTH:
        return False
    if op.name in TELLS or (op.name == "divide" and place == 1):
        return True
    if op.name in ("add", "subtract") and any(not _is_zero(y) for y in op.operands):
        return False
    return any(result in told for result in op.results)


def _may_be_negative(op: Op, negative: set[Value], depth: Depth) -> bool:
    """Whether a zero of a result may be negative."""
    if op.name in SUMS or op.name in POSITIVE or (op.name == "multiply" and op.operands[0] is op.operands[1]):
        return False
    if op.name == "cast" and not op.operands[0].type.dtype.is_float:
        return False
    if not op.operands or op.name == "bitcast":
        return True
    if len(op.results) == 1 and range_of(op.result, depth).low > 0:
        return False
    signs = [_is_negative(x, negative) for x in op.operands]
    if op.name == "add":
        return all(signs)
    if op.name == "subtract":
        # Of a negative and a positive zero.
        return signs[0] and _is_zero(op.operands[1])
    if op.name in ("multiply", "divide") and all(isinstance(x, Value) for x in op.operands):
        return any(signs) or any(range_of(x, depth).low < 0 for x in op.operands)
    return any(signs)


def _is_negative(x: Any, negative: set[Value]) -> bool:
    return x in negative if isinstance(x, Value) else copysign(1.0, x) < 0


def _is_zero(x: Any) -> bool:
    """Whether it may be a zero."""
    return isinstance(x, Value) or x == 0
