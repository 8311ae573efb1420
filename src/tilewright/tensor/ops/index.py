"""Indexing by arrays that are known only at run time. Indices are int32 or int64 and not negative when in range."""

from __future__ import annotations

import numpy as np

from tilewright.errors import TileIndexError, fail
from tilewright.tensor.record import op
from tilewright.tensor.types import TensorType


def in_range(index: np.ndarray, size: int, what: str) -> np.ndarray:
    """The index itself, once every element is known to lie in 0 .. size - 1."""
    if index.size and (index.min() < 0 or index.max() >= size):
        bad = index.min() if index.min() < 0 else index.max()
        raise fail("E303", f"{what}: index {bad} is out of bounds for size {size}", error=TileIndexError)
    return index


def _taken(x: TensorType, index: TensorType, axis: int) -> TensorType:
    return x.with_shape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


@op(family="index", operands="x index", attrs=("axis",), infer=_taken, primitive=True)
def take(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """out[a, i, b] = x[a, index[i], b] with i at axis; every index in range"""
    return np.take(x, in_range(index, x.shape[axis], "take"), axis=axis)


def _along(x: TensorType, index: TensorType, axis: int) -> TensorType:
    return x.with_shape(index.shape)


@op(family="index", operands="x index", attrs=("axis",), infer=_along, primitive=True)
def take_along_axis(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """out[a, i, b] = x[a, index[a, i, b], b] with i at axis; dims but axis are equal"""
    return np.take_along_axis(x, in_range(index, x.shape[axis], "take_along_axis"), axis=axis)


@op(family="index", operands="x index part", infer=lambda x, index, part: x, primitive=True)
def put_rows(x: np.ndarray, index: np.ndarray, part: np.ndarray) -> np.ndarray:
    """out = x with out[index[i], ...] = part[i, ...], the last of equal indices winning; index has rank 1"""
    out = np.array(x)
    out[in_range(index, x.shape[0], "put_rows")] = part
    return out


@op(family="index", operands="x index part", attrs=("axis",), infer=lambda x, index, part, axis: x, primitive=True)
def put_along_axis(x: np.ndarray, index: np.ndarray, part: np.ndarray, axis: int) -> np.ndarray:
    """out = x with out[a, index[a, i, b], b] = part[a, i, b], i at axis; dims but axis are equal"""
    out = np.array(x)
    np.put_along_axis(out, in_range(index, x.shape[axis], "put_along_axis"), part, axis=axis)
    return out
