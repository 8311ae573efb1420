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
"""The same where an element type has fewer bits than float32."""


def compared(
    kernel: Compiled, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
) -> tuple[str, bool]:
    """How a kernel's results differ from NumPy's, in words, and whether they are the same within rounding."""
    given = _filled(args, kwargs)
    mine, theirs = copy.deepcopy(given), copy.deepcopy(given)
    with np.errstate(all="ignore"):
        expected = leaves((function(*theirs[0], **theirs[1]), theirs))
    actual = leaves((kernel(*mine[0], **mine[1]), mine))
    worst, same = 0.0, True
    for (_, x), (_, y) in zip(actual, expected, strict=True):
        if isinstance(y, (np.ndarray, np.generic)):
            error, allowed = _difference(np.asarray(x), np.asarray(y), kernel.options.precision)
            worst, same = max(worst, error), same and error <= allowed
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


def _difference(x: np.ndarray, y: np.ndarray, precision: str) -> tuple[float, float]:
    """The largest difference over the largest number, and how large it may be."""
    wide = y.dtype.kind == "f" and y.dtype.itemsize >= 4
    a, b = x.astype(np.float64), y.astype(np.float64)
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    error = float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0)) / scale
    return error, 0.0 if y.dtype.kind in "biu" else TOLERANCE[precision] if wide else NARROW
