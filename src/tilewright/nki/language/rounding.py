"""Rounding and remainders, built from conversions to int32, which round to the nearest even (R-tensor-22)."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import DType, int32
from tilewright.nki.language.checks import require_simulation
from tilewright.nki.language.issue import issue, new_tile
from tilewright.nki.language.math import combine, filled
from tilewright.nki.language.operands import operand_of, result_dtype, same_shape, tile_of
from tilewright.nki.language.operators import operator
from tilewright.nki.tensor import NkiTensor

# From here on float32 holds whole numbers only, and int32 still holds all of them.
_WHOLE = float(2**23)


def to_nearest(x: NkiTensor) -> tuple[NkiTensor, NkiTensor]:
    """(n, x - n) in float32 with the whole number n nearest to x; exact for every x, infinities and -0 included."""
    small, whole = new_tile(x.shape), new_tile(x.shape, int32)
    issue("tensor_scalar", small, x, op0="maximum", operand0=-_WHOLE, op1="minimum", operand1=_WHOLE)
    issue("tensor_copy", whole, small)
    rest, nearest = new_tile(x.shape), new_tile(x.shape)
    # Adding 0 makes the rest of -0 +0: only -0 - (+0) is -0 again.
    issue("scalar_tensor_tensor", rest, small, 0.0, whole, op0="add", op1="subtract")
    issue("tensor_tensor", nearest, x, rest, op="subtract")
    return nearest, rest


def round_down(x: NkiTensor, dtype: DType) -> NkiTensor:
    """The largest whole number not above x: one less than the nearest where that lies above x."""
    nearest, rest = to_nearest(x)
    dst = new_tile(x.shape, dtype)
    issue("scalar_tensor_tensor", dst, rest, 0.0, nearest, op0="less", op1="subtract", reverse1=True)
    return dst


@operator
def floor(x: Any, dtype: Any = None) -> NkiTensor:
    """The largest whole number not above x."""
    data = tile_of("floor", "x", x)
    return round_down(data, result_dtype("floor", dtype, data))


@operator
def ceil(x: Any, dtype: Any = None) -> NkiTensor:
    """The smallest whole number not below x: -floor(-x)."""
    data = tile_of("ceil", "x", x)
    negative, dst = new_tile(data.shape), new_tile(data.shape, result_dtype("ceil", dtype, data))
    issue("tensor_scalar", negative, data, op0="multiply", operand0=-1.0)
    issue("tensor_scalar", dst, round_down(negative, negative.dtype), op0="multiply", operand0=-1.0)
    return dst


@operator
def trunc(x: Any, dtype: Any = None) -> NkiTensor:
    """x without its fraction: floor(|x|), which is 0 or at least 1, times x cut off at -1 and 1."""
    data = tile_of("trunc", "x", x)
    magnitude, sign = new_tile(data.shape), new_tile(data.shape)
    issue("activation", magnitude, data, op="abs")
    issue("tensor_scalar", sign, data, op0="maximum", operand0=-1.0, op1="minimum", operand1=1.0)
    dst = new_tile(data.shape, result_dtype("trunc", dtype, data))
    issue("tensor_tensor", dst, round_down(magnitude, magnitude.dtype), sign, op="multiply")
    return dst


def _arguments(api: str, x: Any, y: Any, dtype: Any) -> tuple[NkiTensor, NkiTensor, DType]:
    """x and y as tiles of one shape, numbers filled in, and the dtype of the result."""
    require_simulation(api, "compute x - y * nl.floor(x * nl.reciprocal(y))")
    a, b = operand_of(api, "x", x), operand_of(api, "y", y)
    tiles = [each for each in (a, b) if isinstance(each, NkiTensor)]
    if not tiles:
        combine(api, api, a, b, dtype)
    wanted = result_dtype(api, dtype, *tiles)
    a = a if isinstance(a, NkiTensor) else filled(tiles[0].shape, a)
    b = b if isinstance(b, NkiTensor) else filled(tiles[0].shape, b)
    a, b = same_shape(api, a, b)
    return a, b, wanted


def _remainder(a: NkiTensor, b: NkiTensor, dst: NkiTensor) -> None:
    """dst = a - b * floor(a / b). Where the quotient was rounded up to a whole number, b is added back."""
    shape = dst.shape
    quotient, product, rest, sign = new_tile(shape), new_tile(shape), new_tile(shape), new_tile(shape)
    issue("tensor_tensor", quotient, a, b, op="divide")
    issue("tensor_tensor", product, round_down(quotient, quotient.dtype), b, op="multiply")
    issue("tensor_tensor", rest, a, product, op="subtract")
    issue("tensor_tensor", sign, rest, b, op="multiply")
    back = new_tile(shape)
    issue("scalar_tensor_tensor", back, sign, 0.0, b, op0="less", op1="multiply")
    issue("tensor_tensor", dst, rest, back, op="add")


@operator
def mod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """The remainder of x / y with the sign of y, to within float32 rounding of x; in simulation only (R-nl-02)."""
    a, b, wanted = _arguments("mod", x, y, dtype)
    dst = new_tile(a.shape, wanted)
    _remainder(a, b, dst)
    return dst


@operator
def fmod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """The remainder of x / y with the sign of x, to within float32 rounding of x; in simulation only (R-nl-02)."""
    a, b, wanted = _arguments("fmod", x, y, dtype)
    magnitude, sign, divisor, rest = new_tile(a.shape), new_tile(a.shape), new_tile(b.shape), new_tile(a.shape)
    issue("activation", magnitude, a, op="abs")
    issue("activation", sign, a, op="sign")
    issue("activation", divisor, b, op="abs")
    _remainder(magnitude, divisor, rest)
    dst = new_tile(a.shape, wanted)
    issue("tensor_tensor", dst, rest, sign, op="multiply")
    return dst


__all__ = ["ceil", "floor", "fmod", "mod", "trunc"]
