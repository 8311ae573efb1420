"""`tw.nn`: functions of neural networks that NumPy lacks. NumPy in, NumPy out; traced in, traced out.

Types narrower than float32 are computed in float32 and rounded once; integers are computed in the float type that
`np.exp` gives them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import float32, host_dtype
from tilewright.errors import TileValueError, fail
from tilewright.front.array import TracedArray, returned
from tilewright.front.functions.apply import given
from tilewright.front.local import localised
from tilewright.front.promote import cast
from tilewright.front.refusal import ask, axes_in
from tilewright.front.trace import emit
from tilewright.tensor.record import TABLE

__all__ = [
    "erf",
    "gelu",
    "layer_norm",
    "log_softmax",
    "relu",
    "rms_norm",
    "rope",
    "sigmoid",
    "silu",
    "softmax",
]


def relu(x: Any) -> Any:
    """max(x, 0), NaN where x is; integers stay integers."""
    return _apply("relu", x, given(x).dtype)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e ** -x)"""
    return _apply("sigmoid", x)


def silu(x: Any) -> Any:
    """x / (1 + e ** -x)"""
    return _apply("silu", x)


def erf(x: Any) -> Any:
    """2 / pi ** 0.5 * integral of e ** -t**2 from 0 to x"""
    return _apply("erf", x)


def gelu(x: Any, approximate: str = "none") -> Any:
    """x * (1 + erf(x / 2 ** 0.5)) / 2; with approximate="tanh" the formula by tanh."""
    ops = {"none": "gelu", "tanh": "gelu_tanh"}
    if approximate not in ops:
        message, hint = f'gelu: approximate is "none" or "tanh", not {approximate!r}', 'such as approximate="tanh"'
        raise fail("E108", message, hint=hint, error=TileValueError)
    return _apply(ops[approximate], x)


def softmax(x: Any, axis: Any = -1) -> Any:
    """e ** x / sum of e ** x over axis (an axis, several, or None for all)"""
    wide, dtype, axes = _prepared(x, axis)
    with np.errstate(all="ignore"):
        power = np.exp(wide - np.max(wide, axis=axes, keepdims=True))
        return _as(power / np.sum(power, axis=axes, keepdims=True), dtype)


def log_softmax(x: Any, axis: Any = -1) -> Any:
    """x - ln(sum of e ** x over axis)"""
    wide, dtype, axes = _prepared(x, axis)
    with np.errstate(all="ignore"):
        below = wide - np.max(wide, axis=axes, keepdims=True)
        return _as(below - np.log(np.sum(np.exp(below), axis=axes, keepdims=True)), dtype)


def layer_norm(x: Any, weight: Any = None, bias: Any = None, axis: Any = -1, eps: float = 1e-5) -> Any:
    """(x - mean) / (variance + eps) ** 0.5 * weight + bias, over axis; weight and bias have the dims of axis."""
    wide, dtype, axes = _prepared(x, axis)
    with np.errstate(all="ignore"):
        centred = wide - np.mean(wide, axis=axes, keepdims=True)
        variance = np.mean(centred * centred, axis=axes, keepdims=True)
        found = centred * (1.0 / np.sqrt(variance + eps))
        found = found if weight is None else found * _along(weight, wide, axes, "layer_norm: weight")
        found = found if bias is None else found + _along(bias, wide, axes, "layer_norm: bias")
        return _as(found, dtype)


def rms_norm(x: Any, weight: Any = None, axis: Any = -1, eps: float = 1e-6) -> Any:
    """x / (mean of x * x + eps) ** 0.5 * weight, over axis; weight has the dims of axis."""
    wide, dtype, axes = _prepared(x, axis)
    with np.errstate(all="ignore"):
        found = wide * (1.0 / np.sqrt(np.mean(wide * wide, axis=axes, keepdims=True) + eps))
        found = found if weight is None else found * _along(weight, wide, axes, "rms_norm: weight")
        return _as(found, dtype)


def rope(x: Any, cos: Any, sin: Any, axis: int | None = None, interleaved: bool = False) -> Any:
    """Rotate pairs (a, b) of x's last dim by an angle per position: (a cos - b sin, a sin + b cos).

    x is [..., S, heads, D], or [S, D]. cos and sin are [S, D/2], or of x's rank and broadcast as they are.
    axis: the dim of positions, if it is not the third from the end.
    interleaved: pairs are elements 2i and 2i + 1, instead of i and i + D/2.
    """
    wide, dtype, _ = _prepared(x, -1)
    if wide.ndim < 2 or wide.shape[-1] % 2:
        raise fail("E108", f"rope: the last of two or more dims is even, not {wide.shape}", error=TileValueError)
    half = wide.shape[-1] // 2
    place = axes_in((-3 if wide.ndim > 2 else -2) if axis is None else axis, wide.ndim)[0]
    c, s = (_table(each, wide, place, half) for each in (cos, sin))
    a, b = (wide[..., 0::2], wide[..., 1::2]) if interleaved else (wide[..., :half], wide[..., half:])
    parts = a * c - b * s, a * s + b * c
    if interleaved:
        return _as(np.stack(parts, axis=-1).reshape(wide.shape), dtype)
    return _as(np.concatenate(parts, axis=-1), dtype)


def _float_type(array: Any) -> np.dtype:
    return ask(np.exp.resolve_dtypes, (array.dtype, None))[1]


def _as(x: Any, dtype: np.dtype) -> Any:
    """x as another type: an array, or a scalar of rank 0."""
    if isinstance(x, TracedArray):
        return returned(cast(x.value, host_dtype(dtype)))
    return x.astype(dtype, copy=False)[()]


def _apply(op: str, x: Any, dtype: np.dtype | None = None) -> Any:
    """An op of one operand."""
    array = given(x)
    wanted = _float_type(array) if dtype is None else dtype
    if isinstance(array, TracedArray):
        return returned(emit(op, cast(array.value, host_dtype(wanted))))
    with np.errstate(all="ignore"):
        return localised(TABLE[op].meaning(np.asarray(array.astype(wanted, copy=False))))[()]


def _prepared(x: Any, axis: Any) -> tuple[Any, np.dtype, tuple[int, ...]]:
    """x in the type to compute in, the type of the result, and the axes from 0."""
    array = given(x)
    dtype = _float_type(array)
    wide = float32.np if dtype.itemsize < float32.itemsize else dtype
    return _as(array, wide) if isinstance(array, TracedArray) else array.astype(wide), dtype, axes_in(axis, array.ndim)


def _along(x: Any, wide: Any, axes: tuple[int, ...], what: str) -> Any:
    """A parameter of the reduced dims, in a shape that broadcasts with the data."""
    array = given(x)
    shape = tuple(wide.shape[a] for a in axes)
    if array.shape != shape:
        hint = f"give one number for each element along the dims {', '.join(map(str, axes))}"
        message = f"{what} has the shape {array.shape}, the normalised dims have {shape}"
        raise fail("E108", message, hint=hint, error=TileValueError)
    return _as(array, wide.dtype).reshape(tuple(n if a in axes else 1 for a, n in enumerate(wide.shape)))


def _table(x: Any, wide: Any, axis: int, half: int) -> Any:
    """A table [S, D/2] in a shape that broadcasts with half of the data."""
    array = given(x)
    if array.ndim == wide.ndim and array.ndim != 2:
        return _as(array, wide.dtype)
    shape = (wide.shape[axis], half)
    if array.shape != shape:
        raise fail("E108", f"rope: the tables have the shape {array.shape}, not {shape}", error=TileValueError)
    places = {axis: shape[0], wide.ndim - 1: half}
    return _as(array, wide.dtype).reshape(tuple(places.get(a, 1) for a in range(wide.ndim)))
