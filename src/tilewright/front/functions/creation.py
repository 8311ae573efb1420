"""Making arrays: `np.zeros_like(x)`, and the functions that take `like=x`.

Without a traced array among their arguments these functions make arrays of NumPy, which become constants of the program
where they meet traced arrays. With `like=x` the array is traced from the start, so that it can be written to.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import DType, host_dtype
from tilewright.errors import fail
from tilewright.front.array import TracedArray, as_traced, holds_traced, memoryless, new
from tilewright.front.conversion import astype
from tilewright.front.promote import as_input, operand, result_type
from tilewright.front.refusal import ask, numpy_error
from tilewright.front.registry import implements
from tilewright.front.trace import emit, emit_unwritten
from tilewright.front.ufunc import broadcast, result_layout
from tilewright.ir.core import Value


def sizes_of(shape: Any) -> tuple[int, ...]:
    """A shape argument: an integer or a sequence of integers, none negative."""
    if shape is None:
        raise numpy_error(TypeError, "Use () not None as shape arguments")
    items = shape if isinstance(shape, Sequence) or np.ndim(shape) else (shape,)
    sizes = tuple(ask(operator.index, each) for each in items)
    if any(size < 0 for size in sizes):
        raise numpy_error(ValueError, "negative dimensions are not allowed")
    return sizes


def dtype_in(dtype: Any) -> DType:
    """The argument dtype; None is float64."""
    return host_dtype(ask(np.dtype, dtype), "the array")


def on_cpu(device: Any) -> None:
    """The argument device has one value."""
    if device not in (None, "cpu"):
        raise numpy_error(ValueError, f'Device not understood. Only "cpu" is allowed, but received: {device}')


def _layout(shape: tuple[int, ...], dtype: DType, order: Any) -> np.ndarray | None:
    """The memory order of a fresh array, None for row-major."""
    if order != "F" or len(shape) < 2:
        return None
    strides = [dtype.itemsize * math.prod(max(n, 1) for n in shape[:a]) for a in range(len(shape))]
    return memoryless(dtype.np, shape, strides)


_UNWRITTEN: Any = object()
"""A fill that stands for what memory holds."""


def _filled(shape: tuple[int, ...], dtype: DType, fill: Any, order: Any = "C") -> TracedArray:
    """An array of one number, or of a fill that broadcasts; floats are cut to integers as NumPy does."""
    if fill is _UNWRITTEN:
        return new(emit_unwritten("full", shape=shape, dtype=dtype, value=0), _layout(shape, dtype, order))
    number = operand(np.asarray(fill) if isinstance(fill, float) else as_input(fill), dtype)
    if isinstance(number, Value):
        ask(np.broadcast_to, np.empty(number.type.shape, np.bool_), shape)
        return new(broadcast(number, shape), _layout(shape, dtype, order))
    return new(emit("full", shape=shape, dtype=dtype, value=number), _layout(shape, dtype, order))


def _maker(fill: Any) -> Callable[..., TracedArray]:
    def make(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None) -> TracedArray:
        on_cpu(device)
        return _filled(sizes_of(shape), dtype_in(dtype), fill, order)

    return make


implements(np.zeros, note="traced with like=")(_maker(0))
implements(np.ones, note="traced with like=")(_maker(1))
implements(np.empty, note="traced with like=; holds zeros")(_maker(_UNWRITTEN))


@implements(np.full, note="traced with like=")
def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None) -> TracedArray:
    """np.full"""
    on_cpu(device)
    wanted = result_type(fill_value) if dtype is None else dtype_in(dtype)
    return _filled(sizes_of(shape), wanted, fill_value, order)


@implements(np.full_like)
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "K",
    subok: Any = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> TracedArray:
    """np.full_like"""
    on_cpu(device)
    like = as_traced(a)
    wanted = like.type.dtype if dtype is None else dtype_in(dtype)
    sizes = like.shape if shape is None else sizes_of(shape)
    found = _filled(sizes, wanted, fill_value)
    layout = result_layout([like], found.type, order) if sizes == like.shape else _layout(sizes, wanted, order)
    return new(found.value, layout)


def _maker_like(fill: Any) -> Callable[..., TracedArray]:
    def make(
        a: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None, *, device: Any = None
    ) -> TracedArray:
        return full_like(a, fill, dtype, order, subok, shape, device=device)

    return make


implements(np.zeros_like)(_maker_like(0))
implements(np.ones_like)(_maker_like(1))
implements(np.empty_like, note="holds zeros")(_maker_like(_UNWRITTEN))


@implements(np.eye, note="traced with like=")
def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: Any = "C", *, device: Any = None) -> TracedArray:
    """np.eye"""
    on_cpu(device)
    return _band(N, M, k, k, dtype, order)


@implements(np.identity, note="traced with like=")
def identity(n: Any, dtype: Any = None) -> TracedArray:
    """np.identity"""
    return _band(n, None, 0, 0, dtype, "C")


@implements(np.tri, note="traced with like=")
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> TracedArray:
    """np.tri"""
    return _band(N, M, None, k, dtype, "C")


def _band(rows: Any, columns: Any, low: Any, high: Any, dtype: Any, order: Any) -> TracedArray:
    shape = sizes_of((rows, rows if columns is None else columns))
    limits = {name: None if k is None else ask(operator.index, k) for name, k in (("low", low), ("high", high))}
    wanted = dtype_in(dtype)
    inside, outside = (True, False) if wanted.kind == "b" else (1, 0)
    value = emit("band", shape=shape, dtype=wanted, inside=inside, outside=outside, **limits)
    return new(value, _layout(shape, wanted, order))


def _computed(function: Any) -> None:
    """A function that makes an array of static arguments: NumPy computes it, the program holds the result."""

    def make(*args: Any, **kwargs: Any) -> TracedArray:
        if any(holds_traced(x) for x in (*args, *kwargs.values())):
            raise fail(
                "E804",
                f"np.{function.__name__}: the shape of the result depends on data",
                hint="give numbers that are known while tracing, such as x.shape[0]",
            )
        return as_traced(ask(function, *args, **kwargs))

    implements(function, note="traced with like=")(make)


for _function in (np.arange, np.fromfunction, np.frombuffer, np.fromiter):
    _computed(_function)


@implements(np.copy)
def copy(a: Any, order: Any = "K", subok: Any = False) -> TracedArray:
    """np.copy"""
    x = as_traced(a)
    return new(x.value, result_layout([x], x.type, order))


@implements(np.array, note="traced with like=")
def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    order: Any = "K",
    subok: Any = False,
    ndmin: Any = 0,
    ndmax: Any = 0,
) -> TracedArray:
    """np.array"""
    x = as_traced(object)
    found = astype(x, x.dtype if dtype is None else dtype, order or "K", copy=copy is True)
    found = new(found.value, found.shadow) if found.is_scalar else found
    if copy is False and found is not x:
        raise numpy_error(ValueError, "Unable to avoid copy while creating an array as requested.")
    missing = ndmin - found.ndim
    return found if missing <= 0 else np.reshape(found, (1,) * missing + found.shape)  # type: ignore[return-value]


@implements(np.asarray, np.asanyarray, note="traced with like=")
def asarray(a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None) -> TracedArray:
    """np.asarray"""
    on_cpu(device)
    return array(a, dtype, copy=copy, order=order or "K")


@implements(np.ascontiguousarray, note="traced with like=")
def ascontiguousarray(a: Any, dtype: Any = None) -> TracedArray:
    """np.ascontiguousarray"""
    return array(a, dtype, copy=None, order="C", ndmin=1)


@implements(np.asfortranarray, note="traced with like=")
def asfortranarray(a: Any, dtype: Any = None) -> TracedArray:
    """np.asfortranarray"""
    return array(a, dtype, copy=None, order="F", ndmin=1)
