"""Limits of element types: nl.fp32.min and nl.finfo, and casts of arrays on the host."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tilewright.dtypes import as_dtype, bfloat16, float32


class fp32:
    """Limits of float32."""

    min = float32.min
    max = float32.max


class bfp16:
    """Limits of bfloat16."""

    min = bfloat16.min
    max = bfloat16.max


def finfo(dtype: Any) -> Any:
    """NumPy's finfo, also for types that only ml_dtypes has."""
    return ml_dtypes.finfo(as_dtype(dtype).np)


def static_cast(input_data: Any, dtype: Any) -> Any:
    """An array of the host in another element type."""
    kind = np.dtype(dtype) if not isinstance(dtype, str) else as_dtype(dtype).np
    return np.asarray(input_data).astype(kind)
