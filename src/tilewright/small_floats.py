"""Floats of one and of two bytes to float32 and back, many times faster than ml_dtypes alone, and bit for bit equal.

Those of one byte go by tables. bfloat16 is converted where its elements lie side by side; where they do not, NumPy
calls ml_dtypes for every element by itself, which takes ten times as long as moving them first, as integers.

Rounding to a type with few digits needs of a float32 only its upper half, and whether the lower one holds anything:
every place where rounding changes its mind has an empty lower half. "Anything" goes into the last bit of the upper half
(round to odd), which is too small to be such a place itself.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np


def widen(array: np.ndarray) -> np.ndarray:
    """An array as float32, always a new one."""
    dtype = array.dtype
    if dtype is _BFLOAT16:
        return (array if _in_runs(array) else array.view(np.uint16).copy().view(dtype)).astype(np.float32)
    if dtype.itemsize == 1 and dtype.kind not in "iub":
        return _looked_up(_values(dtype), array.view(np.uint8))
    return array.astype(np.float32)


def assign(array: np.ndarray, value: Any) -> None:
    """array[...] = value, rounded as NumPy and ml_dtypes do."""
    if (
        array.dtype is not _BFLOAT16
        or value.__class__ is not np.ndarray
        or value.dtype is _BFLOAT16
        or (_ends_in_run(array) and _ends_in_run(value))
    ):
        array[...] = value
    else:
        rounded = (value if _in_runs(value) else value.copy()).astype(_BFLOAT16)
        array.view(np.uint16)[...] = rounded.view(np.uint16)


def is_zero(array: np.ndarray) -> np.ndarray:
    """array == 0."""
    if array.dtype is _BFLOAT16:
        # All bits but that of the sign.
        return (array.view(np.uint16) & np.uint16(np.iinfo(np.int16).max)) == 0
    return array == 0


_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# From so many elements side by side on, calling ml_dtypes once for each row costs less than a copy.
_RUN = 32


def _ends_in_run(array: np.ndarray) -> bool:
    strides = array.strides
    return bool(strides) and strides[-1] == array.itemsize and array.shape[-1] >= _RUN and 0 not in strides


def _in_runs(array: np.ndarray) -> bool:
    """Whether the elements that NumPy takes one after the other, in the order of memory, lie side by side."""
    if _ends_in_run(array):
        return True
    if 0 in array.strides:
        return False
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return True
    pairs = zip(array.strides, array.shape, strict=True)
    return any(stride == array.itemsize and size >= _RUN for stride, size in pairs)


def narrow(array: np.ndarray, dtype: np.dtype, saturate: bool = False) -> np.ndarray:
    """float32 values rounded to a float of one byte; beyond its range as ml_dtypes does, or to its largest value."""
    table = _rounded(dtype, saturate)
    halves = np.ascontiguousarray(array).reshape(-1).view("<u4").view("<u2").reshape(-1, 2)
    rounded = np.empty(len(halves), np.uint8)
    for start in range(0, len(halves), _PART):
        part = halves[start : start + _PART]
        table.take(part[:, 1] | (part[:, 0] != 0), out=rounded[start : start + _PART], mode="clip")
    return rounded.view(dtype).reshape(array.shape)


def _looked_up(table: np.ndarray, places: np.ndarray) -> np.ndarray:
    """table[places], for places that it has."""
    if places.size <= _PART:
        return table.take(places)
    flat = np.ascontiguousarray(places).reshape(-1)
    found = np.empty(flat.size, table.dtype)
    for start in range(0, flat.size, _PART):
        table.take(flat[start : start + _PART], out=found[start : start + _PART], mode="clip")
    return found.reshape(places.shape)


# Elements that are looked up at a time: NumPy makes places of eight bytes of them, which stay in a cache.
_PART = 1 << 14


@cache
def _values(dtype: np.dtype) -> np.ndarray:
    """The value of every byte."""
    return np.arange(1 << 8, dtype=np.uint8).view(dtype).astype(np.float32)


@cache
def _rounded(dtype: np.dtype, saturate: bool) -> np.ndarray:
    """What each upper half of a float32 is rounded to, as bytes."""
    uppers = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)
    if saturate:
        limit = float(ml_dtypes.finfo(dtype).max)
        uppers = np.clip(uppers, -limit, limit)
    with np.errstate(all="ignore"):
        return uppers.astype(dtype).view(np.uint8)
