"""What a number in a kernel is, in a few words, where it is not plain from the NumPy source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, log2, pi
from typing import Any

import numpy as np

from tilewright.ir.core import Op, Value
from tilewright.tile.view import View

_MANTISSA = 23
"""Bits of a float32 that are stored of its mantissa."""

_BFLOAT16 = 8
"""Bits of the mantissa of a bfloat16, the one that is not stored included."""

_LARGEST_INT = (1 << 31) - 1

_MOST = 1 << 20
"""Largest number whose reciprocal is told."""

_LARGEST = float(np.finfo(np.float32).max)

_KNOWN: dict[float, str] = {
    float(np.float32(value)): words
    for value, words in (
        (3 * 2.0**22, "1.5 * 2**23: added and taken away again, it rounds to a whole number"),
        (2.0**23, "2**23: from here on float32 has whole numbers only"),
        (np.log(2), "ln 2"),
        (1 / np.log(2), "1 / ln 2: from powers of e to powers of 2"),
        (np.log2(10), "log2 10"),
        (1 / np.log(10), "1 / ln 10"),
        (pi, "pi"),
        (pi / 2, "pi / 2: a quarter turn, sine to cosine"),
        (2 * pi, "2 * pi"),
        (1 / pi, "1 / pi"),
        (1 / (2 * pi), "1 / (2 * pi): from radians to turns"),
        (np.sqrt(2), "sqrt 2"),
        (1 / np.sqrt(2), "1 / sqrt 2"),
        (_LARGEST, "the largest float32: infinity comes down to it"),
        (float(np.finfo(np.float32).tiny), "the smallest normal float32"),
        (float(np.finfo(np.float32).eps), "the step of float32 after 1"),
    )
}
_BITS = {
    0x7F800000: "bits of infinity: the exponent of a float32",
    0x7FFFFFFF: "all bits but the sign",
    0x007FFFFF: "bits of the mantissa of a float32",
    0x3F800000: "bits of 1.0",
    -0x80000000: "the sign bit",
}


_TESTS: dict[tuple[Any, ...], str] = {
    ("multiply", 0.0, "equal", 0.0): "1 where it is finite: 0 times anything else is no number",
    ("less_equal", inf, "equal", 0.0): "1 where it is no number",
    ("less_equal", _LARGEST, "equal", 0.0): "1 where it is infinity, or no number",
    ("greater_equal", -_LARGEST, "equal", 0.0): "1 where it is minus infinity, or no number",
    ("multiply", _LARGEST, "multiply", _LARGEST): "infinity where it is above 0",
}
"""What two ops in turn, each with its number, find out."""


def remarks(op: Op) -> Iterator[str]:
    """A comment for every trick of an instruction, and every number that needs one."""
    steps = dict(zip(op.definition.operands, op.operands, strict=False)) | dict(op.attrs)
    trick = _TESTS.get(tuple(steps.get(name) for name in ("op0", "operand0", "op1", "operand1")))
    if trick is not None:
        yield trick
        return
    if (kept := _kept_bits(steps)) is not None:
        yield kept
    for value in dict.fromkeys(_numbers(op)):
        words = meaning(value)
        if words is not None:
            yield words


def _kept_bits(steps: Mapping[str, Any]) -> str | None:
    """What a mask leaves of floats whose bits are read as integers."""
    data, mask = steps.get("data"), steps.get("operand0")
    if steps.get("op0") != "bitwise_and" or not isinstance(data, View) or not isinstance(mask, int):
        return None
    gone = -(mask - (1 << 32) if mask > _LARGEST_INT else mask)
    if not data.buffer.dtype.is_float or data.dtype.is_float or not 0 < gone <= 1 << _MANTISSA or gone & (gone - 1):
        return None
    kept = _MANTISSA + 2 - gone.bit_length()
    why = "bfloat16 holds them" if kept == _BFLOAT16 else "products of two such parts are exact"
    return f"the upper {kept} bits of the mantissa: {why}"


def _numbers(op: Op) -> Iterator[float]:
    for value in (*op.operands, *op.attrs.values()):
        if isinstance(value, (int, float)) and not isinstance(value, (bool, View, Value)):
            yield value


def meaning(value: Any) -> str | None:
    """What a number is; None for those that say it themselves."""
    if isinstance(value, int):
        return _BITS.get(value)
    size = abs(value)
    if size in _KNOWN:
        return ("minus " if value < 0 else "") + _KNOWN[size]
    if not 0 < size < 1:
        return _power(value) if size > _MOST else None
    whole = round(1 / size)
    # Short decimals, such as 0.1, 0.125 and 1e-05, read well.
    if len(str(np.float32(size))) > len("0.0625") and whole <= _MOST and np.float32(1 / whole) == np.float32(size):
        return f"{'-' if value < 0 else ''}1 / {whole}"
    return None


def _power(value: float) -> str | None:
    exponent = log2(abs(value)) if np.isfinite(value) else 0.5
    return f"{'-' if value < 0 else ''}2**{round(exponent)}" if exponent == round(exponent) else None
