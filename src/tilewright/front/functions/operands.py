"""Operands of kernels: values, or Python numbers that take the type of the values."""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import DType
from tilewright.front.promote import Operand
from tilewright.front.trace import emit
from tilewright.ir.core import Value


def dtype_of(*operands: Operand) -> DType:
    """The element type of the first value among operands."""
    return next(x.type.dtype for x in operands if isinstance(x, Value))


def is_inexact(dtype: np.dtype) -> bool:
    """True for NumPy's own floats; bfloat16 and float8 are none to its functions written in Python."""
    return issubclass(dtype.type, np.inexact)


def tensor(x: Operand, dtype: DType) -> Value:
    """An operand as a value; a number becomes a constant of rank 0."""
    return x if isinstance(x, Value) else emit("full", shape=(), dtype=dtype, value=x)


def full_like(x: Value, dtype: DType, value: bool | int | float) -> Value:
    """One number in the shape of a value."""
    return emit("full", shape=x.type.shape, dtype=dtype, value=value)
