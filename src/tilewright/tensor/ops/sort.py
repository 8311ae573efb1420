"""Sorting and searching. One order for all of it: NaN is greater than every number, -0.0 equals 0.0, and of equal
elements the one with the lower index comes first (also in descending order)."""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import DType, int32, uint32
from tilewright.tensor.record import op
from tilewright.tensor.types import TensorType


def comparable(x: np.ndarray) -> np.ndarray:
    """x in a type whose order NumPy sorts by: the narrow floats of ml_dtypes as float32, which holds them all."""
    return x if x.dtype.kind in "biuf" else x.astype(np.float32)


def order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """Indices that sort x stably along axis."""
    keys = comparable(x)
    if not descending:
        return np.argsort(keys, axis=axis, kind="stable")
    # Sorted backwards twice: equal elements end up in their first order.
    backwards = np.argsort(np.flip(keys, axis), axis=axis, kind="stable")
    return np.flip(keys.shape[axis] - 1 - backwards, axis)


def _sorted(x: TensorType, axis: int, descending: bool) -> TensorType:
    return x


@op(family="sort", operands="x", attrs=("axis", "descending"), infer=_sorted, primitive=False)
def sort(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """out[a, i, b] = the i-th least (descending: greatest) of x[a, :, b], NaN being the greatest"""
    return np.take_along_axis(x, order(x, axis, descending), axis)


def _as_it_is(x: TensorType, axis: int) -> TensorType:
    return x


@op(family="sort", operands="x", attrs=("axis",), infer=_as_it_is, primitive=False)
def partition(x: np.ndarray, axis: int) -> np.ndarray:
    """out[a, :, b] = x[a, :, b] in an order that is left open but for some elements; here it is sorted"""
    return sort.meaning(x, axis, False)


def _order(x: TensorType, axis: int, descending: bool, dtype: DType) -> TensorType:
    return x.with_dtype(dtype)


@op(family="sort", operands="x", attrs=("axis", "descending", "dtype"), infer=_order, primitive=False)
def argsort(x: np.ndarray, axis: int, descending: bool, dtype: DType) -> np.ndarray:
    """out[a, i, b] = the index in x[a, :, b] of its i-th least (descending: greatest) element, equal ones in order"""
    return order(x, axis, descending).astype(dtype.np)


def _best(x: TensorType, k: int, axis: int, largest: bool) -> tuple[TensorType, TensorType]:
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return x.with_shape(shape), TensorType(uint32, shape)


@op(family="sort", operands="x", attrs=("k", "axis", "largest"), infer=_best, primitive=True)
def topk(x: np.ndarray, k: int, axis: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """out, index = the k greatest (or least) of x along axis, best first, and where they stand; equal ones in order"""
    best = np.take(order(x, axis, largest), range(k), axis=axis)
    return np.take_along_axis(x, best, axis), best.astype(np.uint32)


def _places(x: TensorType, v: TensorType, right: bool, dtype: DType = int32) -> TensorType:
    assert x.rank == 1, f"places in {x}"
    return TensorType(dtype, v.shape)


@op(family="sort", operands="x v", attrs=("right", "dtype"), infer=_places, primitive=False)
def searchsorted(x: np.ndarray, v: np.ndarray, right: bool, dtype: DType) -> np.ndarray:
    """out = number of elements of x before v (right: before or equal to v); x has rank 1 and is sorted"""
    side = "right" if right else "left"
    return np.asarray(np.searchsorted(comparable(x), comparable(v), side=side)).astype(dtype.np)


@op(
    family="sort",
    operands="x v",
    attrs=("right",),
    infer=_places,
    primitive=True,
)
def count_before(x: np.ndarray, v: np.ndarray, right: bool) -> np.ndarray:
    """out = number of elements of x before v (right: before or equal to v), in 32 bits; x has rank 1 and is sorted"""
    return np.asarray(np.searchsorted(comparable(x), comparable(v), side="right" if right else "left")).astype(np.int32)
