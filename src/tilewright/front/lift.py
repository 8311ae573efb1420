"""Host data that meets traced arrays: it becomes constants of the program."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.front.array import TracedArray, new
from tilewright.front.refusal import ask
from tilewright.front.trace import emit
from tilewright.ir.core import Value
from tilewright.ir.dense import Dense


def as_traced(x: Any) -> TracedArray:
    """x as a traced array: itself, or a constant made of an array, a number or a (nested) list."""
    if isinstance(x, TracedArray):
        return x
    if isinstance(x, (list, tuple)) and holds_traced(x):
        return _stacked(x)
    return new(constant_of(ask(np.asarray, x)))


def holds_traced(x: Any) -> bool:
    """True for a nested list or tuple with a traced array somewhere inside."""
    return isinstance(x, TracedArray) or (isinstance(x, (list, tuple)) and any(map(holds_traced, x)))


def _stacked(items: Any) -> TracedArray:
    from tilewright.front.promote import promote
    from tilewright.front.storage import reshaped

    operands, _ = promote(*(as_traced(item) for item in items))
    return new(emit("concatenate", *(reshaped(v, (1, *v.type.shape)) for v in operands), axis=0))


def constant_of(array: np.ndarray) -> Value:
    """A constant of the program; arrays that a rule describes are written as that rule."""
    dtype = host_dtype(array.dtype, "a constant")
    return emit("constant", value=Dense(array, dtype))
