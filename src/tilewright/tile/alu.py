"""The operators of the Vector and GpSimd engines and the functions of the Scalar engine, as tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np

Binary = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class AluOp:
    """An operator. `reduce` is its NumPy ufunc when NKI lists it as a legal reduction.

    bitvec operators work on bit patterns of integers; the others compute in float32. A unary operator ignores its
    second argument. `since` is the first NeuronCore generation that has it.
    """

    name: str
    apply: Binary
    bitvec: bool = False
    unary: bool = False
    reduce: np.ufunc | None = None
    since: int = 2


def _bits(function: Binary) -> Binary:
    """Bit patterns keep the width of the first array."""
    return lambda a, b: function(a, b)


def _compare(function: Binary) -> Binary:
    return lambda a, b: function(a, b).astype(np.float32)


def _logical(function: Binary) -> Binary:
    return lambda a, b: function(np.not_equal(a, 0), np.not_equal(b, 0)).astype(np.float32)


def _left_shift(a: Any, b: Any) -> Any:
    # Shifting by the width or more gives zero, which C leaves undefined.
    width = np.asarray(a).dtype.itemsize * 8
    return np.where(np.asarray(b) < width, np.left_shift(a, np.minimum(b, width - 1)), 0)


def _right_shift(a: Any, b: Any) -> Any:
    """Logical shift right: the arithmetic one is not supported."""
    a = np.asarray(a)
    width = a.dtype.itemsize * 8
    pattern = a.view(np.dtype(f"u{a.dtype.itemsize}"))
    shift = np.minimum(b, width - 1).astype(pattern.dtype)
    moved = np.where(np.asarray(b) < width, np.right_shift(pattern, shift), 0)
    return moved.astype(pattern.dtype).view(a.dtype)


def _abs_larger(a: Any, b: Any) -> Any:
    return np.maximum(np.abs(a), np.abs(b))


def _abs_smaller(a: Any, b: Any) -> Any:
    return np.minimum(np.abs(a), np.abs(b))


def _first(function: Callable[[Any], Any]) -> Binary:
    return lambda a, _b: function(a)


_ROWS = (
    AluOp("invert", _first(np.invert), bitvec=True, unary=True),
    AluOp("bitwise_and", _bits(np.bitwise_and), bitvec=True, reduce=np.bitwise_and),
    AluOp("bitwise_or", _bits(np.bitwise_or), bitvec=True, reduce=np.bitwise_or),
    AluOp("bitwise_xor", _bits(np.bitwise_xor), bitvec=True, reduce=np.bitwise_xor),
    AluOp("left_shift", _left_shift, bitvec=True),
    AluOp("right_shift", _right_shift, bitvec=True),
    AluOp("add", np.add, reduce=np.add),
    AluOp("subtract", np.subtract, reduce=np.subtract),
    AluOp("multiply", np.multiply, reduce=np.multiply),
    AluOp("maximum", np.maximum, reduce=np.maximum),
    AluOp("minimum", np.minimum, reduce=np.minimum),
    AluOp("equal", _compare(np.equal)),
    AluOp("not_equal", _compare(np.not_equal)),
    AluOp("greater_equal", _compare(np.greater_equal)),
    AluOp("greater", _compare(np.greater)),
    AluOp("less_equal", _compare(np.less_equal)),
    AluOp("less", _compare(np.less)),
    AluOp("logical_and", _logical(np.logical_and), reduce=np.logical_and),
    AluOp("logical_or", _logical(np.logical_or), reduce=np.logical_or),
    AluOp("logical_xor", _logical(np.logical_xor), reduce=np.logical_xor),
    AluOp("power", np.power),
    AluOp("abs_max", _abs_larger, since=4),
    AluOp("abs_min", _abs_smaller, since=4),
    AluOp("divide", np.divide),
    AluOp("abs", _first(np.abs), unary=True),
    AluOp("square", _first(np.square), unary=True),
    AluOp("relu", _first(lambda a: np.maximum(a, 0)), unary=True),
    AluOp("rsqrt", _first(lambda a: 1 / np.sqrt(a)), unary=True),
    AluOp("reciprocal", _first(lambda a: 1 / a), unary=True),
    AluOp("bypass", _first(lambda a: a), unary=True),
)

ALU: dict[str, AluOp] = {row.name: row for row in _ROWS}
COMPARISONS = ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less")


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of the Scalar engine on float32. `low` and `high` bound the documented input range."""

    name: str
    apply: Callable[[Any], Any]
    low: float = -np.inf
    high: float = np.inf
    magnitude: bool = False


def erf(x: Any) -> np.ndarray:
    """The error function in float64, by SciPy-free series: erf from NumPy's own vectorised math.erf."""
    from math import erf as scalar_erf

    values = np.asarray(x, np.float64)
    unique = np.frompyfunc(scalar_erf, 1, 1)
    return unique(values).astype(np.float64)


def _sigmoid(x: Any) -> Any:
    # exp of a non-positive number only, so that nothing overflows.
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + erf(x / np.sqrt(2.0)))


def _gelu_dx(x: Any) -> Any:
    return 0.5 * (1 + erf(x / np.sqrt(2.0))) + x * np.exp(-0.5 * x * x) / np.sqrt(2 * pi)


_TANH_SCALE, _TANH_CUBE, _SIGMOID_SCALE = np.sqrt(2 / pi), 0.044715, 1.702


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(_TANH_SCALE * (x + _TANH_CUBE * x**3)))


def _gelu_sigmoid(x: Any) -> Any:
    return x * _sigmoid(_SIGMOID_SCALE * x)


def _gelu_sigmoid_dx(x: Any) -> Any:
    s = _sigmoid(_SIGMOID_SCALE * x)
    return s + _SIGMOID_SCALE * x * s * (1 - s)


def _silu(x: Any) -> Any:
    return x * _sigmoid(x)


def _silu_dx(x: Any) -> Any:
    s = _sigmoid(x)
    return s * (1 + x * (1 - s))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _mish(x: Any) -> Any:
    return x * np.tanh(_softplus(x))


def _sin(x: Any) -> Any:
    """sin inside [-pi, pi]; outside, a cubic that continues it, as the documentation shows (sin(9.0) is about 27.65)."""
    x = np.asarray(x, np.float64)
    beyond = np.abs(x) - pi
    outside = np.sign(x) * (-beyond + _SIN_CUBIC * beyond**3)
    return np.where(beyond > 0, outside, np.sin(x))


# Chosen so that the one documented point, sin(9.0) = 27.65, lies on the cubic with slope -1 at pi.
_SIN_CUBIC = (27.65 + (9.0 - pi)) / (9.0 - pi) ** 3

_FUNCTIONS = (
    Activation("copy", lambda x: x),
    Activation("square", np.square),
    Activation("sigmoid", _sigmoid),
    Activation("relu", lambda x: np.maximum(x, 0)),
    Activation("prelu", lambda x: np.maximum(x, 0)),
    Activation("gelu", _gelu),
    Activation("gelu_dx", _gelu_dx),
    Activation("gelu_apprx_tanh", _gelu_tanh),
    Activation("gelu_apprx_sigmoid", _gelu_sigmoid),
    Activation("gelu_apprx_sigmoid_dx", _gelu_sigmoid_dx),
    Activation("silu", _silu),
    Activation("silu_dx", _silu_dx),
    Activation("tanh", np.tanh),
    Activation("softplus", _softplus),
    Activation("mish", _mish),
    Activation("erf", erf),
    Activation("erf_dx", lambda x: 2 / np.sqrt(pi) * np.exp(-np.square(x))),
    Activation("exp", np.exp),
    Activation("log", np.log, 2.0**-64, 2.0**64),
    Activation("sin", _sin, -pi, pi),
    Activation("arctan", np.arctan, -pi / 2, pi / 2),
    Activation("sqrt", np.sqrt, 2.0**-116, 2.0**118),
    Activation("rsqrt", lambda x: 1 / np.sqrt(x), 2.0**-87, 2.0**97),
    Activation("reciprocal", lambda x: 1 / x, 2.0**-42, 2.0**42, magnitude=True),
    Activation("sign", np.sign),
    Activation("abs", np.abs),
)

ACTIVATIONS: dict[str, Activation] = {row.name: row for row in _FUNCTIONS}
