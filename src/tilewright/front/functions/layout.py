"""The memory order of results: later views and copies depend on it as they do in NumPy."""

from __future__ import annotations

import numpy as np

from tilewright.front.array import TracedArray, memoryless, new
from tilewright.ir.core import Value


def sample_of(x: TracedArray) -> np.ndarray:
    """A real array with no dim larger than 2 whose elements lie in memory in the order of x's."""
    strides = x.shadow.strides
    axes = sorted(range(x.ndim), key=lambda a: -abs(strides[a]))
    buffer = np.empty([min(x.shape[a], 2) for a in axes], np.int8)
    return buffer.transpose(np.argsort(axes))


def ordered_as(sample: np.ndarray, value: Value) -> TracedArray:
    """A fresh array whose dims lie in memory in the order of the sample's."""
    shape, dtype = value.type.shape, value.type.dtype.np
    if sample.flags.c_contiguous:
        return new(value)
    step, strides = dtype.itemsize, [0] * len(shape)
    for axis in sorted(range(len(shape)), key=lambda a: abs(sample.strides[a])):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return new(value, memoryless(dtype, shape, strides))


def column_major(value: Value) -> TracedArray:
    """A fresh array in column-major order."""
    return ordered_as(np.empty((2,) * value.type.rank, np.int8, "F"), value)
