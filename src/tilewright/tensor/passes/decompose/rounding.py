"""Whole numbers near a float32: the nearest one, less or more by 1 where that lies on the wrong side.

By adding and taking off 2**23: there neighbouring float32 numbers differ by 1, so that the sum is rounded to a whole
number, ties to even. From there on every float32 is whole; NaN and infinities go with those. Signs, also of zeros, are
bits that are put back."""

from __future__ import annotations

from tilewright.dtypes import float32
from tilewright.tensor.passes.decompose.term import Term, apply, expands, where, with_sign

WHOLE = float(2**23)
"""From here on float32 holds whole numbers only."""

MIDDLE = WHOLE + WHOLE / 2
"""Added to a number that is at most 2**22, it leaves a whole number, which is the last bits of the sum."""


def nearest(x: Term) -> Term:
    """The whole number nearest to x, ties to even, for every float32."""
    return apply("rint", x)


def nearest_small(x: Term) -> Term:
    """The whole number nearest to x, ties to even, where |x| <= 2**22; zeros lose their sign."""
    return (x + MIDDLE) - MIDDLE


def whole_part(size: Term) -> Term:
    """The greatest whole number <= size for 0 <= size < 2**23."""
    near = (size + WHOLE) - WHOLE
    return near - (near > size).to(float32)


def round_down(x: Term) -> Term:
    """The greatest whole number <= x: the nearest one, less 1 where that lies above x."""
    near = nearest(x)
    return near - (near > x).to(float32)


@expands("floor")
def floor(x: Term) -> Term:
    """floor(x) -> n - (1 where n > x) with n = rint(x)"""
    return round_down(x)


@expands("ceil")
def ceil(x: Term) -> Term:
    """ceil(x) -> -floor(-x)"""
    return -round_down(-x)


@expands("trunc")
def trunc(x: Term) -> Term:
    """trunc(x) -> x with |x| replaced by floor(|x|) where |x| < 2**23"""
    size = abs(x)
    return where(size < WHOLE, with_sign(whole_part(size), x), x)
