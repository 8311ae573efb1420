"""Reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.front.array import TracedArray, as_traced, returned
from tilewright.front.promote import cast
from tilewright.front.refusal import axes_in
from tilewright.front.registry import implements
from tilewright.front.trace import emit


@implements(np.sum, refuses=("out", "initial", "where"))
def sum_(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = np._NoValue,
    where: Any = np._NoValue,
) -> TracedArray:
    """np.sum"""
    x = as_traced(a)
    wanted = np.add.resolve_dtypes((None, x.dtype, None), reduction=True)[0] if dtype is None else dtype
    value = cast(x.value, host_dtype(wanted))
    return returned(emit("sum", value, axes=axes_in(axis, x.ndim), keepdims=bool(keepdims)))
