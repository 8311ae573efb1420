"""Reductions: one function for all ufuncs that reduce, and the functions of NumPy that are these."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dtypes import DType, bool_, host_dtype
from tilewright.front.array import TracedArray, as_traced, returned
from tilewright.front.functions.moves import piece
from tilewright.front.promote import Operand, as_input, cast, operand
from tilewright.front.refusal import ask, axes_in, numpy_error
from tilewright.front.registry import implements
from tilewright.front.storage import reshaped
from tilewright.front.trace import emit
from tilewright.front.ufunc import broadcast, mask_of, store
from tilewright.ir.core import Value
from tilewright.tensor.ops.reduction import reduced_shape

NoValue = np._NoValue  # type: ignore[attr-defined]

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reducer:
    """How a ufunc reduces: `op` of the IR does it, or steps of the binary op `step` in a tree."""

    ufunc: np.ufunc
    step: str
    op: str | None
    on_bool: str | None = None
    identity: bool | int | None = None

    def reduce(self, x: Value, axes: Axes, keepdims: bool) -> Value:
        """The reduction of a value whose reduced dims are not empty."""
        op = self.on_bool if x.type.dtype is bool_ and self.on_bool else self.op
        if op is None:
            return reshaped(self._tree(x, axes), reduced_shape(x.type.shape, axes, keepdims))
        return emit(op, x, axes=axes, keepdims=keepdims)

    def combine(self, x: Any, y: Any) -> Value:
        """One step."""
        dtype = (x if isinstance(x, Value) else y).type.dtype
        ored = {"any": "bitwise_or", "all": "bitwise_and"}.get(self.on_bool or "")
        return emit(ored if dtype is bool_ and ored else self.step, x, y)

    def _tree(self, x: Value, axes: Axes) -> Value:
        for axis in axes:
            while (size := x.type.shape[axis]) > 1:
                half = size // 2
                rest = x if size % 2 else None
                x = self.combine(piece(x, axis, 0, half), piece(x, axis, half, half))
                if rest is not None:
                    first = self.combine(piece(x, axis, 0, 1), piece(rest, axis, size - 1, 1))
                    x = first if half == 1 else emit("concatenate", first, piece(x, axis, 1, half - 1), axis=axis)
        return x


REDUCERS: dict[np.ufunc, Reducer] = {
    each.ufunc: each
    for each in (
        Reducer(np.add, "add", "sum", "any", identity=0),
        Reducer(np.multiply, "multiply", "prod", "all", identity=1),
        Reducer(np.maximum, "maximum", "max", "any"),
        Reducer(np.minimum, "minimum", "min", "all"),
        Reducer(np.logical_or, "bitwise_or", "any", "any", identity=False),
        Reducer(np.logical_and, "bitwise_and", "all", "all", identity=True),
        Reducer(np.logical_xor, "bitwise_xor", None, identity=False),
        Reducer(np.bitwise_or, "bitwise_or", None, identity=0),
        Reducer(np.bitwise_and, "bitwise_and", None, identity=-1),
        Reducer(np.bitwise_xor, "bitwise_xor", None, identity=0),
    )
}
_LOGICAL = (np.logical_or, np.logical_and, np.logical_xor)


def loop_type(ufunc: np.ufunc, x: TracedArray, dtype: Any, out: Any) -> DType:
    """The element type that a reduction or a running one computes in: sums of small integers are int64."""
    if dtype is not None:
        ask(ufunc.accumulate, np.ones(1, x.dtype), dtype=dtype)  # whether there is such a loop
    if ufunc in _LOGICAL:
        return bool_
    if dtype is not None:
        wanted = ask(np.dtype, dtype)
        found = ask(ufunc.resolve_dtypes, (wanted, wanted, None))
    else:
        found = ask(ufunc.resolve_dtypes, (None if out is None else out.dtype, x.dtype, None), reduction=True)
    return host_dtype(found[0], f"what {ufunc.__name__} computes in")


def axes_of(axis: Any, x: TracedArray) -> Axes:
    """The axes to reduce; a number may be reduced over axis 0 too."""
    if not x.ndim and isinstance(axis, int) and axis in (0, -1):
        return ()
    return axes_in(axis, x.ndim)


def reduce(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> TracedArray:
    """The method `reduce` of a ufunc."""
    reducer = REDUCERS[ufunc]
    x = as_traced(array)
    axes = axes_of(axis, x)
    keepdims = keepdims is not NoValue and bool(keepdims)
    type = loop_type(ufunc, x, dtype, out)
    neutral = _neutral(reducer, type)
    start = neutral if initial is NoValue else None if initial is None else _number(initial, type)
    value = cast(x.value, type)
    if where is not True and where is not NoValue:
        left_out = start if neutral is None else neutral
        if left_out is None:
            raise numpy_error(
                ValueError,
                f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a where mask one has "
                "to specify 'initial'",
            )
        mask = mask_of(where)
        ask(np.broadcast_to, np.empty(mask.type.shape, np.bool_), x.shape)
        value = broadcast(emit("where", mask, value, left_out), x.shape)
    shape = reduced_shape(x.shape, axes, keepdims)
    if math.prod(x.shape[a] for a in axes) == 0:
        if start is None:
            raise numpy_error(
                ValueError, f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
            )
        found = broadcast(_as_value(0 if start is None else start, type), shape)
    else:
        found = reducer.reduce(value, axes, keepdims)
        if initial is not NoValue and start is not None:
            found = reducer.combine(found, start)
    return stored(found, out, f"reduction operation {ufunc.__name__}")


def _neutral(reducer: Reducer, type: DType) -> bool | int | None:
    """The number that changes no result, None where there is none."""
    return reducer.identity if reducer.identity is None or type.kind != "b" else bool(reducer.identity)


def _number(initial: Any, type: DType) -> Operand:
    given = as_input(initial)
    return operand(given if isinstance(given, TracedArray) else np.asarray(given), type)


def _as_value(x: Any, type: DType) -> Value:
    return x if isinstance(x, Value) else emit("full", shape=(), dtype=type, value=x)


def stored(value: Value, out: Any, what: str) -> TracedArray:
    """The result of a reduction, in `out` if there is one: it must have exactly the result's shape."""
    if out is None:
        return returned(value)
    target = out[0] if isinstance(out, tuple) else out
    if getattr(target, "shape", None) != value.type.shape:
        raise numpy_error(
            ValueError,
            f"output parameter for {what} has the shape {getattr(target, 'shape', None)}, the result has "
            f"{value.type.shape}",
        )
    return store(target, value, value.type.shape, None, "unsafe", what)


def _register() -> None:
    for ufunc in REDUCERS:

        def method(array: Any, *args: Any, ufunc: np.ufunc = ufunc, **kwargs: Any) -> TracedArray:
            return reduce(ufunc, array, *args, **kwargs)

        implements(ufunc, method="reduce")(method)
    for functions, ufunc in _FUNCTIONS:
        implements(*functions)(_function(ufunc))


def _function(ufunc: np.ufunc) -> Callable[..., TracedArray]:
    """A function whose arguments are those of a reduction, over all axes by default."""
    if ufunc in (np.add, np.multiply):

        def with_dtype(
            a: Any,
            axis: Any = None,
            dtype: Any = None,
            out: Any = None,
            keepdims: Any = NoValue,
            initial: Any = NoValue,
            where: Any = NoValue,
        ) -> TracedArray:
            return reduce(ufunc, a, axis, dtype, out, keepdims, initial, where)

        return with_dtype
    if ufunc in (np.maximum, np.minimum):

        def extreme(
            a: Any,
            axis: Any = None,
            out: Any = None,
            keepdims: Any = NoValue,
            initial: Any = NoValue,
            where: Any = NoValue,
        ) -> TracedArray:
            return reduce(ufunc, a, axis, None, out, keepdims, initial, where)

        return extreme

    def truth(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = NoValue, *, where: Any = NoValue
    ) -> TracedArray:
        return reduce(ufunc, a, axis, None, out, keepdims, NoValue, where)

    return truth


_FUNCTIONS = (
    ((np.sum,), np.add),
    ((np.prod,), np.multiply),
    ((np.max, np.amax), np.maximum),
    ((np.min, np.amin), np.minimum),
    ((np.any,), np.logical_or),
    ((np.all,), np.logical_and),
)


@implements(np.count_nonzero, note="a traced scalar instead of an int")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> TracedArray:
    """np.count_nonzero"""
    truth = returned(cast(as_traced(a).value, bool_))
    return reduce(np.add, truth, axis, np.int64, None, keepdims)


_register()
