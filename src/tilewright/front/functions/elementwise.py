"""The ufuncs that compute each element by itself.

Most are one op of the IR. A kernel below gets operands of the element types of NumPy's loop: values, or Python numbers
with at least one value among them (values alone where the loop's inputs are of different types).
"""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import bool_, float32
from tilewright.front.functions.floats import isinf
from tilewright.front.functions.operands import dtype_of, full_like
from tilewright.front.promote import Operand, cast
from tilewright.front.refusal import numpy_error
from tilewright.front.trace import emit
from tilewright.front.ufunc import elementwise
from tilewright.ir.core import Value

_NAMED: dict[np.ufunc, str] = {
    np.subtract: "subtract",
    np.divide: "divide",
    np.floor_divide: "floor_divide",
    np.remainder: "mod",
    np.fmod: "fmod",
    np.negative: "negative",
    np.sign: "sign",
    np.square: "square",
    np.sqrt: "sqrt",
    np.cbrt: "cbrt",
    np.reciprocal: "reciprocal",
    np.hypot: "hypot",
    np.exp: "exp",
    np.exp2: "exp2",
    np.expm1: "expm1",
    np.log: "log",
    np.log2: "log2",
    np.log10: "log10",
    np.log1p: "log1p",
    np.logaddexp: "logaddexp",
    np.logaddexp2: "logaddexp2",
    np.sin: "sin",
    np.cos: "cos",
    np.tan: "tan",
    np.arcsin: "arcsin",
    np.arccos: "arccos",
    np.arctan: "arctan",
    np.arctan2: "arctan2",
    np.sinh: "sinh",
    np.cosh: "cosh",
    np.tanh: "tanh",
    np.arcsinh: "arcsinh",
    np.arccosh: "arccosh",
    np.arctanh: "arctanh",
    np.rint: "rint",
    np.gcd: "gcd",
    np.bitwise_and: "bitwise_and",
    np.bitwise_or: "bitwise_or",
    np.bitwise_xor: "bitwise_xor",
    np.invert: "invert",
    np.left_shift: "left_shift",
    np.right_shift: "right_shift",
    np.signbit: "signbit",
    np.nextafter: "nextafter",
    np.spacing: "spacing",
}
"""Ufuncs that are one op for every element type."""

_ON_BOOL: dict[np.ufunc, tuple[str, str]] = {
    np.add: ("add", "bitwise_or"),
    np.multiply: ("multiply", "bitwise_and"),
    np.maximum: ("maximum", "bitwise_or"),
    np.minimum: ("minimum", "bitwise_and"),
}
"""Ufuncs that are another op on bool: 1 + 1 is 1 there."""

_ROUNDING: dict[np.ufunc, str] = {np.floor: "floor", np.ceil: "ceil", np.trunc: "trunc"}
_SAME: tuple[np.ufunc, ...] = (np.positive, np.conjugate)

_COMPARISONS: dict[np.ufunc, tuple[str, str]] = {
    np.equal: ("equal", "equal"),
    np.not_equal: ("not_equal", "not_equal"),
    np.less: ("less", "greater"),
    np.less_equal: ("less_equal", "greater_equal"),
    np.greater: ("greater", "less"),
    np.greater_equal: ("greater_equal", "less_equal"),
}
"""Comparisons: the op, and the op with its operands exchanged."""


def _register() -> None:
    for ufunc, op in _NAMED.items():
        elementwise(ufunc, op)
    for ufunc, (op, on_bool) in _ON_BOOL.items():
        elementwise(ufunc)(lambda x, y, op=op, on_bool=on_bool: emit(on_bool if dtype_of(x, y) is bool_ else op, x, y))
    for ufunc, op in _ROUNDING.items():
        elementwise(ufunc)(lambda x, op=op: x if dtype_of(x).is_integer else emit(op, x))
    for ufunc in _SAME:
        elementwise(ufunc)(lambda x: x)
    for ufunc, (op, exchanged) in _COMPARISONS.items():
        elementwise(ufunc)(lambda x, y, op=op, exchanged=exchanged: compare(op, exchanged, x, y))


def compare(op: str, exchanged: str, x: Operand, y: Operand) -> Value:
    """A comparison. uint64 and int64 have no common integer type: what lies outside of the other's range decides."""
    dtype = dtype_of(x, y)
    if isinstance(x, Value) and isinstance(y, Value) and x.type.dtype is not y.type.dtype:
        if dtype.kind == "i":
            return compare(exchanged, op, y, x)
        # Unsigned x, signed y.
        inside = emit(op, x, emit("cast", y, dtype=dtype))
        negative = emit("less", y, 0)
        if op == "not_equal" or op.startswith("greater"):
            return emit("bitwise_or", negative, inside)
        return emit("bitwise_and", emit("invert", negative), inside)
    return emit(op, x, y)


@elementwise(np.absolute)
def absolute(x: Value) -> Value:
    """|x|; an unsigned number is its own."""
    return x if dtype_of(x).kind in "ub" else emit("abs", x)


@elementwise(np.fabs)
def fabs(x: Value) -> Value:
    """|x| of floats"""
    return emit("abs", x)


@elementwise(np.float_power)
def float_power(x: Operand, y: Operand) -> Value:
    """x ** y in float64, of which C's pow and not sqrt is the meaning: infinity ** 0.5 has no sign, nor has 0 ** 0.5"""
    if isinstance(x, Value) and y == 0.5:
        return emit("where", isinf(x), emit("abs", x), emit("sqrt", emit("add", x, 0.0)))
    return power(x, y)


@elementwise(np.power)
def power(x: Operand, y: Operand) -> Value:
    """x ** y; exponents for which NumPy has another function are that function."""
    dtype = dtype_of(x, y)
    if isinstance(y, Value):
        return emit("power", x, y)
    assert isinstance(x, Value)
    if not dtype.is_float and y < 0:
        raise numpy_error(ValueError, "Integers to negative integer powers are not allowed.")
    if y == 0:
        return full_like(x, dtype, 1)
    if y == 1:
        return x
    name = {2: "square", 0.5: "sqrt", -1: "reciprocal"}.get(y)
    return emit("power", x, y) if name is None else emit(name, x)


@elementwise(np.divmod)
def divmod_(x: Operand, y: Operand) -> tuple[Value, Value]:
    """floor(x / y), x - y * floor(x / y)"""
    return emit("floor_divide", x, y), emit("mod", x, y)


@elementwise(np.rad2deg)
@elementwise(np.degrees)
def degrees(x: Value) -> Value:
    """x * 180 / pi"""
    return _scaled(x, np.rad2deg)


@elementwise(np.deg2rad)
@elementwise(np.radians)
def radians(x: Value) -> Value:
    """x * pi / 180"""
    return _scaled(x, np.deg2rad)


def _scaled(x: Value, unit: np.ufunc) -> Value:
    # The factor as NumPy rounds it; narrower types are computed in float32.
    dtype = dtype_of(x)
    wide = float32 if dtype.itemsize < float32.itemsize else dtype
    return cast(emit("multiply", cast(x, wide), float(unit(wide.np.type(1)))), dtype)


def _truth(x: Operand) -> Operand:
    return cast(x, bool_) if isinstance(x, Value) else bool(x)


@elementwise(np.logical_and)
def logical_and(x: Operand, y: Operand) -> Value:
    """x != 0 and y != 0"""
    return emit("bitwise_and", _truth(x), _truth(y))


@elementwise(np.logical_or)
def logical_or(x: Operand, y: Operand) -> Value:
    """x != 0 or y != 0"""
    return emit("bitwise_or", _truth(x), _truth(y))


@elementwise(np.logical_xor)
def logical_xor(x: Operand, y: Operand) -> Value:
    """(x != 0) != (y != 0)"""
    return emit("bitwise_xor", _truth(x), _truth(y))


@elementwise(np.logical_not)
def logical_not(x: Value) -> Value:
    """x == 0"""
    return emit("invert", _truth(x))


_register()
