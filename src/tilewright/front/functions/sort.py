"""Sorting: sort, argsort, partition (which sorts), lexsort and topk.

NumPy leaves the order of equal elements open for all kinds but "stable"; here it is always the stable one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import int64
from tilewright.errors import TileValueError, fail
from tilewright.front.array import TracedArray, as_traced, new, returned
from tilewright.front.functions.apply import apply, given
from tilewright.front.functions.index import flat
from tilewright.front.refusal import ask, axis_in, numpy_error, unsupported
from tilewright.front.registry import implements
from tilewright.front.trace import emit
from tilewright.front.views import layout_like
from tilewright.ir.core import Value

_ORDER = "equal elements keep their order, NaN comes last"


def _axis_of(a: Any, axis: Any) -> tuple[Value, int, np.ndarray | None]:
    """The value to sort, its axis, and the memory order of the result."""
    x = as_traced(a)
    if axis is None:
        return flat(x.value), 0, None
    return x.value, axis_in(axis, x.ndim), layout_like(x, "K")


def _at_least_a_row(a: Any) -> TracedArray:
    """What NumPy does with a scalar whose order is asked for: it has one dim."""
    x = as_traced(a)
    return x if x.shape else new(flat(x.value))


def _check_kind(function: Any, **options: Any) -> None:
    """NumPy's errors for kinds and orders that it does not have."""
    ask(function, np.zeros(1), **{name: x for name, x in options.items() if x is not None})


@implements(np.sort, note=_ORDER)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> TracedArray:
    """np.sort"""
    _check_kind(np.sort, kind=kind, order=order, stable=stable)
    x, where, layout = _axis_of(a, axis)
    return new(emit("sort", x, axis=where, descending=False), layout)


@implements(np.argsort, note=_ORDER)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> TracedArray:
    """np.argsort"""
    _check_kind(np.argsort, kind=kind, order=order, stable=stable)
    x, where, _ = _axis_of(_at_least_a_row(a), axis)
    return new(emit("argsort", x, axis=where, descending=False, dtype=int64))


@implements(np.partition, note="sorts the whole axis")
def partition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> TracedArray:
    """np.partition"""
    x, where, layout = _axis_of(a, axis)
    _check_partition(np.partition, x.type.shape[where], kth, kind, order)
    return new(emit("partition", x, axis=where), layout)


@implements(np.argpartition, note="sorts the whole axis")
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> TracedArray:
    """np.argpartition"""
    x, where, _ = _axis_of(_at_least_a_row(a), axis)
    _check_partition(np.argpartition, x.type.shape[where], kth, kind, order)
    return new(emit("argsort", x, axis=where, descending=False, dtype=int64))


def _check_partition(function: Any, size: int, kth: Any, kind: Any, order: Any) -> None:
    if isinstance(kth, TracedArray):
        raise unsupported(f"np.{function.__name__}", "kth", "it is known only at run time", "sort the array")
    ask(function, np.zeros(size, np.int8), kth, kind=kind, order=order)


@implements(np.lexsort)
def lexsort(keys: Any, axis: Any = -1) -> TracedArray:
    """np.lexsort: the last key counts most"""
    arrays = [] if isinstance(keys, TracedArray) and not keys.shape else [as_traced(key) for key in keys]
    if not arrays:
        raise numpy_error(TypeError, "need sequence of keys with len > 0 in lexsort")
    if len({key.shape for key in arrays}) > 1:
        raise numpy_error(ValueError, "all keys need to be the same shape")
    if not arrays[0].shape:
        return returned(emit("full", shape=(), dtype=int64, value=0))
    where = axis_in(axis, arrays[0].ndim)
    found: Value | None = None
    for key in arrays:
        value = key.value if found is None else emit("take_along_axis", key.value, found, axis=where)
        order = emit("argsort", value, axis=where, descending=False, dtype=int64)
        found = order if found is None else emit("take_along_axis", found, order, axis=where)
    assert found is not None
    return new(found)


def topk(x: Any, k: int, axis: int = -1, ascending: bool = False) -> tuple[Any, Any]:
    """The k greatest elements along an axis (or the least, if ascending), best first, and their uint32 indices.

    Of equal elements the one with the lower index comes first, and no index comes twice. NaN is greater than every
    number. x is an array of NumPy (the result is computed at once) or a traced array.
    """
    array = given(x)
    where = axis_in(axis, len(array.shape))
    size = array.shape[where]
    if not isinstance(k, (int, np.integer)) or not 0 <= k <= size:
        raise fail(
            "E108",
            f"topk: k = {k} of a dim of size {size}",
            hint=f"k is a whole number from 0 to {size}",
            error=TileValueError,
        )
    return apply("topk", array, k=int(k), axis=where, largest=not ascending)
