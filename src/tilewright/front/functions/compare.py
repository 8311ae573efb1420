"""Comparing whole arrays, exactly and approximately; questions about complex numbers, of which there are none."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import bool_
from tilewright.front.array import TracedArray, as_traced, returned
from tilewright.front.promote import result_type, value_of
from tilewright.front.registry import call, implements
from tilewright.front.trace import emit


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: Any = False) -> TracedArray:
    """np.isclose"""
    x, y = (each if type(each) in (int, float) else as_traced(each) for each in (a, b))
    y = float(y) if isinstance(y, int) else y if isinstance(y, float) else returned(value_of(y, result_type(y, 1.0)))
    # Both could be numbers when a tolerance is traced.
    x = as_traced(x) if isinstance(y, float) else x
    near = np.less_equal(abs(x - y), atol + rtol * abs(y)) & np.isfinite(y) | (x == y)
    return near | (np.isnan(x) & np.isnan(y)) if equal_nan else near


@implements(np.allclose, note="a traced bool instead of a bool")
def allclose(a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: Any = False) -> TracedArray:
    """np.allclose"""
    return call(np.all, isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal, note="a traced bool where the shapes are equal")
def array_equal(a1: Any, a2: Any, equal_nan: Any = False) -> Any:
    """np.array_equal"""
    x, y = as_traced(a1), as_traced(a2)
    if x.shape != y.shape:
        return False
    same = x == y
    return call(np.all, same | (np.isnan(x) & np.isnan(y)) if equal_nan else same)


@implements(np.array_equiv, note="a traced bool where the shapes broadcast")
def array_equiv(a1: Any, a2: Any) -> Any:
    """np.array_equiv"""
    x, y = as_traced(a1), as_traced(a2)
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return call(np.all, x == y)


@implements(np.real)
def real(val: Any) -> TracedArray:
    """np.real: a real array itself"""
    return as_traced(val)


@implements(np.real_if_close)
def real_if_close(a: Any, tol: Any = 10**2) -> TracedArray:
    """np.real_if_close"""
    return real(a)


@implements(np.imag)
def imag(val: Any) -> TracedArray:
    """np.imag: zeros"""
    return call(np.zeros_like, val)


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    """np.iscomplexobj: never"""
    return False


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    """np.isrealobj: always"""
    return True


@implements(np.isreal)
def isreal(x: Any) -> TracedArray:
    """np.isreal: everywhere"""
    return _everywhere(x, True)


@implements(np.iscomplex)
def iscomplex(x: Any) -> TracedArray:
    """np.iscomplex: nowhere"""
    return _everywhere(x, False)


def _everywhere(x: Any, value: bool) -> TracedArray:
    return returned(emit("full", shape=as_traced(x).shape, dtype=bool_, value=value))
