"""Quotients and remainders that are exact at whole quotients, whatever the last bits of a division are.

Magnitudes are divided, the quotient n is cut to a whole number, and the remainder |a| - n * |b| is computed without any
rounding; where it is negative or not less than |b|, n was off by one and both are corrected. Signs come last. So the
result depends on the quotient only within one unit (a division by reciprocal and product may be off by some ulp).
"""

from __future__ import annotations

from math import inf, nan

import numpy as np

from tilewright.dtypes import float32, int32
from tilewright.tensor.passes.decompose.rounding import WHOLE, whole_part
from tilewright.tensor.passes.decompose.term import Term, expands, filled, is_negative, where, with_sign
from tilewright.tensor.passes.match import number

_HIGH_BITS = -(2**12)
"""Of 24 bits of a float32's mantissa this mask leaves 12: products of two such halves are exact."""

_STEP = float(2**22)


def halves(x: Term) -> tuple[Term, Term]:
    """x as a sum of two numbers of 12 bits each."""
    high = (x.as_bits(int32) & _HIGH_BITS).as_bits(float32)
    return high, x - high


def product_error(x: Term, y: Term, product: Term) -> Term:
    """x * y - product without rounding, where product is x * y rounded (Dekker)."""
    (x_high, x_low), (y_high, y_low) = halves(x), halves(y)
    known = number(y.value)
    if known is not None and not _low_bits(known):
        return (x_high * y_high - product) + x_low * y_high
    return (((x_high * y_high - product) + x_high * y_low) + x_low * y_high) + x_low * y_low


def _low_bits(x: float) -> int:
    """The bits of a number that `halves` gives to its lower half."""
    return int(np.float32(x).view(np.int32)) & ~_HIGH_BITS


def divided(a: Term, b: Term, quotient: Term) -> tuple[Term, Term]:
    """n, r with a = n * b + r, n whole and 0 <= r < b, for a >= 0, b > 0 and quotient = a / b < 2**23, nearly."""
    n = whole_part(quotient)
    product = n * b
    # Where n is 0 the product with an infinite b is not a number.
    rest = where(n == 0, a, (a - product) - product_error(n, b, product))
    over, under = rest >= b, rest < 0
    n = (n + over.to(float32)) - under.to(float32)
    return n, where(over, rest - b, where(under, rest + b, rest))


def magnitude(x: Term) -> Term:
    """|x|, of a number at once."""
    known = number(x.value)
    return abs(x) if known is None else filled(x, abs(known), shape=x.type.shape)


def remainder(a: Term, b: Term) -> Term:
    """a minus the greatest multiple of b that is not above it, for a, b >= 0: NaN unless a / b is less than 2**44."""
    wide = b * _STEP
    first = where(a < wide, b, wide)
    _, rest = divided(a, first, a / first)
    _, rest = divided(rest, b, rest / b)
    # Also false where either is NaN, a is infinite or b is 0.
    return where(a < wide * _STEP, rest, nan)


def signs_differ(a: Term, b: Term) -> Term:
    """Whether one of the sign bits is set."""
    return is_negative(a) ^ is_negative(b)


@expands("floor_divide", ulp=1.0)
def floor_divide_floats(a: Term, b: Term) -> Term:
    """floor_divide(a, b) -> n, or -n less 1 where r != 0, with |a| = n * |b| + r; a / b from 2**23 on"""
    quotient = a / b
    n, rest = divided(abs(a), magnitude(b), abs(quotient))
    differ = signs_differ(a, b)
    whole = where(differ, -(n + (rest != 0).to(float32)), n)
    # An infinite dividend has no remainder, and so no whole quotient.
    beyond = where(abs(a) < inf, quotient, where(b == 0, quotient, nan))
    return where(abs(quotient) < WHOLE, whole, beyond)


@expands("mod", ulp=1.0)
def mod_floats(a: Term, b: Term) -> Term:
    """mod(a, b) -> r, or |b| - r where r != 0 and the signs differ, with the sign of b; |a| = n * |b| + r"""
    rest = remainder(abs(a), magnitude(b))
    other = signs_differ(a, b) & (rest != 0)
    return with_sign(where(other, magnitude(b) - rest, rest), b)


@expands("fmod")
def fmod_floats(a: Term, b: Term) -> Term:
    """fmod(a, b) -> r with the sign of a; |a| = n * |b| + r"""
    return with_sign(remainder(abs(a), magnitude(b)), a)
