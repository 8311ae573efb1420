"""The operators of the Vector and GpSimd engines and the functions of the Scalar engine, as tables.

Arithmetic operators and functions take and return float32 (R-engine-12); bitvec operators take and return unsigned
integers, the bit patterns of the operands (R-engine-11).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import numpy as np

from tilewright.dtypes import DType, float32
from tilewright.rules import reporter
from tilewright.small_floats import widen
from tilewright.tile.erf import erf, normal_cdf

Binary = Callable[[Any, Any], Any]
Unary = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class AluOp:
    """An operator. `reduce` is its NumPy ufunc when NKI lists it as a legal reduction (R-engine-10).

    A unary operator ignores its second argument. `since` is the first NeuronCore generation that has it. An operator
    that is not `listed` is not in NKI's table of operators: instructions take it only where they say so.
    """

    name: str
    apply: Binary
    bitvec: bool = False
    unary: bool = False
    reduce: np.ufunc | None = None
    since: int = 2
    listed: bool = True


def _compare(function: Binary) -> Binary:
    return lambda a, b: function(a, b).astype(np.float32)


def _logical(function: Binary) -> Binary:
    return lambda a, b: function(np.not_equal(a, 0), np.not_equal(b, 0)).astype(np.float32)


def _shift(function: Binary) -> Binary:
    def shift(a: Any, b: Any) -> Any:
        # Shifting out all bits gives zero; NumPy, like C, leaves that undefined.
        bits = 8 * a.dtype.itemsize
        count = np.minimum(b, bits - 1).astype(a.dtype)
        return np.where(b < bits, function(a, count), 0).astype(a.dtype)

    return shift


def _abs_larger(a: Any, b: Any) -> Any:
    """The operand with the larger magnitude, with its sign; the second one when they are equal."""
    return np.where(np.abs(a) > np.abs(b), a, b)


def _abs_smaller(a: Any, b: Any) -> Any:
    return np.where(np.abs(a) < np.abs(b), a, b)


def _first(function: Unary) -> Binary:
    return lambda a, _b: function(a)


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _reciprocal(x: Any) -> Any:
    return 1 / x


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _power(a: Any, b: Any) -> Any:
    """a ** b, of float32 rounded once: NumPy's own is off by other amounts on other processors."""
    if np.result_type(a, b) != np.float32:
        return np.power(a, b)
    return np.power(a, b, dtype=np.float64).astype(np.float32)


_ROWS = (
    AluOp("invert", _first(np.invert), bitvec=True, unary=True),
    AluOp("bitwise_and", np.bitwise_and, bitvec=True, reduce=np.bitwise_and),
    AluOp("bitwise_or", np.bitwise_or, bitvec=True, reduce=np.bitwise_or),
    AluOp("bitwise_xor", np.bitwise_xor, bitvec=True, reduce=np.bitwise_xor),
    AluOp("left_shift", _shift(np.left_shift), bitvec=True),
    AluOp("right_shift", _shift(np.right_shift), bitvec=True),
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
    AluOp("power", _power),
    AluOp("abs_max", _abs_larger, since=4),
    AluOp("abs_min", _abs_smaller, since=4),
    AluOp("abs", _first(np.abs), unary=True),
    AluOp("square", _first(np.square), unary=True),
    AluOp("relu", _first(_relu), unary=True),
    AluOp("rsqrt", _first(_rsqrt), unary=True),
    AluOp("reciprocal", _first(_reciprocal), unary=True),
    AluOp("divide", np.divide, listed=False),
    AluOp("bypass", _first(lambda a: a), unary=True, listed=False),
)

ALU: dict[str, AluOp] = {row.name: row for row in _ROWS}
COMPARISONS = ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less")
REDUCTIONS = tuple(row.name for row in _ROWS if row.reduce is not None)
BINARY = tuple(row.name for row in _ROWS if row.listed and not row.unary)
ARITHMETIC = tuple(row.name for row in _ROWS if row.listed and not row.bitvec)
BINARY_ARITHMETIC = tuple(row.name for row in _ROWS if row.listed and not row.unary and not row.bitvec)

IDENTITIES: dict[str, float] = {
    "add": 0.0,
    "subtract": 0.0,
    "multiply": 1.0,
    "maximum": -np.inf,
    "minimum": np.inf,
    "abs_max": 0.0,
    "abs_min": np.inf,
}
"""What an accumulator register is reset to, by the operator that reduces into it."""


def apply(op: str, x: np.ndarray, operand: Any, reverse: bool = False) -> np.ndarray:
    """op(x, operand), or op(operand, x) when reversed; of a unary operator op(x)."""
    row = ALU[op]
    return row.apply(operand, x) if reverse and not row.unary else row.apply(x, operand)


# Integers.

_EXACT = 2 ** (np.finfo(np.float32).nmant + 1)
_INEXACT_HINT = (
    f"keep 32-bit integers below {_EXACT}, or use tensor_tensor with all operands int32 or uint32 in sbuf: it runs on "
    "GpSimd, which computes with integers"
)


def as_float(value: Any) -> Any:
    """What an engine that computes in float32 sees of an operand; warns when that changes 32-bit integers."""
    if not isinstance(value, np.ndarray):
        return np.float32(value)
    if value.dtype is float32.np:
        return value
    seen = widen(value)
    if value.dtype.kind in "iu" and value.dtype.itemsize == 4 and are_numbers(value) and not _all_exact(value, seen):
        reporter().warn("W102", f"{value.dtype} elements beyond {_EXACT} are rounded to float32", hint=_INEXACT_HINT)
    return seen


def _all_exact(value: np.ndarray, seen: np.ndarray) -> bool:
    return bool(np.abs(seen).max(initial=0) < _EXACT or (seen.astype(np.int64) == value).all())


def note_rounding(result: np.ndarray, dtype: DType, *inputs: Any) -> None:
    """Warn when 32-bit integers computed from integers are so large that float32 has rounded them."""
    if not dtype.is_integer or dtype.itemsize != 4 or result.dtype is not float32.np or not are_numbers(result):
        return
    whole = any(isinstance(each, np.ndarray) and each.dtype.kind in "iu" for each in inputs)
    if whole and np.abs(result).max(initial=0) > _EXACT:
        reporter().warn("W102", f"{dtype} results beyond {_EXACT} were computed in float32", hint=_INEXACT_HINT)


def pattern(value: np.ndarray | int, itemsize: int) -> np.ndarray:
    """The bits of an operand as unsigned integers of this width (narrower ones extended with zeros)."""
    unsigned = np.dtype(f"u{itemsize}")
    if isinstance(value, np.ndarray):
        return value.view(f"u{value.dtype.itemsize}").astype(unsigned, copy=False)
    return np.asarray(value & (256**itemsize - 1), unsigned)


def from_pattern(bits: np.ndarray, dtype: DType) -> np.ndarray:
    """Bits stored as `dtype`: cut or extended with zeros, never converted."""
    if dtype.kind == "b":
        return bits != 0
    return bits.astype(f"u{dtype.itemsize}", copy=False).view(dtype.np)


# Functions of the Scalar engine.


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of the Scalar engine. Its valid input range, if limited, is a figure of the target.

    has_table: the engine must load a table for it. No document says which functions share a table or need none; here
    each has its own, except for those that a sign, a comparison or a product gives.
    """

    name: str
    apply: Unary
    has_table: bool = True


def are_numbers(x: Any) -> bool:
    """False for arrays of something else than numbers, such as intervals, which look at themselves."""
    return not hasattr(x, "activated")


def activate(name: str, x: Any) -> Any:
    """A function of the Scalar engine; what is no array of numbers has its own way to apply it."""
    return ACTIVATIONS[name].apply(x) if are_numbers(x) else x.activated(name)


def table_of(function: str) -> str | None:
    """The table that the Scalar engine needs for a function."""
    return function if ACTIVATIONS[function].has_table else None


def _finite(x: Any) -> Any:
    # Infinity times a derivative that is zero would be NaN; the largest number times zero is the limit, zero.
    return np.clip(x, _LOWEST, -_LOWEST)


def _bounded_below(x: Any) -> Any:
    # As _finite, for a gate that is zero at minus infinity only.
    return np.maximum(x, _LOWEST)


_LOWEST = float(np.finfo(np.float32).min)


def _sigmoid(x: Any) -> Any:
    # Where exp overflows the sigmoid is zero, which is what 1 / infinity gives.
    with np.errstate(over="ignore"):
        e = np.exp(-x)
    e += 1
    return np.divide(1, e, out=e)


def _gelu(x: Any) -> Any:
    return _bounded_below(x) * normal_cdf(x)


def _gelu_dx(x: Any) -> Any:
    return normal_cdf(x) + _finite(x) * np.exp(-0.5 * x * x) * (1 / sqrt(2 * pi))


_TANH_SCALE, _TANH_CUBE, _SIGMOID_SCALE = sqrt(2 / pi), 0.044715, 1.702


def _gelu_tanh(x: Any) -> Any:
    """x * (1 + tanh(z)) / 2, which is x * sigmoid(2z) without its cancellation."""
    z = _TANH_SCALE * (x + _TANH_CUBE * x * x * x)
    return _bounded_below(x) * _sigmoid(2 * z)


def _gelu_sigmoid(x: Any) -> Any:
    return _bounded_below(x) * _sigmoid(_SIGMOID_SCALE * x)


def _gelu_sigmoid_dx(x: Any) -> Any:
    scaled = _SIGMOID_SCALE * x
    s = _sigmoid(scaled)
    return s + _finite(scaled) * s * _sigmoid(-scaled)


def _silu(x: Any) -> Any:
    return _bounded_below(x) * _sigmoid(x)


def _silu_dx(x: Any) -> Any:
    s = _sigmoid(x)
    return s + _finite(x) * s * _sigmoid(-x)


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _mish(x: Any) -> Any:
    return _bounded_below(x) * np.tanh(_softplus(x))


def _erf_dx(x: Any) -> Any:
    return 2 / sqrt(pi) * np.exp(-x * x)


def _sin(x: Any) -> Any:
    """sin inside [-pi, pi]; outside, the cubic of the outermost piece: sin(9.0) is documented to be about 27.65.

    The engine reduces no argument. The documented value is that of the cubic Taylor polynomial at pi.
    """
    beyond = np.abs(x) - np.float32(pi)
    if not (beyond > 0).any():
        return np.sin(x)
    return np.where(beyond > 0, np.sign(x) * (beyond * beyond * beyond / 6 - beyond), np.sin(x))


def prelu(x: Any, slope: Any) -> Any:
    """x, times `slope` where negative."""
    return np.where(x < 0, x * slope, x)


_FUNCTIONS = (
    Activation("copy", lambda x: x, has_table=False),
    Activation("square", np.square, has_table=False),
    Activation("sigmoid", _sigmoid),
    Activation("relu", _relu, has_table=False),
    # The slope is an argument of activate2 alone, 0 by default.
    Activation("prelu", _relu, has_table=False),
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
    Activation("erf_dx", _erf_dx),
    Activation("exp", np.exp),
    Activation("log", np.log),
    Activation("sin", _sin),
    Activation("arctan", np.arctan),
    Activation("sqrt", np.sqrt),
    Activation("rsqrt", _rsqrt),
    Activation("reciprocal", _reciprocal),
    Activation("sign", np.sign, has_table=False),
    Activation("abs", np.abs, has_table=False),
)

ACTIVATIONS: dict[str, Activation] = {row.name: row for row in _FUNCTIONS}
