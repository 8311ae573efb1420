"""Sine and its relatives, from a sine on [-pi, pi] and an arctangent on [-pi/2, pi/2].

x - m * pi/2 loses its digits where the product is rounded. So m is split into two counts of 11 bits, a high and a low
one, and pi/2 into parts of 13 and of 12 bits for them: each product fits the 24 bits of float32, and taken off from the
largest to the smallest every difference is exact until it is small. m is chosen so that what is left lies in
[-pi/2, pi/2] and its sine, but for the sign, is the result: that keeps digits also near zeros. This holds up to |x| =
2**22 * pi (1.3e7; of tan half of that), where neighbouring float32 numbers are 1 apart; beyond, sines stay within
[-1, 1] but mean nothing.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor, inf, pi

from tilewright.dtypes import float32, int32
from tilewright.tensor.passes.decompose.division import near_quotient
from tilewright.tensor.passes.decompose.rounding import MIDDLE
from tilewright.tensor.passes.decompose.term import (
    Term,
    apply,
    expands,
    is_negative,
    maximum,
    minimum,
    where,
    with_sign,
)

_LOW_BITS = 12
_THOUSANDS = MIDDLE * 2**_LOW_BITS
"""Added and taken away again, it rounds to multiples of 2**12."""
_HALF_PI = (Fraction(pi) + Fraction(1.2246467991473532e-16)) / 2  # float64 pi plus the difference that it leaves
_SIGN_BIT = 31
_BELOW_PI = 3.1415925  # the largest float32 below pi


def _parts(value: Fraction, count: int, bits: int) -> list[float]:
    """`value`, below 2, as a sum of multiples of 2**(1 - bits), 2**(1 - 2 * bits) and so on, each of at most `bits`.

    None is negative: then 0 times each of them is 0 and not -0, and -0 less that is -0 as it should be.
    """
    found: list[float] = []
    for position in range(1, count + 1):
        step = Fraction(2, 2 ** (position * bits))
        part = floor(value / step) * step
        found.append(float(part))
        value -= part
    return found


_OF_HIGH, _OF_LOW = _parts(_HALF_PI, 4, _LOW_BITS + 1), _parts(_HALF_PI, 4, _LOW_BITS)


def without_quarters(x: Term, turns: Term, each: int, quarters: int = 0, last: bool = False) -> Term:
    """x - (each * turns - quarters) * pi/2 for whole numbers of up to 24 bits, near x / (pi/2), to within 2**-28; with
    `last` closer."""
    count = turns * float(each) if each != 1 else turns
    high = (count + _THOUSANDS) - _THOUSANDS
    low = (count - float(quarters) if quarters else count) - high
    a, b, c, d = _OF_LOW
    high_a, high_b, high_c, high_d = _OF_HIGH
    products = [(high, high_a), (low, a), (high, high_b), (low, b), (high, high_c), (low, c), (high, high_d)]
    rest = x
    for factor, part in [*products, (low, d)] if last else products:
        rest = rest - factor * part
    return rest


def counted(x: Term) -> tuple[Term, Term]:
    """The whole number next to x, where |x| <= 2**22, and an integer whose last bit tells whether that is odd."""
    marked = x + MIDDLE
    return marked - MIDDLE, marked.as_bits(int32)


def sine(x: Term, half_turns: Term, quarters: int) -> Term:
    """sin(x + quarters * pi/2) given x / pi + quarters / 2."""
    turns, parity = counted(half_turns)
    angle = without_quarters(x, turns, 2, quarters)
    near = apply("sin_near", minimum(maximum(angle, -_BELOW_PI), _BELOW_PI))
    # A half turn changes the sign.
    return (near.as_bits(int32) ^ (parity << _SIGN_BIT)).as_bits(float32)


@expands("sin", ulp=2.0)
def sin(x: Term) -> Term:
    """sin(x) -> (-1) ** n * sin_near(x - 2 n * pi/2) with n = rint(x / pi)"""
    return sine(x, x * (1 / pi), 0)


@expands("cos", ulp=2.0)
def cos(x: Term) -> Term:
    """cos(x) -> (-1) ** n * sin_near(x - (2 n - 1) * pi/2) with n = rint(x / pi + 1/2)"""
    return sine(x, x * (1 / pi) + 0.5, 1)


@expands("tan", ulp=4.0)
def tan(x: Term) -> Term:
    """tan(x) -> s / c, or -c / s where m is odd: sine and cosine of x - m * pi/2 with m = rint(x / (pi/2))"""
    count, parity = counted(x * (2 / pi))
    angle = without_quarters(x, count, 1, last=True)
    angle = minimum(maximum(angle, -pi / 2), pi / 2)
    sine, cosine = apply("sin_near", angle), apply("sin_near", pi / 2 - abs(angle))
    odd = (parity & 1) == 1
    return where(odd, -cosine, sine) / where(odd, sine, cosine)


def arctangent(x: Term) -> Term:
    """arctan(x) for every x, infinities included."""
    steep = abs(x) > 1
    near = apply("arctan_near", where(steep, 1 / x, x))
    return where(steep, with_sign(pi / 2 - abs(near), x), near)


@expands("arctan", ulp=2.0)
def arctan(x: Term) -> Term:
    """arctan(x) -> arctan_near(x), or pi/2 - arctan_near(1 / |x|) with the sign of x where |x| > 1"""
    return arctangent(x)


@expands("arctan2", ulp=3.0)
def arctan2(y: Term, x: Term) -> Term:
    """arctan2(y, x) -> t = arctan_near(min / max of |x|, |y|), pi/2 - t where |y| > |x|, pi - that where x < 0;
    with the sign of y
    """
    height, width = abs(y), abs(x)
    low, high = minimum(height, width), maximum(height, width)
    # Equal ones may be zeros or infinities, whose ratio is not a number.
    ratio = where(low == high, where(high == 0, high, 1), near_quotient(low, high))
    angle = apply("arctan_near", ratio)
    angle = where(height > width, pi / 2 - angle, angle)
    return with_sign(where(is_negative(x), pi - angle, angle), y)


@expands("arcsin", ulp=4.0)
def arcsin(x: Term) -> Term:
    """arcsin(x) -> arctan(x / sqrt((1 - x) * (1 + x)))"""
    return arctangent(x / apply("sqrt", (1 - x) * (1 + x)))


@expands("arccos", ulp=4.0)
def arccos(x: Term) -> Term:
    """arccos(x) -> 2 * arctan(sqrt((1 - x) / (1 + x)))"""
    return arctangent(apply("sqrt", (1 - x) / (1 + x))) * 2.0


@expands("hypot", ulp=3.0)
def hypot(x: Term, y: Term) -> Term:
    """hypot(x, y) -> high * sqrt(1 + (low / high)**2), high and low the greater and the lesser of |x|, |y|"""
    a, b = abs(x), abs(y)
    low, high = minimum(a, b), maximum(a, b)
    ratio = near_quotient(low, high)
    length = high * apply("sqrt", ratio * ratio + 1.0)
    length = where(high == 0, high, length)
    return where((a == inf) | (b == inf), inf, length)
