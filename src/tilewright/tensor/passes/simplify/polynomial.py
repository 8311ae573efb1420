"""Expressions as polynomials of one value: x * 0.5 * x, x**2 / 2 and 0.5 * square(x) are the same one."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.tensor.passes.match import number

Polynomial = dict[int, float]
"""Coefficients by power; coefficients of 0 are left out."""

HIGHEST = 4
"""The highest power that is looked for."""

_DEPTH = 12


def polynomial(value: Any, x: Value, depth: int = _DEPTH) -> Polynomial | None:
    """What `value` is as a polynomial of x with numbers as coefficients; None if it is none of low degree."""
    if value is x:
        return {1: 1.0}
    known = number(value)
    if known is not None:
        return {0: float(known)} if known else {}
    if value.producer is None or not depth:
        return None
    return _of_op(value.producer, x, depth - 1)


def _of_op(op: Op, x: Value, depth: int) -> Polynomial | None:
    name = op.name
    if name not in _RULES:
        return None
    parts = [polynomial(operand, x, depth) for operand in op.operands]
    if any(part is None for part in parts):
        return None
    return _RULES[name](*parts)


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    found = {k: a.get(k, 0.0) + b.get(k, 0.0) for k in {*a, *b}}
    return {k: c for k, c in found.items() if c}


def _scaled(a: Polynomial, factor: float) -> Polynomial:
    return {k: c * factor for k, c in a.items()}


def _product(a: Polynomial, b: Polynomial) -> Polynomial | None:
    found: Polynomial = {}
    for i, c in a.items():
        for j, d in b.items():
            found[i + j] = found.get(i + j, 0.0) + c * d
    return found if max(found, default=0) <= HIGHEST else None


def _quotient(a: Polynomial, b: Polynomial) -> Polynomial | None:
    return _scaled(a, 1 / b[0]) if set(b) == {0} else None


def _power(a: Polynomial, b: Polynomial) -> Polynomial | None:
    exponent = b.get(0, 0.0)
    if set(b) - {0} or exponent != int(exponent) or not 0 <= exponent <= HIGHEST:
        return None
    found: Polynomial | None = {0: 1.0}
    for _ in range(int(exponent)):
        found = None if found is None else _product(found, a)
    return found


_RULES: dict[str, Any] = {
    "add": _sum,
    "subtract": lambda a, b: _sum(a, _scaled(b, -1.0)),
    "negative": lambda a: _scaled(a, -1.0),
    "multiply": _product,
    "square": lambda a: _product(a, a),
    "divide": _quotient,
    "power": _power,
}


def is_polynomial(value: Any, x: Value, wanted: Polynomial, tolerance: float = 2e-5) -> bool:
    """Whether `value` is this polynomial of x, the coefficients equal to within `tolerance` of each.

    GELU changes by less than a third of what its coefficients change by: less than 1e-5 of its scale.
    """
    found = polynomial(value, x)
    if found is None or set(found) != set(wanted):
        return False
    return all(abs(found[k] - c) <= tolerance * abs(c) for k, c in wanted.items())


def factors(value: Any, limit: int = 8) -> tuple[float, list[Value]]:
    """The number and the values whose product `value` is: products, quotients by numbers and signs taken apart."""
    known = number(value)
    if known is not None:
        return float(known), []
    op = value.producer
    if op is None or not limit or op.name not in ("multiply", "divide", "negative"):
        return 1.0, [value]
    if op.name == "negative":
        coefficient, found = factors(op.operands[0], limit - 1)
        return -coefficient, found
    a, left = factors(op.operands[0], limit - 1)
    b, right = factors(op.operands[1], limit - 1)
    if op.name == "divide":
        return (a / b, left) if not right and b else (1.0, [value])
    return a * b, left + right
