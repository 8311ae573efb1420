"""Conversion of element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.front.array import TracedArray, new, returned
from tilewright.front.promote import cast
from tilewright.front.refusal import ask, numpy_error
from tilewright.front.views import layout_like


def astype(x: TracedArray, dtype: Any, order: str = "K", casting: str = "unsafe", copy: bool = True) -> TracedArray:
    """x.astype(dtype): a copy, or x itself where nothing changes and none is asked for."""
    wanted = host_dtype(ask(np.dtype, dtype))
    if not ask(np.can_cast, x.dtype, wanted.np, casting):
        raise numpy_error(
            TypeError, f"Cannot cast array data from {x.dtype!r} to {wanted.np!r} according to the rule '{casting}'"
        )
    if not copy and wanted is x.type.dtype and _lies(x, order):
        return x
    layout = layout_like(x, order, wanted)
    made = cast(x.value, wanted)
    return returned(made) if x.is_scalar else new(made, layout)


def _lies(x: TracedArray, order: str) -> bool:
    """Whether the elements lie in the order asked for."""
    flags = x.shadow.flags
    if order == "A":
        return flags.c_contiguous or flags.f_contiguous
    return order == "K" or (flags.f_contiguous if order == "F" else flags.c_contiguous)
