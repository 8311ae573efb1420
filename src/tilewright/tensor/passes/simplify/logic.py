"""Choices, comparisons and truth values."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import bool_
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import in_dtype, maker, number
from tilewright.tensor.passes.simplify.algebra import as_result

_OPPOSITE = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "greater_equal",
    "greater_equal": "less",
    "greater": "less_equal",
    "less_equal": "greater",
}


@rule("where")
def same_choice(op: Op) -> Any:
    """where(c, x, x) -> x"""
    _, x, y = op.operands
    return as_result(op, x) if x is y else None


@rule("where")
def known_choice(op: Op) -> Any:
    """where(True, x, y) -> x, where(False, x, y) -> y"""
    condition, x, y = op.operands
    known = number(condition)
    return None if known is None else as_result(op, x if known else y)


@rule("where")
def choice_by_opposite(op: Op) -> Any:
    """where(not c, x, y) -> where(c, y, x)"""
    condition, x, y = op.operands
    inner = maker(condition, "bitwise_xor")
    if inner is None or inner.operands[1] is not True:
        return None
    return value("where", inner.operands[0], y, x)


@rule("where")
def choice_of_choice(op: Op) -> Any:
    """where(c, where(c, x, y), z) -> where(c, x, z), where(c, x, where(c, y, z)) -> where(c, x, z)"""
    condition, x, y = op.operands
    for index, inner in ((1, maker(x, "where")), (2, maker(y, "where"))):
        if inner is None or inner.operands[0] is not condition:
            continue
        operands = [condition, x, y]
        operands[index] = inner.operands[index]
        if not any(isinstance(z, Value) for z in operands[1:]):
            return None
        found = value("where", *operands)
        return found if found.type == op.result.type else None
    return None


@rule("where")
def choice_of_truth(op: Op) -> Any:
    """where(c, True, False) -> c, where(c, False, True) -> not c"""
    condition, x, y = op.operands
    if op.result.type.dtype is not bool_ or condition.type.dtype is not bool_:
        return None
    pair = number(x), number(y)
    if pair == (True, False):
        return as_result(op, condition)
    return value("bitwise_xor", as_result(op, condition), True) if pair == (False, True) else None


@rule("where")
def choice_by_band(op: Op) -> Any:
    """where(band, a, b) -> band of a and b        numbers; of a triangle, the half that is not zero is inside"""
    condition, *choices = op.operands
    mask, type = maker(condition, "band"), op.result.type
    numbers = [x for x in map(number, choices) if x is not None and x == x]
    if mask is None or len(numbers) < 2:
        return None
    if type.rank < 2 or not type.size or condition.type.shape[-2:] != type.shape[-2:]:
        return None
    inside, outside = (in_dtype(numbers[not mask.attrs[side]], type.dtype) for side in ("inside", "outside"))
    low, high = mask.attrs["low"], mask.attrs["high"]
    if inside == 0 and outside != 0 and (low is None) != (high is None):
        low, high = (high + 1, None) if low is None else (None, low - 1)
        inside, outside = outside, inside
    return value("band", shape=type.shape, dtype=type.dtype, low=low, high=high, inside=inside, outside=outside)


@rule("bitwise_xor")
def opposite(op: Op) -> Any:
    """not (x == y) -> x != y        < and its like of integers only: neither x < NaN nor x >= NaN holds"""
    x, y = op.operands
    inner = maker(x, *_OPPOSITE)
    if y is not True or inner is None:
        return None
    floats = any(isinstance(z, Value) and z.type.dtype.is_float for z in inner.operands)
    if floats and inner.name not in ("equal", "not_equal"):
        return None
    return value(_OPPOSITE[inner.name], *inner.operands)


@rule("equal", "not_equal")
def compare_truth(op: Op) -> Any:
    """c != False -> c, c == True -> c, c == False -> not c, c != True -> not c        also of c cast to a number"""
    x, y = op.operands
    if not isinstance(x, Value) or isinstance(y, Value) or y not in (0, 1):
        return None
    cast = maker(x, "cast")
    truth = cast.operands[0] if cast is not None else x
    if truth.type.dtype is not bool_:
        return None
    return truth if (op.name == "equal") == bool(y) else value("bitwise_xor", truth, True)


@rule("bitwise_and", "bitwise_or")
def known_truth(op: Op) -> Any:
    """c & True -> c, c | True -> True"""
    x, y = op.operands
    if op.result.type.dtype is not bool_ or number(y) is not True:
        return None
    return as_result(op, x if op.name == "bitwise_and" else True)


@rule("not_equal")
def integers_equal_themselves(op: Op) -> Any:
    """x != x -> False        of integers: a float that is not equal to itself is NaN"""
    x, y = op.operands
    return as_result(op, False) if x is y and not x.type.dtype.is_float else None
