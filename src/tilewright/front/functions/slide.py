"""NumPy's moving windows: np.convolve, np.correlate and sliding_window_view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tilewright.dtypes import host_dtype, int32
from tilewright.front.array import TracedArray, new
from tilewright.front.functions.moves import filled, piece, reshaped
from tilewright.front.functions.shape import array_of
from tilewright.front.promote import cast
from tilewright.front.refusal import ask, numpy_error, unsupported
from tilewright.front.registry import implements
from tilewright.front.trace import emit
from tilewright.front.views import computed_view
from tilewright.ir.core import Value

_MODES = ("valid", "same", "full")


def _mode(mode: Any) -> str:
    """The mode by its name or number; NumPy's errors."""
    ask(np.correlate, np.ones(1), np.ones(1), mode)
    return mode if isinstance(mode, str) else _MODES[int(mode)]


def _row(x: Any, name: str) -> Value:
    array = array_of(x)
    if array.ndim > 1:
        raise numpy_error(ValueError, "object too deep for desired array")
    if not array.size:
        raise numpy_error(ValueError, f"{name} cannot be empty")
    return reshaped(array.value, (array.size,))


def _correlated(long: Value, short: Value, mode: str) -> Value:
    """out[i] = sum over k of long[i + k - left] * short[k], `left` of the short one standing out at the start."""
    size = short.type.size
    left, right = {"valid": (0, 0), "same": (size // 2, size - size // 2 - 1), "full": (size - 1, size - 1)}[mode]
    dtype = long.type.dtype
    within = int32 if dtype.kind == "b" else dtype
    parts = [reshaped(cast(x, within), (1, 1, x.type.size)) for x in (long, short)]
    found = emit("conv", *parts, stride=(1,), low=(left,), high=(right,), dilation=(1,), groups=1)
    found = reshaped(found, found.type.shape[2:])
    return emit("not_equal", found, 0) if dtype.kind == "b" else found


def _common(a: Value, v: Value) -> tuple[Value, Value]:
    dtype = host_dtype(ask(np.result_type, a.type.dtype.np, v.type.dtype.np))
    return cast(a, dtype), cast(v, dtype)


def _reversed(x: Value) -> Value:
    return piece(x, 0, x.type.size - 1, x.type.size, -1)


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: Any = "full") -> TracedArray:
    """np.convolve"""
    long, short = _common(_row(a, "a"), _row(v, "v"))
    if short.type.size > long.type.size:
        long, short = short, long
    return new(_correlated(long, _reversed(short), _mode(mode)))


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: Any = "valid") -> TracedArray:
    """np.correlate"""
    long, short = _common(_row(a, "first array argument"), _row(v, "second array argument"))
    if short.type.size <= long.type.size:
        return new(_correlated(long, short, _mode(mode)))
    return new(_reversed(_correlated(short, long, _mode(mode))))


@implements(sliding_window_view, note="the result is read-only")
def sliding_windows(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> TracedArray:
    """np.lib.stride_tricks.sliding_window_view"""
    if writeable:
        raise unsupported("np.lib.stride_tricks.sliding_window_view", "writeable", hint="write to the array itself")
    array = array_of(x)
    shadow = ask(sliding_window_view, array.shadow, window_shape, axis)
    sizes = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    axes = range(array.ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, array.ndim, None, True)
    return computed_view(array, lambda value: _windows(value, axes, sizes), shadow)


def _windows(x: Value, axes: Sequence[int], sizes: Sequence[int]) -> Value:
    """Windows along each axis, their elements as new last dims."""
    if len(set(axes)) == len(axes):
        return _moving(x, tuple(axes), tuple(sizes)) if axes else x
    for axis, size in zip(axes, sizes, strict=True):
        x = _moving(x, (axis,), (size,))
    return x


def _moving(x: Value, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Value:
    if 0 in sizes:
        # Windows of nothing: one more than there are elements.
        counts = [n + 1 - dict(zip(axes, sizes, strict=True)).get(a, 1) for a, n in enumerate(x.type.shape)]
        return filled((*counts, *sizes), x.type.dtype, 0)
    ones = (1,) * len(axes)
    return emit("windows", x, axes=axes, sizes=sizes, stride=ones, dilation=ones)
