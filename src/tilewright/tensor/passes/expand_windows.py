"""Windows that stay windows become arrays of their own, for `decompose`: copies of parts, or elements that are looked
up. (What is computed of windows is mostly computed without them: `simplify/windows.py`.)"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import int32
from tilewright.ir.core import Op, Value
from tilewright.ir.dense import Dense
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.simplify.windows import Windows

_MOST_SLICES = 16
"""Windows of more elements than this are looked up instead of being put together from slices."""


@rule("windows")
def expand_windows(op: Op) -> Any:
    """windows(x) -> concatenate(slice(x, k) for every k)        , axis by axis; of large windows take(x, i + k)"""
    (x,) = op.operands
    for axis, size, stride, dilation in Windows.of(op).along():
        x = windows_along(x, axis, size, stride, dilation)
    return x


def windows_along(x: Value, axis: int, size: int, stride: int, dilation: int) -> Value:
    """Windows along one axis, their elements as a new last dim."""
    count = (x.type.shape[axis] - dilation * (size - 1) - 1) // stride + 1
    rank, shape = x.type.rank, x.type.shape
    counted = (*shape[:axis], count, *shape[axis + 1 :])
    if size <= _MOST_SLICES:
        steps = tuple(stride if a == axis else 1 for a in range(rank))
        starts = [tuple(dilation * k if a == axis else 0 for a in range(rank)) for k in range(size)]
        parts = [value("slice", x, starts=start, sizes=counted, steps=steps) for start in starts]
        return value("concatenate", *(value("reshape", part, shape=(*counted, 1)) for part in parts), axis=rank)
    index = stride * np.arange(count)[:, None] + dilation * np.arange(size)
    found = value("take", x, value("constant", value=Dense(index.astype(np.int32), int32)), axis=axis)
    order = (*(a for a in range(rank + 1) if a != axis + 1), axis + 1)
    return value("transpose", found, perm=order)
