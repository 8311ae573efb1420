"""The product of matrices; every other contraction is reshapes, transposes and this one."""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import float32
from tilewright.tensor.record import op
from tilewright.tensor.types import TensorType


def _product(x: TensorType, y: TensorType) -> TensorType:
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    assert x.shape[-1] == y.shape[-2], f"matmul of {x} and {y}"
    return TensorType(x.dtype, (*batch, x.shape[-2], y.shape[-1]))


@op(family="contraction", operands="x y", infer=_product, primitive=True)
def matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """out[..., m, n] = sum over k of x[..., m, k] * y[..., k, n]; batch dims broadcast, both have rank 2 or more"""
    if x.dtype.kind in "biu" or (x.dtype.kind == "f" and x.dtype.itemsize >= 4):
        return np.matmul(x, y)
    return np.matmul(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)


@op(
    family="contraction",
    operands="x y",
    infer=lambda x, y: _product(x, y).with_dtype(float32),
    primitive=True,
)
def matmul_wide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """out[..., m, n] = sum over k of x[..., m, k] * y[..., k, n] in float32, of types narrower than that"""
    return np.matmul(x.astype(np.float32), y.astype(np.float32))


@op(
    family="contraction",
    operands="x y",
    infer=lambda x, y: _product(x, y),
    primitive=True,
)
def matmul_split(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """out[..., m, n] = sum over k of x[..., m, k] * y[..., k, n] in float32; x is float32, y is narrower"""
    return np.matmul(x, y.astype(np.float32))
