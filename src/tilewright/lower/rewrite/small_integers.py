"""Integers that float32 holds exactly are computed with as floats: every engine has those, and masks and counts come
out in the type that is wanted.

float32 has all integers up to 2 ** 24, and rounds greater ones to nothing smaller: who compares with a number below
that sees no difference, however great the other one is.
"""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import bool_, float32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.lower.select.integers import ARITHMETIC, COMPARISONS
from tilewright.tensor.build import value
from tilewright.tensor.passes.decompose.rounding import WHOLE
from tilewright.tensor.passes.simplify.ramps import cast_ramp
from tilewright.tensor.ranges import EXACT, is_small, range_of, wraps_around


def _as_float(x: Any) -> Any:
    return value("cast", x, dtype=float32) if isinstance(x, Value) else float(x)


@rule(*COMPARISONS)
def compare_as_floats(op: Op) -> Value | None:
    """x < y -> float32(x) < float32(y)            of integers, one of which lies within 2 ** 24"""
    if not all(x.type.dtype.is_integer for x in op.values()) or not any(is_small(x) for x in op.operands):
        return None
    return value(op.name, *(_as_float(x) for x in op.operands))


@rule("cast")
def compute_as_floats(op: Op) -> Value | None:
    """float32(x + y) -> float32(x) + float32(y)            of integers that lie within 2 ** 24, as the result does

    Also differences, products, extremes and choices.
    """
    (x,) = op.operands
    inner = x.producer
    if op.attrs["dtype"] is not float32 or inner is None or len(x.uses) != 1 or not is_small(x):
        return None
    numbers = inner.operands[1:] if inner.name == "where" else inner.operands
    truth = any(isinstance(each, Value) and each.type.dtype is bool_ for each in numbers)
    if inner.name not in (*ARITHMETIC, "negative", "where") or truth:
        return None
    if wraps_around(inner) or not all(is_small(each) for each in numbers):
        return None
    others = inner.operands[: len(inner.operands) - len(numbers)]
    return value(inner.name, *others, *(_as_float(each) for each in numbers))


@rule("sum", "max", "min")
def reduce_as_floats(op: Op) -> Value | None:
    """sum(x) -> nearest(sum(float32(x)))            of integers, whose sums lie within 2 ** 24; also extremes"""
    (x,) = op.operands
    if not x.type.dtype.is_integer or x.type.dtype is bool_ or not x.type.size:
        return None
    if not is_small(op.result) or wraps_around(op):
        return None
    made = value(op.name, _as_float(x), **op.attrs)
    return value("nearest", made, dtype=op.result.type.dtype)


@rule("cumsum")
def scan_as_floats(op: Op) -> Value | None:
    """cumsum(x) -> nearest(cumsum(float32(x)))            of integers, no sum of which leaves 2 ** 24 or its type"""
    (x,) = op.operands
    if not x.type.dtype.is_integer or x.type.dtype is bool_ or not x.type.size:
        return None
    most = min(EXACT, int(op.result.type.dtype.max)) // x.type.shape[op.attrs["axis"]]
    if not range_of(x).is_inside(-most, most):
        return None
    return value("nearest", value("cumsum", _as_float(x), axis=op.attrs["axis"]), dtype=op.result.type.dtype)


@rule("cast")
def truncate_small(op: Op) -> Value | None:
    """integer(x) -> nearest(r - (r > x)), where r = (x + 2**23) - 2**23            x lies within 0 and 2**22

    Three passes instead of eight: no sign to be taken off and put on again, and no type in between.
    """
    (x,), dtype = op.operands, op.attrs["dtype"]
    if x.type.dtype is not float32 or not dtype.is_integer or dtype is bool_:
        return None
    if not range_of(x).is_inside(0, min(WHOLE / 2, dtype.max)):
        return None
    near = value("subtract", value("add", x, WHOLE), WHOLE)
    over = value("cast", value("greater", near, x), dtype=float32)
    return value("nearest", value("subtract", near, over), dtype=dtype)


RULES = (
    compare_as_floats,
    compute_as_floats,
    reduce_as_floats,
    scan_as_floats,
    truncate_small,
    cast_ramp,
)
