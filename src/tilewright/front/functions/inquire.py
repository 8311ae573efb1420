"""Questions that shapes and element types answer: the answers are plain Python objects, known while tracing."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.front.array import TracedArray, as_traced
from tilewright.front.refusal import ask
from tilewright.front.registry import implements


@implements(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    """np.shape"""
    return as_traced(a).shape


@implements(np.ndim)
def ndim(a: Any) -> int:
    """np.ndim"""
    return as_traced(a).ndim


@implements(np.size)
def size(a: Any, axis: Any = None) -> int:
    """np.size"""
    return ask(np.size, as_traced(a).shadow, axis)


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """np.result_type"""
    return ask(np.result_type, *(x.dtype if isinstance(x, TracedArray) else x for x in arrays_and_dtypes))
