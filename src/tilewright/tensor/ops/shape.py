"""Ops that move elements without computing: their attributes are normalised (no negative axes, no -1)."""

from __future__ import annotations

import math

import numpy as np

from tilewright.tensor.record import op
from tilewright.tensor.types import Scalar, TensorType


def _reshaped(x: TensorType, shape: tuple[int, ...]) -> TensorType:
    assert is_reshape(x.shape, shape), f"{x} does not have the elements of shape {shape}"
    return x.with_shape(shape)


@op(family="shape", operands="x", attrs=("shape",), infer=_reshaped, primitive=True)
def reshape(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """out = x in row-major order, in another shape of as many elements"""
    return x.reshape(shape)


@op(
    family="shape",
    operands="x",
    attrs=("perm",),
    infer=lambda x, perm: x.with_shape(tuple(x.shape[a] for a in perm)),
    primitive=True,
)
def transpose(x: np.ndarray, perm: tuple[int, ...]) -> np.ndarray:
    """out[i[perm[0]], i[perm[1]], ...] = x[i[0], i[1], ...]"""
    return np.transpose(x, perm)


def _broadcast(x: TensorType, shape: tuple[int, ...]) -> TensorType:
    fits = x.rank <= len(shape) and all(a in (1, b) for a, b in zip(x.shape[::-1], shape[::-1], strict=False))
    assert fits, f"{x} does not broadcast to shape {shape}"
    return x.with_shape(shape)


@op(family="shape", operands="x", attrs=("shape",), infer=_broadcast, primitive=True)
def broadcast_to(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """out[..., i] = x[..., 0 where x has size 1]"""
    return np.broadcast_to(x, shape)


def slices(starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> tuple[slice, ...]:
    """Python slices of `starts[a] + steps[a] * (0 .. sizes[a] - 1)`; steps may be negative."""
    found: list[slice] = []
    for start, size, step in zip(starts, sizes, steps, strict=True):
        stop = start + size * step
        found.append(slice(0, 0) if size == 0 else slice(start, None if stop < 0 else stop, step))
    return tuple(found)


def _check_inside(x: TensorType, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> None:
    for size, start, count, step in zip(x.shape, starts, sizes, steps, strict=True):
        last = start + (count - 1) * step
        inside = count == 0 or (min(start, last) >= 0 and max(start, last) < size)
        assert inside and step, f"{start} : +{count} : {step} leaves a dim of {size} elements"


def _sliced(x: TensorType, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> TensorType:
    _check_inside(x, starts, sizes, steps)
    return x.with_shape(sizes)


@op(family="shape", operands="x", attrs=("starts", "sizes", "steps"), infer=_sliced, primitive=True)
def slice_(x: np.ndarray, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> np.ndarray:
    """out[i, ...] = x[starts[0] + steps[0] * i, ...]; every element lies inside"""
    return x[slices(starts, sizes, steps)]


def _updated(x: TensorType, part: TensorType, starts: tuple[int, ...], steps: tuple[int, ...]) -> TensorType:
    assert x.dtype is part.dtype, f"{part} is written into {x}"
    _check_inside(x, starts, part.shape, steps)
    return x


@op(family="shape", operands="x part", attrs=("starts", "steps"), infer=_updated, primitive=True)
def update_slice(x: np.ndarray, part: np.ndarray, starts: tuple[int, ...], steps: tuple[int, ...]) -> np.ndarray:
    """out = x with out[starts[0] + steps[0] * i, ...] = part[i, ...]"""
    out = np.array(x, subok=True)
    out[slices(starts, part.shape, steps)] = part
    return out


def _joined(*parts: TensorType, axis: int) -> TensorType:
    size = sum(part.shape[axis] for part in parts)
    first = parts[0]
    others = [(part.dtype, part.shape[:axis], part.shape[axis + 1 :]) for part in parts]
    assert others.count(others[0]) == len(parts), f"{', '.join(map(str, parts))} do not fit together"
    return first.with_shape((*first.shape[:axis], size, *first.shape[axis + 1 :]))


@op(family="shape", operands="*parts", attrs=("axis",), infer=_joined, primitive=True)
def concatenate(*parts: np.ndarray, axis: int) -> np.ndarray:
    """out = parts one after the other along axis"""
    return np.concatenate(parts, axis=axis)


def _padded(x: TensorType, low: tuple[int, ...], high: tuple[int, ...], value: Scalar) -> TensorType:
    assert min((*low, *high), default=0) >= 0, f"{low} and {high} elements beside {x}"
    return x.with_shape(tuple(a + n + b for a, n, b in zip(low, x.shape, high, strict=True)))


@op(family="shape", operands="x", attrs=("low", "high", "value"), infer=_padded, primitive=True)
def pad(x: np.ndarray, low: tuple[int, ...], high: tuple[int, ...], value: Scalar) -> np.ndarray:
    """out[low[0] + i, ...] = x[i, ...], value elsewhere"""
    if not x.ndim:
        return x.copy()
    return np.pad(x, tuple(zip(low, high, strict=True)), constant_values=np.asarray(value).astype(x.dtype))


def is_reshape(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """True when both shapes have as many elements."""
    return math.prod(old) == math.prod(new)
