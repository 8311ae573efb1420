"""Quotients and remainders that are exact at whole quotients, whatever the last bits of a division are.

Magnitudes are divided, the quotient n is cut to a whole number, and the remainder |a| - n * |b| is computed without any
rounding; where it is negative or not less than |b|, n was off by one and both are corrected. Signs come last. So the
result depends on the quotient only within one unit (a division by reciprocal and product may be off by some ulp).
"""

from __future__ import annotations

from math import frexp, inf, nan

import numpy as np

from tilewright.dtypes import float32, int32
from tilewright.tensor.passes.decompose.rounding import WHOLE, nearest_small, whole_part
from tilewright.tensor.passes.decompose.term import Term, expands, filled, is_negative, where, with_sign
from tilewright.tensor.passes.match import number

HIGH_BITS = -(2**12)
"""Of 24 bits of a float32's mantissa this mask leaves 12: products of two such halves are exact."""

MANTISSA = 24
"""Bits of a float32."""

_STEP, _LARGEST = 22, 127
"""Bits of a quotient that a step of a division finds; a power of two that is greater than half of any float32."""


_SMALL, _MORE = 2.0**-59, 2.0**63


def halves(x: Term) -> tuple[Term, Term]:
    """x as a sum of two numbers of 12 bits each."""
    high = (x.as_bits(int32) & HIGH_BITS).named("high").as_bits(float32)
    return high, (x - high).named("low")


def product_error(x: Term, y: Term, product: Term) -> Term:
    """x * y - product without rounding, where product is x * y rounded (Dekker)."""
    (x_high, x_low), (y_high, y_low) = halves(x), halves(y)
    known = number(y.value)
    if known is not None and not _low_bits(known):
        return (x_high * y_high - product) + x_low * y_high
    return (((x_high * y_high - product) + x_high * y_low) + x_low * y_high) + x_low * y_low


def _low_bits(x: float) -> int:
    """The bits of a number that `halves` gives to its lower half."""
    return int(np.float32(x).view(np.int32)) & ~HIGH_BITS


@expands("quotient")
def quotient(a: Term, b: Term) -> Term:
    """quotient(a, b) -> h + (a - h * b) / b with h = 12 bits of a / b, where h * b is finite; else a / b

    h * b is the sum of two products that are exact, as b is cut in halves; a number may have no lower half.
    """
    near, known = (a / b).named("near"), number(b.value)
    high, _ = halves(near)
    b_high, b_low = (b, None) if known is not None and not _low_bits(known) else halves(b)
    most = (high * b_high).named("most")
    rest = (a - most if b_low is None else (a - most) - high * b_low).named("rest")
    exact = (high + rest / b).named("exact")
    if was_whole(a) and is_moderate(known):
        return exact
    # What is finite is zero times zero; nothing is left of anything else.
    return where(most * 0.0 == 0.0, exact, near)


def was_whole(x: Term) -> bool:
    """True for what was cast from integers: it is finite, and no part of it is less than 1."""
    op = x.value.producer
    return op is not None and op.name == "cast" and op.operands[0].type.dtype.is_integer


def is_moderate(x: float | None) -> bool:
    """True for a number whose inverse and multiples are far from the ends of float32."""
    return x is not None and _SMALL < abs(x) < _MORE


def divided(a: Term, b: Term, quotient: Term) -> tuple[Term, Term]:
    """n, r with a = n * b + r, n whole and 0 <= r < b, for a >= 0, b > 0 and quotient = a / b < 2**23, nearly."""
    n = whole_part(quotient)
    product = (n * b).named("product")
    # Where n is 0 the product with an infinite b is not a number.
    rest = where(n == 0, a, (a - product) - product_error(n, b, product)).named("rest")
    over, under = rest >= b, rest < 0
    n = (n + over.to(float32)) - under.to(float32)
    return n, where(over, rest - b, where(under, rest + b, rest))


def magnitude(x: Term) -> Term:
    """|x|, of a number at once."""
    known = number(x.value)
    return abs(x) if known is None else filled(x, abs(known), shape=x.type.shape)


def near_quotient(x: Term, y: Term) -> Term:
    """x / y for 0 <= x <= 2**30 * y: of small numbers that of multiples, as an engine may have no inverse of y."""
    if number(y.value) is not None:
        return x / y
    small = y < _SMALL
    return where(small, x * _MORE, x) / where(small, y * _MORE, y)


def scaled(x: Term, factor: float) -> Term:
    """x * factor, of a number at once."""
    known = number(x.value)
    return x * factor if known is None else filled(x, known * factor, shape=x.type.shape)


def _leaves(a: Term, b: Term, known: bool) -> Term:
    """a minus the nearest multiple of b, for |a| <= 2**22 * b: without rounding, as that is no longer than a or b.

    known: b is a finite number.
    """
    n = nearest_small(a / b)
    product = n * b
    rest = (a - product) - product_error(n, b, product)
    return rest if known else where(n == 0, a, rest)


def bits_of(x: float) -> int:
    """The bits of a float32's mantissa from the first to the last one that is set."""
    whole = int(frexp(float(np.float32(x)))[0] * 2**MANTISSA)
    return MANTISSA - ((whole & -whole).bit_length() - 1)


def _multiples(b: Term, step: int = _STEP) -> list[Term]:
    """The multiples of b for the steps of a division, the greatest last: each one's factor is a power of two."""
    known = number(b.value)
    least = -149 if known is None else int(np.frexp(known)[1]) - 1 if 0 < known < inf else _LARGEST
    made: list[Term] = []
    for _ in range(step, _LARGEST - least, step):
        made.append(scaled(made[-1] if made else b, 2.0**step))
    return made


def _short_remainder(a: Term, b: Term, step: int) -> Term:
    """The remainder by a number of few bits: whole numbers of `step` bits times it need no rounding."""
    large = a >= 2.0 ** (_LARGEST - 1)
    rest = where(large, a * 0.5, a)
    for multiple in reversed(_multiples(b, step)):
        rest = rest - nearest_small(rest / multiple) * multiple
    rest = where(large, rest * 2.0, rest)
    rest = rest - nearest_small(rest / b) * b
    return where(rest < 0, rest + b, rest)


def _is_power_of_two(x: float | None) -> bool:
    return x is not None and 2.0**-99 < x < 2.0**99 and np.frexp(x)[0] == 0.5


def remainder(a: Term, b: Term) -> Term:
    """a minus the greatest multiple of b that is not above it, for a, b >= 0: by multiples of b that get smaller."""
    known = number(b.value)
    if known is not None and _is_power_of_two(float(known)):
        # Whatever is as large is a multiple of b; what is infinite has no remainder.
        rest = a - whole_part(a * (1 / float(known))) * b
        return where(a < float(known) * WHOLE, rest, a - a)
    if known is not None and 0 < known < inf and bits_of(float(known)) <= MANTISSA // 2:
        return _short_remainder(a, b, min(_STEP, MANTISSA - bits_of(float(known))))
    # Half of what is so large that multiples of b next to it may be too large; it is taken twice at the end.
    large = a >= 2.0 ** (_LARGEST - 1)
    rest = where(large, a * 0.5, a)
    multiples = _multiples(b)
    for multiple in reversed(multiples):
        rest = _leaves(rest, multiple, known is not None and bool(np.isfinite(known)))
        if multiple is multiples[0]:
            rest = where(rest < 0, rest + multiple, rest)
    rest = where(large, rest * 2.0, rest)
    _, rest = divided(rest, b, near_quotient(rest, b))
    return rest


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
