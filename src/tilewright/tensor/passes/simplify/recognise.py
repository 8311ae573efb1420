"""Functions that an engine has as one instruction, found in the formulas they are written as.

The rules are not exact: the formula is rounded at every step, the function once. Their error is given in ulp of the
greater of the result and the argument x (a formula such as 1 + tanh(u) cancels: what is left of it is small beside x).
Intermediate values that something else uses stay.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import is_never_negative, is_number, maker, two_ways
from tilewright.tensor.passes.simplify.polynomial import factors, is_polynomial

_TANH_SCALE, _TANH_CUBE = sqrt(2 / pi), 0.044715


def _is_float(op: Op) -> bool:
    return op.result.type.dtype.is_float


@rule("reciprocal", "divide", exact=False, ulp=2.0)
def rsqrt(op: Op) -> Any:
    """1 / sqrt(x) -> rsqrt(x), y / sqrt(x) -> y * rsqrt(x)"""
    root = maker(op.operands[-1], "sqrt")
    if root is None or not _is_float(op):
        return None
    found = value("rsqrt", root.operands[0])
    if op.name == "reciprocal":
        return found
    y = op.operands[0]
    return found if is_number(y, 1) and found.type == op.result.type else value("multiply", found, y)


@rule("sqrt", exact=False, ulp=2.0)
def rsqrt_of_reciprocal(op: Op) -> Any:
    """sqrt(1 / x) -> rsqrt(x)        of what is never negative: of -0.0 and -inf they differ"""
    inner = maker(op.operands[0], "reciprocal")
    if inner is None or not _is_float(op) or not is_never_negative(inner.operands[0]):
        return None
    return value("rsqrt", inner.operands[0])


@rule("power", exact=False, ulp=2.0)
def rsqrt_of_power(op: Op) -> Any:
    """x ** -0.5 -> rsqrt(x)        of what is never negative: of -0.0 and -inf they differ"""
    x, exponent = op.operands
    if not isinstance(x, Value) or not _is_float(op) or isinstance(exponent, Value) or exponent != -0.5:
        return None
    return value("rsqrt", x) if is_never_negative(x) else None


def _one_plus_exp_of_minus(x: Any) -> Value | None:
    """y where x is 1 + e ** -y."""
    total = maker(x, "add")
    if total is None:
        return None
    for power, one in two_ways(total):
        exp = maker(power, "exp")
        if exp is None or not is_number(one, 1):
            continue
        inner = maker(exp.operands[0], "negative")
        if inner is not None:
            return inner.operands[0]
        scaled = maker(exp.operands[0], "multiply")
        if scaled is not None and isinstance(scaled.operands[1], float):
            # e ** (y * -c) is the sigmoid of y * c.
            return value("multiply", scaled.operands[0], -scaled.operands[1])
    return None


@rule("reciprocal", "divide", exact=False, ulp=4.0)
def sigmoid(op: Op) -> Any:
    """1 / (1 + e ** -x) -> sigmoid(x), y / (1 + e ** -x) -> y * sigmoid(x)"""
    x = _one_plus_exp_of_minus(op.operands[-1])
    if x is None or not _is_float(op):
        return None
    found = value("sigmoid", x)
    if op.name == "reciprocal":
        return found
    y = op.operands[0]
    return found if is_number(y, 1) and found.type == op.result.type else value("multiply", found, y)


@rule("multiply", exact=False, ulp=4.0)
def silu(op: Op) -> Any:
    """x * sigmoid(x) -> silu(x)"""
    for x, gate in two_ways(op):
        inner = maker(gate, "sigmoid")
        if inner is not None and inner.operands[0] is x:
            return value("silu", x)
    return None


@rule("multiply", exact=False, ulp=4.0)
def silu_of_product(op: Op) -> Any:
    """(y * x) * sigmoid(x) -> y * silu(x)"""
    for product, gate in two_ways(op):
        inner, outer = maker(gate, "sigmoid"), maker(product, "multiply")
        if inner is None or outer is None:
            continue
        for x, y in two_ways(outer):
            if x is inner.operands[0]:
                return value("multiply", value("silu", x), y)
    return None


def _cut_at(gate: Any, name: str) -> Value | None:
    """The argument of a function f where `gate` is 1 + f(u)."""
    total = maker(gate, "add")
    if total is None:
        return None
    for inner, one in two_ways(total):
        found = maker(inner, name)
        if found is not None and is_number(one, 1):
            return found.operands[0]
    return None


@rule("multiply", "divide", exact=False, ulp=8.0)
def gelu(op: Op) -> Any:
    """x * (1 + erf(x / sqrt(2))) / 2 -> gelu(x),
    x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2 -> gelu_tanh(x), factors in any order; any others stay
    """
    if not _is_float(op):
        return None
    coefficient, parts = factors(op.result)
    if coefficient != 0.5 and _is_factor(op.result):
        return None  # the half may be a factor of what this is a factor of
    for gate in parts:
        for name, found, wanted in _GELU:
            argument = _cut_at(gate, name)
            if argument is None:
                continue
            x = next((p for p in parts if p is not gate and is_polynomial(argument, p, wanted)), None)
            if x is not None:
                return _times(value(found, x), coefficient * 2, [p for p in parts if p is not gate and p is not x], op)
    return None


def _is_factor(x: Value) -> bool:
    """Whether x is used by one product, or quotient by a number, alone."""
    if len(x.uses) != 1 or x.uses[0].name not in ("multiply", "divide"):
        return False
    return x.uses[0].name == "multiply" or not isinstance(x.uses[0].operands[1], Value)


_GELU = (
    ("erf", "gelu", {1: sqrt(0.5)}),
    ("tanh", "gelu_tanh", {1: _TANH_SCALE, 3: _TANH_SCALE * _TANH_CUBE}),
)


def _times(x: Value, coefficient: float, others: list[Value], op: Op) -> Any:
    """x times the number and the other factors, which are at least as few as before."""
    for other in others:
        x = value("multiply", x, other)
    if coefficient != 1:
        x = value("multiply", x, coefficient)
    return x if x.type == op.result.type else None


@rule("multiply", exact=False, ulp=8.0)
def gelu_by_sigmoid(op: Op) -> Any:
    """x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3)) -> gelu_tanh(x)"""
    wanted = {1: 2 * _TANH_SCALE, 3: 2 * _TANH_SCALE * _TANH_CUBE}
    for x, gate in two_ways(op):
        inner = maker(gate, "sigmoid")
        if inner is not None and isinstance(x, Value) and is_polynomial(inner.operands[0], x, wanted):
            return value("gelu_tanh", x)
    return None


@rule("solve", exact=False, ulp=8.0)
def solve_of_factor(op: Op) -> Any:
    """solve(cholesky(x), b) -> solve_triangular(cholesky(x), b)        also of its transpose"""
    a, b = op.operands
    swapped = maker(a, "transpose")
    if swapped is not None:
        rank = a.type.rank
        if swapped.attrs["perm"] != (*range(rank - 2), rank - 1, rank - 2):
            return None
        a = swapped.operands[0]
    if maker(a, "cholesky") is None:
        return None
    return value("solve_triangular", op.operands[0], b, lower=swapped is None, unit_diagonal=False)
