"""Products of integers and of truth values, exactly, by the Tensor engine, which multiplies floats.

Integers are written in digits of 8 bits, which bfloat16 holds. Products of digits, added over so many terms that the
sum stays below 2 ** 24, are exact in float32; what belongs together is put together in 32-bit integers, which wrap
around as NumPy's do.
"""

from __future__ import annotations

from tilewright.dtypes import bfloat16, bool_, int8, int32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.lower.tuning import TUNING
from tilewright.tensor.build import value

DIGIT = 8
MASK = (1 << DIGIT) - 1
EXACT = 1 << 24
"""Integers up to which float32 has all."""


@rule("matmul")
def multiply_truth(op: Op) -> Value | None:
    """matmul(x, y) -> matmul(cast(x), cast(y)) != 0            x and y are truth values"""
    x, y = op.operands
    if x.type.dtype is not bool_:
        return None
    # Counts are positive: rounding makes none of them zero.
    count = value("matmul_wide", *(value("cast", v, dtype=bfloat16) for v in (x, y)))
    return value("not_equal", count, 0.0)


@rule("matmul")
def multiply_few(op: Op) -> Value | None:
    """matmul(x, y) -> sum over k of x[:, k] * y[k, :]            x and y are integers, and few"""
    x, y = op.operands
    dtype, k = x.type.dtype, x.type.shape[-1]
    if not dtype.is_integer or dtype is bool_ or not k or op.result.type.size * k > TUNING.few_elements:
        return None
    # The rows of y are turned so that what is added lies together.
    order = (*range(y.type.rank - 2), y.type.rank - 1, y.type.rank - 2)
    turned = value("transpose", y, perm=order)
    rows = value("reshape", x, shape=(*x.type.shape[:-1], 1, k))
    columns = value("reshape", turned, shape=(*y.type.shape[:-2], 1, y.type.shape[-1], k))
    each = value("multiply", rows, columns)
    return value("sum", each, axes=(each.type.rank - 1,), keepdims=False)


@rule("matmul")
def multiply_digits(op: Op) -> Value | None:
    """matmul(x, y) -> sum of matmul(digit i of x, digit j of y) << 8 * (i + j)            x and y are integers"""
    x, y = op.operands
    dtype = x.type.dtype
    if not dtype.is_integer or dtype is bool_ or not x.type.shape[-1]:
        return None
    left, right = _digits(x), _digits(y)
    greatest = (1 << (DIGIT - 1)) if dtype is int8 else MASK
    terms = EXACT // greatest**2
    # A multiple of the rows of the Tensor engine.
    terms -= terms % (1 << (DIGIT - 1))
    total: Value | None = None
    for shift in range(dtype.itemsize):
        part: Value | None = None
        for i in range(shift + 1):
            made = _product(left[i], right[shift - i], terms)
            part = made if part is None else value("add", part, made)
        assert part is not None
        shifted = value("left_shift", part, DIGIT * shift) if shift else part
        total = shifted if total is None else value("add", total, shifted)
    assert total is not None
    return total if dtype is int32 else value("cast", total, dtype=dtype)


def _digits(x: Value) -> list[Value]:
    """The digits of integers as bfloat16, lowest first: without sign, unless a digit is all there is."""
    if x.type.dtype is int8:
        return [value("cast", x, dtype=bfloat16)]
    shifted = [value("right_shift", x, DIGIT * i) if i else x for i in range(x.type.dtype.itemsize)]
    return [value("cast", value("bitwise_and", v, MASK), dtype=bfloat16) for v in shifted]


def _product(x: Value, y: Value, terms: int) -> Value:
    """The product of digits as int32; a long K is cut into parts, which are added as integers."""
    k = x.type.shape[-1]
    if k <= terms:
        return value("cast", value("matmul_wide", x, y), dtype=int32)
    parts = -(-k // terms)
    x, y = _padded(x, x.type.rank - 1, parts * terms), _padded(y, y.type.rank - 2, parts * terms)
    *batch, m, _ = x.type.shape
    rank = x.type.rank
    x = value("reshape", x, shape=(*batch, m, parts, terms))
    x = value("transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2, rank))
    *batch, _, n = y.type.shape
    y = value("reshape", y, shape=(*batch, parts, terms, n))
    each = value("cast", value("matmul_wide", x, y), dtype=int32)
    return value("sum", each, axes=(each.type.rank - 3,), keepdims=False)


def _padded(x: Value, axis: int, size: int) -> Value:
    more = size - x.type.shape[axis]
    if not more:
        return x
    zeros = (0,) * x.type.rank
    high = (*zeros[:axis], more, *zeros[axis + 1 :])
    return value("pad", x, low=zeros, high=high, value=0.0)
