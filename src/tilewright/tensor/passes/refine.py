"""Solutions of linear systems, corrected by what they leave of the right side.

An elimination in float32 is off by the condition number times an ulp: 1e-5 for a random matrix of 128 rows, where
NumPy, which solves systems of float32 in float64, is off by half an ulp. With the inverse v, x + v @ (b - a @ x) is
off by the square of that, if b - a @ x is known to more digits than float32 has. For that, a and x are cut into parts
of few bits, all of them whole multiples of one unit in each row of a and in each column of x: sums of products of the
first parts are exact. What is left is as small as the last bits of float32, and is computed as usual.
"""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import bfloat16, float32
from tilewright.ir.core import Value
from tilewright.tensor.passes.chain import Chain

_DIGITS = 24
"""Bits of a float32: whole numbers up to 2 ** 24 are exact."""

_NARROW = 7
"""Bits of each part of a factor of the Tensor engine: a bfloat16 holds them, and sums of 1,024 products are exact."""

_ELEMENTWISE = 10
"""Bits of the first part where products are added up by the other engines: sums of 16 are exact."""

_ROWS = 1 << 4
"""Up to which products of many small matrices are elementwise."""


def refined(chain: Chain, a: Value, b: Value, inverse: Value) -> Value:
    """The x with a @ x = b: inverse @ b, corrected; the last of the chain."""
    n = a.type.shape[-1]
    x = chain("matmul", inverse, b) if not is_identity(b) else inverse
    if a.type.dtype is not float32:
        # NumPy computes with what it is given.
        return chain("add", x, chain("matmul", inverse, chain("subtract", b, chain("matmul", a, x))))
    left = (_left_elementwise if n <= _ROWS and a.type.rank > 2 else _left)(chain, a, b, x)
    step = chain("matmul", inverse, left)
    # Infinite elements have no parts.
    known = chain("where", chain("equal", step, step), step, 0)
    return chain("add", x, known)


def is_identity(b: Value) -> bool:
    """Whether b is the identity matrix, or a batch of them, written as a band."""
    op = b.producer
    wanted = {"low": 0, "high": 0, "inside": 1, "outside": 0}
    if op is None or op.name != "band" or b.type.shape[-2] != b.type.shape[-1]:
        return False
    return all(op.attrs[name] == value for name, value in wanted.items())


def _left(chain: Chain, a: Value, b: Value, x: Value) -> Value:
    """b - a @ x, by products of the Tensor engine."""
    (a1, a2, a3), (x1, x2, x3) = _in_parts(chain, a, -1, _NARROW, 3), _in_parts(chain, x, -2, _NARROW, 3)
    upper = chain("subtract", x, x3)
    a1, a2, x1, x2 = (chain("cast", part, dtype=bfloat16) for part in (a1, a2, x1, x2))
    left = chain("subtract", b, chain("matmul_wide", a1, x1))
    left = chain("subtract", left, chain("add", chain("matmul_wide", a1, x2), chain("matmul_wide", a2, x1)))
    small = chain("add", chain("matmul", a, x3), chain("matmul", a3, upper))
    return chain("subtract", left, chain("add", chain("matmul_wide", a2, x2), small))


def _left_elementwise(chain: Chain, a: Value, b: Value, x: Value) -> Value:
    """b - a @ x, by products of elements."""
    (a1, a2), (x1, x2) = _in_parts(chain, a, -1, _ELEMENTWISE, 2), _in_parts(chain, x, -2, _ELEMENTWISE, 2)
    left = chain("subtract", b, _product(chain, a1, x1))
    return chain("subtract", left, chain("add", _product(chain, a1, x2), _product(chain, a2, x)))


def _product(chain: Chain, a: Value, x: Value) -> Value:
    """a @ x as a sum of elementwise products."""
    shape, count = a.type.shape, x.type.shape[-1]
    a = chain("reshape", a, shape=(*shape, 1))
    x = chain("reshape", x, shape=(*shape[:-2], 1, shape[-1], count))
    return chain("sum", chain("multiply", a, x), axes=(len(shape) - 1,), keepdims=False)


def _in_parts(chain: Chain, x: Value, along: int, bits: int, count: int) -> list[Value]:
    """Parts of x with so many bits each, and what they leave; along a dim all are multiples of the same units.

    (x + c) - c is x rounded to the last place of c.
    """
    size: Any = chain("max", chain("abs", x), axes=(x.type.rank + along,), keepdims=True)
    parts, rest = [], x
    for number in range(1, count):
        unit = chain("multiply", size, 2.0 ** (_DIGITS - number * bits))
        part = chain("subtract", chain("add", rest, unit), unit)
        parts.append(part)
        rest = chain("subtract", rest, part)
    return [*parts, rest]
