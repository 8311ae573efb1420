"""Packed element types: four small floats in one element, the first in its lowest bits."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

from tilewright.dtypes import DTYPES, DType, PackedDType

PER_ELEMENT = 4

_PACKED = [each for each in DTYPES.values() if isinstance(each, PackedDType)]
HOST_CELLS = {str.__str__(each): each.cell for each in _PACKED}
"""Packed elements as NumPy holds them on the host: opaque cells, whose field name carries the type."""

# NumPy looks names up here, as it does for the types of ml_dtypes: np.zeros(shape, dtype=nl.float8_e4m3fn_x4).
np.sctypeDict.update(HOST_CELLS)  # type: ignore[arg-type]
np.sctypeDict.update({each: each.cell for each in _PACKED})  # type: ignore[arg-type]


def element_type(dtype: DType) -> np.dtype:
    """The small float that a packed type holds four of."""
    assert dtype.kind == "p", f"{dtype} is not packed"
    return np.dtype(getattr(ml_dtypes, dtype.removesuffix(f"_x{PER_ELEMENT}")))


@cache
def _values(dtype: DType) -> np.ndarray:
    """The float32 value of every bit pattern of the small float."""
    patterns = np.arange(1 << _bits(dtype), dtype=np.uint8)
    return patterns.view(element_type(dtype)).astype(np.float32)


def _bits(dtype: DType) -> int:
    return 8 * dtype.itemsize // PER_ELEMENT


def unpack(array: np.ndarray, dtype: DType) -> np.ndarray:
    """float32[..., 4 n] from packed[..., n]."""
    bits = _bits(dtype)
    shifts = np.arange(0, PER_ELEMENT * bits, bits, dtype=array.dtype)
    patterns = (array[..., None] >> shifts) & array.dtype.type((1 << bits) - 1)
    return _values(dtype)[patterns].reshape(*array.shape[:-1], -1)


def pack(array: np.ndarray, dtype: DType) -> np.ndarray:
    """packed[..., n] from float[..., 4 n], each rounded to nearest even."""
    bits = _bits(dtype)
    small = array.astype(np.float32).astype(element_type(dtype)).view(np.uint8)
    quads = small.reshape(*array.shape[:-1], -1, PER_ELEMENT).astype(dtype.np)
    shifts = np.arange(0, PER_ELEMENT * bits, bits, dtype=dtype.np)
    return np.bitwise_or.reduce(quads << shifts, axis=-1)
