"""Conversion of element types: np.astype."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.front.array import TracedArray, as_traced
from tilewright.front.conversion import astype
from tilewright.front.refusal import numpy_error
from tilewright.front.registry import implements


@implements(np.astype)
def astype_function(x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> TracedArray:
    """np.astype"""
    if device not in (None, "cpu"):
        raise numpy_error(ValueError, f'Device not understood. Only "cpu" is allowed, but received: {device}')
    return astype(as_traced(x), dtype, copy=copy)
