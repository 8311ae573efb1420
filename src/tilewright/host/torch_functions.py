"""What functions of torch compute that have no counterpart of one line in NumPy, with torch's names of parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import TileNotImplementedError, fail
from tilewright.front.functions import nn
from tilewright.front.functions.sort import topk as largest_of


def refused(what: str, hint: str) -> Exception:
    """E501 of what the lazy device does not have."""
    text = f"{what} of a tensor on the lazy device is not supported"
    return fail("E501", text, hint=hint, error=TileNotImplementedError)


class Found(NamedTuple):
    """Values and where they are: what topk, sort, max and min of one dim give."""

    values: Any
    indices: Any


def argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """argmax, argmin: of all elements where no dim is given."""

    def found(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        return function(x, axis=dim, keepdims=keepdim) if dim is not None else function(x.reshape(-1))

    return found


def extreme(function: Callable[..., Any], where: Callable[..., Any], pairs: Callable[..., Any]) -> Callable[..., Any]:
    """max, min: of all elements, of two tensors, or of one dim, which also gives the places."""

    def call(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return function(x)
        if hasattr(dim, "dtype"):
            return pairs(x, dim)
        return Found(function(x, axis=dim, keepdims=keepdim), where(x, axis=dim, keepdims=keepdim))

    return call


def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Found:
    """The k largest of a dim, or the smallest, and where they are."""
    values, places = largest_of(x, k, axis=dim, ascending=not largest)
    return Found(values, places.astype(np.int64))


def sort(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Found:
    """A dim in order, and where its elements were; equal ones stay in the order that they have."""
    places = argsort(x, dim, descending)
    return Found(np.take_along_axis(x, places, axis=dim), places)


def argsort(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Where the elements of a dim were, in order."""
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    size = x.shape[dim]
    return size - 1 - np.flip(np.argsort(np.flip(x, axis=dim), axis=dim, kind="stable"), axis=dim)


def split(x: Any, size: int | Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Parts of a dim: of one size each, the last one perhaps smaller, or of the sizes given."""
    total = x.shape[dim]
    sizes = [min(size, total - at) for at in range(0, total, size)] if isinstance(size, int) else list(size)
    starts = np.cumsum([0, *sizes])[:-1].tolist()
    before = (slice(None),) * (dim % x.ndim)
    return tuple(x[(*before, slice(start, start + each))] for start, each in zip(starts, sizes, strict=True))


def chunk(x: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most so many parts of a dim, of one size each but for the last."""
    return split(x, math.ceil(x.shape[dim] / chunks), dim)


def embedding(x: Any, y: Any, padding_idx: Any = None, max_norm: Any = None, *_: Any, **__: Any) -> Any:
    """The rows of a table by index; torch gives the table first, and torch.nn.functional the index."""
    if max_norm is not None:
        raise refused("embedding with max_norm", "scale the table before")
    table, index = (y, x) if np.issubdtype(x.dtype, np.integer) else (x, y)
    return np.take(table, index, axis=0)


def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """x, where nothing is trained."""
    if p and training:
        raise refused("dropout while training", "put the module into the mode of evaluation: module.eval()")
    return x.copy()


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """x, with a number where the mask is true."""
    filled = value.astype(x.dtype) if hasattr(value, "dtype") else np.full((), value, x.dtype)
    return np.where(mask, filled, x)


def layer_norm(x: Any, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Any:
    """Of the last dims, as many as the shape has."""
    return nn.layer_norm(x, weight, bias, axis=tuple(range(-len(tuple(shape)), 0)), eps=eps)


def rms_norm(x: Any, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """Of the last dims, as many as the shape has."""
    least = float(np.finfo(np.float32).eps) if eps is None else eps
    return nn.rms_norm(x, weight, axis=tuple(range(-len(tuple(shape)), 0)), eps=least)


def softmax(x: Any, dim: int = -1, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """Exponentials of a dim, by their sum."""
    return nn.softmax(x if dtype is None else x.astype(dtype), axis=dim)


def log_softmax(x: Any, dim: int = -1, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The logarithm of softmax."""
    return nn.log_softmax(x if dtype is None else x.astype(dtype), axis=dim)


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(query key^T scale + mask) value; zero for a query that sees nothing"""
    if dropout_p or enable_gqa:
        name = "scaled_dot_product_attention with"
        if dropout_p:
            raise refused(f"{name} dropout", "leave dropout out")
        raise refused(f"{name} groups of queries", "give every query its key and value")
    scores = query @ np.swapaxes(key, -1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, np.float32(-np.inf))
    if attn_mask is not None:
        kept = attn_mask.dtype == np.bool_
        scores = np.where(attn_mask, scores, np.float32(-np.inf)) if kept else scores + attn_mask
    if attn_mask is None:
        return softmax(scores) @ value
    sees = np.max(scores, axis=-1, keepdims=True) > -np.inf
    return np.where(sees, softmax(np.where(sees, scores, np.float32(0))), np.float32(0)) @ value


def spread(root: bool) -> Callable[..., Any]:
    """std, var: with one degree of freedom less, unless it is said otherwise."""

    def call(x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None) -> Any:
        axis = tuple(dim) if isinstance(dim, (tuple, list)) else dim
        less = int(unbiased) if correction is None else correction
        return (np.std if root else np.var)(x, axis=axis, keepdims=keepdim, ddof=less)

    return call
