"""Other shapes and orders of the same elements: views wherever NumPy gives views."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilewright.front import views
from tilewright.front.array import TracedArray, as_traced, memoryless, new, returned, view
from tilewright.front.refusal import ask, axis_in
from tilewright.front.registry import implements
from tilewright.front.storage import Reshape


def array_of(x: Any) -> TracedArray:
    """An argument as a traced array; a scalar, which cannot be changed, as a fresh array of rank 0."""
    array = as_traced(x)
    return new(array.value) if array.is_scalar else array


def again_scalar(given: Any, found: TracedArray) -> TracedArray:
    """What NumPy's functions of a scalar's own methods give: a scalar where the rank stays 0."""
    scalar = isinstance(given, TracedArray) and given.is_scalar and not found.ndim
    return returned(found.value) if scalar else found


def same_elements(x: TracedArray, shadow: np.ndarray) -> TracedArray:
    """A view of all elements in the same order, in the shape of `shadow`."""
    return view(x, Reshape(shadow.shape), shadow)


def along(axis: int, start: int, size: int, step: int = 1) -> tuple[slice, ...]:
    """A key for `start, start + step, ...` (`size` of them) along an axis."""
    stop = start + size * step
    return (*(slice(None),) * axis, slice(start, None if stop < 0 else stop, step) if size else slice(0, 0))


# Shapes

_TINY = np.empty(1, np.int8)


def _order(order: Any, of: Callable[..., Any]) -> str:
    """A memory order as one of C, F, A, K; NumPy's errors for anything else."""
    ask(of, order=order)
    return "C" if order is None else order.upper()


@implements(np.reshape)
def reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: bool | None = None) -> TracedArray:
    """np.reshape: a view where the strides allow it"""
    x = array_of(a)
    order = _order(order, partial(_TINY.reshape, 1))
    ask(np.reshape, memoryless(np.dtype(np.int8), x.shape), shape)
    if copy is False:
        ask(np.reshape, x.shadow, shape, order, copy=False)
    found = views.reshape(x, shape, order)
    if not copy or found.storage.root is not x.storage.root:
        return again_scalar(a, found)
    # In the order that elements are read in, which is the one that a copy is written in.
    by_columns = order == "F" or (order == "A" and x.shadow.flags.fnc)
    return new(found.value, views.column_major(x.dtype, found.shape) if by_columns else None)


@implements(np.ravel)
def ravel(a: Any, order: Any = "C") -> TracedArray:
    """np.ravel: a view where the elements lie in that order"""
    return views.ravel(array_of(a), _order(order, _TINY.ravel))


def flatten(a: TracedArray, order: Any = "C") -> TracedArray:
    """ndarray.flatten: always a copy"""
    return new(ravel(a, order).value)


def permuted(x: TracedArray, perm: tuple[int, ...]) -> TracedArray:
    """A view with the dims in another order."""
    if perm == tuple(range(x.ndim)):
        return same_elements(x, x.shadow.transpose(perm))
    return views.transposed(x, perm)


@implements(np.transpose)
def transpose(a: Any, axes: Any = None) -> TracedArray:
    """np.transpose"""
    x = array_of(a)
    if axes is None:
        return again_scalar(a, permuted(x, tuple(range(x.ndim))[::-1]))
    numbers = ask(tuple, axes) if not isinstance(axes, (int, np.integer)) else (axes,)
    ask(x.shadow.transpose, numbers)
    return again_scalar(a, permuted(x, tuple(axis_in(axis, x.ndim) for axis in numbers)))


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> TracedArray:
    """np.matrix_transpose"""
    array = array_of(x)
    ask(np.matrix_transpose, array.shadow)
    return swapaxes(array, -1, -2)


def _reordering(function: Callable[..., Any]) -> Callable[..., TracedArray]:
    """A handler for a function that permutes dims: NumPy says how, by numbering them."""

    def handler(a: Any, *args: Any, **kwargs: Any) -> TracedArray:
        x = array_of(a)
        # Every dim gets another size: what comes out where tells the order.
        numbered = memoryless(np.dtype(np.int8), tuple(range(2, 2 + x.ndim)))
        return again_scalar(a, permuted(x, tuple(n - 2 for n in ask(function, numbered, *args, **kwargs).shape)))

    return handler


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> TracedArray:
    """np.swapaxes"""
    return _reordering(np.swapaxes)(a, axis1, axis2)


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> TracedArray:
    """np.moveaxis"""
    return _reordering(np.moveaxis)(a, source, destination)


@implements(np.rollaxis)
def rollaxis(a: Any, axis: Any, start: Any = 0) -> TracedArray:
    """np.rollaxis"""
    return _reordering(np.rollaxis)(a, axis, start)


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> TracedArray:
    """np.expand_dims"""
    x = array_of(a)
    return same_elements(x, ask(np.expand_dims, x.shadow, axis))


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> TracedArray:
    """np.squeeze"""
    x = array_of(a)
    return again_scalar(a, same_elements(x, ask(np.squeeze, x.shadow, axis)))


def _at_least(function: Callable[..., Any]) -> Callable[..., Any]:
    def handler(*arys: Any) -> Any:
        arrays = [array_of(x) for x in arys]
        found = [x if x.ndim == (s := function(x.shadow)).ndim else same_elements(x, s) for x in arrays]
        return found[0] if len(found) == 1 else tuple(found)

    return handler


for _function in (np.atleast_1d, np.atleast_2d, np.atleast_3d):
    implements(_function)(_at_least(_function))


# Broadcasting


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> TracedArray:
    """np.broadcast_to: read-only"""
    return views.broadcast_view(array_of(array), shape)


@implements(np.broadcast_arrays, note="results are read-only where NumPy warns about writing")
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[TracedArray, ...]:
    """np.broadcast_arrays"""
    arrays = [array_of(x) for x in args]
    shape = ask(np.broadcast_shapes, *(x.shape for x in arrays))
    return tuple(x if x.shape == shape else broadcast_to(x, shape) for x in arrays)


# Reversal


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> TracedArray:
    """np.flip"""
    x = array_of(m)
    axes = range(x.ndim) if axis is None else ask(np.lib.array_utils.normalize_axis_tuple, axis, x.ndim)
    return _flipped(x, tuple(axes)) if x.ndim else returned(x.value)


def _flipped(x: TracedArray, axes: tuple[int, ...]) -> TracedArray:
    return views.sliced(x, tuple(slice(None, None, -1) if a in axes else slice(None) for a in range(x.ndim)))


@implements(np.fliplr)
def fliplr(m: Any) -> TracedArray:
    """np.fliplr"""
    x = array_of(m)
    ask(np.fliplr, x.shadow)
    return _flipped(x, (1,))


@implements(np.flipud)
def flipud(m: Any) -> TracedArray:
    """np.flipud"""
    x = array_of(m)
    ask(np.flipud, x.shadow)
    return _flipped(x, (0,))


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> TracedArray:
    """np.rot90"""
    x = array_of(m)
    ask(np.rot90, x.shadow, k, axes)
    first, second = (axis_in(axis, x.ndim) for axis in axes)
    k %= 4
    if k == 0:
        return views.sliced(x, ())
    if k == 2:
        return _flipped(x, (first, second))
    if k == 1:
        return swapaxes(_flipped(x, (second,)), first, second)
    return _flipped(swapaxes(x, first, second), (second,))
