"""Indexing by arrays that are known only at run time. Indices are of any integer type.

A front end puts `checked_index` before the others: they take indices that are not negative. Indices that lie outside
are an error at run time (E301), never another element.
"""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import DType
from tilewright.errors import TileIndexError, fail
from tilewright.tensor.record import op
from tilewright.tensor.types import Scalar, TensorType

COMBINE: dict[str, np.ufunc] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
"""How `combine_rows` joins what is there with what comes."""


def in_range(index: np.ndarray, size: int, low: int = 0) -> np.ndarray:
    """The index itself, once every element is known to lie in low .. size - 1; E301 otherwise."""
    if index.size and (index.min() < low or index.max() >= size):
        bad = index.min() if index.min() < low else index.max()
        raise fail("E301", f"index {bad} is out of bounds for a dim of size {size}", error=TileIndexError)
    return index


def _unchanged(x: TensorType, *_: TensorType, **__: object) -> TensorType:
    return x


def _index(index: TensorType, size: int) -> TensorType:
    assert index.dtype.is_integer and size <= index.dtype.max, f"{index} for a dim of size {size}"
    return index


@op(family="index", operands="index", attrs=("size",), infer=_index, primitive=True)
def checked_index(index: np.ndarray, size: int) -> np.ndarray:
    """out = index + size where index < 0, else index; an error unless -size <= index < size"""
    in_range(index, size, -size)
    return index if index.dtype.kind == "u" else np.where(index < 0, index + index.dtype.type(size), index)


@op(family="index", operands="index", attrs=("size",), infer=_unchanged, primitive=True)
def bounded_index(index: np.ndarray, size: int) -> np.ndarray:
    """out = index; an error unless 0 <= index < size"""
    return in_range(index, size)


def _taken(x: TensorType, index: TensorType, axis: int) -> TensorType:
    assert index.dtype.is_integer, f"indices of {index.dtype}"
    return x.with_shape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


@op(family="index", operands="x index", attrs=("axis",), infer=_taken, primitive=True)
def take(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """out[a, i, b] = x[a, index[i], b] with i at axis; every index in range"""
    return np.take(x, in_range(index, x.shape[axis]).astype(np.intp), axis=axis)


def _check_along(x: TensorType, index: TensorType, axis: int) -> None:
    others = [shape[:axis] + shape[axis + 1 :] for shape in (x.shape, index.shape)]
    fits = x.rank == index.rank and others[0] == others[1]
    assert fits and index.dtype.is_integer, f"{index} along axis {axis} of {x}"


def _along(x: TensorType, index: TensorType, axis: int) -> TensorType:
    _check_along(x, index, axis)
    return x.with_shape(index.shape)


@op(family="index", operands="x index", attrs=("axis",), infer=_along, primitive=True)
def take_along_axis(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """out[a, i, b] = x[a, index[a, i, b], b] with i at axis; dims but axis are equal"""
    return np.take_along_axis(x, in_range(index, x.shape[axis]).astype(np.intp), axis=axis)


def _put(x: TensorType, index: TensorType, part: TensorType) -> TensorType:
    fits = index.dtype.is_integer and index.rank == 1 and part.shape == (*index.shape, *x.shape[1:])
    assert fits and part.dtype is x.dtype, f"rows {part} at {index} of {x}"
    return x


@op(family="index", operands="x index part", infer=_put, primitive=True)
def put_rows(x: np.ndarray, index: np.ndarray, part: np.ndarray) -> np.ndarray:
    """out = x with out[index[i], ...] = part[i, ...], the last of equal indices winning; index has rank 1"""
    out = np.array(x)
    out[in_range(index, x.shape[0])] = part
    return out


def _combined(x: TensorType, index: TensorType, part: TensorType, combine: str) -> TensorType:
    assert combine in COMBINE, f"there is no combine {combine!r}"
    fits = index.dtype.is_integer and index.rank > 0 and part.shape == (*index.shape, *x.shape[1:])
    assert fits and part.dtype is x.dtype, f"rows {part} at {index} of {x}"
    return x


@op(family="index", operands="x index part", attrs=("combine",), infer=_combined, primitive=True)
def combine_rows(x: np.ndarray, index: np.ndarray, part: np.ndarray, combine: str) -> np.ndarray:
    """out = x with out[index[i], ...] = combine(out[index[i], ...], part[i, ...]), i in order, over all of its dims"""
    out = np.array(x)
    COMBINE[combine].at(out, in_range(index, x.shape[0]), part)
    return out


def _put_along(x: TensorType, index: TensorType, part: TensorType, axis: int) -> TensorType:
    _check_along(x, index, axis)
    assert part == index.with_dtype(x.dtype), f"{part} at {index} of {x}"
    return x


@op(family="index", operands="x index part", attrs=("axis",), infer=_put_along, primitive=True)
def put_along_axis(x: np.ndarray, index: np.ndarray, part: np.ndarray, axis: int) -> np.ndarray:
    """out = x with out[a, index[a, i, b], b] = part[a, i, b], i at axis; dims but axis are equal"""
    out = np.array(x)
    np.put_along_axis(out, in_range(index, x.shape[axis]).astype(np.intp), part, axis=axis)
    return out


def _positions(x: TensorType, size: int, fill: Scalar, dtype: DType) -> TensorType:
    assert x.rank == 1, f"positions in {x}"
    return TensorType(dtype, (size,))


@op(family="index", operands="x", attrs=("size", "fill", "dtype"), infer=_positions, primitive=False)
def nonzero(x: np.ndarray, size: int, fill: Scalar, dtype: DType) -> np.ndarray:
    """out[j] = position of the j-th element of x that is not 0, fill after the last one; x has rank 1"""
    found = np.flatnonzero(x)[:size]
    out = np.full(size, fill, dtype.np)
    out[: found.size] = found
    return out
