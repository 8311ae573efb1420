"""Running reductions (`np.cumsum`, `np.maximum.accumulate`) and tables of all pairs (`np.add.outer`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.front.array import TracedArray, as_traced, new, returned
from tilewright.front.functions.floats import fmax, fmin
from tilewright.front.functions.moves import joined, piece
from tilewright.front.functions.operands import is_inexact
from tilewright.front.functions.reduction import REDUCERS, loop_type, stored
from tilewright.front.promote import cast
from tilewright.front.refusal import axis_in, numpy_error, single_axis_in
from tilewright.front.registry import call, implements
from tilewright.front.storage import reshaped
from tilewright.front.trace import emit
from tilewright.ir.core import Value

_SCANS = {np.add: "cumsum", np.multiply: "cumprod"}
_STEPS = {ufunc: each.combine for ufunc, each in REDUCERS.items()} | {np.fmax: fmax, np.fmin: fmin}


def accumulate(ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> TracedArray:
    """The method `accumulate` of a ufunc."""
    x = as_traced(array)
    place = single_axis_in(axis, x.ndim, "accumulate")
    value = cast(x.value, loop_type(ufunc, x, dtype, out))
    op = _SCANS.get(ufunc)
    found = doubled(_STEPS[ufunc], value, place) if op is None else emit(op, value, axis=place)
    return stored(found, out, ufunc.__name__)


def doubled(step: Callable[[Value, Value], Value], x: Value, axis: int) -> Value:
    """Each step joins twice as many neighbours as the one before: for steps whose order does not matter."""
    size, reach = x.type.shape[axis], 1
    while reach < size:
        later = step(piece(x, axis, 0, size - reach), piece(x, axis, reach, size - reach))
        x = joined([piece(x, axis, 0, reach), later], axis)
        reach *= 2
    return x


def _running(ufunc: np.ufunc) -> Any:
    def run(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> TracedArray:
        x = as_traced(a)
        if axis is None or not x.ndim:
            if axis not in (None, 0, -1):
                axis_in(axis, x.ndim)
            x, axis = returned(reshaped(x.value, (x.size,))), 0
        return accumulate(ufunc, x, axis, dtype, out)

    return run


implements(np.cumsum)(_running(np.add))
implements(np.cumprod)(_running(np.multiply))


def _cumulative(ufunc: np.ufunc) -> Any:
    def run(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: Any = False
    ) -> TracedArray:
        given = as_traced(x)
        array = given if given.ndim else new(reshaped(given.value, (1,)))
        if axis is None and array.ndim > 1:
            raise numpy_error(
                ValueError, "For arrays which have more than one dimension ``axis`` argument is required."
            )
        place = axis_in(0 if axis is None else axis, array.ndim)
        found = accumulate(ufunc, array, place, dtype, None if include_initial else out)
        if not include_initial:
            return found
        shape = tuple(1 if a == place else n for a, n in enumerate(found.shape))
        first = emit("full", shape=shape, dtype=found.type.dtype, value=ufunc.identity)
        return stored(joined([first, found.value], place), out, ufunc.__name__)

    return run


implements(np.cumulative_sum)(_cumulative(np.add))
implements(np.cumulative_prod)(_cumulative(np.multiply))


def _nan_running(ufunc: np.ufunc, neutral: float) -> Any:
    def run(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> TracedArray:
        x = as_traced(a)
        filled = np.where(np.isnan(x), x.dtype.type(neutral), x) if is_inexact(x.dtype) else x
        return _running(ufunc)(filled, axis, dtype, out)

    return run


implements(np.nancumsum)(_nan_running(np.add, 0.0))
implements(np.nancumprod)(_nan_running(np.multiply, 1.0))


def outer(ufunc: np.ufunc, A: Any, B: Any, **kwargs: Any) -> Any:
    """The method `outer` of a ufunc: every element of A with every one of B."""
    x, y = as_traced(A), as_traced(B)
    left = new(reshaped(x.value, (*x.shape, *(1,) * y.ndim)))
    return call(ufunc, left, y, **kwargs)


def _register() -> None:
    for ufunc in _STEPS:

        def method(array: Any, *args: Any, ufunc: np.ufunc = ufunc, **kwargs: Any) -> TracedArray:
            return accumulate(ufunc, array, *args, **kwargs)

        implements(ufunc, method="accumulate")(method)
    named = {each.__name__: each for each in vars(np).values() if isinstance(each, np.ufunc)}
    for ufunc in named.values():
        if ufunc.nin == 2 and ufunc.signature is None:

            def table(A: Any, B: Any, *, ufunc: np.ufunc = ufunc, **kwargs: Any) -> Any:
                return outer(ufunc, A, B, **kwargs)

            implements(ufunc, method="outer")(table)


_register()
