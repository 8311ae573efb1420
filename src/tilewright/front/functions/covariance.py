"""Covariances and correlations of the rows of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import DType, float64
from tilewright.front.array import TracedArray, as_traced
from tilewright.front.functions.creation import dtype_in
from tilewright.front.functions.statistics import Array, as_type
from tilewright.front.promote import result_type
from tilewright.front.refusal import numpy_error
from tilewright.front.registry import implements


def _rows(x: TracedArray, name: str, dtype: DType, rowvar: Any) -> Array:
    if x.ndim > 2:
        raise numpy_error(ValueError, f"{name} has more than 2 dimensions")
    matrix: Array = np.reshape(as_type(x, dtype), x.shape if x.ndim == 2 else (1, -1))  # type: ignore[arg-type]
    return np.transpose(matrix) if not rowvar and x.ndim == 2 and (name == "m" or x.shape[0] != 1) else matrix


@implements(np.cov, refuses=("fweights", "aweights"))
def cov(
    m: Any,
    y: Any = None,
    rowvar: Any = True,
    bias: Any = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Array:
    """np.cov"""
    given = [as_traced(m)] if y is None else [as_traced(m), as_traced(y)]
    within = result_type(*given, np.float64(0)) if dtype is None else dtype_in(dtype)
    parts = [_rows(x, name, within, rowvar) for x, name in zip(given, "my", strict=False)]
    rows = parts[0] if y is None else np.concatenate(parts)
    if not rows.shape[0]:
        return np.reshape(as_type(rows, float64), (0, 0))
    left = max(rows.shape[1] - ((0 if bias else 1) if ddof is None else ddof), 0)
    centred = rows - np.mean(rows, axis=1, keepdims=True)
    product = np.matmul(centred, np.transpose(centred))
    return np.squeeze(product * (1.0 / left if left else np.inf))


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: Any = True, *, dtype: Any = None) -> Array:
    """np.corrcoef"""
    found = cov(x, y, rowvar, dtype=dtype)
    if not found.ndim:
        return found / found
    spread = np.sqrt(np.diagonal(found))
    return np.clip(found / spread[:, None] / spread[None, :], -1, 1)
