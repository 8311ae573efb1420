"""How much of a literal constant has to be read: what arithmetic makes of fewer numbers, a kernel can make itself.

Uniform arrays, counters, bands, and what sums, products and repetitions make of these count nothing; of a table that is
an outer product, its factors count.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.dtypes import DType
from tilewright.front.structure import rule_of

_PROBES = 16
_ULPS = 8
"""Arithmetic that rounds in another order may differ by so much."""
_PERIODS = (2, 3, 5, 7)
_BENDS = 4
"""A line with so many bends is still arithmetic of counters, maxima and minima."""


def essential(array: np.ndarray, dtype: DType) -> int:
    """The fewest numbers that the array is known to be made of."""
    array = _distinct(np.asarray(array))
    if array.size <= 1 or rule_of(np.ascontiguousarray(array), dtype) is not None or _is_line(array):
        return 0
    for parts in _factors(array):
        if sum(part.size for part in parts) < array.size:
            return min(array.size, sum(essential(part, dtype) for part in parts))
    return array.size


def _distinct(array: np.ndarray) -> np.ndarray:
    """The array without axes along which it repeats one element, and without repetitions of a part."""
    for axis in range(array.ndim):
        first = array.take([0], axis) if array.shape[axis] else array
        if array.shape[axis] > 1 and _equal(array, first):
            array = first
        for period in _PERIODS:
            while array.shape[axis] > 1 and array.shape[axis] % period == 0:
                part = _repeated(array, axis, period)
                if part is None:
                    break
                array = part
    return array.reshape([n for n in array.shape if n > 1])


def _repeated(array: np.ndarray, axis: int, times: int) -> np.ndarray | None:
    """What an array repeats so often along an axis, as a whole or each element; None where it does not."""
    whole, *others = np.split(array, times, axis)
    if all(_equal(other, whole) for other in others):
        return whole
    every, *others = (array.take(range(start, array.shape[axis], times), axis) for start in range(times))
    return every if all(_equal(other, every) for other in others) else None


def _is_line(array: np.ndarray) -> bool:
    """True for numbers in one dim that rise by equal steps or factors, with a few bends."""
    if array.ndim != 1 or array.dtype.kind not in "fiu" or array.size < 4 * _BENDS:
        return False
    wide = array.astype(np.float64)
    most = float(np.abs(np.where(np.isfinite(wide), wide, 0)).max())
    with np.errstate(all="ignore"):
        # Infinities beside each other differ by NaN, which is no bend.
        bends = np.count_nonzero(np.abs(np.diff(wide, 2)) > _ULPS * _unit(array.dtype) * most)
        factors = np.diff(np.log(np.abs(wide)), 2)
    return bool(bends <= _BENDS) or bool(np.allclose(factors, 0, atol=_ULPS * _unit(array.dtype)))


def _factors(array: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Ways in which the array is made of smaller ones: by diagonals, as a product, as a sum."""
    if array.ndim < 2 or array.dtype.kind not in "fiuV":
        return
    if _equal(array[..., 1:, 1:], array[..., :-1, :-1]):
        # Element (i, j) depends on j - i.
        yield (np.concatenate([array[..., :0:-1, 0], array[..., 0, :]], -1),)
    for axis in range(array.ndim):
        rows = np.moveaxis(array, axis, 0)
        few = rows[tuple(slice(None, None, max(n // _PROBES, 1)) for n in rows.shape)]
        for sums in (False, True):
            if _separated(few, sums) is not None and (parts := _separated(rows, sums)) is not None:
                yield parts


def _separated(rows: np.ndarray, sums: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """a, b with rows[i, ...] = a[i] * b[...], or a[i] + b[...], but for rounding."""
    wide = rows.astype(np.float64)
    last, line = wide[-1], wide.reshape(len(wide), -1)
    best = int(np.abs(np.where(np.isfinite(line[-1]), line[-1], 0)).argmax())
    with np.errstate(all="ignore"):
        a = line[:, best] - line[-1, best] if sums else line[:, best] / line[-1, best]
        column = a.reshape(-1, *[1] * last.ndim)
        made = column + last if sums else column * last
        # A sum is as exact as its greatest term.
        least = float(np.abs(np.where(np.isfinite(wide), wide, 0)).max()) if sums else 0.0
        unit = _ULPS * _unit(rows.dtype)
        near = np.allclose(wide, made, rtol=unit, atol=unit * least, equal_nan=True)
    return (a.astype(np.float32), last.astype(np.float32)) if near else None


def _unit(dtype: np.dtype) -> float:
    """How much numbers of a type are rounded."""
    if dtype.kind in "iu":
        return 0.0
    return float(np.finfo(np.float32).eps) if dtype.itemsize >= 4 else 2.0 ** (-4 * dtype.itemsize)


def _equal(x: np.ndarray, y: np.ndarray) -> bool:
    """x == y everywhere; a few elements are looked at first."""
    probe = tuple(slice(None, None, max(n // _PROBES, 1)) for n in x.shape)
    whole = np.broadcast_to(y, x.shape)
    return bool(np.array_equal(x[probe], whole[probe])) and bool(np.array_equal(x, whole))
