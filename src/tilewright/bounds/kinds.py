"""How narrow the numbers of a value are, whatever its element type: what decides in which form they can be multiplied.

A cast that loses nothing, a choice or a move leaves numbers as narrow as they were.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from tilewright.dtypes import bfloat16, bool_, float16, tfloat32
from tilewright.ir.core import Op, Value
from tilewright.tensor.intervals import STEPS, Interval, interval_of
from tilewright.tensor.record import TABLE

BIT, BYTE, HALF, LONG, WIDE = range(5)
"""0 and 1; floats of 8 bits; what a float of 16 bits holds; integers beyond that; anything else."""

_KEEP = frozenset(
    {"abs", "negative", "relu", "maximum", "minimum", "where", "max", "min", "sort", "topk", "take", "take_along_axis"}
)
_EXACT_UP_TO = 2 ** (np.finfo(np.float16).nmant + 1)
"""Integers that a float of 16 bits holds, all of them up to this one."""
_STEPS = 4 * STEPS
"""Ops that are looked through for the interval of integers: more than any lowering does."""


class Kinds:
    """The kind of every value that is asked for."""

    def __init__(self) -> None:
        self._known: dict[Value, int] = {}
        self._intervals: dict[tuple[Value, int], Interval] = {}

    def of(self, x: Any) -> int:
        """The kind of an operand."""
        if not isinstance(x, Value):
            return _kind_of_array(np.asarray(x))
        waiting = [x]
        while waiting:
            value = waiting[-1]
            if value in self._known:
                waiting.pop()
                continue
            asked = [v for v in self._followed(value) if v not in self._known]
            if asked:
                waiting += asked
            else:
                self._known[value] = self._found(value)
        return self._known[x]

    def _followed(self, value: Value) -> list[Value]:
        """Values that decide of what kind this one is."""
        op = value.producer
        if op is None or (op.name not in _KEEP and op.name != "cast" and TABLE[op.name].family != "shape"):
            return []
        if op.name in ("where", "take", "take_along_axis", "topk"):
            return [x for x in (op.operands[1:] if op.name == "where" else op.operands[:1]) if isinstance(x, Value)]
        return op.values()

    def _found(self, value: Value) -> int:
        own, op = self._of_type(value), value.producer
        if op is None:
            return own
        if TABLE[op.name].family == "creation":
            return min(own, _kind_created(op))
        followed = self._followed(value)
        if not followed or (op.name == "topk" and value is not op.results[0]):
            return own
        numbers = [_kind_of_array(np.asarray(x)) for x in op.operands if not isinstance(x, Value)]
        if op.name == "pad":
            numbers.append(_kind_of_array(np.asarray(op.attrs["value"])))
        return min(own, reduce(max, [*numbers, *(self._known[v] for v in followed)]))

    def _of_type(self, value: Value) -> int:
        dtype = value.type.dtype
        if dtype is bool_:
            return BIT
        if dtype.is_integer:
            interval = interval_of(value, _STEPS, self._intervals)
            return HALF if max(-interval.low, interval.high) <= _EXACT_UP_TO else LONG
        return WIDE if dtype.itemsize >= 4 and dtype is not tfloat32 else BYTE if dtype.itemsize == 1 else HALF


def _kind_created(op: Op) -> int:
    if op.name == "constant":
        return _kind_of_array(op.attrs["value"].array)
    if op.name == "band":
        return _kind_of_array(np.asarray([op.attrs["inside"], op.attrs["outside"]], np.float64))
    if op.name == "full":
        return _kind_of_array(np.asarray(op.attrs["value"]))
    last = op.attrs["start"] + op.attrs["step"] * max(op.attrs["shape"][op.attrs["axis"]] - 1, 0)
    whole = float(op.attrs["start"]).is_integer() and float(op.attrs["step"]).is_integer()
    return HALF if whole and max(abs(op.attrs["start"]), abs(last)) <= _EXACT_UP_TO else WIDE


def _kind_of_array(array: np.ndarray) -> int:
    """The kind of numbers that are known."""
    if array.dtype == np.bool_ or bool(((array == 0) | (array == 1)).all()):
        return BIT
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        for narrow in (bfloat16, float16):
            if np.array_equal(wide.astype(narrow.np).astype(np.float64), wide, equal_nan=True):
                return HALF
    return LONG if array.dtype.kind in "iu" else WIDE
