"""Products of integers and of truth values, exactly, by the Tensor engine, which multiplies floats.

Integers are written in digits of 8 bits, which bfloat16 holds. Products of digits, added over so many terms that the
sum stays below 2 ** 24, are exact in float32; what belongs together is put together in 32-bit integers, which wrap
around as NumPy's do.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import NamedTuple

from tilewright.dtypes import bfloat16, bool_, int32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.lower.tuning import TUNING
from tilewright.tensor.build import value
from tilewright.tensor.intervals import interval_of
from tilewright.tensor.passes.expand_windows import windows_along
from tilewright.tensor.ranges import EXACT

DIGIT = 8
MASK = (1 << DIGIT) - 1


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
    total: Value | None = None
    # What is shifted out of the type does not count.
    for shift in range(min(dtype.itemsize, len(left) + len(right) - 1)):
        part: Value | None = None
        for i in range(max(0, shift + 1 - len(right)), min(shift + 1, len(left))):
            made = _product(left[i], right[shift - i])
            part = made if part is None else value("add", part, made)
        assert part is not None
        shifted = value("left_shift", part, DIGIT * shift) if shift else part
        total = shifted if total is None else value("add", total, shifted)
    assert total is not None
    return total if dtype is int32 else value("cast", total, dtype=dtype)


@rule("conv")
def multiply_whole_windows(op: Op) -> Value | None:
    """conv(x, w) -> matmul(w, windows of x)            x and w are integers"""
    x, w = op.operands
    attrs, out = op.attrs, op.result.type
    if x.type.dtype.is_float or not out.size or not w.type.size:
        return None
    groups, channels, kernel = attrs["groups"], w.type.shape[1], w.type.shape[2:]
    seen = value("pad", x, low=(0, 0, *attrs["low"]), high=(0, 0, *attrs["high"]), value=0.0)
    for axis, along in enumerate(zip(kernel, attrs["stride"], attrs["dilation"], strict=True), 2):
        seen = windows_along(seen, axis, *along)
    batch, count, size = x.type.shape[0], prod(out.shape[2:]), prod(kernel)
    seen = value("reshape", seen, shape=(batch, groups, channels, count, size))
    seen = value("transpose", seen, perm=(1, 2, 4, 0, 3))
    columns = value("reshape", seen, shape=(groups, channels * size, batch * count))
    each = w.type.shape[0] // groups
    found = value("matmul", value("reshape", w, shape=(groups, each, channels * size)), columns)
    found = value("transpose", value("reshape", found, shape=(groups, each, batch, count)), perm=(2, 0, 1, 3))
    return value("reshape", found, shape=out.shape)


class Digits(NamedTuple):
    """One digit of each number, as bfloat16; greatest: of their sizes."""

    value: Value
    greatest: int


def _digits(x: Value) -> list[Digits]:
    """As many digits as the numbers have, lowest first: the last has the sign, the others have none."""
    interval = interval_of(x)
    producer = x.producer
    # The same numbers in another type need not be brought to this one first.
    while producer is not None and producer.name == "cast" and producer.operands[0].type.dtype.is_integer:
        if interval_of(producer.operands[0]) != interval:
            break
        x, producer = producer.operands[0], producer.operands[0].producer
    made: list[Digits] = []
    low, high = interval
    while max(-low, high) > MASK + 1:
        shifted = value("right_shift", x, DIGIT * len(made)) if made else x
        made.append(Digits(value("cast", value("bitwise_and", shifted, MASK), dtype=bfloat16), MASK))
        low, high = low >> DIGIT, high >> DIGIT
    last = value("right_shift", x, DIGIT * len(made)) if made else x
    return [*made, Digits(value("cast", last, dtype=bfloat16), max(-low, high, 1))]


def _product(x: Digits, y: Digits) -> Value:
    """The product of digits as int32; a long K is cut into parts, which are added as integers."""
    left, right, k = x.value, y.value, x.value.type.shape[-1]
    terms = EXACT // (x.greatest * y.greatest)
    if k <= terms:
        return value("nearest", value("matmul_wide", left, right), dtype=int32)
    # A multiple of the rows of the Tensor engine.
    terms -= terms % (1 << (DIGIT - 1))
    parts = -(-k // terms)
    if parts <= TUNING.few_products:
        each = [
            value("nearest", value("matmul_wide", _part(left, -1, at, terms), _part(right, -2, at, terms)), dtype=int32)
            for at in range(0, k, terms)
        ]
        return reduce(lambda one, other: value("add", one, other), each)
    left, right = _padded(left, left.type.rank - 1, parts * terms), _padded(right, right.type.rank - 2, parts * terms)
    *batch, m, _ = left.type.shape
    rank = left.type.rank
    left = value("reshape", left, shape=(*batch, m, parts, terms))
    left = value("transpose", left, perm=(*range(rank - 2), rank - 1, rank - 2, rank))
    *batch, _, n = right.type.shape
    right = value("reshape", right, shape=(*batch, parts, terms, n))
    together = value("nearest", value("matmul_wide", left, right), dtype=int32)
    return value("sum", together, axes=(together.type.rank - 3,), keepdims=False)


def _part(x: Value, axis: int, start: int, size: int) -> Value:
    shape = x.type.shape
    starts, sizes = [0] * len(shape), list(shape)
    starts[axis], sizes[axis] = start, min(size, shape[axis] - start)
    return value("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * len(shape))


def _padded(x: Value, axis: int, size: int) -> Value:
    more = size - x.type.shape[axis]
    if not more:
        return x
    zeros = (0,) * x.type.rank
    high = (*zeros[:axis], more, *zeros[axis + 1 :])
    return value("pad", x, low=zeros, high=high, value=0.0)
