"""`reduceat` of ufuncs: reductions of segments of an axis. Segments of equal length are reduced together."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.front.array import TracedArray, as_traced, holds_traced, returned
from tilewright.front.functions import folds
from tilewright.front.functions.index import depends_on_data
from tilewright.front.functions.moves import cast, joined, picked, reshaped
from tilewright.front.functions.reduction import loop_type, stored
from tilewright.front.refusal import ask, single_axis_in
from tilewright.front.registry import METHODS, implements, name_of
from tilewright.ir.core import Value

__all__ = ["folds", "reduceat"]  # all reductions there are, by then


def reduceat(
    ufunc: np.ufunc, array: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None
) -> TracedArray:
    """The method `reduceat`: x[i:j] is reduced for neighbours i < j of the indices; x[i] is taken for others."""
    if holds_traced(indices):
        why, hint = "where segments begin is known at run time only", "give the indices as Python numbers"
        raise depends_on_data(f"{name_of(ufunc)}.reduceat", why, hint)
    x = as_traced(array)
    place = single_axis_in(axis, x.ndim, "reduceat")
    ask(ufunc.reduceat, np.zeros(x.shape[place], x.dtype), indices)  # whether the indices can be
    starts = np.asarray(indices, np.int64)
    ends = np.append(starts[1:], x.shape[place])
    lengths = np.maximum(ends - starts, 1)
    value = cast(x.value, loop_type(ufunc, x, dtype, out))
    groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
    parts = [_reduced(ufunc, value, place, starts[each], int(lengths[each[0]])) for each in groups]
    order = np.argsort(np.concatenate([np.zeros(0, np.int64), *groups]), kind="stable")
    found = picked(joined(parts, place) if parts else value, place, order)
    return stored(found, out, ufunc.__name__)


def _reduced(ufunc: np.ufunc, x: Value, axis: int, starts: np.ndarray, length: int) -> Value:
    """The reductions of segments of one length."""
    taken = picked(x, axis, (starts[:, None] + np.arange(length)).reshape(-1))
    if length == 1:
        return taken
    shape = x.type.shape
    rows = reshaped(taken, (*shape[:axis], len(starts), length, *shape[axis + 1 :]))
    kind = x.type.dtype.np
    found = METHODS[ufunc, "reduce"].handler(returned(rows), axis=axis + 1, dtype=kind)
    return cast(as_traced(found).value, x.type.dtype)


def _register() -> None:
    for ufunc in [ufunc for ufunc, name in METHODS if name == "reduce"]:

        def method(array: Any, *args: Any, ufunc: np.ufunc = ufunc, **kwargs: Any) -> TracedArray:
            return reduceat(ufunc, array, *args, **kwargs)

        implements(ufunc, method="reduceat")(method)


_register()
