"""Powers: by products for constant whole exponents and for integers, by logarithms otherwise."""

from __future__ import annotations

from math import inf, nan
from typing import Any

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.decompose.division import was_whole
from tilewright.tensor.passes.decompose.rounding import nearest, nearest_small
from tilewright.tensor.passes.decompose.term import Term, apply, expands, filled, fitted, is_negative, where
from tilewright.tensor.passes.match import number

_WHOLE_BELOW = 2.0**15
"""Below it e ** (y * ln x) is nearer than a half."""
LONGEST_PRODUCT = 2**6
"""A constant exponent up to this is a product: beyond, it is no more exact than the logarithm."""


def product_power(x: Term, exponent: int) -> Term:
    """x ** exponent for exponent > 0, by repeated squaring."""
    out: Term | None = None
    while True:
        if exponent & 1:
            out = x if out is None else out * x
        exponent >>= 1
        if not exponent:
            assert out is not None
            return out
        x = apply("square", x)


def constant_power(x: Term, exponent: float) -> Term | None:
    """x ** exponent where products and a square root give it."""
    doubled = 2 * exponent
    if abs(exponent) > LONGEST_PRODUCT or doubled != int(doubled):
        return None
    if exponent == 0.5:
        return apply("sqrt", x)
    whole, rest = divmod(int(abs(doubled)), 2)
    out: Term | None = product_power(x, whole) if whole else None
    if rest:
        # NumPy takes x ** 0.5 for the root itself. Of other halves C says: adding 0 makes the root of -0.0 a positive
        # zero, and that of minus infinity is infinity.
        root = where(x == -inf, inf, apply("sqrt", x) + 0.0)
        out = root if out is None else abs(out) * root
    if out is None:
        return filled(x, 1, shape=x.type.shape)
    return 1 / out if exponent < 0 else out


@rule("power", exact=False, ulp=32.0)
def expand_constant_power(op: Op) -> Any:
    """x ** c -> products of x and its square root        where 2 c is whole and |c| <= 64"""
    x, exponent = op.operands[0], number(op.operands[1])
    if not isinstance(x, Value) or exponent is None or not x.type.dtype.is_float:
        return None
    ops: list[Op] = []
    out = constant_power(Term(x, ops).to(float32), float(exponent))
    if out is None:
        return None
    return [*ops, fitted(out, op.result.type)]


@rule("power", exact=False, ulp=2.0)
def expand_power_of_two(op: Op) -> Any:
    """2 ** y -> exp2(y)"""
    x, y = op.operands
    if number(x) != 2 or not isinstance(y, Value) or not y.type.dtype.is_float or y.type != op.result.type:
        return None
    return value("exp2", y)


@expands("power", ulp=90.0)
def power_of_floats(x: Term, y: Term) -> Term:
    """x ** y -> e ** (y * ln|x|), negative where x is and y is odd, NaN where x < 0 and y is not whole;
    1 where y = 0 or x = 1; whole where x and y are and it is not large
    """
    size = abs(x)
    out = apply("exp", y * apply("log", size))
    whole = nearest(y) == y
    if number(x.value) is None or was_whole(y):
        # Of whole numbers and negative exponents it is 1 at most.
        both = (whole & (nearest(x) == x)) & ((out > 1.75) & (out < _WHOLE_BELOW))
        out = where(both, nearest_small(out), out)
    half = y * 0.5
    odd = whole & (nearest(half) != half)
    out = where(is_negative(x) & odd, -out, out)
    out = where(((x < 0) & (x > -inf)) & (whole ^ True), nan, out)
    out = where((x == -1) & (abs(y) == inf), 1, out)
    return where((y == 0) | (x == 1), 1, out)


@expands("power", kinds="iu")
def power_of_integers(x: Term, y: Term) -> Term:
    """x ** y -> product of x ** (2 ** i) over the bits i that are set in y, which is not negative"""
    out: Term = filled(x, 1)
    bits = 8 * x.dtype.itemsize - (x.dtype.kind == "i")
    for bit in range(bits):
        out = where(((y >> bit) & 1) == 1, out * x, out)
        if bit + 1 < bits:
            x = apply("square", x)
    return out
