"""Kinds of bad values, and how people read them."""

from __future__ import annotations

from typing import Any

import numpy as np

GOOD, NAN, INFINITE, SENTINEL, OUTSIDE, UNWRITTEN = range(6)
NAMES = {
    NAN: "NaN",
    INFINITE: "infinity",
    SENTINEL: "the sentinel",
    OUTSIDE: "the index",
    UNWRITTEN: "data that nobody wrote",
}


def kinds_of(values: Any, limit: int | None = None) -> np.ndarray:
    """The kind of each element. limit: what is below 0 or not below it is OUTSIDE."""
    array = np.atleast_1d(np.asarray(values))
    kinds = np.zeros(array.shape, np.int8)
    if array.dtype.kind == "b":
        return kinds
    if array.dtype.kind in "iu":
        if limit is not None:
            kinds[(array < 0) | (array >= limit)] = OUTSIDE
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:
            kinds[array == np.iinfo(array.dtype).max] = SENTINEL
        return kinds
    seen = array.astype(np.float32, copy=False)
    if limit is not None:
        kinds[(seen < 0) | (seen >= limit)] = OUTSIDE
    kinds[np.isinf(seen)] = INFINITE
    kinds[np.isnan(seen)] = NAN
    return kinds


def number(value: Any) -> str:
    """A value in a message: 88.79, 0xFFFFFFFF, inf."""
    array = np.asarray(value)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1 and array == np.iinfo(array.dtype).max:
        return f"0x{int(array):X}"
    if array.dtype.kind in "iub":
        return str(int(array))
    return f"{float(array.astype(np.float64)):.6g}"
