"""Floats of one byte to float32 and back, by tables: many times faster than element by element, and bit for bit equal.

Rounding to a type with few digits needs of a float32 only its upper half, and whether the lower one holds anything:
every place where rounding changes its mind has an empty lower half. "Anything" goes into the last bit of the upper half
(round to odd), which is too small to be such a place itself.
"""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np


def widen(array: np.ndarray) -> np.ndarray:
    """An array as float32, always a new one."""
    if array.dtype.itemsize == 1 and array.dtype.kind not in "iub":
        return _looked_up(_values(array.dtype), array.view(np.uint8))
    return array.astype(np.float32)


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
