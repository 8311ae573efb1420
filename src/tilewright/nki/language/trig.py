"""sin, cos and tan with the argument reduced to [-pi, pi], where the Scalar engine's sine is valid (R-engine-09).

x - n * 2 pi loses its digits where the product is rounded. So n is split into high * 2**12 + low and the period into
parts of 12 bits: each product of a count and a part fits the 24 bits of float32, and taken off from the largest to the
smallest every difference is exact until it is small. This holds for |x| up to 2**24 periods (10**8), where neighbouring
float32 numbers are further apart than a period; beyond, results stay within [-1, 1] but mean nothing.
"""

from __future__ import annotations

from fractions import Fraction
from math import pi
from typing import Any

from tilewright.dtypes import int32
from tilewright.nki.language.issue import issue, new_tile
from tilewright.nki.language.operands import result_dtype, tile_of
from tilewright.nki.language.operators import operator
from tilewright.nki.tensor import NkiTensor

_PART_BITS = 12
# 2 pi to 90 bits: float64 pi plus the difference that it leaves.
_TWO_PI = 2 * (Fraction(pi) + Fraction(1.2246467991473532e-16))
_PI_F32 = 3.1415925  # The largest float32 below pi.


def _parts(value: Fraction, count: int) -> list[float]:
    """`value`, below 8, as a sum of multiples of 2**-9, 2**-21, 2**-33 and so on, each of at most 12 bits."""
    found: list[float] = []
    for position in range(1, count + 1):
        step = Fraction(8, 2 ** (position * _PART_BITS))
        part = round(value / step) * step
        found.append(float(part))
        value -= part
    return found


_PARTS = _parts(_TWO_PI, 5)
_SPLIT = float(2**_PART_BITS)


def reduced(x: NkiTensor) -> NkiTensor:
    """A float32 tile of x minus whole periods, within [-pi, pi]; NaN where x is not finite."""
    whole, high, low = new_tile(x.shape, int32), new_tile(x.shape, int32), new_tile(x.shape)
    issue("tensor_scalar", whole, x, op0="multiply", operand0=1.0 / (2 * pi))
    issue("tensor_scalar", high, whole, op0="multiply", operand0=1.0 / _SPLIT)
    issue("scalar_tensor_tensor", low, high, -_SPLIT, whole, op0="multiply", op1="add")
    a, b, c, d, e = _PARTS
    order = ((high, a), (high, b), (low, a), (high, c), (low, b), (high, d), (low, c), (high, e))
    rest = x
    for count, part in order:
        rest = _less(rest, count, part * _SPLIT if count is high else part)
    # x / (2 pi) was rounded: the rest may lie a period outside.
    turns = new_tile(x.shape, int32)
    issue("tensor_scalar", turns, rest, op0="multiply", operand0=1.0 / (2 * pi))
    for part in (a, b, c):
        rest = _less(rest, turns, part)
    finite, inside = new_tile(x.shape), new_tile(x.shape)
    issue("scalar_tensor_tensor", finite, x, 0.0, rest, op0="multiply", op1="add")
    issue("tensor_scalar", inside, finite, op0="maximum", operand0=-_PI_F32, op1="minimum", operand1=_PI_F32)
    return inside


def _less(x: NkiTensor, count: NkiTensor, part: float) -> NkiTensor:
    """x - count * part."""
    dst = new_tile(x.shape)
    issue("scalar_tensor_tensor", dst, count, -part, x, op0="multiply", op1="add")
    return dst


def _sine(angle: NkiTensor, dst: NkiTensor) -> NkiTensor:
    issue("activation", dst, angle, op="sin")
    return dst


def _cosine(angle: NkiTensor, dst: NkiTensor) -> NkiTensor:
    """cos(a) = sin(pi/2 - |a|), whose argument stays within [-pi/2, pi/2]."""
    magnitude, turned = new_tile(angle.shape), new_tile(angle.shape)
    issue("activation", magnitude, angle, op="abs")
    issue("tensor_scalar", turned, magnitude, op0="multiply", operand0=-1.0, op1="add", operand1=pi / 2)
    return _sine(turned, dst)


@operator
def sin(x: Any, dtype: Any = None) -> NkiTensor:
    """Sine, with the argument reduced first."""
    data = tile_of("sin", "x", x)
    return _sine(reduced(data), new_tile(data.shape, result_dtype("sin", dtype, data)))


@operator
def cos(x: Any, dtype: Any = None) -> NkiTensor:
    """Cosine, with the argument reduced first."""
    data = tile_of("cos", "x", x)
    return _cosine(reduced(data), new_tile(data.shape, result_dtype("cos", dtype, data)))


@operator
def tan(x: Any, dtype: Any = None) -> NkiTensor:
    """Tangent: sine over cosine of the reduced argument."""
    data = tile_of("tan", "x", x)
    angle = reduced(data)
    sine, cosine = _sine(angle, new_tile(data.shape)), _cosine(angle, new_tile(data.shape))
    inverse = new_tile(data.shape)
    issue("reciprocal", inverse, cosine)
    dst = new_tile(data.shape, result_dtype("tan", dtype, data))
    issue("tensor_tensor", dst, sine, inverse, op="multiply")
    return dst


__all__ = ["cos", "sin", "tan"]
