"""Remainders of floats that are known to be no great multiple of the divisor: a few ops instead of a long division.

`decompose` divides by 22 bits at a time, since a float32 may be 2**127 times a divisor. Angles, phases and what was
itself a remainder lie within a few multiples of it. There n times the upper and the lower half of b are exact as long
as their bits fit together into a mantissa, and so is what is left of x without them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from tilewright.dtypes import float32
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.rewrite import Rule, rewrite
from tilewright.ir.walk import walk
from tilewright.tensor.build import value
from tilewright.tensor.passes.decompose.division import HIGH_BITS, MANTISSA, bits_of, is_moderate
from tilewright.tensor.passes.match import number
from tilewright.tensor.ranges import range_of

_WHOLE = 22
"""Bits of a whole number that rounding finds."""


def short_remainders(graph: Graph) -> Counter[str]:
    """Write every `mod` by a number out whose dividend is near enough; says how often."""
    # Before any of them is: what comes of it no longer tells its range.
    found = {op for op in walk(graph) if op.name == "mod" and _is_near(op)}

    def replace(op: Op) -> Any:
        return _written_out(op) if op in found else None

    equation = "mod(x, b) -> r, or r + b where r < 0        r = x - b * rint(x / b), where that is exact"
    return rewrite(graph, [Rule("short_remainder", ("mod",), replace, equation)])


def _is_near(op: Op) -> bool:
    x, b = op.operands[0], number(op.operands[1])
    if not isinstance(x, Value) or x.type != op.result.type or x.type.dtype is not float32:
        return False
    if b is None or not is_moderate(float(b)) or b < 0:
        return False
    bits = bits_of(float(b))
    most = float(b) * 2.0 ** (min(_WHOLE, MANTISSA - min(bits, MANTISSA // 2)) - 2)
    return range_of(x).is_inside(-most, most)


def _written_out(op: Op) -> Value:
    x, b = op.operands[0], float(np.float32(number(op.operands[1])))
    n = value("rint", value("multiply", x, float(np.float32(1 / b))))
    high = float((np.array(b, np.float32).view(np.int32) & HIGH_BITS).view(np.float32))
    rest = value("subtract", x, value("multiply", n, high))
    if high != b:
        rest = value("subtract", rest, value("multiply", n, b - high))
    # A zero is positive, as the divisor is.
    return value("where", value("less", rest, 0.0), value("add", rest, b), value("abs", rest))
