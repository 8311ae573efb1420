"""Linear algebra on matrices in the last two dims; what lowering gets of them stands in `passes/expand_linalg.py`.

NumPy raises LinAlgError for a matrix that has no such factor or inverse. Whether one has is known only at run time, and
other matrices of a batch may be fine, so that here, as on the device, the result of that one matrix is NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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


def _solved(a: TensorType, b: TensorType, **_: object) -> TensorType:
    assert a.shape[-1] == a.shape[-2] == b.shape[-2], f"equations of {a} and {b}"
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


@op(family="linalg", operands="a", infer=lambda a: a, primitive=False)
def inverse(a: np.ndarray) -> np.ndarray:
    """out = the x with a @ x = identity; NaN where a is singular"""
    return _each(np.linalg.inv, a.shape, a)


@op(family="linalg", operands="a", infer=lambda a: a, primitive=False)
def cholesky(a: np.ndarray) -> np.ndarray:
    """out = the lower triangular x with x @ x transposed = a; only a's lower triangle is looked at

    NaN where a is not positive definite.
    """
    return _each(np.linalg.cholesky, a.shape, a)


@op(family="linalg", operands="a", infer=lambda a: a.with_shape(a.shape[:-2]), primitive=False)
def det(a: np.ndarray) -> np.ndarray:
    """out = sum over permutations p of sign(p) * product of a[..., i, p[i]]"""
    return np.linalg.det(a)
