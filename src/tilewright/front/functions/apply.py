"""Functions that NumPy lacks: an op on NumPy arrays at once, on traced arrays as part of the program."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.front.array import TracedArray, as_traced, holds_traced, new
from tilewright.front.local import localised, settle
from tilewright.front.trace import emit_all
from tilewright.tensor.record import TABLE


def given(x: Any) -> Any:
    """An argument of such a function: a traced array, or an array of NumPy; E602 for what holds no numbers."""
    x = settle(x)
    if holds_traced(x):
        return as_traced(x)
    made = x if isinstance(x, np.ndarray) else np.asarray(x)
    if made.dtype.kind not in "biuf":
        host_dtype(made.dtype, f"an argument of type {type(x).__name__}")
    return made


def apply(name: str, *operands: Any, **attrs: Any) -> Any:
    """The result of an op, or the tuple of its results."""
    if any(isinstance(x, TracedArray) for x in operands):
        results = emit_all(name, *(as_traced(x).value for x in operands), **attrs)
        return new(results[0]) if len(results) == 1 else tuple(map(new, results))
    with np.errstate(all="ignore"):
        found = TABLE[name].meaning(*map(np.asarray, operands), **attrs)
    return tuple(map(localised, found)) if isinstance(found, tuple) else localised(found)
