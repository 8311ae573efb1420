"""Functions that apply another function along axes, and shifts of the middle to the front."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.front.functions.arrange import roll
from tilewright.front.functions.join import stack
from tilewright.front.functions.shape import array_of, expand_dims, permuted
from tilewright.front.refusal import axis_in, numpy_error
from tilewright.front.registry import implements


@implements(np.apply_along_axis, note="the function is traced once for each row")
def apply_along_axis(func1d: Any, axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """np.apply_along_axis"""
    x = array_of(arr)
    place = axis_in(axis, x.ndim)
    outer = tuple(n for a, n in enumerate(x.shape) if a != place)
    if 0 in outer:
        raise numpy_error(ValueError, "Cannot apply_along_axis when any iteration dimensions are 0")
    turned: Any = permuted(x, (*(a for a in range(x.ndim) if a != place), place))
    rows = [array_of(func1d(turned[(*at, ...)], *args, **kwargs)) for at in np.ndindex(*outer)]
    # Rows are stored in the type of the first one.
    kind = rows[0].dtype
    found: Any = np.reshape(stack(rows, dtype=kind, casting="unsafe"), (*outer, *rows[0].shape))  # type: ignore[call-overload]
    rank, count = len(outer) + rows[0].ndim, rows[0].ndim
    return np.transpose(found, (*range(place), *range(rank - count, rank), *range(place, rank - count)))


@implements(np.apply_over_axes)
def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """np.apply_over_axes"""
    value: Any = array_of(a)
    rank = value.ndim
    for axis in axes if np.ndim(axes) else (axes,):
        place = rank + axis if axis < 0 else axis
        found = func(value, place)
        found = found if found.ndim == value.ndim else expand_dims(found, place)
        if found.ndim != value.ndim:
            raise numpy_error(ValueError, "function is not returning an array of the correct shape")
        value = found
    return value


def _shifted(x: Any, axes: Any, sign: int) -> Any:
    array = array_of(x)
    places = range(array.ndim) if axes is None else np.ravel(axes).tolist()
    shifts = [sign * array.shape[axis_in(place, array.ndim)] for place in places]
    return roll(array, [n // 2 for n in shifts] if sign > 0 else [-(-n // 2) for n in shifts], tuple(places))


@implements(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Any:
    """np.fft.fftshift"""
    return _shifted(x, axes, 1)


@implements(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Any:
    """np.fft.ifftshift"""
    return _shifted(x, axes, -1)
