"""Linear algebra: np.linalg's systems and factors, and `tw.linalg`.

Where a matrix has no inverse or factor NumPy raises LinAlgError when it computes; a compiled program, which cannot
raise, gives NaN (or infinity) for that matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import DType, float32, float64, host_dtype
from tilewright.front import views
from tilewright.front.array import TracedArray, new, returned
from tilewright.front.functions.apply import apply, given
from tilewright.front.functions.einsum import is_narrow
from tilewright.front.functions.moves import cast, filled, reshaped
from tilewright.front.functions.shape import array_of
from tilewright.front.promote import result_type
from tilewright.front.refusal import ask, numpy_error
from tilewright.front.registry import call, implements
from tilewright.front.trace import emit, emit_all
from tilewright.ir.core import Value

__all__ = ["inverse_triangular", "solve_triangular"]

_SLOGDET: Any = type(np.linalg.slogdet(np.eye(1)))
_NO_RESULT = "NaN where NumPy raises LinAlgError for the numbers"


def _squares(x: TracedArray) -> None:
    if x.ndim < 2:
        message = f"{x.ndim}-dimensional array given. Array must be at least two-dimensional"
        raise numpy_error(np.linalg.LinAlgError, message)
    if x.shape[-1] != x.shape[-2]:
        raise numpy_error(np.linalg.LinAlgError, "Last 2 dimensions of the array must be square")


def _computed_in(*arrays: TracedArray) -> DType:
    """The element type that NumPy's linear algebra gives, which it says on small arrays."""
    small = [np.eye(1, dtype=x.dtype) for x in arrays]
    found = ask(np.linalg.solve, small[0], small[-1])
    return host_dtype(found.dtype)


def _matrices(a: Any) -> tuple[TracedArray, Value]:
    x = array_of(a)
    _squares(x)
    return x, cast(x.value, _computed_in(x))


@implements(np.linalg.inv, note=_NO_RESULT)
def inv(a: Any) -> TracedArray:
    """np.linalg.inv"""
    _, value = _matrices(a)
    return new(emit("inverse", value))


@implements(np.linalg.solve, note=_NO_RESULT)
def solve(a: Any, b: Any) -> TracedArray:
    """np.linalg.solve: b is one column if it has one dim, else matrices"""
    x, y = array_of(a), array_of(b)
    _squares(x)
    dtype = _computed_in(x, y)
    return new(_solved("solve", cast(x.value, dtype), cast(y.value, dtype)))


def _solved(name: str, a: Value, b: Value, **attrs: Any) -> Value:
    rank = b.type.rank
    if not rank:
        message = "solve: Input operand 1 does not have enough dimensions (has 0, needs 1)"
        raise numpy_error(ValueError, message)
    columns = reshaped(b, (*b.type.shape, 1)) if rank == 1 else b
    _check_system(a.type.shape, columns.type.shape)
    found = emit(name, a, columns, **attrs)
    return reshaped(found, found.type.shape[:-1]) if rank == 1 else found


def _check_system(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    if a[-1] != b[-2]:
        message = (
            f"solve: Input operand 1 has a mismatch in its core dimension 0 (size {b[-2]} is different from {a[-1]})"
        )
        raise numpy_error(ValueError, message)
    ask(np.broadcast_shapes, a[:-2], b[:-2])


@implements(np.linalg.cholesky, note=_NO_RESULT)
def cholesky(a: Any, /, *, upper: bool = False) -> TracedArray:
    """np.linalg.cholesky"""
    x, value = _matrices(a)
    if not upper:
        return new(emit("cholesky", value))
    axes = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    turned = emit("transpose", value, perm=axes)
    return new(emit("transpose", emit("cholesky", turned), perm=axes))


@implements(np.linalg.det)
def det(a: Any) -> TracedArray:
    """np.linalg.det"""
    _, value = _matrices(a)
    return returned(emit("det", value))


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    """np.linalg.slogdet: of the pivots of Gauss elimination; each pair of rows that changes places changes the sign"""
    x, value = _matrices(a)
    *batch, n = x.shape[:-1]
    if not value.type.size:
        found = [new(filled(tuple(batch), value.type.dtype, number)) for number in (1, 0)]
    else:
        _, pivots, order = (new(each) for each in emit_all("gauss", value, definite=False))
        behind: Any = np.greater(order[..., :, None], order[..., None, :]) & ~np.tri(n, dtype=bool)
        odd = np.sum(behind, axis=(-2, -1), dtype=np.int32) % 2 == 1
        # One that is not a number counts as positive.
        signs: Any = np.where(np.less(pivots, 0), -1, np.where(np.equal(pivots, 0), 0, 1))
        sign: Any = np.prod(signs, axis=-1, dtype=pivots.dtype)
        found = [np.where(odd, -sign, sign), np.sum(np.log(np.abs(pivots)), axis=-1)]  # type: ignore[call-overload]
    return _SLOGDET(*(returned(each.value) for each in found))


@implements(np.linalg.matrix_power, note=_NO_RESULT + " (negative powers)")
def matrix_power(a: Any, n: Any) -> TracedArray:
    """np.linalg.matrix_power: by squaring"""
    x = array_of(a)
    _squares(x)
    if not hasattr(n, "__index__") or isinstance(n, TracedArray):
        raise numpy_error(TypeError, "exponent must be an integer")
    n = n.__index__()
    if n == 0:
        size = x.shape[-1]
        identity = emit("band", shape=x.shape, dtype=x.type.dtype, low=0, high=0, inside=1, outside=0)
        return new(identity if size else filled(x.shape, x.type.dtype, 0))
    if n < 0:
        x, n = inv(x), -n
    if n == 1:
        return x
    square, result = x, None
    while n:
        n, odd = divmod(n, 2)
        if odd:
            result = square if result is None else call(np.matmul, result, square)
        if n:
            square = call(np.matmul, square, square)
    assert result is not None
    return result


@implements(np.linalg.tensorinv, note=_NO_RESULT)
def tensorinv(a: Any, ind: int = 2) -> TracedArray:
    """np.linalg.tensorinv"""
    x = array_of(a)
    if ind <= 0:
        raise numpy_error(ValueError, "Invalid ind argument.")
    shape = (*x.shape[ind:], *x.shape[:ind])
    rows = int(np.prod(x.shape[ind:], dtype=np.int64))
    return views.reshape(inv(views.reshape(x, (rows, -1))), shape)


# tw.linalg


def solve_triangular(a: Any, b: Any, *, lower: bool = False, unit_diagonal: bool = False, trans: int | str = 0) -> Any:
    """The x with a @ x = b, where a is a triangle: only the upper half of a (or the lower) is looked at.

    b is one column if it has one dim, else matrices; batch dims before the last two broadcast. trans=1 or "T" solves
    a transposed @ x = b. unit_diagonal takes a's diagonal to be ones without looking at it.
    """
    turned = _is_turned(trans)
    triangle, right = given(a), given(b)
    if len(triangle.shape) < 2 or triangle.shape[-1] != triangle.shape[-2]:
        message = f"solve_triangular: a of shape {triangle.shape} is no square matrix"
        raise numpy_error(np.linalg.LinAlgError, message)
    vector = len(right.shape) == 1
    dtype = result_type(triangle, right)
    within = float64 if dtype.is_integer else float32 if is_narrow(dtype) else dtype
    wanted = float64 if dtype.is_integer else dtype
    triangle, right = (_as(x, within) for x in (triangle, right))
    columns = right[:, None] if vector else right
    if not len(right.shape):
        raise numpy_error(ValueError, "solve_triangular: b is a number")
    _check_system(triangle.shape, columns.shape)
    if turned:
        triangle, lower = np.swapaxes(triangle, -1, -2), not lower
    found = apply("solve_triangular", triangle, columns, lower=bool(lower), unit_diagonal=bool(unit_diagonal))
    return _as(found[..., 0] if vector else found, wanted)


def _is_turned(trans: int | str) -> bool:
    names: dict[Any, bool] = {0: False, "N": False, 1: True, "T": True, 2: True, "C": True}
    if trans not in names:
        raise numpy_error(ValueError, f"trans = {trans!r}: 0 or 'N', 1 or 'T', 2 or 'C'")
    return names[trans]


def _as(x: Any, dtype: DType) -> Any:
    return x if x.dtype == dtype.np else x.astype(dtype.np)


def inverse_triangular(a: Any, *, lower: bool = False, unit_diagonal: bool = False) -> Any:
    """The inverse of a triangle, of which only one half is looked at; arguments as for `solve_triangular`."""
    triangle = given(a)
    identity = np.eye(triangle.shape[-1] if len(triangle.shape) else 1, dtype=triangle.dtype)
    return solve_triangular(triangle, identity, lower=lower, unit_diagonal=unit_diagonal)
