"""NumPy's type promotion: the operands of an op, cast to the types that NumPy computes in.

NumPy itself is asked for every decision (`ufunc.resolve_dtypes`, `np.result_type`), so Python numbers are weak, NumPy
scalars are typed, and bfloat16 and float8 behave as ml_dtypes registers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from tilewright.dtypes import DType, host_dtype
from tilewright.errors import TileValueError, fail
from tilewright.front.array import TracedArray, as_traced, holds_traced
from tilewright.front.lift import constant_of
from tilewright.front.refusal import ask, numpy_error, unsupported
from tilewright.front.trace import emit
from tilewright.ir.core import Value

PROMOTIONS = ("numpy", "device")
"""Policies: as NumPy does, or as devices do, which have no float64: int32 with float32 is float32 there."""
_policy: ContextVar[str] = ContextVar("tilewright_promotion", default=PROMOTIONS[0])


@contextmanager
def promoting(policy: str) -> Iterator[None]:
    """Promote by this policy meanwhile."""
    if policy not in PROMOTIONS:
        hint = f"give one of {', '.join(PROMOTIONS)}"
        raise fail("E108", f"promotion={policy!r} is not known", hint=hint, error=TileValueError)
    token = _policy.set(policy)
    try:
        yield
    finally:
        _policy.reset(token)


def _only_numpy_widens(found: Any, given: Sequence[Any]) -> bool:
    """A device computes in float32 where NumPy would take float64 although no array is that wide."""
    wide = np.dtype(np.float64)
    asked = [np.dtype(each) for each in given if isinstance(each, np.dtype)]
    return _policy.get() != PROMOTIONS[0] and wide in found and wide not in asked


Input = TracedArray | np.ndarray | np.generic | bool | int | float
Operand = Value | bool | int | float


def as_input(x: Any) -> Input:
    """An argument as a traced array, an array of NumPy, or a number whose type is weak."""
    if isinstance(x, (TracedArray, np.ndarray, np.generic, bool, int, float)):
        return x
    if isinstance(x, complex):
        raise unsupported("arithmetic on complex numbers", hint="hold the real and the imaginary part in two arrays")
    return as_traced(x) if holds_traced(x) else ask(np.asarray, x)


def is_weak(x: Input) -> bool:
    """True for a Python number, which takes the type of the arrays it meets."""
    return isinstance(x, (bool, int, float)) and not isinstance(x, np.generic)


def shape_of(x: Input) -> tuple[int, ...]:
    """The shape of an argument; () of a number."""
    return () if isinstance(x, (bool, int, float)) else x.shape


def cast(x: Value, dtype: DType) -> Value:
    """x as another element type; itself when it has that type."""
    return x if x.type.dtype is dtype else emit("cast", x, dtype=dtype)


def number(x: Any, dtype: DType) -> bool | int | float:
    """A Python number as a number of an element type; OverflowError where NumPy raises it."""
    if dtype.kind == "b":
        return bool(x)
    if dtype.is_float:
        return ask(float, x)
    if isinstance(x, float) and not isinstance(x, np.integer):
        x = int(ask(dtype.np.type, x))
    if not dtype.min <= x <= dtype.max:
        raise numpy_error(OverflowError, f"Python integer {x} out of bounds for {dtype}")
    return int(x)


def operand(x: Input, dtype: DType) -> Operand:
    """An argument as an operand of an op that computes in `dtype`: numbers stay numbers."""
    if isinstance(x, TracedArray):
        return cast(x.value, dtype)
    if is_weak(x):
        return number(x, dtype)
    array = np.asarray(x)
    host_dtype(array.dtype, "an operand")
    with np.errstate(all="ignore"):
        array = array.astype(dtype.np, copy=False)
    if array.ndim:
        return constant_of(array)
    return array.item() if dtype.is_integer else float(array)


def value_of(x: Any, dtype: DType | None = None) -> Value:
    """An argument as a value of the graph, cast when a type is given; numbers become constants of rank 0."""
    given = as_input(x)
    if dtype is None:
        return as_traced(given).value
    found = operand(given, dtype)
    if isinstance(found, Value):
        return found
    with np.errstate(over="ignore"):
        return constant_of(np.asarray(found).astype(dtype.np))


def _asked(x: Input) -> Any:
    """What np.result_type takes for an argument."""
    return x if is_weak(x) else x.dtype  # type: ignore[union-attr]


def result_type(*arguments: Any) -> DType:
    """The type that NumPy promotes arguments to, as np.where or np.concatenate do."""
    return common_type([_asked(as_input(x)) for x in arguments])


def common_type(given: Sequence[Any]) -> DType:
    """The type of elements of all these dtypes, and Python numbers, by the policy."""
    found = ask(np.result_type, *given)
    return host_dtype(np.dtype(np.float32) if _only_numpy_widens((found,), given) else found, "the result")


def promote(*arguments: Any) -> tuple[list[Value], DType]:
    """Arguments as values of one element type, the one NumPy's result_type gives."""
    inputs = [as_input(x) for x in arguments]
    dtype = result_type(*inputs)
    return [value_of(x, dtype) for x in inputs], dtype


def _weak_class(x: Input) -> Any:
    """What ufunc.resolve_dtypes takes for an argument: a dtype, or int or float for a Python number."""
    if isinstance(x, bool):
        return np.dtype(bool)
    if is_weak(x):
        return float if isinstance(x, float) else int
    return x.dtype  # type: ignore[union-attr]


def loop_types(
    ufunc: np.ufunc,
    inputs: Sequence[Input],
    *,
    outs: Sequence[Any] = (),
    dtype: Any = None,
    signature: Any = None,
    casting: str = "same_kind",
) -> tuple[tuple[DType, ...], tuple[DType, ...]]:
    """The element types that a ufunc computes in: of its inputs, and of its outputs."""
    if dtype is not None:
        signature = (*(None,) * ufunc.nin, *(np.dtype(dtype),) * ufunc.nout)
    given = [_weak_class(x) for x in inputs]
    given += [None if each is None else each.dtype for each in outs] or [None] * ufunc.nout
    asked = {} if signature is None else {"signature": signature}
    found = ask(ufunc.resolve_dtypes, tuple(given), casting=casting, **asked)
    if dtype is None and signature is None and _only_numpy_widens(found, given):
        narrow = np.dtype(np.float32)
        given = [narrow if isinstance(each, np.dtype) and each.kind in "biu" else each for each in given]
        found = ask(ufunc.resolve_dtypes, tuple(given), casting=casting, **asked)
    types = tuple(host_dtype(each, f"what {ufunc.__name__} computes in") for each in found)
    return types[: ufunc.nin], types[ufunc.nin :]
