"""Ops on the bits of numbers."""

from __future__ import annotations

from math import inf, nan

from tilewright.dtypes import bool_, float16, float32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.decompose.term import (
    SAME_WIDTH,
    Term,
    bits_of,
    expands,
    filled,
    is_negative,
    where,
    with_sign,
)


@rule("invert")
def expand_invert(op: Op) -> Value:
    """~x -> x ^ -1, of bool x ^ True, of unsigned types x ^ their greatest number"""
    (x,) = op.operands
    dtype = x.type.dtype
    return value("bitwise_xor", x, True if dtype is bool_ else dtype.max if dtype.kind == "u" else -1)


@expands("signbit", widen=False)
def signbit(x: Term) -> Term:
    """signbit(x) -> the bits of x as a signed integer < 0"""
    return is_negative(x)


@expands("signbit", kinds="iub")
def signbit_of_integers(x: Term) -> Term:
    """signbit(x) -> x < 0"""
    return x < 0


def _stepped(x: Term, up: Term) -> Term:
    """The next number away from 0, or towards 0: bits of floats of one sign are in the order of their magnitudes."""
    integer = SAME_WIDTH[x.dtype.itemsize]
    return (bits_of(x) + where(up, filled(x, 1, integer), -1)).as_bits(x.dtype)


@expands("nextafter", widen=False)
def nextafter(x: Term, y: Term) -> Term:
    """nextafter(x, y) -> x with 1 added to its bits, or taken off where y lies towards 0; y where x = y"""
    integer = SAME_WIDTH[x.dtype.itemsize]
    least = filled(x, 1, integer).as_bits(x.dtype)
    away = (y > x) ^ (x < 0)
    out = where(x == 0, with_sign(least, y), _stepped(x, away))
    # C gives y where both are equal, zeros of either sign; NumPy's float16 gives x. x + y is NaN where either is.
    return where(x == y, x if x.dtype is float16 else y, where((x != x) | (y != y), x + y, out))


@expands("spacing", widen=False)
def spacing(x: Term) -> Term:
    """spacing(x) -> x with 1 added to its bits, less x; NaN where x is not finite

    NumPy's float32 gives zeros of either sign the least number above 0, its float16 the distance to the number above x.
    """
    one = filled(x, 1, SAME_WIDTH[x.dtype.itemsize])
    step = where(x < 0, -one, one) if x.dtype is float16 else one
    distance = (bits_of(x) + step).as_bits(x.dtype) - x
    if x.dtype in (float32, float16):
        distance = where(x == 0, one.as_bits(x.dtype), distance)
    return where(abs(x) < inf, distance, nan)
