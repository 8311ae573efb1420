"""Division of integers, on magnitudes with the signs put back. As in NumPy, dividing by 0 gives 0, and the least number
divided by -1 wraps.

Up to 16 bits everything is exact in float32. Quotients of 32 bits are estimated in float32 from below, and what is left
is divided again: two estimates and one correction give all bits.
"""

from __future__ import annotations

from tilewright.dtypes import float32, int32, uint32
from tilewright.tensor.passes.decompose.rounding import whole_part
from tilewright.tensor.passes.decompose.term import Term, expands, where

_BELOW = 1 - 2.0**-20
"""Makes an estimate too small that conversions and a division have made too large by some ulp."""


def estimate(a: Term, b: Term) -> Term:
    """A whole number not above a / b and near it, for uint32 with b > 0."""
    return ((a.to(float32) / b.to(float32)) * _BELOW).to(uint32)


def divided_words(a: Term, b: Term) -> tuple[Term, Term]:
    """n, r with a = n * b + r and 0 <= r < b, for uint32 with b > 0."""
    n = estimate(a, b)
    rest = a - n * b
    more = estimate(rest, b)
    n, rest = n + more, rest - more * b
    over = rest >= b
    return n + over.to(uint32), where(over, rest - b, rest)


def divided_small(a: Term, b: Term) -> tuple[Term, Term]:
    """n, r with a = n * b + r and 0 <= r < b, for whole float32 numbers of at most 16 bits with b > 0."""
    n = whole_part(a / b)
    rest = a - n * b
    over, under = rest >= b, rest < 0
    return (n + over.to(float32)) - under.to(float32), where(over, rest - b, where(under, rest + b, rest))


def parts(a: Term, b: Term) -> tuple[Term, Term]:
    """The whole quotient of |a| / |b| and what is left, int32 unless a is uint32; a divisor 0 counts as 1."""
    signed = a.dtype.kind == "i"
    if a.dtype.itemsize < int32.itemsize:
        top, bottom = abs(a.to(float32)), abs(b.to(float32))
        n, rest = divided_small(top, where(bottom == 0, 1, bottom))
        return n.to(int32), rest.to(int32)
    top, bottom = (where(x < 0, -x, x).as_bits(uint32) if signed else x for x in (a, b))
    n, rest = divided_words(top, where(bottom == 0, 1, bottom))
    return (n.as_bits(int32), rest.as_bits(int32)) if signed else (n, rest)


def differ(a: Term, b: Term) -> Term:
    """Whether one of both is negative."""
    return (a ^ b) < 0


@expands("floor_divide", kinds="iu")
def floor_divide_integers(a: Term, b: Term) -> Term:
    """floor_divide(a, b) -> n, or -n less 1 where r != 0, with |a| = n * |b| + r; 0 where b = 0"""
    n, rest = parts(a, b)
    if a.dtype.kind == "i":
        n = where(differ(a, b), -(n + (rest != 0).to(int32)), n)
    return where(b == 0, 0, n.to(a.dtype))


@expands("mod", kinds="iu")
def mod_integers(a: Term, b: Term) -> Term:
    """mod(a, b) -> fmod(a, b), plus b where that is not 0 and the signs differ; 0 where b = 0"""
    rest = _signed_rest(a, b)
    if a.dtype.kind == "i":
        wide = b.to(int32)
        rest = where(differ(rest, wide) & (rest != 0), rest + wide, rest)
    return rest.to(a.dtype)


@expands("fmod", kinds="iu")
def fmod_integers(a: Term, b: Term) -> Term:
    """fmod(a, b) -> r with the sign of a, |a| = n * |b| + r; 0 where b = 0"""
    return _signed_rest(a, b).to(a.dtype)


def _signed_rest(a: Term, b: Term) -> Term:
    _, rest = parts(a, b)
    return where(a < 0, -rest, rest) if a.dtype.kind == "i" else rest
