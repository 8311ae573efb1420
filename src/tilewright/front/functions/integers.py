"""Ufuncs of integers that the IR has no op for: they are loops of steps, written out."""

from __future__ import annotations

import math

import numpy as np

from tilewright.dtypes import HOST_DTYPES, DType, uint8
from tilewright.front.functions.elementwise import absolute
from tilewright.front.functions.operands import dtype_of, tensor
from tilewright.front.promote import Operand, cast
from tilewright.front.trace import emit
from tilewright.front.ufunc import elementwise
from tilewright.ir.core import Value

_GOLDEN = (1 + math.sqrt(5)) / 2


def _unsigned(x: Operand, dtype: DType) -> Value:
    """|x| in the unsigned type of the same width, which holds that of the least number too."""
    return cast(absolute(tensor(x, dtype)), HOST_DTYPES[f"uint{dtype.itemsize * 8}"])


def _common(a: Value, b: Value) -> Value:
    # As many of Euclid's steps as neighbours among Fibonacci's numbers need, which need most.
    for _ in range(math.ceil(math.log(float(a.type.dtype.max) * math.sqrt(5), _GOLDEN)) + 1):
        # Where b is 0, a is found: mod by 0 gives 0, which keeps it so.
        a, b = emit("where", emit("equal", b, 0), a, b), emit("mod", a, b)
    return a


@elementwise(np.gcd)
def gcd(x: Operand, y: Operand) -> Value:
    """The greatest common divisor"""
    dtype = dtype_of(x, y)
    return cast(_common(_unsigned(x, dtype), _unsigned(y, dtype)), dtype)


@elementwise(np.lcm)
def lcm(x: Operand, y: Operand) -> Value:
    """The least common multiple: |x| / gcd(x, y) * |y|"""
    dtype = dtype_of(x, y)
    a, b = _unsigned(x, dtype), _unsigned(y, dtype)
    return cast(emit("multiply", emit("floor_divide", a, _common(a, b)), b), dtype)


@elementwise(np.bitwise_count)
def bitwise_count(x: Value) -> Value:
    """The number of bits set in |x|: sums of neighbouring fields, each twice as wide as before"""
    dtype = dtype_of(x)
    if dtype.kind == "b":
        return cast(x, uint8)
    bits = _unsigned(x, dtype)
    width = 1
    while width < dtype.itemsize * 8:
        mask = sum(((1 << width) - 1) << start for start in range(0, dtype.itemsize * 8, 2 * width))
        low = emit("bitwise_and", bits, mask)
        bits = emit("add", low, emit("bitwise_and", emit("right_shift", bits, width), mask))
        width *= 2
    return cast(bits, uint8)
