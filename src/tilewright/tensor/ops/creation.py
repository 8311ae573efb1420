"""Ops without operands: constants, and arrays that a rule describes better than a list of numbers."""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import DType
from tilewright.ir.dense import Dense
from tilewright.tensor.record import op
from tilewright.tensor.types import Scalar, TensorType


@op(
    family="creation",
    operands="",
    attrs=("value",),
    infer=lambda value: TensorType(value.dtype, value.array.shape),
    primitive=True,
)
def constant(value: Dense) -> np.ndarray:
    """out = value"""
    return value.array


def _described(shape: tuple[int, ...], dtype: DType, **_: object) -> TensorType:
    return TensorType(dtype, shape)


@op(family="creation", operands="", attrs=("shape", "dtype", "value"), infer=_described, primitive=True)
def full(shape: tuple[int, ...], dtype: DType, value: Scalar) -> np.ndarray:
    """out[...] = value"""
    return np.full(shape, value).astype(dtype.np)


@op(family="creation", operands="", attrs=("shape", "dtype", "axis", "start", "step"), infer=_described, primitive=True)
def iota(shape: tuple[int, ...], dtype: DType, axis: int, start: Scalar, step: Scalar) -> np.ndarray:
    """out[i] = start + step * i[axis]"""
    line = (np.arange(shape[axis]) * step + start).astype(dtype.np)
    return np.broadcast_to(line.reshape([-1 if a == axis else 1 for a in range(len(shape))]), shape)


@op(
    family="creation",
    operands="",
    attrs=("shape", "dtype", "low", "high", "inside", "outside"),
    infer=_described,
    primitive=True,
)
def band(
    shape: tuple[int, ...], dtype: DType, low: int | None, high: int | None, inside: Scalar, outside: Scalar
) -> np.ndarray:
    """out[..., i, j] = inside where low <= j - i <= high, else outside; None is no limit

    Triangles (`tril`, `triu`), the identity and sliding windows are bands.
    """
    rows, columns = shape[-2:]
    distance = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    holds = np.ones((rows, columns), bool)
    if low is not None:
        holds &= distance >= low
    if high is not None:
        holds &= distance <= high
    return np.broadcast_to(np.where(holds, inside, outside).astype(dtype.np), shape)
