"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.dtypes import float64
from tilewright.front.array import as_traced, returned
from tilewright.front.functions.operands import is_inexact
from tilewright.front.functions.reduction import reduce
from tilewright.front.promote import cast
from tilewright.front.refusal import ask, axis_in, numpy_error, unsupported
from tilewright.front.registry import implements

_SINGULAR = "norms of matrices by singular values are not computed"


@implements(np.linalg.norm, note="ord 2, -2 and 'nuc' of matrices (singular values) are E803")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    """np.linalg.norm"""
    given = as_traced(x)
    array: Any = given if is_inexact(given.dtype) else returned(cast(given.value, float64))
    rank = array.ndim
    if axis is None and (ord is None or (ord in ("f", "fro") and rank == 2) or (ord == 2 and rank == 1)):
        return np.sqrt(reduce(np.add, np.square(array), None, None, None, keepdims))
    if axis is None:
        axes = tuple(range(rank))
    elif isinstance(axis, tuple):
        axes = axis
    else:
        axes = (_integer(axis),)
    if len(axes) == 1:
        return _of_vectors(array, ord, axis_in(axes[0], rank), keepdims)
    if len(axes) != 2:
        raise numpy_error(ValueError, "Improper number of dimensions to norm.")
    row, column = (axis_in(each, rank) for each in axes)
    if row == column:
        raise numpy_error(ValueError, "Duplicate axes given.")
    return _of_matrices(array, ord, row, column, keepdims)


def _integer(axis: Any) -> int:
    try:
        return int(axis)
    except (TypeError, ValueError):
        raise numpy_error(TypeError, "'axis' must be None, an integer or a tuple of integers") from None


def _of_vectors(x: Any, ord: Any, axis: int, keepdims: Any) -> Any:
    size = np.abs(x)
    if isinstance(ord, str):
        raise numpy_error(ValueError, f"Invalid norm order '{ord}' for vectors")
    if ord == math.inf:
        return reduce(np.maximum, size, axis, None, None, keepdims, 0)
    if ord == -math.inf:
        return reduce(np.minimum, size, axis, None, None, keepdims)
    if ord == 0:
        return reduce(np.add, returned(cast((x != 0).value, x.type.dtype)), axis, None, None, keepdims)
    if ord == 1:
        return reduce(np.add, size, axis, None, None, keepdims)
    if ord is None or ord == 2:
        return np.sqrt(reduce(np.add, x * x, axis, None, None, keepdims))
    total = reduce(np.add, _power(size, ord), axis, None, None, keepdims)
    return _power(total, ask(np.reciprocal, ord, dtype=total.dtype))


def _power(x: Any, exponent: Any) -> Any:
    """x **= exponent: the result stays in the type of x."""
    return returned(cast(np.power(x, exponent).value, x.type.dtype))  # type: ignore[attr-defined]


def _of_matrices(x: Any, ord: Any, row: int, column: int, keepdims: Any) -> Any:
    if ord in (2, -2, "nuc"):
        raise unsupported("np.linalg.norm", "ord", why=_SINGULAR, hint='use ord="fro", 1 or np.inf')
    if ord in (None, "fro", "f"):
        return np.sqrt(reduce(np.add, x * x, (row, column), None, None, keepdims))
    if ord not in (1, -1, math.inf, -math.inf):
        raise numpy_error(ValueError, "Invalid norm order for matrices.")
    summed, left = (row, column) if abs(ord) == 1 else (column, row)
    sums = reduce(np.add, np.abs(x), summed, None, None, keepdims)
    # Without its dim, those behind it move up.
    left -= not keepdims and left > summed
    if ord > 0:
        return reduce(np.maximum, sums, left, None, None, keepdims, 0)
    return reduce(np.minimum, sums, left, None, None, keepdims)


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: Any = False, ord: Any = 2) -> Any:
    """np.linalg.vector_norm"""
    array: Any = as_traced(x)
    axes = ask(np.lib.array_utils.normalize_axis_tuple, range(array.ndim) if axis is None else axis, array.ndim)
    shape = tuple(1 if a in axes else n for a, n in enumerate(array.shape))
    if axis is None:
        found = norm(np.ravel(array), ord, 0)
    elif isinstance(axis, tuple):
        rest = tuple(a for a in range(array.ndim) if a not in axes)
        flat = (math.prod(array.shape[a] for a in axes), *(array.shape[a] for a in rest))
        found = norm(np.reshape(np.transpose(array, axes + rest), flat), ord, 0)
    else:
        found = norm(array, ord, axis)
    return np.reshape(found, shape) if keepdims else found


@implements(np.linalg.matrix_norm, note="ord 2, -2 and 'nuc' (singular values) are E803")
def matrix_norm(x: Any, /, *, keepdims: Any = False, ord: Any = "fro") -> Any:
    """np.linalg.matrix_norm"""
    return norm(x, ord, (-2, -1), keepdims)
