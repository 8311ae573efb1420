"""The greatest common divisor, by Euclid's steps with quotients that need not be exact.

Whatever whole number n is, a and b have the divisors of b and a - n * b. With n near a / b, as float32 gives it, what
is left is about half of b at most, or far less than a; with b = 0 the two change places. So after enough steps one of
them is 0, and the other the divisor or its negative.
"""

from __future__ import annotations

from math import ceil, log, sqrt

from tilewright.dtypes import float32, int32, uint32
from tilewright.tensor.passes.decompose.integers import divided_words
from tilewright.tensor.passes.decompose.term import Term, apply, expands, where

_WHOLE = 1.5 * 2.0**23
"""Added to a float32 number below 2 ** 22 and taken away again, it rounds that to a whole one."""
_MORE = 4
"""Steps in which numbers change places or a quotient is far off."""


def _steps(bits: int) -> int:
    return ceil(bits / log(1 + sqrt(2), 2)) + _MORE


@expands("gcd", kinds="iu")
def gcd(a: Term, b: Term) -> Term:
    """gcd(a, b) -> |x + y|, one of which is 0, after steps x, y = y, x - rint(x / y) * y"""
    dtype = a.dtype
    bits = 8 * dtype.itemsize
    if dtype.itemsize < int32.itemsize:
        # All of it is whole in float32.
        x, y = a.to(float32), b.to(float32)
        for _ in range(_steps(bits)):
            near = (x / (y + (y == 0).to(float32)) + _WHOLE) - _WHOLE
            x, y = y, x - near * y
        return abs(x + y).to(int32).to(dtype)
    if dtype is not uint32:
        return _signed(a, b, bits)
    # Two steps of the exact kind, and one that may do no more than exchange them, leave numbers that int32 has, or 0
    # and the divisor.
    for _ in range(3):
        none = b == 0
        _, rest = divided_words(a, where(none, 1, b))
        a, b = where(none, a, b), where(none, 0, rest)
    return where(b == 0, a, _signed(a.as_bits(int32), b.as_bits(int32), bits).as_bits(uint32))


def _signed(a: Term, b: Term, bits: int) -> Term:
    """The divisor of int32 numbers."""
    top = a.to(float32)
    for _ in range(_steps(bits)):
        bottom = b.to(float32)
        near = top / (bottom + (bottom == 0).to(float32))
        a, b, top = b, a - (near + apply("sign", near) * 0.5).to(int32) * b, bottom
    return abs(a + b)
