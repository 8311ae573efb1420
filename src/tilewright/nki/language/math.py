"""Elementwise functions that are one instruction: arithmetic, comparisons, logic, bits, activation functions.

Each is an operator object, which instructions take as `op=`. Results are new tiles in SBUF.
"""

from __future__ import annotations

from typing import Any

from tilewright.nki.context import require_session
from tilewright.nki.language.checks import require_bits, require_boolean, require_simulation
from tilewright.nki.language.issue import issue, new_tile, written_tile
from tilewright.nki.language.operands import Operand, is_column, operand_of, result_dtype, same_shape, tile_of
from tilewright.nki.language.operators import Operator, operator, rename
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate
from tilewright.tile.memory import PSUM


def combine(api: str, op: str, x: Operand, y: Operand, dtype: object, columns: bool = False) -> NkiTensor:
    """op(x, y) by tensor_tensor, or by tensor_scalar when one of the two is a number or one value per partition.

    With `columns` the latter is documented; otherwise it is a broadcast, which only a lenient profile lets pass.
    """
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        wanted = result_dtype(api, dtype, x, y)
        column = is_column(y, x)
        if not (columns and column) and x.shape != y.shape:
            stretched = same_shape(api, x, y)
            if not column:
                x, y = stretched
        dst = new_tile(x.shape, wanted)
        if column and x.shape != y.shape:
            issue("tensor_scalar", dst, x, op0=op, operand0=y)
        else:
            issue("tensor_tensor", dst, x, y, op=op)
        return dst
    tile, number = (x, y) if isinstance(x, NkiTensor) else (y, x)
    if not isinstance(tile, NkiTensor):
        violate(
            "R-nl-11",
            f"nl.{api} of two numbers: at least one argument is a tile",
            hint="compute numbers with Python, or make a tile with nl.full",
            final=True,
        )
        raise AssertionError
    dst = new_tile(tile.shape, result_dtype(api, dtype, tile))
    issue("tensor_scalar", dst, tile, op0=op, operand0=number, reverse0=tile is not x)
    return dst


def _binary(name: str, doc: str) -> Operator:
    def function(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        return combine(name, name, operand_of(name, "x", x), operand_of(name, "y", y), dtype)

    return operator(rename(function, name, doc))


def _magnitude(name: str, doc: str) -> Operator:
    """abs_max and abs_min, whose documented examples give y as one value per partition."""

    def function(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        return combine(name, name, operand_of(name, "x", x), operand_of(name, "y", y), dtype, columns=True)

    return operator(rename(function, name, doc))


def _simulated(name: str, doc: str) -> Operator:
    def function(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        require_simulation(name, "multiply by nl.reciprocal(y)")
        return combine(name, name, operand_of(name, "x", x), operand_of(name, "y", y), dtype)

    return operator(rename(function, name, doc))


def _bits(name: str, doc: str) -> Operator:
    def function(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        x, y = operand_of(name, "x", x), operand_of(name, "y", y)
        if not require_bits(name, x, y):
            tile = x if isinstance(x, NkiTensor) else y
            return written_tile(tile.shape, result_dtype(name, dtype, tile))
        return combine(name, name, x, y, dtype)

    return operator(rename(function, name, doc))


def _logical(name: str, doc: str) -> Operator:
    def function(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        x, y = operand_of(name, "x", x), operand_of(name, "y", y)
        require_boolean(name, x, y)
        return combine(name, name, x, y, dtype)

    return operator(rename(function, name, doc))


def activate(api: str, op: str, x: Any, dtype: object) -> NkiTensor:
    """A function of the Scalar engine's table."""
    data = tile_of(api, "x", x)
    dst = new_tile(data.shape, result_dtype(api, dtype, data))
    issue("activation", dst, data, op=op)
    return dst


def _activation(name: str, doc: str) -> Operator:
    def function(x: Any, dtype: Any = None) -> NkiTensor:
        return activate(name, name, x, dtype)

    return operator(rename(function, name, doc))


add = _binary("add", "x + y.")
subtract = _binary("subtract", "x - y.")
multiply = _binary("multiply", "x * y.")
divide = _simulated("divide", "x / y; in simulation only (R-nl-02).")
maximum = _binary("maximum", "The larger of x and y.")
minimum = _binary("minimum", "The smaller of x and y.")
abs_max = _magnitude("abs_max", "The one of x and y with the larger magnitude, with its sign; y where they are equal.")
abs_min = _magnitude("abs_min", "The one of x and y with the smaller magnitude, with its sign; y where they are equal.")

equal = _binary("equal", "1 where x == y, else 0.")
not_equal = _binary("not_equal", "1 where x != y, else 0.")
less = _binary("less", "1 where x < y, else 0.")
less_equal = _binary("less_equal", "1 where x <= y, else 0.")
greater = _binary("greater", "1 where x > y, else 0.")
greater_equal = _binary("greater_equal", "1 where x >= y, else 0.")

bitwise_and = _bits("bitwise_and", "x & y of integer tiles.")
bitwise_or = _bits("bitwise_or", "x | y of integer tiles.")
bitwise_xor = _bits("bitwise_xor", "x ^ y of integer tiles.")
left_shift = _bits("left_shift", "x << y of integer tiles.")
right_shift = _bits("right_shift", "x >> y of integer tiles, filling with zeros.")

logical_and = _logical("logical_and", "1 where both are not 0, else 0.")
logical_or = _logical("logical_or", "1 where one is not 0, else 0.")
logical_xor = _logical("logical_xor", "1 where exactly one is not 0, else 0.")

exp = _activation("exp", "e to the power of x.")
log = _activation("log", "Natural logarithm.")
sqrt = _activation("sqrt", "Square root.")
tanh = _activation("tanh", "Hyperbolic tangent.")
sigmoid = _activation("sigmoid", "1 / (1 + exp(-x)).")
relu = _activation("relu", "max(x, 0).")
gelu = _activation("gelu", "x * Phi(x) with the normal distribution function Phi.")
gelu_dx = _activation("gelu_dx", "Derivative of gelu.")
gelu_apprx_tanh = _activation("gelu_apprx_tanh", "gelu with Phi approximated by tanh.")
gelu_apprx_sigmoid = _activation("gelu_apprx_sigmoid", "x * sigmoid(1.702 x).")
gelu_apprx_sigmoid_dx = _activation("gelu_apprx_sigmoid_dx", "Derivative of gelu_apprx_sigmoid.")
silu = _activation("silu", "x * sigmoid(x).")
silu_dx = _activation("silu_dx", "Derivative of silu.")
softplus = _activation("softplus", "log(1 + exp(x)).")
mish = _activation("mish", "x * tanh(softplus(x)).")
erf = _activation("erf", "Error function.")
erf_dx = _activation("erf_dx", "Derivative of erf.")
arctan = _activation("arctan", "Inverse tangent.")
sign = _activation("sign", "-1, 0 or 1.")
abs = _activation("abs", "Absolute value.")
square = _activation("square", "x * x.")


@operator
def reciprocal(x: Any, dtype: Any = None) -> NkiTensor:
    """1 / x, on the Vector engine: more precise than the Scalar engine's."""
    data = tile_of("reciprocal", "x", x)
    dst = new_tile(data.shape, result_dtype("reciprocal", dtype, data))
    issue("reciprocal", dst, data)
    return dst


@operator
def rsqrt(x: Any, dtype: Any = None) -> NkiTensor:
    """1 / sqrt(x), on GpSimd, which cannot reach PSUM (R-nl-07)."""
    data = tile_of("rsqrt", "x", x)
    if data.buffer is PSUM:
        violate(
            "R-nl-07",
            "nl.rsqrt: x is in psum",
            hint="copy it to sbuf with nl.copy, or use nisa.activation(op=nl.rsqrt)",
            operands=[data._view.note("x")],
        )
        data = copy(data)
    dst = new_tile(data.shape, result_dtype("rsqrt", dtype, data))
    issue("tensor_scalar", dst, data, op0="rsqrt", operand0=0.0)
    return dst


@operator
def copy(x: Any, dtype: Any = None) -> NkiTensor:
    """A copy of a tile of SBUF or PSUM, in SBUF."""
    data = tile_of("copy", "x", x, "R-nl-18")
    dst = new_tile(data.shape, result_dtype("copy", dtype, data))
    issue("tensor_copy", dst, data, engine=require_session("nl.copy").target["engines.nl_copy"])
    return dst


@operator
def negative(x: Any, dtype: Any = None) -> NkiTensor:
    """-x."""
    return combine("negative", "multiply", tile_of("negative", "x", x), -1.0, dtype)


@operator
def invert(x: Any, dtype: Any = None) -> NkiTensor:
    """~x of an integer tile."""
    data = tile_of("invert", "x", x)
    dst_dtype = result_dtype("invert", dtype, data)
    if not require_bits("invert", data):
        return written_tile(data.shape, dst_dtype)
    dst = new_tile(data.shape, dst_dtype)
    issue("tensor_scalar", dst, data, op0="invert")
    return dst


@operator
def logical_not(x: Any, dtype: Any = None) -> NkiTensor:
    """1 where x is 0, else 0; x holds 0 and 1 (R-nl-19)."""
    data = tile_of("logical_not", "x", x)
    require_boolean("logical_not", data)
    return combine("logical_not", "logical_xor", data, 1, dtype)


@operator
def power(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """x to the power of y, on GpSimd. The exponent is a tile (R-nl-03)."""
    base, exponent = operand_of("power", "x", x), operand_of("power", "y", y)
    if isinstance(base, NkiTensor) and not isinstance(exponent, NkiTensor):
        violate(
            "R-nl-03",
            "nl.power(tile, number) is not supported",
            hint="use nl.square, nl.sqrt, nl.reciprocal, or make the exponents a tile with nl.full",
        )
        exponent = filled(base.shape, exponent)
        return combine("power", "power", base, exponent, base.dtype if dtype is None else dtype)
    if isinstance(exponent, NkiTensor) and not isinstance(base, NkiTensor):
        base = filled(exponent.shape, base)
        return combine("power", "power", base, exponent, exponent.dtype if dtype is None else dtype)
    return combine("power", "power", base, exponent, dtype)


def filled(shape: tuple[int, ...], value: float) -> NkiTensor:
    """A float32 tile of one number."""
    made = new_tile(shape)
    issue("memset", made, value=float(value))
    return made


__all__ = [
    "abs",
    "abs_max",
    "abs_min",
    "add",
    "arctan",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "copy",
    "divide",
    "equal",
    "erf",
    "erf_dx",
    "exp",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh",
    "gelu_dx",
    "greater",
    "greater_equal",
    "invert",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mish",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "reciprocal",
    "relu",
    "right_shift",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "silu_dx",
    "softplus",
    "sqrt",
    "square",
    "subtract",
    "tanh",
]
