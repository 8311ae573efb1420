"""Grids of coordinates and evenly spaced numbers between traced ends."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.front.array import TracedArray, as_traced, new, returned
from tilewright.front.functions.creation import dtype_in, on_cpu
from tilewright.front.promote import cast, value_of
from tilewright.front.refusal import ask, numpy_error
from tilewright.front.registry import implements


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: Any = True, sparse: Any = False, indexing: Any = "xy") -> Any:
    """np.meshgrid"""
    if indexing not in ("xy", "ij"):
        raise numpy_error(ValueError, "Valid values for `indexing` are 'xy' and 'ij'.")
    rank = len(xi)
    places = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    grid = [
        np.reshape(as_traced(x), tuple(-1 if axis == place else 1 for axis in range(rank)))
        for x, place in zip(xi, places, strict=True)
    ]
    if not sparse:
        grid = list(np.broadcast_arrays(*grid))
    return tuple(np.copy(x) for x in grid) if copy else tuple(grid)


@implements(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: Any = True,
    retstep: Any = False,
    dtype: Any = None,
    axis: Any = 0,
    *,
    device: Any = None,
) -> Any:
    """np.linspace between traced ends; the number of steps is static"""
    on_cpu(device)
    count = ask(operator.index, num)
    if count < 0:
        raise numpy_error(ValueError, f"Number of samples, {num}, must be non-negative.")
    div = count - 1 if endpoint else count
    # On numbers of the same types NumPy says in which it computes.
    like = [np.zeros(1, x.dtype) if isinstance(x, TracedArray) else x for x in (start, stop)]
    within = host_dtype(ask(np.linspace, *like, 1).dtype, "what linspace computes in")
    wanted = within if dtype is None else dtype_in(dtype)
    first, last = (returned(value_of(x, within)) for x in (start, stop))
    delta = last - first
    ramp = np.reshape(as_traced(np.arange(count).astype(within.np)), (-1,) + (1,) * delta.ndim)
    step: Any = np.nan
    if div > 0:
        step = delta / div
        # Where a step is too small for the type, the quotient comes first.
        found = np.where(np.any(step == 0), ramp / div * delta, ramp * step)
    else:
        found = ramp * delta
    found = found + first
    if endpoint and count > 1:
        ends = np.broadcast_to(last, found.shape[1:])[np.newaxis]
        found = np.concatenate([found[:-1], ends])
    found = np.moveaxis(found, 0, axis) if axis != 0 else found
    if wanted.kind in "iu":
        found = np.floor(found)
    result = new(cast(as_traced(found).value, wanted))
    return (result, step) if retstep else result


@implements(np.logspace)
def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, base: Any = 10.0, dtype: Any = None, axis: Any = 0
) -> Any:
    """np.logspace"""
    if np.ndim(base):
        # Bases broadcast with the ends.
        rank = np.broadcast_shapes(*(np.shape(x) for x in (start, stop, base)))
        start, stop, base = (np.broadcast_to(as_traced(x), rank) for x in (start, stop, base))
        base = np.expand_dims(base, axis)
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    found = as_traced(np.power(base, exponents))
    return new(cast(found.value, exponents.type.dtype if dtype is None else dtype_in(dtype)))
