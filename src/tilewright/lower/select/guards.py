"""Functions of the Scalar engine that are valid for some arguments only, for all of them (R-engine-09).

Roots are powers, which the Vector engine has for every number. A logarithm is that of the argument brought into the
valid range, plus that of what this left out, which is 1 in the usual case. What comes out at zero and infinity lies
beyond all other logarithms and is made infinite in the end; where no argument lies below the range, infinity is what
exceeds the greatest number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.dtypes import float32, uint8
from tilewright.lower.decisions import decision
from tilewright.target import Target
from tilewright.tensor.ranges import ANY, Range
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.select.select import Operand, Selector

POWERS = {"sqrt": 0.5, "rsqrt": -0.5}
GREATEST = float(np.finfo(np.float32).max)
FACTOR_BITS = 121
"""Logarithms are less than 2**7, whatever their sign: times 2 to this they are numbers, and what is greater is not."""


def is_safe(function: str, argument: Range, target: Target) -> bool:
    """True when all arguments are valid."""
    key = f"limits.activation_range.{function}"
    if key not in target or function not in (*POWERS, "log"):
        return True
    low, high = target[key]
    return argument.is_inside(low, high)


@decision("select: guarded function")
def guarded(
    s: Selector,
    function: str,
    dst: View,
    x: View,
    scale: Operand,
    bias: Operand | None,
    total: View | None,
    argument: Range = ANY,
) -> None:
    """dst = function(x * scale + bias) for every argument; total is the sum over the free dims."""
    made = dst if total is None else s.temp(dst, float32, "made")
    if function in POWERS:
        _power(s, function, made, x, scale, bias, argument)
    else:
        below = argument.low < s.b.target["limits.activation_range.log"][0]
        x = _shifted(s, x, scale, bias)
        if below:
            _log(s, made, x, argument)
        else:
            _log_above(s, made, x)
    if total is not None:
        s.b.op("tensor_reduce", total, made, op="add", axis=tuple(range(-(made.ndim - 1), 0)))
        s.copy(dst, made)


def _steps(scale: Operand, bias: Operand | None) -> list[tuple[str, Operand]]:
    found: list[tuple[str, Operand]] = []
    if isinstance(scale, View) or scale != 1:
        found.append(("multiply", scale))
    if isinstance(bias, View) or bias:
        found.append(("add", bias))
    return found


def _shifted(s: Selector, x: View, scale: Operand, bias: Operand | None) -> View:
    """x * scale + bias."""
    steps = _steps(scale, bias)
    if not steps:
        return x
    made = s.temp(x, float32, "argument")
    s.scalars(made, x, *steps[0], *(steps[1] if len(steps) > 1 else (None, None)))
    return made


def _power(
    s: Selector, function: str, dst: View, x: View, scale: Operand, bias: Operand | None, argument: Range
) -> None:
    steps, last = _steps(scale, bias), ("power", POWERS[function])
    if argument.low > 0:
        if len(steps) == 2:
            x, steps = _shifted(s, x, scale, bias), []
        first, second = (last, (None, None)) if not steps else (steps[0], last)
        s.scalars(dst, x, *first, *second)
        return
    x = _shifted(s, x, scale, bias)
    if function == "sqrt":
        s.scalars(dst, x, "maximum", -1.0, *last)
        return
    # 1 / sqrt(-0.0) is -inf, which 1 / -0.0 is too. dst may be x.
    inverse, zero = s.temp(dst, dst.dtype, "inverse"), s.temp(dst, uint8, "zero")
    s.inverse(inverse, x)
    s.scalars(zero, x, "equal", 0.0)
    # A power of -inf is no NaN.
    s.scalars(dst, x, "maximum", -1.0, *last)
    s.b.op("tensor_copy_predicated", dst, inverse, zero)


def _log(s: Selector, dst: View, x: View, argument: Range) -> None:
    """ln x = ln c + 2 ln sqrt(r) with c = x cut to the valid range and r = x / c: 1, below the range x / low, above it
    x / high; both by factors that are powers of two.
    """
    low, high = s.b.target["limits.activation_range.log"]
    near, ratio, far = (s.temp(dst, float32, n) for n in ("near", "ratio", "far"))
    s.scalars(near, x, "maximum", low, "minimum", high)
    s.book("activation", near, near, None, 1.0, op="log")
    if argument.high <= high:
        s.scalars(ratio, x, "multiply", 1 / low, "minimum", 1.0)
    else:
        above = s.temp(dst, float32, "above")
        s.scalars(above, x, "multiply", 1 / high, "maximum", 1.0)
        s.b.op("scalar_tensor_tensor", ratio, x, 1 / low, above, op0="multiply", op1="minimum")
    # Of zero a number is left that is smaller than all others, and of infinity one that is greater.
    s.scalars(ratio, ratio, "power", 0.5, "minimum", high / 2)
    smallest = s.column(x.partitions, low * 4)
    s.book("activation", far, ratio, smallest, 1.0, op="log")
    s.b.op("scalar_tensor_tensor", near, far, 2.0, near, op0="multiply", op1="add")
    # What is beyond all logarithms is infinite on the way, and nothing else is rounded.
    factor = 2.0**FACTOR_BITS
    s.scalars(dst, near, "multiply", factor, "multiply", 1 / factor)


def _log_above(s: Selector, dst: View, x: View) -> None:
    """ln x = ln c + ln r for arguments that are not below the valid range, with c = x cut to it and r = x / c: 1, or
    x / high above it, a factor that is a power of two."""
    _, high = s.b.target["limits.activation_range.log"]
    near, above = (s.temp(dst, float32, n) for n in ("near", "above"))
    s.b.op("tensor_scalar", near, x, high, op0="minimum")
    s.book("activation", near, near, None, 1.0, op="log")
    s.scalars(above, x, "maximum", high, "minimum", GREATEST)
    s.book("activation", above, above, None, 1 / high, op="log")
    s.two("add", near, near, above)
    # Infinity less the greatest number is infinite, every other number less it is below all logarithms.
    s.b.op("scalar_tensor_tensor", dst, x, GREATEST, near, op0="subtract", op1="maximum")
