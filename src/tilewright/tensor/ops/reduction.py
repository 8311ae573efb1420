"""Reductions over any axes, positions of extremes, and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.tensor.record import op, register
from tilewright.tensor.types import TensorType


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape that remains; `axes` are not negative."""
    if keepdims:
        return tuple(1 if a in axes else n for a, n in enumerate(shape))
    return tuple(n for a, n in enumerate(shape) if a not in axes)


def _reduced(x: TensorType, axes: tuple[int, ...], keepdims: bool) -> TensorType:
    return x.with_shape(reduced_shape(x.shape, axes, keepdims))


def _keeping(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """The NumPy reduction computed and given in the operand's own type (float32 inside for narrower floats)."""

    def reduce(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
        narrow = x.dtype.kind not in "biu" and x.dtype.itemsize < 4
        wide = x.astype(np.float32) if narrow else x
        return np.asanyarray(function(wide, axis=axes, keepdims=keepdims)).astype(x.dtype)

    return reduce


REDUCTIONS: dict[str, tuple[Callable[..., Any], str, bool]] = {
    "sum": (np.sum, "sum of x over axes", True),
    "prod": (np.prod, "product of x over axes", True),
    "max": (np.max, "greatest x over axes, NaN if any", True),
    "min": (np.min, "least x over axes, NaN if any", True),
    "any": (np.any, "whether some x is not 0", False),
    "all": (np.all, "whether no x is 0", False),
}
for _name, (_function, _right, _primitive) in REDUCTIONS.items():
    register(
        _name,
        f"out[kept] = {_right}",
        _keeping(_function),
        "reduction",
        "x",
        ("axes", "keepdims"),
        _reduced,
        _primitive,
    )


def _position(x: TensorType, axis: int, keepdims: bool, dtype: DType) -> TensorType:
    assert x.shape[axis], f"the position of an extreme of {x}"
    return TensorType(dtype, reduced_shape(x.shape, (axis,), keepdims))


@op(family="reduction", operands="x", attrs=("axis", "keepdims", "dtype"), infer=_position, primitive=True)
def argmax(x: np.ndarray, axis: int, keepdims: bool, dtype: DType) -> np.ndarray:
    """out[kept] = first position of the greatest x along axis (of the first NaN if any)"""
    return np.argmax(x, axis=axis, keepdims=keepdims).astype(dtype.np)


@op(family="reduction", operands="x", attrs=("axis", "keepdims", "dtype"), infer=_position, primitive=False)
def argmin(x: np.ndarray, axis: int, keepdims: bool, dtype: DType) -> np.ndarray:
    """out[kept] = first position of the least x along axis (of the first NaN if any)"""
    return np.argmin(x, axis=axis, keepdims=keepdims).astype(dtype.np)


@op(family="scan", operands="x", attrs=("axis",), infer=lambda x, axis: x, primitive=True)
def cumsum(x: np.ndarray, axis: int) -> np.ndarray:
    """out[.., i, ..] = sum of x[.., 0:i+1, ..] along axis"""
    return np.cumsum(x, axis=axis, dtype=x.dtype)


def _recurrence(
    x: TensorType, factor: TensorType, initial: TensorType, axis: int, inner: str, outer: str
) -> TensorType:
    shape = np.broadcast_shapes(x.shape, factor.shape, initial.shape)
    assert len(x.shape) == len(factor.shape) == len(initial.shape), f"{x}, {factor} and {initial}"
    assert shape[axis] == x.shape[axis] and initial.shape[axis] == 1, f"{x} goes on from {initial} along {axis}"
    return TensorType(x.dtype, shape)


@op(
    family="scan",
    operands="x factor initial",
    attrs=("axis", "inner", "outer"),
    infer=_recurrence,
    primitive=True,
)
def recurrence(x: np.ndarray, factor: np.ndarray, initial: np.ndarray, axis: int, inner: str, outer: str) -> np.ndarray:
    """out[.., i, ..] = outer(inner(factor[.., i, ..], out[.., i-1, ..]), x[.., i, ..]) along axis, from initial on"""
    first, second = getattr(np, inner), getattr(np, outer)
    out = np.empty(np.broadcast_shapes(x.shape, factor.shape, initial.shape), x.dtype)
    steps, (before,) = np.moveaxis(out, axis, 0), np.moveaxis(initial, axis, 0)
    lines, factors = (np.moveaxis(np.broadcast_to(each, out.shape), axis, 0) for each in (x, factor))
    for i, line in enumerate(lines):
        before = steps[i] = second(first(factors[i], before), line)
    return out


@op(family="scan", operands="x", attrs=("axis",), infer=lambda x, axis: x, primitive=True)
def cumprod(x: np.ndarray, axis: int) -> np.ndarray:
    """out[.., i, ..] = product of x[.., 0:i+1, ..] along axis"""
    return np.cumprod(x, axis=axis, dtype=x.dtype)
