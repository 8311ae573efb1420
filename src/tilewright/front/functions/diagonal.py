"""Diagonals and triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import bool_
from tilewright.front.array import TracedArray, holds_traced, new
from tilewright.front.functions.layout import ordered_as, sample_of
from tilewright.front.functions.moves import filled, piece, reshaped, static, transposed
from tilewright.front.functions.shape import array_of, ravel
from tilewright.front.refusal import ask, axis_in, numpy_error, unsupported
from tilewright.front.registry import call, implements
from tilewright.front.trace import emit
from tilewright.front.views import computed_view
from tilewright.ir.core import Value


def diagonal_of(x: Value, offset: int, axis1: int, axis2: int) -> Value:
    """The elements x[i, i + offset] of two dims, as a last dim: the flat matrix in steps of a row and one."""
    others = [a for a in range(x.type.rank) if a not in (axis1, axis2)]
    shape = tuple(x.type.shape[a] for a in others)
    rows, columns = x.type.shape[axis1], x.type.shape[axis2]
    flat = reshaped(transposed(x, [*others, axis1, axis2]), (*shape, rows * columns))
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    start = offset if offset >= 0 else -offset * columns
    return piece(flat, len(shape), start if count else 0, count, columns + 1)


@implements(np.diagonal)
def diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> TracedArray:
    """np.diagonal: a view that cannot be written to"""
    x = array_of(a)
    shadow = ask(np.diagonal, x.shadow, offset, axis1, axis2)
    first, second = axis_in(axis1, x.ndim), axis_in(axis2, x.ndim)
    return computed_view(x, lambda value: diagonal_of(value, int(offset), first, second), shadow)


@implements(np.linalg.diagonal)
def linalg_diagonal(x: Any, /, *, offset: Any = 0) -> TracedArray:
    """np.linalg.diagonal"""
    return diagonal(x, offset, -2, -1)


@implements(np.trace)
def trace(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: Any = None) -> TracedArray:
    """np.trace"""
    return call(np.sum, diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


@implements(np.linalg.trace)
def linalg_trace(x: Any, /, *, offset: Any = 0, dtype: Any = None) -> TracedArray:
    """np.linalg.trace"""
    return trace(x, offset, -2, -1, dtype)


@implements(np.diag)
def diag(v: Any, k: int = 0) -> TracedArray:
    """np.diag: a matrix of a row of numbers, or the diagonal of a matrix"""
    x = array_of(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise numpy_error(ValueError, "Input must be 1- or 2-d.")
    return new(_matrix(x.value, int(k)))


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> TracedArray:
    """np.diagflat"""
    return new(_matrix(ravel(array_of(v)).value, int(k)))


def _matrix(row: Value, k: int) -> Value:
    """A matrix with a row of numbers on its k-th diagonal: chosen by a mask, from the row under each of its rows."""
    size = row.type.shape[0]
    n = size + abs(k)
    if not size:
        return filled((n, n), row.type.dtype, 0)
    # Column j holds row[j - k]; where k is negative, row[j].
    row = emit("pad", row, low=(max(k, 0),), high=(max(-k, 0),), value=0) if k else row
    on = emit("band", shape=(n, n), dtype=bool_, low=k, high=k, inside=True, outside=False)
    return emit("where", on, reshaped(row, (1, n)), 0)


def _triangle(name: str, m: Any, k: Any, lower: bool) -> TracedArray:
    if holds_traced(k):
        raise unsupported(name, "k", "it is known at run time only", "compare rows and columns: np.arange(n)[:, None]")
    x = array_of(m)
    if not x.ndim:
        ask(np.tril, np.zeros(()))
    # A vector is a row under which the matrix repeats.
    shape = x.shape[-2:] if x.ndim > 1 else (x.shape[0], x.shape[0])
    if isinstance(k, (int, np.integer)):
        low, high = (None, int(k)) if lower else (int(k), None)
        inside = emit("band", shape=shape, dtype=bool_, low=low, high=high, inside=True, outside=False)
    else:
        below = np.asarray(ask(np.tri, *shape, k if lower else k - 1))
        inside = static(below == lower, bool_)
    value = emit("where", inside, x.value, 0)
    sample = np.where(np.empty(tuple(min(n, 2) for n in shape), bool), sample_of(x), np.zeros(1, np.int8))
    return ordered_as(sample, value)


@implements(np.tril)
def tril(m: Any, k: Any = 0) -> TracedArray:
    """np.tril"""
    return _triangle("np.tril", m, k, True)


@implements(np.triu)
def triu(m: Any, k: Any = 0) -> TracedArray:
    """np.triu"""
    return _triangle("np.triu", m, k, False)
