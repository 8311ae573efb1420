"""The type of a tensor: an element type and a shape."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import DType, host_dtype

Scalar = bool | int | float
"""A Python number as an operand: it takes the element type of the other operands, as NumPy's weak scalars do."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """An array of `shape` (any rank, sizes from 0) of `dtype`, 64-bit types included."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        """The same element type in another shape."""
        return TensorType(self.dtype, tuple(shape))

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same shape of another element type."""
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.short}[{', '.join(map(str, self.shape))}]"


def type_of(array: np.ndarray | np.generic) -> TensorType:
    """The type of a NumPy array."""
    return TensorType(host_dtype(array.dtype), array.shape)
