"""Making views: which results of NumPy share memory with their argument, and how.

NumPy itself is asked, with arrays that have shape and strides but no memory (`memoryless`): where it gives a view of
such an array there is a view here, where it would have to copy there is a fresh array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np

from tilewright.dtypes import DType, host_dtype
from tilewright.front.array import TracedArray, memoryless, new, view
from tilewright.front.refusal import ask, numpy_error, unsupported
from tilewright.front.storage import Bitcast, Broadcast, Reshape, Slice, Transpose, reshaped
from tilewright.front.trace import emit
from tilewright.ir.core import Value


def transposed(x: TracedArray, perm: Sequence[int]) -> TracedArray:
    """A view with the dims in another order; `perm` is normalised."""
    return view(x, Transpose(tuple(perm)), x.shadow.transpose(perm))


def reshape(x: TracedArray, shape: Any, order: str = "C") -> TracedArray:
    """np.reshape: a view where the strides allow it, else a fresh array. Errors as NumPy's."""
    shadow = x.shadow
    try:
        wanted = np.reshape(shadow, shape, order=order, copy=False)  # type: ignore[call-overload]
    except ValueError:
        # Either no view is possible, or the shape is wrong: an array in the plain order tells.
        plain = memoryless(np.dtype(np.int8), x.shape)
        target = ask(np.reshape, plain, shape).shape
        return _reshape_copy(x, target, _order_of(x, order))
    order = _order_of(x, order)
    if order == "C" or (x.ndim < 2 and len(wanted.shape) < 2):
        return view(x, Reshape(wanted.shape), wanted)
    return view(x, _ReshapeF(wanted.shape), wanted)


def _order_of(x: TracedArray, order: str) -> str:
    """ "A" is the order of columns for arrays that lie in memory that way, else that of rows."""
    if order == "A":
        return "F" if x.shadow.flags.fnc else "C"
    return order


def _reshape_copy(x: TracedArray, shape: tuple[int, ...], order: str) -> TracedArray:
    step = Reshape(shape) if order == "C" else _ReshapeF(shape)
    layout = None if order == "C" else column_major(x.type.dtype.np, shape)
    return new(step.read(x.value), layout)


def column_major(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """An array without memory whose first dim varies fastest."""
    return memoryless(dtype, shape[::-1]).transpose()


def _reversed_dims(x: Value) -> Value:
    perm = tuple(range(x.type.rank))[::-1]
    return x if len(perm) < 2 else emit("transpose", x, perm=perm)


@dataclass(frozen=True, slots=True)
class _ReshapeF:
    """All elements in another shape, the first dim varying fastest on both sides."""

    shape: tuple[int, ...]

    def read(self, base: Value) -> Value:
        return _reversed_dims(reshaped(_reversed_dims(base), self.shape[::-1]))

    def write(self, base: Value, part: Value) -> Value:
        return _reversed_dims(reshaped(_reversed_dims(part), base.type.shape[::-1]))


def ravel(x: TracedArray, order: str = "C") -> TracedArray:
    """np.ravel: all elements in one dim, a view where one is possible."""
    if order == "K":
        # In the order of memory: dims by falling strides.
        perm = sorted(range(x.ndim), key=lambda a: -abs(x.shadow.strides[a]))
        if perm != list(range(x.ndim)):
            return ravel(transposed(x, perm))
        order = "C"
    # NumPy's ravel copies where its result would not be contiguous.
    flat = reshape(x, -1, order)
    return flat if flat.shadow.flags.c_contiguous else new(flat.value)


def broadcast_view(x: TracedArray, shape: Any) -> TracedArray:
    """np.broadcast_to: a view that cannot be written to."""
    shadow = ask(np.broadcast_to, x.shadow, shape)
    return view(x, Broadcast(shadow.shape), shadow, writeable=False)


def expanded(x: TracedArray, shape: tuple[int, ...]) -> TracedArray:
    """A view that differs only by dims of size 1, as np.expand_dims and np.squeeze give."""
    return view(x, Reshape(shape), np.reshape(x.shadow, shape, copy=False))


def sliced(x: TracedArray, key: tuple[Any, ...]) -> TracedArray:
    """A view by slices, integers, None and one Ellipsis; rank 0 stays an array."""
    shadow = shadow_at(x, key)
    return view(x, slice_step(x.shape, key, shadow.shape), shadow)


def shadow_at(x: TracedArray, key: tuple[Any, ...]) -> np.ndarray:
    """What a basic key makes of the array's shadow; IndexError as NumPy's."""
    # With an Ellipsis the result is an array, never an element, which would be read from memory that is not there.
    return ask(x.shadow.__getitem__, key if any(item is Ellipsis for item in key) else (*key, ...))


def slice_step(shape: tuple[int, ...], key: tuple[Any, ...], result: tuple[int, ...]) -> Slice:
    """A key that NumPy accepts for `shape`, as starts, sizes and steps of each dim."""
    starts: list[int] = []
    sizes: list[int] = []
    steps: list[int] = []
    missing = len(shape) - sum(item is not None and item is not Ellipsis for item in key)
    for item in (*key, Ellipsis):
        if item is None:
            continue
        if isinstance(item, EllipsisType):
            for _ in range(missing):
                starts, sizes, steps = [*starts, 0], [*sizes, shape[len(sizes)]], [*steps, 1]
            missing = 0
            continue
        size = shape[len(sizes)]
        if isinstance(item, slice):
            taken = range(*item.indices(size))
            start, count, step = taken.start, len(taken), taken.step
        else:
            place = item.__index__()
            start, count, step = place + size if place < 0 else place, 1, 1
        starts.append(start if count else 0)
        sizes.append(count)
        steps.append(step if count > 1 else 1)
    return Slice(tuple(starts), tuple(sizes), tuple(steps), result)


def copied(x: TracedArray, order: str = "K") -> TracedArray:
    """A fresh array of the same content; "K" keeps the order in memory."""
    order = "K" if order is None else order
    if order not in ("C", "F", "A", "K"):
        raise numpy_error(ValueError, f"order must be one of 'C', 'F', 'A', or 'K' (got '{order}')")
    return new(x.value, layout_like(x, order))


def layout_like(x: TracedArray, order: str, dtype: DType | None = None) -> np.ndarray | None:
    """The memory order of a copy of x, None for row-major."""
    given = (dtype or x.type.dtype).np
    if order == "C" or (order in "AK" and x.shadow.flags.c_contiguous):
        return None
    if order == "F" or (order == "A" and x.shadow.flags.fnc):
        return column_major(given, x.shape)
    if order == "A":
        return None
    axes = sorted(range(x.ndim), key=lambda a: -abs(x.shadow.strides[a]))
    back = np.argsort(axes)
    return memoryless(given, [x.shape[a] for a in axes]).transpose(back)


def as_type_view(x: TracedArray, dtype: Any) -> TracedArray:
    """x.view(dtype): the same bits as another element type of the same size."""
    wanted = host_dtype(dtype)
    if wanted is x.type.dtype:
        return sliced(x, ())
    if wanted.itemsize != x.type.dtype.itemsize:
        raise unsupported(
            "ndarray.view",
            "dtype",
            f"{x.type.dtype} has {x.type.dtype.itemsize} bytes, {wanted} has {wanted.itemsize}",
            hint="convert the elements with astype",
        )
    return view(x, Bitcast(wanted), x.shadow.view(wanted.np))


@dataclass(frozen=True, slots=True)
class Computed:
    """A read-only view whose content some function of the base's value gives, such as a diagonal."""

    function: Callable[[Value], Value]

    def read(self, base: Value) -> Value:
        """The content of the view."""
        return self.function(base)

    def write(self, base: Value, part: Value) -> Value:
        """Never called: the view is read-only."""
        raise AssertionError("a computed view is read-only")


def computed_view(x: TracedArray, function: Callable[[Value], Value], shadow: np.ndarray) -> TracedArray:
    """A read-only view: np.diagonal, sliding windows. `shadow` is what NumPy's function gives for `x.shadow`."""
    return view(x, Computed(function), shadow, writeable=False)
