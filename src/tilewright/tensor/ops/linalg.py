"""Linear algebra on matrices in the last two dims; what lowering gets of them stands in `passes/expand_linalg.py`.

NumPy raises LinAlgError for a matrix that has no such factor or inverse. Whether one has is known only at run time, and
other matrices of a batch may be fine, so that here, as on the device, the result of that one matrix is NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.dtypes import int32
from tilewright.tensor.record import op
from tilewright.tensor.types import TensorType


def _each(function: Callable[..., np.ndarray], shape: tuple[int, ...], *arrays: np.ndarray) -> np.ndarray:
    """The function of every matrix of a batch of `shape`, in the arrays' own type; NaN for one that it refuses."""
    batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    out = np.empty(shape, arrays[0].dtype)
    wide = [np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays]
    for at in np.ndindex(*batch):
        out[at] = _or_nan(function, [a[at] for a in wide])
    return out


def _or_nan(function: Callable[..., np.ndarray], matrices: list[np.ndarray]) -> np.ndarray | float:
    try:
        return function(*matrices)
    except np.linalg.LinAlgError:
        return np.nan


def _square(a: TensorType) -> TensorType:
    assert a.rank > 1 and a.shape[-1] == a.shape[-2], f"a matrix {a}"
    return a


def _solved(a: TensorType, b: TensorType, **_: object) -> TensorType:
    assert b.rank > 1 and _square(a).shape[-1] == b.shape[-2], f"equations of {a} and {b}"
    return b.with_shape((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]))


def substitute(a: np.ndarray, b: np.ndarray, lower: bool, unit_diagonal: bool) -> np.ndarray:
    """One triangular system of one or more columns, row after row."""
    out = np.array(b)
    rows = range(len(a)) if lower else range(len(a) - 1, -1, -1)
    for i in rows:
        known = slice(0, i) if lower else slice(i + 1, None)
        out[i] -= a[i, known] @ out[known]
        if not unit_diagonal:
            out[i] /= a[i, i]
    return out


@op(family="linalg", operands="a b", attrs=("lower", "unit_diagonal"), infer=_solved, primitive=False)
def solve_triangular(a: np.ndarray, b: np.ndarray, lower: bool, unit_diagonal: bool) -> np.ndarray:
    """out = the x with triangle(a) @ x = b

    Only a's lower (or upper) triangle is looked at, and not its diagonal if that is one; batch dims broadcast.
    """
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    return _each(lambda a, b: substitute(a, b, lower, unit_diagonal), shape, a, b)


@op(family="linalg", operands="a b", infer=_solved, primitive=False)
def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """out = the x with a @ x = b; batch dims broadcast; NaN where a is singular"""
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    return _each(np.linalg.solve, shape, a, b)


@op(family="linalg", operands="a", infer=_square, primitive=False)
def inverse(a: np.ndarray) -> np.ndarray:
    """out = the x with a @ x = identity; NaN where a is singular"""
    return _each(np.linalg.inv, a.shape, a)


@op(family="linalg", operands="a", infer=_square, primitive=False)
def cholesky(a: np.ndarray) -> np.ndarray:
    """out = the lower triangular x with x @ x transposed = a; only a's lower triangle is looked at

    NaN where a is not positive definite.
    """
    return _each(np.linalg.cholesky, a.shape, a)


@op(family="linalg", operands="a", infer=lambda a: a.with_shape(_square(a).shape[:-2]), primitive=False)
def det(a: np.ndarray) -> np.ndarray:
    """out = sum over permutations p of sign(p) * product of a[..., i, p[i]]"""
    return np.linalg.det(a)


def _eliminated(a: TensorType, definite: bool) -> tuple[TensorType, TensorType, TensorType]:
    shape = _square(a).shape[:-1]
    return a, a.with_shape(shape), TensorType(int32, shape)


@op(family="linalg", operands="a", attrs=("definite",), infer=_eliminated, primitive=True)
def gauss(a: np.ndarray, definite: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """inverse, pivots, order = that of a by Gauss-Jordan elimination, its greatest elements, and the rows they were in

    Step by step the row with the greatest element of a column, of those that were not chosen before, is subtracted
    from all others. Where all are 0 the step does nothing, and the inverse has no meaning. Where a is positive
    definite, the elements on its diagonal serve.
    """
    *batch, rows, _ = a.shape
    unit = np.broadcast_to(np.eye(rows, dtype=a.dtype), a.shape)
    work = np.concatenate([a, unit], -1)
    closed = np.zeros((*batch, rows), bool)
    pivots, order = np.empty((*batch, rows), a.dtype), np.empty((*batch, rows), np.int32)
    for step in range(rows):
        column = work[..., step].copy()
        at = np.where(closed, -1, np.abs(column)).argmax(-1)[..., None]
        at = np.full_like(at, step) if definite else at
        row = np.take_along_axis(work, at[..., None], -2)
        pivot = row[..., 0, step, None]
        np.put_along_axis(column, at, 0, -1)
        work -= (column / np.where(pivot == 0, 1, pivot))[..., None] * row
        np.put_along_axis(closed, at, True, -1)
        pivots[..., step], order[..., step] = pivot[..., 0], at[..., 0]
    inverse = np.take_along_axis(work[..., rows:], order[..., None].astype(np.intp), -2)
    return inverse / np.where(pivots == 0, 1, pivots)[..., None], pivots, order


@op(family="linalg", operands="a", infer=_square, primitive=True)
def cholesky_columns(a: np.ndarray) -> np.ndarray:
    """out = the factor of cholesky of a symmetric a, with anything above its diagonal"""
    work, out = np.array(a), np.empty_like(a)
    for step in range(a.shape[-1]):
        root = np.sqrt(work[..., step, step])[..., None]
        out[..., step] = work[..., step] / root
        work -= (out[..., step] / root)[..., None] * work[..., step, None, :]
    return out
