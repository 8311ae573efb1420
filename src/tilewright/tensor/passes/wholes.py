"""Integers of 32 bits where NumPy computes in float64, which holds all of them: float32 does not beyond 2**24.

What is compared, added or subtracted is exact nonetheless: an integer is the sum of two float32 numbers, a multiple of
4096 and at most 2048 more or less. Where a float lies near the first one their difference is exact, and elsewhere its
rounding decides nothing. Other ops that make something else of the next number, as mod and sin do, are left to those
who run them: the conversions that they depend on have to be exact (`exact_casts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.dtypes import float32, float64
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.dense import Dense
from tilewright.tensor.build import make
from tilewright.tensor.intervals import Interval, interval_of
from tilewright.tensor.ops.elementwise import COMPARE
from tilewright.tensor.passes.decompose.term import Term, apply
from tilewright.tensor.passes.match import maker

LIMIT = 1 << 24
HELD = Interval(-LIMIT, LIMIT)
"""Integers that float32 holds."""
_LOW = 12
_MOVES = ("reshape", "transpose", "broadcast_to", "slice")
_SUMS = ("add", "subtract")
_KEPT = frozenset({"maximum", "minimum", "where", "max", "min", "abs", "negative", "floor", "ceil", "trunc", "rint"})
_SHOWN = frozenset({"mod", "fmod", "sin", "cos", "tan", "argmax", "argmin", "argsort", "searchsorted", "topk", "frexp"})
"""Ops that give something else for the next number."""

Parts = tuple[Term, Term | None]
"""Numbers as sums of two float32 ones; None for 0."""


class Wholes:
    """Writes ops for integers that are not rounded.    values: what stands for each value in the narrow graph."""

    def __init__(self, values: Mapping[Value, Value]) -> None:
        self.values = values
        self.ops: list[Op] = []

    def exact(self, op: Op) -> list[Op] | None:
        """Ops that make the result of a comparison, a sum or a difference, the last of them; None: it may stay."""
        if op.name not in (*COMPARE, *_SUMS) or not any(map(is_whole, op.operands)):
            return None
        self.ops = []
        compares = op.name in COMPARE
        # Rounding takes no large integer to a small number, nor past it.
        near = any(map(_is_small, op.operands))
        (high, low), (other, rest) = (self._parts(x, compares, not near) for x in op.operands)
        if compares and near:
            apply(op.name, high, other)
        elif near or (low is None and rest is None):
            return None
        elif compares:
            apply(op.name, high - other, _difference(rest, low))
        elif op.name == "subtract":
            _ = (high - other) + _difference(low, rest)
        else:
            _ = (high + other) + _difference(low, None if rest is None else -rest)
        return self.ops

    def _parts(self, x: Any, compares: bool, split: bool) -> Parts:
        """An operand in two parts.    compares: which numbers lie between two integers does not matter."""
        moves: list[Op] = []
        op = x.producer if isinstance(x, Value) else None
        while op is not None and op.name in _MOVES:
            moves.append(op)
            x = op.operands[0]
            op = x.producer
        high, low = self._unmoved(x, op, compares, split)
        for move in reversed(moves):
            high, low = self._moved(move, high), None if low is None else self._moved(move, low)
        return high, low

    def _unmoved(self, x: Any, op: Op | None, compares: bool, split: bool) -> Parts:
        numbers = _numbers(x)
        if numbers is not None:
            high, low = _number_parts(numbers, compares)
            return self._constant(high), self._constant(low) if low.any() else None
        if op is not None and split and is_whole(x) and not interval_of(op.operands[0]).is_inside(HELD):
            return self._integer(op.operands[0])
        return Term(self.values[x], self.ops), None

    def _moved(self, op: Op, part: Term) -> Term:
        return apply(op.name, part, **op.attrs)

    def _constant(self, array: np.ndarray) -> Term:
        if array.ndim:
            op = make("constant", value=Dense(array, float32))
        else:
            op = make("full", shape=(), dtype=float32, value=float(array))
        self.ops.append(op)
        return Term(op.result, self.ops)

    def _integer(self, x: Value) -> Parts:
        narrow, half = Term(self.values[x], self.ops), 1 << _LOW - 1
        high = ((narrow >> _LOW - 1) + 1) >> 1
        low = (narrow & (1 << _LOW) - 1) ^ half
        return high.to(float32) * float(1 << _LOW), low.to(float32) - float(half)


def _difference(x: Term | None, y: Term | None) -> Term:
    """x - y; one of them may be 0."""
    if x is None:
        assert y is not None
        return -y
    return x if y is None else x - y


def is_whole(x: Any) -> bool:
    """True for integers that were converted to float64, and moved perhaps."""
    op = x.producer if isinstance(x, Value) else None
    while op is not None and op.name in _MOVES:
        op = op.operands[0].producer
    return op is not None and _is_conversion(op)


def _is_conversion(op: Op) -> bool:
    return op.name == "cast" and op.operands[0].type.dtype.is_integer and op.result.type.dtype is float64


def _numbers(x: Any) -> np.ndarray | None:
    """A number or a constant, moved perhaps, as an array."""
    while (op := maker(x, *_MOVES)) is not None:
        x = op.operands[0]
    if not isinstance(x, Value):
        return np.asarray(float(x))
    op = maker(x, "constant")
    return None if op is None else op.attrs["value"].array


def _is_small(x: Any) -> bool:
    """True for numbers that float32 holds with a half to spare."""
    array = _numbers(x)
    return array is not None and bool((np.abs(array) < LIMIT / 2).all())


def _number_parts(array: np.ndarray, compares: bool) -> tuple[np.ndarray, np.ndarray]:
    """Numbers as sums of two float32 ones; what lies between two integers stands in the middle."""
    if compares:
        array = np.where(np.isfinite(array), np.clip(array, -(2.0**33), 2.0**33), array)
        array = np.where((array == np.floor(array)) | np.isnan(array), array, np.floor(array) + 0.5)
    with np.errstate(over="ignore", invalid="ignore"):
        high = array.astype(np.float32)
        rest = array - high
    return high, np.where(np.isfinite(rest), rest, 0).astype(np.float32)


def exact_casts(graph: Graph) -> set[Op]:
    """Conversions of integers to float64 that some op depends on to the last digit."""
    made_of: dict[Value, frozenset[Op]] = {}
    found: set[Op] = set()
    nothing: frozenset[Op] = frozenset()
    for op in graph.ops:
        given = nothing.union(*(made_of.get(x, nothing) for x in op.values()))
        if _is_conversion(op) and not interval_of(op.operands[0]).is_inside(HELD):
            given = frozenset({op})
        elif op.name in _SHOWN or (op.name == "cast" and op.result.type.dtype.is_integer):
            found |= given
        elif op.name in COMPARE:
            found |= nothing.union(*(made_of.get(x, nothing) for x in op.values() if not is_whole(x)))
        if op.name in _KEPT or op.definition.family in ("shape", "index", "sort") or op in given:
            made_of.update(dict.fromkeys(op.results, given))
    return found
