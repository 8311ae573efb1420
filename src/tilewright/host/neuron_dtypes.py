"""neuron_dtypes: casts and facts about element types on the host, for scripts that import that package."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from ml_dtypes import bfloat16, float8_e3m4, float8_e4m3, float8_e4m3fn, float8_e5m2, float8_e8m0fnu

from tilewright.dtypes import DTYPES, DType
from tilewright.packed import HOST_CELLS, pack, unpack
from tilewright.small_floats import narrow, widen

float8_e5m2_x4 = HOST_CELLS["float8_e5m2_x4"]
float8_e4m3fn_x4 = HOST_CELLS["float8_e4m3fn_x4"]
float4_e2m1fn_x4 = HOST_CELLS["float4_e2m1fn_x4"]


def _numpy(dtype: Any) -> np.dtype:
    name = str(dtype) if isinstance(dtype, str) else None
    if name in HOST_CELLS:
        return HOST_CELLS[name]
    known = dtype if isinstance(dtype, DType) else DTYPES.get(name or "")
    return known.np if known is not None else np.dtype(dtype)


def static_cast(tensor: Any, dtype: Any) -> np.ndarray:
    """Convert a host array; 8-bit floats saturate at their largest finite value.

    Packed elements become four along the last dim, and four become one.
    """
    array, wanted = np.asarray(tensor), _numpy(dtype)
    if array.dtype == wanted:
        return array
    if array.dtype.names is not None:
        held = DTYPES[array.dtype.names[0]]
        return static_cast(unpack(array.view(held.np), held), dtype)
    if wanted.names is not None:
        made = DTYPES[wanted.names[0]]
        limited = np.clip(array.astype(np.float32), made.min, made.max)
        return pack(limited, made).view(wanted)
    if wanted.itemsize == 1 and is_float_type(wanted):
        return narrow(widen(array), wanted, saturate=True)
    return array.astype(wanted)


def sizeinbytes(dtype: Any) -> int:
    """Bytes per element."""
    return _numpy(dtype).itemsize


def is_float_type(dtype: Any) -> bool:
    """True for floating-point types, NumPy's and ml_dtypes'."""
    wanted = _numpy(dtype)
    return wanted.kind == "f" or wanted.name in {"bfloat16"} or wanted.name.startswith("float8")


def finfo(dtype: Any) -> Any:
    """Limits of a floating-point type."""
    return ml_dtypes.finfo(_numpy(dtype))


__all__ = [
    "bfloat16",
    "finfo",
    "float4_e2m1fn_x4",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fn_x4",
    "float8_e5m2",
    "float8_e5m2_x4",
    "float8_e8m0fnu",
    "is_float_type",
    "sizeinbytes",
    "static_cast",
]
