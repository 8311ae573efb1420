"""Gathering by indices: take, take_along_axis, choose, compress, extract.

Static indices are checked while tracing, by NumPy itself. Run-time indices are checked by the program, which refuses
what lies outside (E301, an IndexError) and counts negative ones from the end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.dtypes import int32, int64
from tilewright.errors import TileError, TileNotImplementedError, fail
from tilewright.front.array import TracedArray, as_traced, holds_traced, new, returned
from tilewright.front.functions.moves import broadcast, filled
from tilewright.front.lift import constant_of
from tilewright.front.promote import cast, promote
from tilewright.front.refusal import ask, axis_in, numpy_error
from tilewright.front.registry import implements
from tilewright.front.storage import reshaped
from tilewright.front.trace import emit
from tilewright.front.ufunc import store
from tilewright.ir.core import Value


def depends_on_data(name: str, why: str, hint: str) -> TileError:
    """The exception for a result whose shape only the data know."""
    return fail("E804", f"{name}: {why}", hint=hint, error=TileNotImplementedError)


def run_time_index(index: Any) -> Value:
    """A traced index in a type that holds every position: 32 bits at least."""
    x = as_traced(index)
    # bool counts as 0 and 1; what does not convert to positions safely is NumPy's TypeError.
    ask(np.take, np.zeros(1), np.zeros(x.shape and 1, x.dtype))
    small = x.type.dtype.itemsize < int32.itemsize
    return cast(x.value, int64 if x.type.dtype == "uint64" else int32) if small or x.type.dtype == "uint64" else x.value


def static_positions(index: Any, size: int, mode: str) -> np.ndarray:
    """Static indices as positions 0 .. size - 1; NumPy's own errors."""
    return ask(np.take, np.arange(size, dtype=np.int32), index, mode=mode)


def positions(index: Any, size: int, mode: str = "raise") -> Value:
    """Indices of a dim as positions 0 .. size - 1, as `mode` says: "raise", "wrap" or "clip"."""
    if not holds_traced(index):
        return constant_of(static_positions(index, size, mode))
    found = run_time_index(index)
    ask(np.take, np.zeros(1), 0, mode=mode)
    if not size and found.type.size:
        raise numpy_error(IndexError, "cannot do a non-empty take from an empty axes.")
    if mode == "wrap":
        return emit("mod", found, size) if size else found
    if mode == "clip":
        return emit("minimum", emit("maximum", found, 0), max(size - 1, 0))
    return emit("checked_index", found, size=size)


def flat(x: Value) -> Value:
    """x as one row."""
    return reshaped(x, (x.type.size,))


def finish(value: Value, out: Any, name: str) -> TracedArray:
    """A computed result, or `out` once it holds the result; types convert as in an assignment."""
    if out is None:
        return returned(value)
    if out.shape != value.type.shape:
        raise numpy_error(ValueError, f"output array does not match result of {name}")
    return store(out, value, value.type.shape, None, "unsafe", name)


@implements(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> TracedArray:
    """np.take"""
    x = as_traced(a).value
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_in(axis, x.type.rank)
    if out is not None:
        ask(np.take, np.zeros(1, x.type.dtype.np), [0], out=np.zeros(1, out.dtype))
    if not x.type.size:
        return finish(_taken_from_nothing(x, indices, axis, mode), out, "ndarray.take")
    return finish(emit("take", x, positions(indices, x.type.shape[axis], mode), axis=axis), out, "ndarray.take")


def _taken_from_nothing(x: Value, indices: Any, axis: int, mode: str) -> Value:
    """np.take of an array without elements: NumPy looks at the indices only where it would go on to read."""
    shape = x.type.shape
    kept = np.shape(indices)
    result = (*shape[:axis], *kept, *shape[axis + 1 :])
    ask(np.take, np.zeros(1), 0, mode=mode)
    if not shape[axis] and math.prod(result):
        raise numpy_error(IndexError, "cannot do a non-empty take from an empty axes.")
    if math.prod(shape[:axis]) and mode == "raise":
        return emit("take", x, positions(indices, shape[axis]), axis=axis)
    return filled(result, x.type.dtype, 0)


def along_axis(x: TracedArray, indices: Any, axis: Any) -> tuple[TracedArray | np.ndarray, int | None]:
    """The index and the axis of the *_along_axis functions; errors as NumPy's."""
    index = as_traced(indices) if holds_traced(indices) else np.asarray(indices)
    if index.dtype.kind not in "iu":
        raise numpy_error(IndexError, "`indices` must be an integer array")
    if axis is None:
        if index.ndim != 1:
            raise numpy_error(ValueError, "when axis=None, `indices` must have a single dimension.")
        return index, None
    where = axis_in(axis, x.ndim)
    if index.ndim != x.ndim:
        raise numpy_error(ValueError, "`indices` and `arr` must have the same number of dimensions")
    return index, where


def common_shape(shape: tuple[int, ...], index: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape of the index once its dims but axis are broadcast with those of the array."""
    others = (*shape[:axis], 1, *shape[axis + 1 :])
    if any(n != m and 1 not in (n, m) for n, m in zip(others, index, strict=True)):
        raise numpy_error(IndexError, f"shape mismatch: an array of shape {shape} and an index of shape {index}")
    return np.broadcast_shapes(others, index)


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> TracedArray:
    """np.take_along_axis"""
    x = as_traced(arr)
    index, where = along_axis(x, indices, axis)
    if where is None:
        return new(emit("take", flat(x.value), positions(index, x.size), axis=0))
    wanted = common_shape(x.shape, index.shape, where)
    value = broadcast(x.value, tuple(x.shape[a] if a == where else n for a, n in enumerate(wanted)))
    return new(emit("take_along_axis", value, broadcast(positions(index, x.shape[where]), wanted), axis=where))


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> TracedArray:
    """np.choose"""
    arrays, _ = promote(*ask(iter, choices))
    if not holds_traced(a):
        ask(np.choose, a, [np.zeros(())] * len(arrays), mode=mode)
        index = constant_of(np.asarray(a) % len(arrays) if mode == "wrap" else np.clip(a, 0, len(arrays) - 1))
    elif mode == "raise":
        index = emit("bounded_index", run_time_index(a), size=len(arrays))
    else:
        index = positions(a, len(arrays), mode)
    shape = ask(np.broadcast_shapes, index.type.shape, *(x.type.shape for x in arrays))
    table = emit("concatenate", *(reshaped(broadcast(x, shape), (1, *shape)) for x in arrays), axis=0)
    row = reshaped(broadcast(index, shape), (1, *shape))
    return finish(reshaped(emit("take_along_axis", table, row, axis=0), shape), out, "ndarray.choose")


@implements(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """np.compress"""
    if holds_traced(condition):
        x, dim = (np.ravel(a), 0) if axis is None else (a, axis_in(axis, np.ndim(a)))
        return _selected("np.compress", condition, x, dim, out)
    mask = np.asarray(condition)
    if mask.ndim != 1:
        raise numpy_error(ValueError, "condition must be a 1-d array")
    return take(a, np.flatnonzero(mask), axis, out)


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """np.extract"""
    if holds_traced(condition):
        return _selected("np.extract", np.ravel(condition), np.ravel(arr), 0, None)
    return take(arr, np.flatnonzero(np.asarray(condition)))


def _selected(name: str, condition: Any, x: Any, axis: int, out: Any) -> Any:
    """What a condition keeps along an axis, as x[mask]."""
    if out is not None or np.shape(condition) != np.shape(x)[axis : axis + 1]:
        raise depends_on_data(
            name,
            "how many elements a condition keeps is known only at run time",
            "use np.where, or take the positions of tw.nonzero(condition, size=...)",
        )
    return as_traced(x)[(slice(None),) * axis + (np.not_equal(condition, 0),)]
