"""Greatest and least elements: without NaN, their positions, their distance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.dtypes import int64
from tilewright.front.array import TracedArray, as_traced, returned
from tilewright.front.conversion import astype
from tilewright.front.functions.floats import isnan
from tilewright.front.functions.operands import full_like
from tilewright.front.functions.reduction import NoValue, reduce, stored
from tilewright.front.refusal import axis_in, numpy_error
from tilewright.front.registry import call, implements
from tilewright.front.storage import reshaped
from tilewright.front.trace import emit
from tilewright.tensor.ops.reduction import reduced_shape


def ignoring_nan(
    ufunc: np.ufunc, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any = NoValue, where: Any = True
) -> TracedArray:
    """The extreme of what is not NaN; NaN where nothing else is."""
    x = as_traced(a)
    if not x.type.dtype.is_float:
        return reduce(ufunc, x, axis, None, out, keepdims, initial, where)
    lowest = -math.inf if ufunc is np.maximum else math.inf
    missing = isnan(x.value)
    filled = returned(emit("where", missing, full_like(x.value, x.type.dtype, lowest), x.value))
    found = reduce(ufunc, filled, axis, None, None, keepdims, initial, where)
    if initial is NoValue or initial is None:
        nothing = reduce(np.logical_and, returned(missing), axis, None, None, keepdims, NoValue, where)
        found = np.where(nothing, np.full((), np.nan, x.dtype), found)
    return stored(found.value, out, f"reduction operation {ufunc.__name__}")  # type: ignore[union-attr]


def _fmax_fmin() -> None:
    for ufunc, inner in ((np.fmax, np.maximum), (np.fmin, np.minimum)):

        def method(
            array: Any,
            axis: Any = 0,
            dtype: Any = None,
            out: Any = None,
            keepdims: Any = False,
            initial: Any = NoValue,
            where: Any = True,
            *,
            inner: np.ufunc = inner,
        ) -> TracedArray:
            x = array if dtype is None else astype(as_traced(array), dtype)
            return ignoring_nan(inner, x, axis, out, keepdims, initial, where)

        implements(ufunc, method="reduce")(method)


def _position(op: str, a: Any, axis: Any, out: Any, keepdims: Any) -> TracedArray:
    x = as_traced(a)
    keep = keepdims is not NoValue and bool(keepdims)
    value, shape = x.value, x.shape
    if axis is None:
        value, kept = reshaped(value, (x.size,)), (1,) * x.ndim if keep else ()
        place = 0
    else:
        place = 0 if not x.ndim and axis in (0, -1) else axis_in(axis, x.ndim)
        kept = reduced_shape(shape, (place,), keep)
        value = value if shape else reshaped(value, (1,))
    if value.type.shape[place] == 0:
        raise numpy_error(ValueError, f"attempt to get {op} of an empty sequence")
    if value.type.size == 0:
        found = emit("full", shape=kept, dtype=int64, value=0)
    else:
        found = reshaped(emit(op, value, axis=place, keepdims=keep, dtype=int64), kept)
    return stored(found, out, op)


@implements(np.argmax)
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NoValue) -> TracedArray:
    """np.argmax"""
    return _position("argmax", a, axis, out, keepdims)


@implements(np.argmin)
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NoValue) -> TracedArray:
    """np.argmin"""
    return _position("argmin", a, axis, out, keepdims)


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NoValue) -> TracedArray:
    """np.ptp"""
    highest, lowest = (reduce(ufunc, a, axis, None, None, keepdims) for ufunc in (np.maximum, np.minimum))
    return call(np.subtract, highest, lowest, out=out)


_fmax_fmin()
