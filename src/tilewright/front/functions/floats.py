"""Ufuncs about what a float is made of: NaN, infinities, the sign, the fraction, the exponent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.dtypes import DType, bool_
from tilewright.front.functions.operands import dtype_of, full_like, tensor
from tilewright.front.promote import Operand, cast
from tilewright.front.trace import emit, emit_all
from tilewright.front.ufunc import elementwise
from tilewright.ir.core import Value


@elementwise(np.isnan)
def isnan(x: Value) -> Value:
    """x != x"""
    return emit("not_equal", x, x) if dtype_of(x).is_float else full_like(x, bool_, False)


def has_infinity(dtype: DType) -> bool:
    """False for integers and for the float8 types that have NaN alone."""
    return dtype.is_float and bool(np.isinf(np.asarray(math.inf).astype(dtype.np)))


@elementwise(np.isinf)
def isinf(x: Value) -> Value:
    """|x| == infinity"""
    return emit("equal", emit("abs", x), math.inf) if has_infinity(dtype_of(x)) else full_like(x, bool_, False)


@elementwise(np.isfinite)
def isfinite(x: Value) -> Value:
    """|x| < infinity"""
    dtype = dtype_of(x)
    if not dtype.is_float:
        return full_like(x, bool_, True)
    return emit("less", emit("abs", x), math.inf) if has_infinity(dtype) else emit("equal", x, x)


@elementwise(np.copysign)
def copysign(x: Operand, y: Operand) -> Value:
    """|x| with the sign of y"""
    if not isinstance(x, Value):
        assert isinstance(y, Value)
        return emit("where", emit("signbit", y), tensor(-abs(x), dtype_of(y)), abs(x))
    size = emit("abs", x)
    if not isinstance(y, Value):
        return emit("negative", size) if math.copysign(1, y) < 0 else size
    return emit("where", emit("signbit", y), emit("negative", size), size)


@elementwise(np.heaviside)
def heaviside(x: Operand, y: Operand) -> Value:
    """0 below 0, y at 0, 1 above 0, NaN for NaN"""
    dtype = dtype_of(x, y)
    x, one = tensor(x, dtype), tensor(1.0, dtype)
    side = emit("where", emit("less", x, 0.0), tensor(0.0, dtype), one)
    return emit("where", isnan(x), x, emit("where", emit("equal", x, 0.0), y, side))


def _ignoring_nan(op: str, x: Operand, y: Operand) -> Value:
    dtype = dtype_of(x, y)
    if not dtype.is_float:
        return emit(("bitwise_or" if op == "maximum" else "bitwise_and") if dtype is bool_ else op, x, y)
    found = emit(op, x, y)
    for nan, other in ((y, x), (x, y)):
        if isinstance(nan, Value):
            found = emit("where", isnan(nan), other, found)
        elif math.isnan(nan):
            found = tensor(other, dtype)
    return found


@elementwise(np.fmax)
def fmax(x: Operand, y: Operand) -> Value:
    """max(x, y), the other one where one is NaN"""
    return _ignoring_nan("maximum", x, y)


@elementwise(np.fmin)
def fmin(x: Operand, y: Operand) -> Value:
    """min(x, y), the other one where one is NaN"""
    return _ignoring_nan("minimum", x, y)


@elementwise(np.ldexp)
def ldexp(x: Operand, y: Operand) -> Value:
    """x * 2 ** y"""
    # Beyond this bound every float type gives 0 or infinity; all integers up to it are float16 numbers.
    bound = 2**11
    assert isinstance(x, Value) and isinstance(y, Value)
    # Bounds that the integer type cannot hold are no bounds.
    low, high = max(-bound, y.type.dtype.min), min(bound, y.type.dtype.max)
    return emit("ldexp", x, cast(emit("minimum", emit("maximum", y, low), high), x.type.dtype))


@elementwise(np.frexp)
def frexp(x: Value) -> Any:
    """m, e with x = m * 2 ** e"""
    return tuple(emit_all("frexp", x))


@elementwise(np.modf)
def modf(x: Value) -> tuple[Value, Value]:
    """The fraction and the whole part of x, both with its sign"""
    whole = emit("trunc", x)
    fraction = emit("where", isinf(x), tensor(0.0, dtype_of(x)), emit("subtract", x, whole))
    return copysign(fraction, x), whole
