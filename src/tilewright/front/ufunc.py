"""Elementwise ufuncs: promotion, broadcasting, `out=`, `where=` and `dtype=` are the same for all of them.

    elementwise(np.exp, "exp")          # an op of the IR does it

    @elementwise(np.deg2rad)
    def deg2rad(x): ...                 # values in, value out: operands already have the type of NumPy's loop

A kernel gets values (or Python numbers, at least one operand being a value) and gives a value of the type that NumPy's
loop says; several outputs come as a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import DType, bool_
from tilewright.errors import fail
from tilewright.front.array import TracedArray, memoryless, returned
from tilewright.front.promote import Input, Operand, as_input, cast, is_weak, loop_types, operand, shape_of, value_of
from tilewright.front.refusal import ask, numpy_error
from tilewright.front.registry import implements
from tilewright.front.trace import emit, emit_unwritten
from tilewright.ir.core import Value
from tilewright.tensor.types import TensorType

Kernel = Callable[..., Any]


def elementwise(ufunc: np.ufunc, op: str | None = None) -> Callable[[Kernel], Kernel]:
    """Register a ufunc: by the name of an op, or as a decorator of a function on values."""

    def register(kernel: Kernel) -> Kernel:
        def handler(*inputs: Any, **kwargs: Any) -> Any:
            return apply(ufunc, kernel, *inputs, **kwargs)

        implements(ufunc)(handler)
        return kernel

    if op is not None:
        register(lambda *operands: emit(op, *operands))
    return register


def apply(
    ufunc: np.ufunc,
    kernel: Kernel,
    *arguments: Any,
    out: Any = None,
    where: Any = True,
    casting: str = "same_kind",
    order: str = "K",
    dtype: Any = None,
    subok: bool = True,
    signature: Any = None,
    sig: Any = None,
) -> Any:
    """Trace a call of an elementwise ufunc."""
    arguments, outs = _split(ufunc, arguments, out)
    inputs = [as_input(x) for x in arguments]
    if not all(_writeable(x) for x in outs):
        raise numpy_error(ValueError, "output array is read-only")
    ins, results = loop_types(
        ufunc, inputs, outs=outs, dtype=dtype, signature=sig if signature is None else signature, casting=casting
    )
    mask = None if where is True else mask_of(where)
    shape = common_shape(*map(shape_of, inputs), () if mask is None else mask.type.shape)
    found = _beyond(ufunc, inputs, ins, shape)
    if found is None:
        found = kernel(*_operands(inputs, ins))
    values = found if isinstance(found, tuple) else (found,)
    done: list[Any] = []
    for value, type, target in zip(values, results, outs, strict=True):
        assert value.type.dtype is type, f"{ufunc.__name__} gave {value.type}, NumPy gives {type}"
        if target is None:
            value = value if mask is None else emit_unwritten("where", mask, value, 0)
            done.append(returned(broadcast(value, shape), result_layout(inputs, value.type, order)))
        else:
            done.append(store(target, value, shape, mask, casting, f"ufunc '{ufunc.__name__}' output"))
    return tuple(done) if len(done) > 1 else done[0]


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all broadcast to; ValueError as NumPy's. Equal shapes, the usual case, are quick."""
    distinct = {shape for shape in shapes if shape}
    return ask(np.broadcast_shapes, *shapes) if len(distinct) > 1 else distinct.pop() if distinct else ()


def _writeable(x: Any) -> bool:
    return x.writeable if isinstance(x, TracedArray) else not isinstance(x, np.ndarray) or x.flags.writeable


def mask_of(where: Any) -> Value:
    """The argument `where=` of ufuncs and reductions: bool, as NumPy wants it."""
    mask = as_input(where)
    if not is_weak(mask) and mask.dtype != np.bool_:  # type: ignore[union-attr]
        rule = "Cannot cast array data from {!r} to dtype('bool') according to the rule 'safe'"
        raise numpy_error(TypeError, rule.format(mask.dtype))  # type: ignore[union-attr]
    return value_of(mask, bool_)


def _operands(inputs: list[Input], types: Sequence[DType]) -> list[Operand]:
    """Operands of a kernel; no numbers where they would have no type of their own to take."""
    typed = len(set(types)) == 1 and any(isinstance(x, TracedArray) or shape_of(x) for x in inputs)
    return [(operand if typed else value_of)(x, type) for x, type in zip(inputs, types, strict=True)]


def _split(ufunc: np.ufunc, arguments: tuple[Any, ...], out: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """Inputs and outputs; outputs may follow the inputs without a name."""
    nin, nout = ufunc.nin, ufunc.nout
    if not nin <= len(arguments) <= nin + nout:
        wanted = f"from {nin} to {nin + nout}"
        raise numpy_error(
            TypeError, f"{ufunc.__name__}() takes {wanted} positional arguments but {len(arguments)} were given"
        )
    extra = arguments[nin:]
    outs = list(out) if isinstance(out, tuple) else [out] if nout == 1 else [None] * nout
    if extra:
        outs = [*extra, *[None] * (nout - len(extra))]
    return arguments[:nin], outs


_COMPARISONS = {np.equal: "eq", np.not_equal: "ne", np.less: "lt", np.less_equal: "le"}
_COMPARISONS |= {np.greater: "gt", np.greater_equal: "ge"}


def _beyond(ufunc: np.ufunc, inputs: list[Input], types: tuple[Any, ...], shape: tuple[int, ...]) -> Value | None:
    """A comparison with a Python integer that the element type cannot hold: NumPy knows the answer."""
    if ufunc not in _COMPARISONS:
        return None
    for place, (x, type) in enumerate(zip(inputs, types, strict=True)):
        if is_weak(x) and isinstance(x, int) and type.kind in "iu" and not type.min <= x <= type.max:
            other = inputs[1 - place]
            sample = np.zeros((), other.dtype)  # type: ignore[union-attr]
            answer = bool(ask(ufunc, x, sample) if place == 0 else ask(ufunc, sample, x))
            return emit("full", shape=shape, dtype=bool_, value=answer)
    return None


def broadcast(value: Value, shape: tuple[int, ...]) -> Value:
    """The value in a shape it broadcasts to; itself when it has that shape."""
    return value if value.type.shape == shape else emit("broadcast_to", value, shape=shape)


def store(
    target: Any, value: Value, shape: tuple[int, ...], mask: Value | None, casting: str, what: str
) -> TracedArray:
    """Write a result of broadcast shape `shape` to `out=`; the array written to is the result."""
    if not isinstance(target, TracedArray):
        if not isinstance(target, np.ndarray):
            raise numpy_error(TypeError, "return arrays must be of ArrayType")
        raise host_target()
    full = common_shape(shape, target.shape)
    if full != target.shape:
        raise numpy_error(
            ValueError,
            f"non-broadcastable output operand with shape {target.shape} doesn't match the broadcast shape {full}",
        )
    source, wanted = value.type.dtype, target.type.dtype
    if not np.can_cast(source.np, wanted.np, casting):  # type: ignore[arg-type]
        raise numpy_error(
            TypeError,
            f"Cannot cast {what} from {source.np!r} to {wanted.np!r} with casting rule '{casting}'",
        )
    value = cast(value, wanted)
    if mask is not None:
        value = emit("where", mask, value, target.value)
    target.assign(broadcast(value, target.shape))
    return target


def host_target() -> Exception:
    """Traced data cannot be written into an array of NumPy, which exists before the program runs."""
    return fail(
        "E802",
        "traced data is written into an array that exists before the program runs",
        hint="write into an array that the function makes itself, such as np.array(a) or np.zeros_like(a)",
    )


def result_layout(inputs: list[Input], type: TensorType, order: str) -> np.ndarray | None:
    """The memory order of a fresh result, None for row-major: NumPy keeps the order of its operands ("K")."""
    arrays = [x for x in inputs if shape_of(x)]
    if order == "A":  # by columns only if all operands lie exactly so
        order = "F" if all(_flags(x).f_contiguous for x in arrays) else "C"
    if order == "C" or not arrays or not type.size or (order == "K" and all(_flags(x).c_contiguous for x in arrays)):
        return None
    return memoryless(type.dtype.np, type.shape, _strides_of_result(arrays, type, order))


def _flags(x: Any) -> Any:
    return x.flags if isinstance(x, np.ndarray) else x.shadow.flags


def _strides_of_result(arrays: list[Any], type: TensorType, order: str) -> tuple[int, ...]:
    """Ask NumPy with arrays of the same order of strides whose dims are 1 or 2."""
    small = []
    for x in arrays:
        given = x if isinstance(x, np.ndarray) else x.shadow
        axes = sorted(range(given.ndim), key=lambda a: -abs(given.strides[a]))
        shape = tuple(min(n, 2) for n in given.shape)
        buffer = np.empty([shape[a] for a in axes], np.int8)
        small.append(buffer.transpose(np.argsort(axes)))
    with np.nditer([*small, None], order=order) as sample:  # type: ignore[call-overload]
        result = sample.operands[-1]
    axes = sorted(range(len(type.shape)), key=lambda a: -result.strides[a])
    step, strides = type.dtype.itemsize, [0] * len(axes)
    for axis in reversed(axes):
        strides[axis] = step
        step *= max(type.shape[axis], 1)
    return tuple(strides)
