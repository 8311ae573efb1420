"""Elementwise ops, as a table of rows: name, NumPy function, equation, whether lowering takes it.

Operands broadcast as in NumPy. `compare` rows give bool. Functions that NumPy lacks are defined here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, sqrt
from typing import Any

import numpy as np

from tilewright.dtypes import DType, bool_, int32, round_to, tfloat32
from tilewright.tensor.record import op, register, result_dtype
from tilewright.tensor.types import Scalar, TensorType


def _shape(*operands: TensorType | Scalar) -> tuple[int, ...]:
    return np.broadcast_shapes(*(x.shape for x in operands if isinstance(x, TensorType)))


def _same(*operands: TensorType | Scalar) -> TensorType:
    return TensorType(result_dtype(*operands), _shape(*operands))


def _truth(*operands: TensorType | Scalar) -> TensorType:
    return TensorType(bool_, _shape(*operands))


def in_float32(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A function that computes types narrower than float32 in float32 and rounds once."""

    def widened(*arrays: np.ndarray) -> np.ndarray:
        dtype = arrays[0].dtype
        if dtype.kind == "f" and dtype.itemsize >= 4:
            return function(*arrays)
        return function(*(a.astype(np.float32) for a in arrays)).astype(dtype)

    return widened


def in_float64(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A function that computes every type in float64 and rounds once: for formulas that cancel."""

    def widened(*arrays: np.ndarray) -> np.ndarray:
        return function(*(a.astype(np.float64) for a in arrays)).astype(arrays[0].dtype)

    return widened


def erf_of(x: np.ndarray) -> np.ndarray:
    """The error function of float64."""
    return np.fromiter(map(erf, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # exp of a negative number alone: no overflow on either side.
    small = np.exp(-np.abs(x))
    return (np.where(x >= 0, x.dtype.type(1), small) / (1 + small)).astype(x.dtype)


def _ldexp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.ldexp(x, y.astype(np.int32))


UNARY: dict[str, tuple[Callable[..., Any], str, bool]] = {
    "negative": (np.negative, "-x", True),
    "abs": (np.abs, "|x|", True),
    "sign": (np.sign, "-1, 0 or 1", True),
    "exp": (np.exp, "e ** x", True),
    "log": (np.log, "ln x", True),
    "sqrt": (np.sqrt, "x ** 0.5", True),
    "rsqrt": (in_float32(lambda x: 1 / np.sqrt(x)), "1 / x ** 0.5", True),
    "reciprocal": (np.reciprocal, "1 / x, for integers without its fraction", True),
    "square": (np.square, "x * x", True),
    "tanh": (np.tanh, "tanh x", True),
    "sigmoid": (in_float32(_sigmoid), "1 / (1 + e ** -x)", True),
    "silu": (in_float32(lambda x: x * _sigmoid(x)), "x / (1 + e ** -x)", False),
    "relu": (lambda x: np.maximum(x, x.dtype.type(0)), "max(x, 0)", True),
    "erf": (in_float64(erf_of), "2 / pi ** 0.5 * integral of e ** -t**2 from 0 to x", True),
    "gelu": (in_float64(lambda x: x * (1 + erf_of(x / sqrt(2))) / 2), "x * (1 + erf(x / 2 ** 0.5)) / 2", True),
    "gelu_tanh": (
        in_float64(lambda x: x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2),
        "x * (1 + tanh((2 / pi) ** 0.5 * (x + 0.044715 * x**3))) / 2",
        True,
    ),
    "sin": (np.sin, "sin x", False),
    "cos": (np.cos, "cos x", False),
    "arctan": (np.arctan, "arctan x", False),
    "sin_near": (np.sin, "sin x for -pi <= x <= pi", True),
    "arctan_near": (np.arctan, "arctan x for |x| <= pi / 2", True),
    "floor": (np.floor, "greatest integer <= x", False),
    "ceil": (np.ceil, "least integer >= x", False),
    "trunc": (np.trunc, "x without its fraction", False),
    "rint": (np.rint, "nearest integer, ties to even", True),
    "invert": (np.invert, "bits of x flipped", False),
    "exp2": (np.exp2, "2 ** x", False),
    "expm1": (np.expm1, "e ** x - 1, exact near 0", False),
    "log2": (np.log2, "logarithm of x to base 2", False),
    "log10": (np.log10, "logarithm of x to base 10", False),
    "log1p": (np.log1p, "ln(1 + x), exact near 0", False),
    "cbrt": (np.cbrt, "y with y ** 3 = x", False),
    "tan": (np.tan, "tan x", False),
    "arcsin": (np.arcsin, "arcsin x", False),
    "arccos": (np.arccos, "arccos x", False),
    "sinh": (np.sinh, "sinh x", False),
    "cosh": (np.cosh, "cosh x", False),
    "arcsinh": (np.arcsinh, "arcsinh x", False),
    "arccosh": (np.arccosh, "arccosh x", False),
    "arctanh": (np.arctanh, "arctanh x", False),
    "spacing": (np.spacing, "distance of x to the next number away from 0, with the sign of x", False),
}
"""x -> x: op, its meaning, its right side, whether it is primitive."""

BINARY: dict[str, tuple[Callable[..., Any], str, bool]] = {
    "add": (np.add, "x + y", True),
    "subtract": (np.subtract, "x - y", True),
    "multiply": (np.multiply, "x * y", True),
    "divide": (np.divide, "x / y", True),
    "quotient": (np.divide, "x / y, rounded once", False),
    "maximum": (np.maximum, "max(x, y), NaN where either is", True),
    "minimum": (np.minimum, "min(x, y), NaN where either is", True),
    "power": (np.power, "x ** y", False),
    "floor_divide": (np.floor_divide, "floor(x / y)", False),
    "mod": (np.mod, "x - y * floor(x / y)", False),
    "gcd": (np.gcd, "the greatest integer that divides x and y", False),
    "bitwise_and": (np.bitwise_and, "bits in both", True),
    "bitwise_or": (np.bitwise_or, "bits in either", True),
    "bitwise_xor": (np.bitwise_xor, "bits in one of both", True),
    "left_shift": (np.left_shift, "x << y", True),
    "right_shift": (np.right_shift, "x >> y, the sign kept", True),
    "fmod": (np.fmod, "x - y * trunc(x / y)", False),
    "arctan2": (np.arctan2, "angle of the point (y, x), x being the first operand", False),
    "hypot": (np.hypot, "(x * x + y * y) ** 0.5 without overflow inside", False),
    "logaddexp": (np.logaddexp, "ln(e ** x + e ** y) without overflow inside", False),
    "logaddexp2": (np.logaddexp2, "logarithm to base 2 of 2 ** x + 2 ** y, without overflow inside", False),
    "nextafter": (np.nextafter, "the number next to x in the direction of y", False),
    "ldexp": (_ldexp, "x * 2 ** y rounded once; y holds integers", False),
}
"""x, y -> the same type."""

COMPARE: dict[str, tuple[Callable[..., Any], str, bool]] = {
    "equal": (np.equal, "x == y", True),
    "not_equal": (np.not_equal, "x != y", True),
    "less": (np.less, "x < y", True),
    "less_equal": (np.less_equal, "x <= y", True),
    "greater": (np.greater, "x > y", True),
    "greater_equal": (np.greater_equal, "x >= y", True),
}
"""x, y -> bool."""

for _name, (_function, _right, _primitive) in UNARY.items():
    register(_name, f"out = {_right}", _function, "elementwise", "x", (), _same, _primitive)
for _name, (_function, _right, _primitive) in BINARY.items():
    register(_name, f"out = {_right}", _function, "elementwise", "x y", (), _same, _primitive)
for _name, (_function, _right, _primitive) in COMPARE.items():
    register(_name, f"out = {_right}", _function, "elementwise", "x y", (), _truth, _primitive)
register(
    "signbit",
    "out = whether the sign of x is set, also of -0.0 and NaN",
    np.signbit,
    "elementwise",
    "x",
    (),
    _truth,
    False,
)


@op(
    family="elementwise",
    operands="x",
    infer=lambda x: (x, x.with_dtype(int32)),
    primitive=False,
)
def frexp(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """m, e with m * 2 ** e = x and 0.5 <= |m| < 1; x, 0 for 0, infinities and NaN"""
    fraction, exponent = np.frexp(x)
    special = ~np.isfinite(x)  # what C leaves open
    return np.where(special, x, fraction), np.where(special, 0, exponent).astype(np.int32)


def _chosen(condition: TensorType, x: TensorType | Scalar, y: TensorType | Scalar) -> TensorType:
    return TensorType(result_dtype(x, y), _shape(condition, x, y))


@op(family="elementwise", operands="condition x y", infer=_chosen, primitive=True)
def where(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """out = x where condition, else y; one of x and y at least is a tensor"""
    return np.where(condition, x, y)


@op(
    family="elementwise",
    operands="x",
    attrs=("dtype",),
    infer=lambda x, dtype: x.with_dtype(dtype),
    primitive=True,
)
def cast(x: np.ndarray, dtype: DType) -> np.ndarray:
    """out = x as dtype: to floats by rounding to nearest even, to integers by truncation, to bool by x != 0

    Integers wrap to narrower integers. A float that an integer type cannot hold gives what the machine gives, as in
    NumPy; beyond the range of a float type lies infinity, or NaN where the type has none.
    """
    return round_to(x, dtype) if dtype is tfloat32 else x.astype(dtype.np)


@op(
    family="elementwise",
    operands="x",
    attrs=("dtype",),
    infer=lambda x, dtype: x.with_dtype(dtype),
    primitive=True,
)
def nearest(x: np.ndarray, dtype: DType) -> np.ndarray:
    """out = the integer of type dtype nearest to the float x, ties to even; beyond the type as cast has it"""
    return np.rint(x.astype(np.float32)).astype(dtype.np)


@op(
    family="elementwise",
    operands="x",
    attrs=("dtype",),
    infer=lambda x, dtype: x.with_dtype(dtype),
    primitive=True,
)
def bitcast(x: np.ndarray, dtype: DType) -> np.ndarray:
    """out = the bits of x read as dtype, which has as many"""
    return np.ascontiguousarray(x).view(dtype.np).reshape(x.shape)
