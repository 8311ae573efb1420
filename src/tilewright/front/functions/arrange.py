"""Copies with elements repeated, moved, dropped or put in between."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.front import views
from tilewright.front.array import TracedArray, holds_traced, new
from tilewright.front.functions.index import depends_on_data
from tilewright.front.functions.join import concatenate
from tilewright.front.functions.layout import column_major
from tilewright.front.functions.moves import broadcast, filled, joined, picked, piece, reshaped
from tilewright.front.functions.shape import along, array_of, broadcast_to, ravel, same_elements
from tilewright.front.indexing import fill
from tilewright.front.refusal import ask, axis_in, numpy_error
from tilewright.front.registry import call, implements
from tilewright.ir.core import Value


def _static(name: str, what: str, x: Any) -> None:
    """Refuse a traced argument that decides on the shape of the result."""
    if holds_traced(x):
        raise depends_on_data(name, f"{what} is known at run time only", "give it as Python numbers or a NumPy array")


def _flat_unless(axis: Any, x: TracedArray) -> tuple[TracedArray, int]:
    """The array and the axis to work along: all elements in a row where no axis is given."""
    if axis is not None:
        return x, axis_in(axis, x.ndim)
    return (x if x.ndim == 1 else ravel(x)), 0


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> TracedArray:
    """np.repeat"""
    _static("np.repeat", "how often elements are repeated", repeats)
    x, place = _flat_unless(axis, array_of(a))
    if np.size(repeats) != 1:
        return new(picked(x.value, place, ask(np.repeat, np.arange(x.shape[place]), repeats)))
    count = len(ask(np.repeat, np.zeros(1), repeats))
    before, size, after = x.shape[:place], x.shape[place], x.shape[place + 1 :]
    one = reshaped(x.value, (*before, size, 1, *after))
    return new(reshaped(broadcast(one, (*before, size, count, *after)), (*before, size * count, *after)))


@implements(np.tile)
def tile(A: Any, reps: Any) -> TracedArray:
    """np.tile"""
    _static("np.tile", "how often the array is repeated", reps)
    x = array_of(A)
    counts = tuple(reps) if np.iterable(reps) else (reps,)
    for count in counts:
        ask(np.repeat, np.zeros(1), ask(operator.index, count))
    rank = max(x.ndim, len(counts))
    shape = (*(1,) * (rank - x.ndim), *x.shape)
    counts = (*(1,) * (rank - len(counts)), *map(int, counts))
    if set(counts) <= {1}:
        return views.copied(x if x.shape == shape else same_elements(x, x.shadow.reshape(shape, copy=False)))
    pairs = list(zip(counts, shape, strict=True))
    spread = reshaped(x.value, tuple(n for _, size in pairs for n in (1, size)))
    spread = broadcast(spread, tuple(n for pair in pairs for n in pair))
    return new(reshaped(spread, tuple(count * size for count, size in pairs)))


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> TracedArray:
    """np.roll: by slices, or by computed positions where the shift is known at run time only"""
    x = array_of(a)
    if axis is None:
        return views.reshape(new(_rolled(ravel(x), shift, (0,)).value), x.shape)
    axes = ask(np.lib.array_utils.normalize_axis_tuple, axis, x.ndim, allow_duplicate=True)
    return _rolled(x, shift, axes)


def _rolled(x: TracedArray, shift: Any, axes: Sequence[int]) -> TracedArray:
    if isinstance(shift, TracedArray) and not shift.ndim:
        shifts = [(shift, axis) for axis in axes]
    elif holds_traced(shift):
        rows = [shift[i] for i in range(len(shift))]
        shifts = list(zip(rows, axes, strict=len(axes) == len(rows)))
    else:
        pairs = ask(np.broadcast, shift, axes)
        if pairs.ndim > 1:
            raise numpy_error(ValueError, "'shift' and 'axis' should be scalars or 1D sequences")
        shifts = [(int(each), int(axis)) for each, axis in pairs]
    value = x.value
    for each, axis in shifts:
        value = _rolled_along(value, each, axis)
    return new(value, views.layout_like(x, "K"))


def _rolled_along(x: Value, shift: Any, axis: int) -> Value:
    size = x.type.shape[axis]
    if isinstance(shift, TracedArray):
        positions = call(np.remainder, call(np.subtract, np.arange(size), shift), max(size, 1))
        return call(np.take, new(x), positions, axis).value
    offset = shift % (size or 1)
    if not offset:
        return x
    return joined([piece(x, axis, size - offset, offset), piece(x, axis, 0, size - offset)], axis)


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> TracedArray:
    """np.resize"""
    _static("np.resize", "the new shape", new_shape)
    shape: tuple[int, ...] = tuple(map(int, new_shape)) if np.iterable(new_shape) else (int(new_shape),)
    if any(n < 0 for n in shape):
        raise numpy_error(ValueError, "all elements of `new_shape` must be non-negative")
    flat = ravel(a).value
    size, wanted = flat.type.size, math.prod(shape)
    if not size or not wanted:
        return new(filled(shape, flat.type.dtype, 0))
    rows = -(-wanted // size)
    many = reshaped(broadcast(reshaped(flat, (1, size)), (rows, size)), (rows * size,))
    return new(reshaped(piece(many, 0, 0, wanted), shape))


def _fresh(value: Value, like: TracedArray) -> TracedArray:
    """A fresh array, in column-major order if `like` lies so and in no other."""
    return column_major(value) if like.shadow.flags.fnc else new(value)


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> TracedArray:
    """np.delete, of positions that are known while tracing"""
    _static("np.delete", "what is left out", obj)
    given = array_of(arr)
    x, place = _flat_unless(axis, given)
    kept = ask(np.delete, np.arange(x.shape[place]), obj)
    by_mask = np.size(obj) > 1 and not isinstance(obj, slice)
    value = picked(x.value, place, kept)
    return new(value) if by_mask else _fresh(value, given)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> TracedArray:
    """np.insert, before positions that are known while tracing"""
    _static("np.insert", "where something is put in", obj)
    given = array_of(arr)
    x, place = _flat_unless(axis, given)
    size = x.shape[place]
    positions = np.arange(size)[obj] if isinstance(obj, slice) else np.asarray(obj)
    if positions.dtype == bool and positions.ndim == 1:
        positions = np.flatnonzero(positions)
    count = positions.size
    put = array_of(values)
    if count == 1:
        # At one position any number of rows goes in; at several, one goes to each.
        shape = (*(1,) * (x.ndim - put.ndim), *put.shape)
        put = same_elements(put, put.shadow.reshape(shape, copy=False))
        put = put if positions.ndim else call(np.moveaxis, put, 0, place)
        count = put.shape[place]
    # Rows that are put in are numbered after those of the array.
    order = ask(np.insert, np.arange(size), obj, size + np.arange(count))
    room = new(filled((*x.shape[:place], count, *x.shape[place + 1 :]), x.type.dtype, 0))
    fill(room, put)
    value = picked(joined([x.value, room.value], place), place, order)
    return _fresh(value, given)


# Differences


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: Any = -1, prepend: Any = np._NoValue, append: Any = np._NoValue) -> Any:
    """np.diff"""
    if n == 0:
        return a
    if n < 0:
        raise numpy_error(ValueError, f"order must be non-negative but got {n!r}")
    x = array_of(a)
    if not x.ndim:
        raise numpy_error(ValueError, "diff requires input that is at least one dimensional")
    place = axis_in(axis, x.ndim)
    parts = [_edge(prepend, x, place), x, _edge(append, x, place)]
    parts = [part for part in parts if part is not None]
    if len(parts) > 1:
        x = concatenate(parts, place)
    difference = np.not_equal if x.dtype == np.bool_ else np.subtract
    for _ in range(n):
        size = max(x.shape[place] - 1, 0)
        later = views.sliced(x, along(place, 1, size))
        x = call(difference, later, views.sliced(x, along(place, 0, size)))
    return x


def _edge(given: Any, x: TracedArray, axis: int) -> TracedArray | None:
    if given is np._NoValue:
        return None
    part = array_of(given)
    if part.ndim:
        return part
    return broadcast_to(part, tuple(1 if a == axis else n for a, n in enumerate(x.shape)))


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> TracedArray:
    """np.ediff1d"""
    x = ravel(array_of(ary))
    size = max(x.shape[0] - 1, 0)
    inner = call(np.subtract, views.sliced(x, along(0, 1, size)), views.sliced(x, along(0, 0, size)))
    parts = [inner]
    for name, given in (("to_begin", to_begin), ("to_end", to_end)):
        if given is None:
            continue
        part = array_of(given)
        if not np.can_cast(part.dtype, x.dtype, "same_kind"):
            message = f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule."
            raise numpy_error(TypeError, message)
        part = ravel(part)
        parts = [part, *parts] if name == "to_begin" else [*parts, part]
    return inner if len(parts) == 1 else concatenate(parts, dtype=x.dtype)
