"""Moving elements of a value: what the shape functions, paddings and contractions are made of. No op for a move that
changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.dtypes import DType, int32
from tilewright.front.promote import cast
from tilewright.front.storage import reshaped
from tilewright.front.trace import emit
from tilewright.front.ufunc import broadcast
from tilewright.ir.core import Value
from tilewright.ir.dense import Dense

__all__ = ["broadcast", "cast", "filled", "joined", "picked", "piece", "reshaped", "runs", "static", "transposed"]

Shape = tuple[int, ...]

_MOST_PIECES = 16
"""An index of more runs than this is looked up instead of being put together from slices."""


def transposed(x: Value, perm: Sequence[int]) -> Value:
    """x with its dims in another order."""
    perm = tuple(perm)
    if perm == tuple(range(len(perm))):
        return x
    # Only dims of size 1 change places: the elements stay in order.
    if sorted(big := [a for a in perm if x.type.shape[a] != 1]) == big:
        return reshaped(x, tuple(x.type.shape[a] for a in perm))
    return emit("transpose", x, perm=perm)


def piece(x: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
    """x[start], x[start + step], ... (`size` of them) along an axis."""
    shape = x.type.shape
    if start == 0 and size == shape[axis] and (step == 1 or size < 2):
        return x
    starts = tuple(start if a == axis and size else 0 for a in range(len(shape)))
    sizes = tuple(size if a == axis else n for a, n in enumerate(shape))
    steps = tuple(step if a == axis and size > 1 else 1 for a in range(len(shape)))
    return emit("slice", x, starts=starts, sizes=sizes, steps=steps)


def joined(parts: Sequence[Value], axis: int) -> Value:
    """Parts one after the other along an axis."""
    full = [part for part in parts if part.type.shape[axis]] or [parts[0]]
    return full[0] if len(full) == 1 else emit("concatenate", *full, axis=axis)


def filled(shape: Shape, dtype: DType, value: bool | int | float) -> Value:
    """One number everywhere."""
    return emit("full", shape=shape, dtype=dtype, value=value)


def static(array: np.ndarray, dtype: DType) -> Value:
    """A constant."""
    return emit("constant", value=Dense(np.asarray(array, dtype.np), dtype))


def runs(index: np.ndarray) -> list[tuple[int, int, int]]:
    """An index as runs `start, start + step, ...`: (start, size, step); step 0 repeats one element."""
    found: list[tuple[int, int, int]] = []
    at, numbers = 0, index.tolist()
    while at < len(numbers):
        end = at + 1
        step = numbers[end] - numbers[at] if end < len(numbers) else 1
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        found.append((numbers[at], end - at, step))
        at = end
    return found


def picked(x: Value, axis: int, index: np.ndarray) -> Value:
    """x at static positions of an axis (none negative), in that order: slices put together, or a lookup if those
    would be many."""
    pieces = runs(index)
    if len(pieces) > _MOST_PIECES:
        return emit("take", x, static(index, int32), axis=axis)
    return joined([_run(x, axis, *each) for each in pieces] or [piece(x, axis, 0, 0)], axis)


def _run(x: Value, axis: int, start: int, size: int, step: int) -> Value:
    if step:
        return piece(x, axis, start, size, step)
    one = piece(x, axis, start, 1)
    return broadcast(one, tuple(size if a == axis else n for a, n in enumerate(x.type.shape)))
