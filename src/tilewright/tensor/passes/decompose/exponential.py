"""Exponentials, logarithms and hyperbolic functions, exact where their argument makes a plain formula cancel."""

from __future__ import annotations

from math import inf, log

from tilewright.dtypes import float32, int32
from tilewright.tensor.passes.decompose.rounding import MIDDLE, nearest_small
from tilewright.tensor.passes.decompose.term import Term, apply, expands, maximum, minimum, where, with_sign
from tilewright.tensor.ranges import range_of

_MANTISSA_BITS = 23
_BIAS = 127
_EXPONENT_MASK = (2**8 - 1) << _MANTISSA_BITS
_SMALLEST_NORMAL = 2.0**-126
_LN2 = log(2)
_HALF_ROOT = 2.0**-0.5
_FAR = 2.0**30


def power_of_two(exponent: Term) -> Term:
    """2 ** exponent for int32 from -126 to 127, by its bits."""
    return ((exponent + _BIAS) << _MANTISSA_BITS).as_bits(float32)


def scaled(x: Term, exponent: Term) -> Term:
    """x * 2 ** exponent for int32 from -378 to 378: three factors, so that numbers below 2**-126 and overflow come out
    right."""
    third = nearest_small(exponent.to(float32) * (1 / 3)).to(int32)
    factor = power_of_two(third)
    return ((x * factor) * factor) * power_of_two(exponent - third - third)


def taken_apart(x: Term) -> tuple[Term, Term]:
    """m, e with x = m * 2 ** e and 0.5 <= m < 1, for finite x > 0; e is int32."""
    small = x < _SMALLEST_NORMAL
    bits = where(small, x * 2.0**24, x).as_bits(int32)
    exponent = (bits >> _MANTISSA_BITS) - (_BIAS - 1) - small.to(int32) * 24
    return ((bits & ~_EXPONENT_MASK) | (_BIAS - 1) << _MANTISSA_BITS).as_bits(float32), exponent


def whole_power_of_two(exponent: Term) -> Term:
    """2 ** exponent for whole floats from -126 to 127: their last bits become the exponent."""
    return ((exponent + (MIDDLE + _BIAS)).as_bits(int32) << _MANTISSA_BITS).as_bits(float32)


@expands("exp2", ulp=2.0)
def exp2(x: Term) -> Term:
    """exp2(x) -> e ** ((x - n) * ln 2) * 2 ** n with n = rint(x), half of it at a time"""
    x = minimum(maximum(x, -160.0), 130.0)
    whole = nearest_small(x)
    half = nearest_small(whole * 0.5)
    near = apply("exp", (x - whole) * _LN2)
    return (near * whole_power_of_two(half)) * whole_power_of_two(whole - half)


@expands("ldexp")
def ldexp(x: Term, y: Term) -> Term:
    """ldexp(x, y) -> x * 2 ** y, y cut to [-300, 300]"""
    return scaled(x, minimum(maximum(y, -300.0), 300.0).to(int32))


@expands("frexp")
def frexp(x: Term) -> tuple[Term, Term]:
    """frexp(x) -> m, e from the bits of |x|, m with the sign of x; x, 0 where x is 0 or not finite"""
    size = abs(x)
    ordinary = (size > 0) & (size < inf)
    fraction, exponent = taken_apart(where(ordinary, size, 1))
    return where(ordinary, with_sign(fraction, x), x), where(ordinary, exponent, 0)


def log_plus_one(x: Term) -> Term:
    """ln(1 + x): ln(u) with u = 1 + x, and what rounding u left out. Beyond 2**30 that is nothing."""
    known = range_of(x.value)
    small = x if known.high <= _FAR else minimum(x, _FAR)
    u = small + 1.0
    left_out = small - (u - 1.0)
    if known.low >= 0:
        return apply("log", x + 1.0) + left_out / u
    # -1 leaves nothing out of 0, and -0.0 is its own logarithm.
    return where(u == 1, x, apply("log", x + 1.0) + left_out / maximum(u, _SMALLEST_NORMAL))


@expands("log1p", ulp=3.0)
def log1p(x: Term) -> Term:
    """log1p(x) -> ln(u) + (x - (u - 1)) / u with u = 1 + x; x where u = 1"""
    return log_plus_one(x)


@expands("log2", ulp=3.0)
def log2_(x: Term) -> Term:
    """log2(x) -> e + ln(m) / ln 2 with x = m * 2 ** e and 2**-0.5 <= m < 2**0.5"""
    ordinary = (x > 0) & (x < inf)
    fraction, exponent = taken_apart(where(ordinary, x, 1))
    low = fraction < _HALF_ROOT
    fraction = where(low, fraction * 2.0, fraction)
    whole = exponent.to(float32) - low.to(float32)
    return where(ordinary, whole + apply("log", fraction) * (1 / _LN2), apply("log", x))


@expands("log10", ulp=3.0)
def log10_(x: Term) -> Term:
    """log10(x) -> ln(x) / ln 10, or the nearest whole number where that is within 2 ulp"""
    y = apply("log", x) * (1 / log(10))
    whole = nearest_small(y)
    return where(abs(y - whole) <= abs(y) * 2.0**-22, whole, y)


def minus_one(x: Term) -> Term:
    """e ** x - 1."""
    half = apply("tanh", x * 0.5)
    return where(abs(x) < 0.5, (half * 2.0) / (1 - half), apply("exp", x) - 1.0)


@expands("expm1", ulp=4.0)
def expm1(x: Term) -> Term:
    """expm1(x) -> 2 t / (1 - t) with t = tanh(x / 2) where |x| < 0.5, else e ** x - 1"""
    return minus_one(x)


@expands("logaddexp", ulp=4.0)
def logaddexp(x: Term, y: Term) -> Term:
    """logaddexp(x, y) -> max(x, y) + log1p(e ** -|x - y|)"""
    high = maximum(x, y)
    # Equal ones may be infinite.
    distance = where(x == y, 0, abs(x - y))
    return high + log_plus_one(apply("exp", -distance))


@expands("logaddexp2", ulp=4.0)
def logaddexp2(x: Term, y: Term) -> Term:
    """logaddexp2(x, y) -> max(x, y) + log1p(2 ** -|x - y|) / ln 2"""
    high = maximum(x, y)
    distance = where(x == y, 0, abs(x - y))
    return high + log_plus_one(apply("exp", distance * -_LN2)) * (1 / _LN2)


@expands("silu", ulp=4.0)
def silu(x: Term) -> Term:
    """silu(x) -> x * sigmoid(x), which is NaN for -inf as the formula is: the engine's own function gives the limit"""
    return x * apply("sigmoid", x)


@expands("sinh", ulp=6.0)
def sinh(x: Term) -> Term:
    """sinh(x) -> (u + u / (u + 1)) / 2 with u = e ** |x| - 1, or e ** (|x| / 2) squared / 2 where |x| > 20"""
    size = abs(x)
    u = minus_one(minimum(size, 20.0))
    half = apply("exp", size * 0.5)
    return with_sign(where(size > 20, (half * 0.5) * half, (u + u / (u + 1.0)) * 0.5), x)


@expands("cosh", ulp=6.0)
def cosh(x: Term) -> Term:
    """cosh(x) -> h**2 / 2 + 1 / (2 h**2) with h = e ** (|x| / 2)"""
    half = apply("exp", abs(x) * 0.5)
    return (half * 0.5) * half + (0.5 / half) / half


@expands("arcsinh", ulp=5.0)
def arcsinh(x: Term) -> Term:
    """arcsinh(x) -> log1p(|x| + x**2 / (1 + sqrt(1 + x**2))), or ln|x| + ln 2 where |x| > 2**13; with the sign of x"""
    size = abs(x)
    small = minimum(size, 2.0**13)
    square = small * small
    near = log_plus_one(small + square / (apply("sqrt", square + 1.0) + 1.0))
    return with_sign(where(size > 2.0**13, apply("log", size) + _LN2, near), x)


@expands("arccosh", ulp=5.0)
def arccosh(x: Term) -> Term:
    """arccosh(x) -> log1p(t + sqrt(t) * sqrt(t + 2)) with t = x - 1, or ln x + ln 2 where x > 2**13"""
    t = minimum(x, 2.0**13) - 1.0
    near = log_plus_one(t + apply("sqrt", t) * apply("sqrt", t + 2.0))
    return where(x > 2.0**13, apply("log", x) + _LN2, near)


@expands("arctanh", ulp=5.0)
def arctanh(x: Term) -> Term:
    """arctanh(x) -> log1p(2 |x| / (1 - |x|)) / 2 with the sign of x"""
    size = abs(x)
    return with_sign(log_plus_one((size * 2.0) / (1 - size)) * 0.5, x)


@expands("cbrt", ulp=3.0)
def cbrt(x: Term) -> Term:
    """cbrt(x) -> r - (r - |x| / r**2) / 3 with r = e ** (ln|x| / 3) and the sign of x; x where it is 0 or not finite"""
    size = abs(x)
    ordinary = (size > 0) & (size < inf)
    safe = where(ordinary, size, 1)
    root = apply("exp", apply("log", safe) * (1 / 3))
    root = root - (root - safe / (root * root)) * (1 / 3)
    return where(ordinary, with_sign(root, x), x)
