"""Ufuncs of integers that the IR has no op for: they are loops of steps, written out."""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import HOST_DTYPES, DType, uint8
from tilewright.front.functions.elementwise import absolute
from tilewright.front.functions.operands import dtype_of, tensor
from tilewright.front.promote import Operand, cast
from tilewright.front.trace import emit
from tilewright.front.ufunc import elementwise
from tilewright.ir.core import Value


def _unsigned(x: Operand, dtype: DType) -> Value:
    """|x| in the unsigned type of the same width, which holds that of the least number too."""
    return cast(absolute(tensor(x, dtype)), HOST_DTYPES[f"uint{dtype.itemsize * 8}"])


@elementwise(np.lcm)
def lcm(x: Operand, y: Operand) -> Value:
    """The least common multiple: |x| / gcd(x, y) * |y|"""
    dtype = dtype_of(x, y)
    a, b = tensor(x, dtype), tensor(y, dtype)
    first, second, common = (_unsigned(v, dtype) for v in (a, b, emit("gcd", a, b)))
    return cast(emit("multiply", emit("floor_divide", first, common), second), dtype)


@elementwise(np.bitwise_count)
def bitwise_count(x: Value) -> Value:
    """The number of bits set in |x|: sums of neighbouring fields, each twice as wide as before"""
    dtype = dtype_of(x)
    if dtype.kind == "b":
        return cast(x, uint8)
    bits = _unsigned(x, dtype)
    if dtype.itemsize <= 4:
        return cast(_ones(bits, dtype.itemsize * 8), uint8)
    # No number is wider than 32 bits, in which 64 are computed.
    low, high = emit("bitwise_and", bits, 2**32 - 1), emit("right_shift", bits, 32)
    return cast(emit("add", _ones(low, 32), _ones(high, 32)), uint8)


def _ones(bits: Value, count: int) -> Value:
    """How many of so many bits are set"""
    width = 1
    while width < count:
        mask = sum(((1 << width) - 1) << start for start in range(0, count, 2 * width))
        low = emit("bitwise_and", bits, mask)
        bits = emit("add", low, emit("bitwise_and", emit("right_shift", bits, width), mask))
        width *= 2
    return bits
