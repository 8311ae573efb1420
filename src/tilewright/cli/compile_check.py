"""A compiled kernel against the NumPy function it was made of, on random arrays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.compiler import Compiled
from tilewright.front.pytree import leaves
from tilewright.spec import ArraySpec

TOLERANCE = {"float32": 1e-5, "bf16": 2e-2, "bf16x3": 1e-4}
"""How far floats may be from NumPy's, as a part of the largest, by precision."""
NARROW = 2e-2
"""The same where arguments have fewer bits than float32."""


def compared(
    kernel: Compiled, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
) -> tuple[str, bool]:
    """How a kernel's results differ from NumPy's, in words, and whether they are the same within rounding.

    Narrow floats are compared with what NumPy computes in float32.
    """
    given = _filled(args, kwargs)
    mine, theirs = copy.deepcopy(given), tuple(_widened(copy.deepcopy(given)))
    with np.errstate(all="ignore"):
        expected = leaves((function(*theirs[0], **theirs[1]), theirs))
    actual = leaves((kernel(*mine[0], **mine[1]), mine))
    narrow = any(isinstance(x, np.ndarray) and _is_narrow(x) for _, x in leaves(given))
    tolerance = NARROW if narrow else TOLERANCE[kernel.options.precision]
    worst, same = 0.0, True
    for (_, x), (_, y) in zip(actual, expected, strict=True):
        if isinstance(y, (np.ndarray, np.generic)):
            error = _difference(np.asarray(x), np.asarray(y))
            worst, same = max(worst, error), same and error <= (0.0 if np.asarray(y).dtype.kind in "biu" else tolerance)
    verdict = "agrees with NumPy" if same else "DIFFERS from NumPy"
    return f"{verdict} on random arrays; largest difference {worst:.1e} of the largest number", same


def _filled(args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Random arrays in place of those that are described: normal floats, zeros and ones otherwise."""
    rng = np.random.default_rng(0)

    def fill(x: Any) -> Any:
        if not isinstance(x, ArraySpec):
            return x
        if x.dtype.is_float:
            return rng.standard_normal(x.shape).astype(x.dtype.np)
        return rng.integers(0, 2, x.shape).astype(x.dtype.np)

    return [fill(x) for x in args], {name: fill(x) for name, x in kwargs.items()}


def _is_narrow(x: np.ndarray) -> bool:
    """True for floats of fewer bits than float32."""
    return x.dtype.itemsize < 4 and x.dtype.kind not in "biu"


def _widened(given: Any) -> Any:
    """The same with narrow floats as float32: NumPy rounds every step of theirs, and the kernel only what it stores."""
    if isinstance(given, np.ndarray):
        return given.astype(np.float32) if _is_narrow(given) else given
    if isinstance(given, dict):
        return {name: _widened(x) for name, x in given.items()}
    return [_widened(x) for x in given] if isinstance(given, (list, tuple)) else given


def _difference(x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference over the largest number."""
    a, b = x.astype(np.float64), y.astype(np.float64)
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0)) / scale
