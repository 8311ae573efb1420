"""Writing at indices, in place: put_along_axis, put, putmask, place, fill_diagonal, and `ufunc.at`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import bool_, int32
from tilewright.front.array import TracedArray, as_traced, holds_traced
from tilewright.front.functions.index import along_axis, common_shape, flat, positions
from tilewright.front.functions.moves import broadcast, picked
from tilewright.front.lift import constant_of
from tilewright.front.promote import value_of
from tilewright.front.refusal import ask, numpy_error, unsupported
from tilewright.front.registry import call, implements
from tilewright.front.storage import reshaped
from tilewright.front.trace import emit
from tilewright.front.ufunc import host_target
from tilewright.ir.core import Value


def target_of(x: Any, function: str) -> TracedArray:
    """The array that a function writes to."""
    if isinstance(x, TracedArray):
        if not x.writeable:
            raise numpy_error(ValueError, f"{function}: output array is read-only")
        return x
    if isinstance(x, np.ndarray):
        raise host_target()
    raise numpy_error(TypeError, f"argument 1 of {function} must be numpy.ndarray, not {type(x).__name__}")


def converted(values: Any, to: TracedArray, function: Any = None) -> Value:
    """Values in the element type of the array they are written to, as in an assignment.

    function: one of NumPy that takes an array, a mask and values; what it refuses to convert is refused.
    """
    if function is not None and isinstance(values, (np.ndarray, TracedArray)):
        ask(function, np.zeros(1, to.dtype), [True], np.zeros(1, values.dtype))
    if holds_traced(values):
        return value_of(values, to.type.dtype)
    with np.errstate(all="ignore"):
        return constant_of(ask(np.array, values, dtype=to.dtype))


def cycled(values: Value, count: int) -> Value:
    """The first `count` elements of values repeated without end."""
    row = flat(values)
    size = row.type.size
    if size == 1:
        return broadcast(row, (count,))
    return row if size == count else picked(row, 0, np.arange(count) % size)


def put_flat(x: TracedArray, places: Value, values: Value) -> None:
    """Write values, repeated as often as needed, at positions of the array read as one row."""
    count = places.type.size
    # NumPy changes a copy of a scalar, which nobody sees.
    if count and values.type.size and not x.is_scalar:
        row = emit("put_rows", flat(x.value), flat(places), cycled(values, count))
        x.assign(reshaped(row, x.shape))


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """np.put"""
    x = target_of(a, "np.put")
    put_flat(x, positions(ind, x.size, mode), converted(v, x))


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """np.put_along_axis: of equal indices the last wins"""
    x = target_of(arr, "np.put_along_axis")
    index, where = along_axis(x, indices, axis)
    part = converted(values, x)
    if where is None:
        put_flat(x, positions(index, x.size), part)
        return
    wanted = common_shape(x.shape, index.shape, where)
    part = fitted(part, wanted)
    place = broadcast(positions(index, x.shape[where]), wanted)
    if not place.type.size:
        return
    if all(a == where or n == x.shape[a] for a, n in enumerate(wanted)):
        x.assign(emit("put_along_axis", x.value, place, part, axis=where))
        return
    # Dims of size 1 of the array meet larger ones of the index: several writes to each place.
    numbers = constant_of(np.arange(x.size, dtype=np.int32).reshape(x.shape))
    every = broadcast(numbers, tuple(x.shape[a] if a == where else n for a, n in enumerate(wanted)))
    put_flat(x, emit("take_along_axis", every, place, axis=where), part)


def fitted(part: Value, shape: tuple[int, ...]) -> Value:
    """Values broadcast to the shape that an index gives; ValueError as NumPy's."""
    extra = part.type.shape[: max(part.type.rank - len(shape), 0)]
    if set(extra) <= {1}:
        part = reshaped(part, part.type.shape[len(extra) :])
        if all(n in (1, m) for n, m in zip(part.type.shape[::-1], shape[::-1], strict=False)):
            return broadcast(part, shape)
    raise numpy_error(
        ValueError,
        f"shape mismatch: value array of shape {part.type.shape} could not be broadcast to indexing result of "
        f"shape {shape}",
    )


def _mask_of(x: TracedArray, mask: Any, function: str) -> Value:
    found = value_of(mask, bool_)
    if found.type.size != x.size:
        raise numpy_error(ValueError, f"{function}: mask and data must be the same size")
    return flat(found)


@implements(np.putmask)
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """np.putmask"""
    x = target_of(a, "np.putmask")
    chosen, part = _mask_of(x, mask, "putmask"), converted(values, x, np.putmask)
    if x.size and part.type.size:
        x.assign(reshaped(emit("where", chosen, cycled(part, x.size), flat(x.value)), x.shape))


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """np.place: the mask may be known at run time only"""
    x = target_of(arr, "np.place")
    # NumPy copies what does not lie in one piece.
    if call(np.may_share_memory, x, vals) and x.shadow.flags.c_contiguous and vals.shadow.flags.c_contiguous:
        why = "what is written would be read again"
        raise unsupported("np.place", "vals", f"it lies in the memory of arr: {why}", "use vals.copy()")
    chosen, part = _mask_of(x, mask, "place"), flat(converted(vals, x, np.place))
    if not x.size:
        return
    if not part.type.size:
        if holds_traced(mask) or np.any(mask):
            raise numpy_error(ValueError, "Cannot insert from an empty array!")
        return
    count = emit("subtract", emit("cumsum", emit("cast", chosen, dtype=int32), axis=0), 1)
    # Before the first True the count is -1, whose remainder is a position too.
    source = emit("take", part, emit("mod", count, part.type.size), axis=0)
    x.assign(reshaped(emit("where", chosen, source, flat(x.value)), x.shape))


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """np.fill_diagonal"""
    x = target_of(a, "np.fill_diagonal")
    shape = x.shape
    if len(shape) < 2:
        raise numpy_error(ValueError, "array must be at least 2-d")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise numpy_error(ValueError, "All dimensions of input must be of equal length")
    end = x.size if wrap or len(shape) > 2 else shape[1] * shape[1]
    step = shape[1] + 1 if len(shape) == 2 else 1 + int(np.cumprod(shape[:-1]).sum())
    count = len(range(0, min(end, x.size), step))
    part = converted(val, x)
    if count and part.type.size:
        row = emit("update_slice", flat(x.value), cycled(part, count), starts=(0,), steps=(step,))
        x.assign(reshaped(row, shape))


_AT = {np.add: "add", np.subtract: "add", np.multiply: "multiply", np.maximum: "maximum", np.minimum: "minimum"}


def _converts(ufunc: np.ufunc, b: Any, to: np.dtype) -> bool:
    """True when it does not matter whether b is converted first or the sum last, as NumPy does."""
    if np.can_cast(b.dtype, to, "same_kind"):
        return True
    if b.dtype.kind not in "iu" or to.kind not in "iu":
        return False
    # Integers wrap: the low bits of sums and products depend on low bits alone.
    if ufunc in (np.add, np.subtract, np.multiply):
        return True
    return isinstance(b, np.ndarray) and bool(np.all(b.astype(to) == b))


def _row_index(x: TracedArray, indices: Any) -> TracedArray | None:
    """Indices known at run time that choose whole rows of x; None for any others."""
    found: Any = indices[0] if isinstance(indices, tuple) and len(indices) == 1 else indices
    if not isinstance(found, TracedArray) or found.dtype.kind not in "iu":
        return None
    return found if x.ndim > 1 and x.size > 0 else None


def _register_at(ufunc: np.ufunc) -> None:
    @implements(ufunc, method="at", note="every index counts, also equal ones")
    def at(a: Any, indices: Any, b: Any) -> None:
        x = target_of(a, f"np.{ufunc.__name__}.at")
        other = b if isinstance(b, TracedArray) else np.asarray(b)
        ask(ufunc.at, np.zeros(1, x.dtype), [0], np.zeros(1, other.dtype))
        if not _converts(ufunc, other, x.dtype):
            raise unsupported(
                f"np.{ufunc.__name__}.at", "b", f"{other.dtype} does not convert to {x.dtype}", "use b.astype"
            )
        rows = _row_index(x, indices)
        if rows is not None:
            part = fitted(value_of(other, x.type.dtype), (*rows.shape, *x.shape[1:]))
            places, lines = positions(rows, x.shape[0]), (rows.size, x.size // x.shape[0])
            table, part = reshaped(x.value, (x.shape[0], lines[1])), reshaped(part, lines)
        else:
            numbers = np.arange(x.size, dtype=np.int32).reshape(x.shape)
            found = as_traced(numbers)[indices] if holds_traced(indices) else ask(numbers.__getitem__, indices)
            part = flat(fitted(value_of(other, x.type.dtype), found.shape))
            places, table = value_of(found), flat(x.value)
        if not part.type.size:
            return
        if ufunc is np.subtract:
            part = emit("negative", part)
        x.assign(reshaped(emit("combine_rows", table, flat(places), part, combine=_AT[ufunc]), x.shape))


for _ufunc in _AT:
    _register_at(_ufunc)
