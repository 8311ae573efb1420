"""Identities of arithmetic that hold for every element, NaN, infinities and signs of zeros included."""

from __future__ import annotations

from math import copysign, frexp, inf
from typing import Any

from tilewright.dtypes import bool_
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import make, value
from tilewright.tensor.passes.match import compute, in_dtype, is_number, maker, number, used_once

_NEVER_BELOW_ZERO = ("exp", "square", "sigmoid", "abs", "relu")


def as_result(op: Op, x: Any) -> Any:
    """x in place of the op's result, broadcast where the other operand made the result larger."""
    out = op.result.type
    if not isinstance(x, Value):
        return make("full", shape=out.shape, dtype=out.dtype, value=in_dtype(x, out.dtype))
    return x if x.type.shape == out.shape else value("broadcast_to", x, shape=out.shape)


def is_zero(x: Any, negative: bool) -> bool:
    """Whether x is the zero of this sign; of integers there is one zero."""
    found = number(x)
    if found is None or found != 0:
        return False
    return not isinstance(found, float) or (copysign(1, found) < 0) == negative


def never_negative_zero(x: Any) -> bool:
    """Whether no element can be -0.0: then adding 0 changes nothing."""
    if not x.type.dtype.is_float:
        return True
    op = maker(x, *_NEVER_BELOW_ZERO, "cast")
    return op is not None and (op.name not in ("cast", "relu") or op.operands[0].type.dtype.is_integer)


@rule("add")
def add_zero(op: Op) -> Any:
    """x + 0 -> x        of floats where the zero is -0.0, or x is never -0.0"""
    x, y = op.operands
    if not isinstance(x, Value):
        return None
    zero = is_zero(y, negative=True) or (is_number(y, 0) and never_negative_zero(x))
    return as_result(op, x) if zero else None


@rule("subtract")
def subtract_zero(op: Op) -> Any:
    """x - 0 -> x        not where the zero is -0.0"""
    x, y = op.operands
    return as_result(op, x) if isinstance(x, Value) and is_zero(y, negative=False) else None


@rule("multiply", "divide")
def times_one(op: Op) -> Any:
    """x * 1 -> x, x / 1 -> x"""
    x, y = op.operands
    return as_result(op, x) if isinstance(x, Value) and is_number(y, 1) else None


@rule("multiply")
def times_minus_one(op: Op) -> Any:
    """x * -1 -> -x"""
    x, y = op.operands
    if isinstance(y, Value) or y != -1 or not (x.type.dtype.is_float or x.type.dtype.kind == "i"):
        return None
    return value("negative", x)


@rule("multiply", "bitwise_and")
def times_zero(op: Op) -> Any:
    """x * 0 -> 0, x & 0 -> 0        of integers: infinity * 0 is not a number"""
    zero = is_number(op.operands[1], 0)
    return as_result(op, 0) if zero and op.result.type.dtype.is_integer else None


@rule("divide")
def divide_by_power_of_two(op: Op) -> Any:
    """x / 2**k -> x * 2**-k        both are rounded once from the same number"""
    x, y = op.operands
    if not isinstance(x, Value) or not isinstance(y, float) or y in (0, inf, -inf) or y != y:
        return None
    inverse = 1 / y
    exact = abs(frexp(y)[0]) == 0.5 and in_dtype(inverse, x.type.dtype) == inverse
    return value("multiply", x, inverse) if exact else None


@rule("divide")
def one_over(op: Op) -> Any:
    """1 / x -> reciprocal(x)"""
    x, y = op.operands
    if is_number(x, 1) and y.type.dtype.is_float and y.type == op.result.type:
        return value("reciprocal", y)
    return None


@rule("negative", "invert")
def undo(op: Op) -> Any:
    """-(-x) -> x, ~~x -> x"""
    inner = maker(op.operands[0], op.name)
    return None if inner is None else inner.operands[0]


@rule("add", "subtract")
def add_negative(op: Op) -> Any:
    """x + -y -> x - y, -x + y -> y - x, x - -y -> x + y"""
    x, y = op.operands
    right = maker(y, "negative")
    if right is not None:
        return value("subtract" if op.name == "add" else "add", x, right.operands[0])
    left = maker(x, "negative")
    if left is not None and op.name == "add" and isinstance(y, Value):
        return value("subtract", y, left.operands[0])
    return None


@rule("multiply", "divide")
def negative_factor(op: Op) -> Any:
    """-x * c -> x * -c, -x * -y -> x * y; also for quotients"""
    x, y = op.operands
    left = maker(x, "negative")
    if left is None or not left.operands[0].type.dtype.is_float:
        return None
    if isinstance(y, float):
        return value(op.name, left.operands[0], -y)
    right = maker(y, "negative")
    return None if right is None else value(op.name, left.operands[0], right.operands[0])


@rule("negative")
def negative_product(op: Op) -> Any:
    """-(x * c) -> x * -c        where nothing else uses the product"""
    inner = maker(op.operands[0], "multiply", "divide")
    if inner is None or not used_once(inner.result) or not inner.result.type.dtype.is_float:
        return None
    x, y = inner.operands
    return value(inner.name, x, -y) if isinstance(y, float) else None


@rule("multiply", "divide")
def sign_outwards(op: Op) -> Any:
    """-x * y -> -(x * y), also for quotients, c / -x -> -c / x        where nothing else uses -x: functions, sums and
    factors that read the result take its sign in"""
    out = op.result.type
    for at, x in enumerate(op.operands):
        inner, other = maker(x, "negative"), op.operands[1 - at]
        if inner is None or not out.dtype.is_float or not used_once(x) or x.type.shape != out.shape:
            continue
        plain = inner.operands[0]
        if isinstance(other, Value):
            return value("negative", value(op.name, *((plain, other) if at == 0 else (other, plain))))
        if op.name == "divide" and at == 1:
            return value("divide", -other, plain)
    return None


@rule("abs", "square")
def even_function(op: Op) -> Any:
    """|-x| -> |x|, ||x|| -> |x|, square(-x) -> square(x), square(|x|) -> square(x)"""
    inner = maker(op.operands[0], "negative", "abs")
    # -1 of an unsigned type is its greatest number.
    if inner is None or (op.name == "abs" and op.result.type.dtype.kind == "u"):
        return None
    return value(op.name, inner.operands[0])


@rule("abs", "relu")
def keep_positive(op: Op) -> Any:
    """|x| -> x        for x = e ** y, square(y), sigmoid(y), of floats, and for unsigned integers; also relu"""
    (x,) = op.operands
    if x.type.dtype.kind in "ub":
        return x
    return x if x.type.dtype.is_float and maker(x, "exp", "square", "sigmoid", "abs") is not None else None


@rule("multiply")
def times_itself(op: Op) -> Any:
    """x * x -> square(x)"""
    x, y = op.operands
    return value("square", x) if x is y and x.type.dtype is not bool_ else None


@rule("maximum", "minimum", "bitwise_and", "bitwise_or")
def twice_the_same(op: Op) -> Any:
    """max(x, x) -> x        also min, &, |"""
    x, y = op.operands
    return x if x is y else None


@rule("maximum", "minimum")
def no_limit(op: Op) -> Any:
    """max(x, least) -> x, min(x, greatest) -> x"""
    x, limit = op.operands[0], number(op.operands[1])
    dtype = op.result.type.dtype
    if limit is None or dtype is bool_ or not isinstance(x, Value):
        return None
    least = (-inf if dtype.is_float else dtype.min) if op.name == "maximum" else inf if dtype.is_float else dtype.max
    return as_result(op, x) if limit == least else None


ASSOCIATIVE = ("add", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum")


@rule(*ASSOCIATIVE)
def join_numbers(op: Op) -> Any:
    """(x + a) + b -> x + (a + b)        for max and min, and for +, *, &, |, ^ of integers"""
    inner = maker(op.operands[0], op.name)
    b = op.operands[1]
    if inner is None or isinstance(b, Value) or isinstance(inner.operands[1], Value):
        return None
    x, a = inner.operands
    dtype = op.result.type.dtype
    if dtype.is_float and op.name not in ("maximum", "minimum"):
        return None
    return value(op.name, x, compute(op.name, dtype, a, b))


@rule("maximum")
def relu(op: Op) -> Any:
    """max(x, 0) -> relu(x)        of floats"""
    x, y = op.operands
    return value("relu", x) if not isinstance(y, Value) and y == 0 and op.result.type.dtype.is_float else None


@rule("left_shift", "right_shift", "bitwise_or", "bitwise_xor")
def bits_with_zero(op: Op) -> Any:
    """x << 0 -> x, x >> 0 -> x, x | 0 -> x, x ^ 0 -> x"""
    x, y = op.operands
    return as_result(op, x) if isinstance(x, Value) and is_number(y, 0) else None


@rule("floor_divide", "mod")
def divide_integers(op: Op) -> Any:
    """x // 2**k -> x >> k, x mod 2**k -> x & 2**k - 1        of integers"""
    x, y = op.operands
    if op.result.type.dtype.kind not in "iu" or not isinstance(y, int) or y <= 0 or y & (y - 1):
        return None
    if op.name == "mod":
        return value("bitwise_and", x, y - 1)
    return value("right_shift", x, y.bit_length() - 1)


@rule("floor_divide", "mod", "fmod")
def divide_by_nothing(op: Op) -> Any:
    """x // 0 -> 0, x mod 0 -> 0, x mod -1 -> 0        of integers, as NumPy has it"""
    divisor = number(op.operands[1])
    if not op.result.type.dtype.is_integer or divisor not in ((0,) if op.name == "floor_divide" else (0, 1, -1)):
        return None
    return as_result(op, 0)


_ROUNDING = ("floor", "ceil", "trunc", "rint")


@rule(*_ROUNDING)
def round_whole(op: Op) -> Any:
    """floor(floor(x)) -> floor(x)        for any two of floor, ceil, trunc, rint, and for integers cast to floats"""
    (x,) = op.operands
    cast = maker(x, "cast")
    whole = maker(x, *_ROUNDING) is not None or (cast is not None and cast.operands[0].type.dtype.is_integer)
    return x if whole else None
