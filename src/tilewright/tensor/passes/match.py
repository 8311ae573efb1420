"""What rules ask about values: who makes them, whether all their elements are one number, who else reads them."""

from __future__ import annotations

from math import copysign, nan
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.ir.core import Op, Value
from tilewright.tensor.record import TABLE
from tilewright.tensor.types import Scalar


def maker(x: Any, *names: str) -> Op | None:
    """The op that makes x, if it is one of these."""
    op = x.producer if isinstance(x, Value) else None
    return op if op is not None and op.definition.name in names else None


def number(x: Any) -> Scalar | None:
    """The number that x is, or that every element of x is; None where that is not known."""
    if not isinstance(x, Value):
        return x
    op = x.producer
    if op is None:
        return None
    if op.definition.name == "full":
        return op.attrs["value"]
    if op.definition.name == "constant" and op.attrs["value"].array.size == 1:
        return as_scalar(op.attrs["value"].array)
    return None


def is_number(x: Any, wanted: float) -> bool:
    """Whether x is this number everywhere; 0 stands for both zeros."""
    found = number(x)
    return found is not None and found == wanted


def as_scalar(array: np.ndarray) -> Scalar:
    """An array of one element as a Python number."""
    found = array.reshape(()).item()
    if isinstance(found, (bool, int)):
        return found
    return float(found) if found == found else nan  # one NaN, whatever its bits


def in_dtype(x: Scalar, dtype: DType) -> Scalar:
    """What a Python number is in an element type."""
    return as_scalar(np.asarray(x).astype(dtype.np))


def compute(name: str, dtype: DType, /, *numbers: Scalar, **attrs: Any) -> Scalar:
    """An elementwise op on numbers, with the rounding of an element type."""
    with np.errstate(all="ignore"):
        return as_scalar(np.asarray(TABLE[name].meaning(*(np.asarray(x).astype(dtype.np) for x in numbers), **attrs)))


_ALWAYS_POSITIVE = ("exp", "square", "sigmoid", "abs")
_KEEP_SIGNS = ("sum", "max", "min", "sqrt", "cast", "reshape", "transpose", "broadcast_to", "slice", "concatenate")
_COMBINE_SIGNS = ("add", "multiply", "divide", "minimum")


def is_never_negative(x: Any, depth: int = 12) -> bool:
    """Whether no element can be below zero, nor -0.0; elements may be NaN."""
    known = number(x)
    if known is not None:
        return known > 0 or (known == 0 and copysign(1, known) > 0)
    if x.producer is None or not depth:
        return not x.type.dtype.is_float and x.type.dtype.kind != "i"
    name, operands = x.producer.name, x.producer.operands
    if name == "maximum":
        return any((number(y) or 0) > 0 for y in operands)
    if name in (*_KEEP_SIGNS, *_COMBINE_SIGNS):
        return all(is_never_negative(y, depth - 1) for y in operands)
    return name in _ALWAYS_POSITIVE


def used_once(x: Value) -> bool:
    """Whether a single op reads x, once."""
    return len(x.uses) == 1


def two_ways(op: Op) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The operands of a commutative op in both orders."""
    x, y = op.operands
    return (x, y), (y, x)


def reduces_leading(op: Op) -> bool:
    """True for a reduction of the first dims alone: what it leaves lines up with its operand, dims kept or not."""
    axes = op.attrs["axes"]
    return axes == tuple(range(len(axes)))
