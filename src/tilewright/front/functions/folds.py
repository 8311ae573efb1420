"""`reduce` and `accumulate` of ufuncs that have no reduction of their own: steps of the ufunc itself.

Where the order of steps does not matter they form a tree; the others go from the first element to the last, as NumPy
does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.front.array import TracedArray, as_traced, returned
from tilewright.front.functions import extremes, logsum
from tilewright.front.functions.moves import broadcast, joined, piece, reshaped
from tilewright.front.functions.reduction import NoValue, axes_of, loop_type, stored
from tilewright.front.functions.scan import doubled
from tilewright.front.promote import cast
from tilewright.front.refusal import ask, numpy_error, single_axis_in, unsupported
from tilewright.front.registry import METHODS, call, implements, name_of
from tilewright.front.trace import emit
from tilewright.front.ufunc import mask_of
from tilewright.ir.core import Value
from tilewright.tensor.ops.reduction import reduced_shape

__all__ = ["extremes", "fold", "logsum", "running"]  # modules whose reductions come before those made here

_ANY_ORDER = (np.hypot, np.gcd, np.lcm, np.logaddexp, np.logaddexp2)
_LESS_ALL = (np.subtract,)
"""What takes away one after the other takes away the sum."""


def _step(ufunc: np.ufunc) -> Callable[[Value, Value], Value]:
    def run(x: Value, y: Value) -> Value:
        return as_traced(call(ufunc, returned(x), returned(y))).value

    return run


def fold(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> TracedArray:
    """The method `reduce`."""
    x = as_traced(array)
    axes = axes_of(axis, x)
    ask(ufunc.reduce, np.ones((1,) * x.ndim, x.dtype), axis=axes if x.ndim else None)  # which types, how many axes
    kind = loop_type(ufunc, x, dtype, out)
    start = ufunc.identity if initial is NoValue else initial
    value = cast(x.value, kind)
    if where is not True and where is not NoValue:
        if ufunc.identity is None:
            raise unsupported(f"{name_of(ufunc)}.reduce", "where")
        mask = mask_of(where)
        ask(np.broadcast_to, np.empty(mask.type.shape, np.bool_), x.shape)
        value = broadcast(emit("where", mask, value, ufunc.identity), x.shape)
    shape = reduced_shape(x.shape, axes, bool(keepdims))
    first = None if start is None else cast(as_traced(np.asarray(start) if np.isscalar(start) else start).value, kind)
    if not math.prod(x.shape[a] for a in axes):
        if first is None:
            message = f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
            raise numpy_error(ValueError, message)
        return stored(broadcast(first, shape), out, ufunc.__name__)
    # A single element meets the identity, if there is one: np.hypot.reduce([-3]) is 3.
    alone = math.prod(x.shape[a] for a in axes) == 1
    begin = None if initial is NoValue and not alone else first
    for each in axes if ufunc in _ANY_ORDER else ():
        value = _tree(ufunc, value, each)
    if ufunc not in _ANY_ORDER:
        value = _in_turn(ufunc, value, axes[0], begin) if axes else value
    elif begin is not None:
        value = _step(ufunc)(broadcast(begin, value.type.shape), value)
    return stored(reshaped(value, shape), out, f"reduction operation {ufunc.__name__}")


def _tree(ufunc: np.ufunc, x: Value, axis: int) -> Value:
    """An axis reduced to one element, half by half."""
    step = _step(ufunc)
    while (size := x.type.shape[axis]) > 1:
        half = size // 2
        both = step(piece(x, axis, 0, half), piece(x, axis, half, half))
        x = joined([both, piece(x, axis, size - 1, 1)], axis) if size % 2 else both
    return x


def _in_turn(ufunc: np.ufunc, x: Value, axis: int, first: Value | None) -> Value:
    """An axis reduced to one element, from the first one on."""
    step, size = _step(ufunc), x.type.shape[axis]
    parts = [piece(x, axis, at, 1) for at in range(1 if ufunc in _LESS_ALL else size)]
    if ufunc in _LESS_ALL and size > 1:
        parts.append(emit("sum", piece(x, axis, 1, size - 1), axes=(axis,), keepdims=True))
    found = parts[0] if first is None else step(broadcast(first, parts[0].type.shape), parts[0])
    for part in parts[1:]:
        found = step(found, part)
    return found


def running(ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> TracedArray:
    """The method `accumulate`."""
    x = as_traced(array)
    place = single_axis_in(axis, x.ndim, "accumulate")
    ask(ufunc.accumulate, np.ones(1, x.dtype))
    value, step = cast(x.value, loop_type(ufunc, x, dtype, out)), _step(ufunc)
    size = x.shape[place]
    if ufunc in _ANY_ORDER:
        value = doubled(step, value, place)
    elif size > 1 and ufunc in _LESS_ALL:
        first = piece(value, place, 0, 1)
        later = emit("cumsum", piece(value, place, 1, size - 1), axis=place)
        value = joined([first, step(broadcast(first, later.type.shape), later)], place)
    elif size > 1:
        parts = [piece(value, place, 0, 1)]
        for at in range(1, size):
            parts.append(step(parts[-1], piece(value, place, at, 1)))
        value = joined(parts, place)
    return stored(value, out, ufunc.__name__)


def _register() -> None:
    named = {each.__name__: each for each in vars(np).values() if isinstance(each, np.ufunc)}
    for ufunc in named.values():
        if (ufunc.nin, ufunc.nout, ufunc.signature) != (2, 1, None):
            continue
        for name, function in (("reduce", fold), ("accumulate", running)):
            if (ufunc, name) in METHODS:
                continue

            def method(array: Any, *args: Any, ufunc: Any = ufunc, function: Any = function, **kwargs: Any) -> Any:
                return function(ufunc, array, *args, **kwargs)

            implements(ufunc, method=name)(method)


_register()
