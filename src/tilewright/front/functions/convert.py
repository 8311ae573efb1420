"""Conversion of element types: `astype` as a function and as the method of traced arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.front.array import TracedArray, as_traced, new
from tilewright.front.promote import cast
from tilewright.front.refusal import ask, numpy_error
from tilewright.front.registry import implements
from tilewright.front.ufunc import result_layout


def astype(
    x: TracedArray, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: Any = True, copy: Any = True
) -> TracedArray:
    """The method `astype` of arrays; every argument as in NumPy."""
    wanted = host_dtype(ask(np.dtype, dtype), "astype")
    if not ask(np.can_cast, x.dtype, wanted.np, casting):
        raise numpy_error(
            TypeError,
            f"Cannot cast array data from {x.dtype!r} to {wanted.np!r} according to the rule '{casting}'",
        )
    value = cast(x.value, wanted)
    if not copy and value is x.value and _has_order(x, order):
        return x
    found = new(value, result_layout([x], value.type, order))
    found.is_scalar = x.is_scalar
    return found


def _has_order(x: TracedArray, order: str) -> bool:
    flags = x.shadow.flags
    return order == "K" or (flags.f_contiguous if order == "F" else flags.c_contiguous)


@implements(np.astype)
def astype_function(x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> TracedArray:
    """np.astype"""
    if device not in (None, "cpu"):
        raise numpy_error(ValueError, f'Device not understood. Only "cpu" is allowed, but received: {device}')
    return astype(as_traced(x), dtype, copy=copy)
