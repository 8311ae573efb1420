"""np.logaddexp.reduce and np.logaddexp2.reduce: the logarithm of a sum of powers, without overflow inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.front.array import TracedArray, as_traced, returned
from tilewright.front.functions.reduction import NoValue, axes_of, loop_type, stored
from tilewright.front.promote import cast
from tilewright.front.refusal import ask
from tilewright.front.registry import implements
from tilewright.front.ufunc import mask_of

_POWERS: dict[np.ufunc, tuple[Callable[..., Any], Callable[..., Any]]] = {
    np.logaddexp: (np.exp, np.log),
    np.logaddexp2: (np.exp2, np.log2),
}


def log_sum(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> TracedArray:
    """log(sum(exp(x - greatest))) + greatest; -inf where there is nothing"""
    given = as_traced(array)
    axes, (power, logarithm) = axes_of(axis, given), _POWERS[ufunc]
    x: Any = returned(cast(given.value, loop_type(ufunc, given, dtype, out)))
    if where is not True:
        ask(np.broadcast_to, np.empty(mask_of(where).type.shape, np.bool_), given.shape)
        x = np.where(where, x, np.full((), -np.inf, x.dtype))
    greatest = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    # An infinity takes nothing away: infinity less infinity is NaN.
    taken = np.where(np.isfinite(greatest), greatest, np.zeros((), x.dtype))
    total = np.sum(power(x - taken), axis=axes, keepdims=True)
    found: Any = logarithm(total) + taken
    if not keepdims:
        found = np.squeeze(found, axes)
    if initial is not NoValue and initial is not None:
        found = ufunc(found, np.asarray(initial, x.dtype) if not isinstance(initial, TracedArray) else initial)
    return stored(as_traced(found).value, out, f"reduction operation {ufunc.__name__}")


def _register() -> None:
    for ufunc in _POWERS:

        def method(array: Any, *args: Any, ufunc: np.ufunc = ufunc, **kwargs: Any) -> TracedArray:
            return log_sum(ufunc, array, *args, **kwargs)

        implements(ufunc, method="reduce")(method)


_register()
