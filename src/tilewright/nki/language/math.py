"""Elementwise functions of nki.language."""

from __future__ import annotations

from typing import Any

from tilewright.errors import TileTypeError, fail
from tilewright.nki.context import require_session
from tilewright.nki.language.issue import issue
from tilewright.nki.language.operators import Operator, operator
from tilewright.nki.tensor import NkiTensor, new_tensor
from tilewright.tile.memory import SBUF


def _binary(name: str) -> Operator:
    def function(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        session = require_session(f"nl.{name}")
        tile = x if isinstance(x, NkiTensor) else y
        if not isinstance(tile, NkiTensor):
            raise fail("E108", f"nl.{name} needs at least one tile", error=TileTypeError)
        dst = new_tensor(session, tile.shape, tile.dtype if dtype is None else dtype, SBUF)
        if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
            issue("tensor_tensor", dst, x, y, op=name)
        elif isinstance(x, NkiTensor):
            issue("tensor_scalar", dst, x, op0=name, operand0=y)
        else:
            issue("tensor_scalar", dst, y, op0=name, operand0=x, reverse0=True)
        return dst

    function.__name__ = name
    return operator(function)


def _unary(name: str) -> Operator:
    def function(x: Any, dtype: Any = None) -> NkiTensor:
        session = require_session(f"nl.{name}")
        dst = new_tensor(session, x.shape, x.dtype if dtype is None else dtype, SBUF)
        issue("activation", dst, op=name, data=x)
        return dst

    function.__name__ = name
    return operator(function)


add = _binary("add")
subtract = _binary("subtract")
multiply = _binary("multiply")
divide = _binary("divide")
maximum = _binary("maximum")
minimum = _binary("minimum")
abs_max = _binary("abs_max")
abs_min = _binary("abs_min")
power = _binary("power")
equal = _binary("equal")
not_equal = _binary("not_equal")
less = _binary("less")
less_equal = _binary("less_equal")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
bitwise_and = _binary("bitwise_and")
bitwise_or = _binary("bitwise_or")
bitwise_xor = _binary("bitwise_xor")
left_shift = _binary("left_shift")
right_shift = _binary("right_shift")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")

abs = _unary("abs")
square = _unary("square")
invert = _unary("invert")
exp = _unary("exp")
log = _unary("log")
sqrt = _unary("sqrt")
rsqrt = _unary("rsqrt")
sigmoid = _unary("sigmoid")
relu = _unary("relu")
tanh = _unary("tanh")
gelu = _unary("gelu")
gelu_apprx_sigmoid = _unary("gelu_apprx_sigmoid")
gelu_apprx_tanh = _unary("gelu_apprx_tanh")
gelu_dx = _unary("gelu_dx")
gelu_apprx_sigmoid_dx = _unary("gelu_apprx_sigmoid_dx")
silu = _unary("silu")
silu_dx = _unary("silu_dx")
softplus = _unary("softplus")
mish = _unary("mish")
erf = _unary("erf")
erf_dx = _unary("erf_dx")
reciprocal = _unary("reciprocal")
copy = _unary("copy")
sin = _unary("sin")
arctan = _unary("arctan")
sign = _unary("sign")
