"""Constants that a rule describes better than a list of numbers: uniform arrays, counters, triangles and bands.

An array is compared with what the op would make, bit for bit. A few elements tell first whether that is worthwhile, so
that arrays without structure cost almost nothing, and large ones with structure one pass over their memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.tensor.ops.creation import iota

_PROBES = 16
_BLOCK = 1 << 17


@dataclass(frozen=True, slots=True)
class Rule:
    """An op without operands, and its attributes."""

    op: str
    attrs: dict[str, Any]


def rule_of(array: np.ndarray, dtype: DType) -> Rule | None:
    """The op that makes this array, or None where only its numbers do."""
    if not array.size:
        return Rule("full", {"shape": array.shape, "dtype": dtype, "value": _number(np.zeros((), dtype.np), dtype)})
    bits = array.view(f"u{dtype.itemsize}")
    return _uniform(array, bits, dtype) or _counter(array, bits, dtype) or _band(array, bits, dtype)


def _number(x: Any, dtype: DType) -> bool | int | float:
    return x.item() if dtype.is_integer else float(x)


def _first(array: np.ndarray) -> Any:
    return array[(0,) * array.ndim]


def _uniform(array: np.ndarray, bits: np.ndarray, dtype: DType) -> Rule | None:
    """full: every element has the bits of the first."""
    value = _number(_first(array), dtype)
    if math.isnan(value):
        value = math.copysign(math.nan, value)  # other bits of a NaN cannot be written as a number
    if np.asarray(value).astype(dtype.np).tobytes() != _first(array).tobytes():
        return None
    line = _essential(bits)
    return (
        Rule("full", {"shape": array.shape, "dtype": dtype, "value": value}) if _all_equal(line, _first(bits)) else None
    )


def _essential(bits: np.ndarray) -> np.ndarray:
    """The array without dims along which it repeats itself in the same memory."""
    return bits[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in bits.strides)]


def _all_equal(x: np.ndarray, y: Any) -> bool:
    """x == y everywhere; a few elements are looked at first, then blocks that fit a cache."""
    y = np.broadcast_to(y, x.shape)
    probe = tuple(slice(None, None, max(n // _PROBES, 1)) for n in x.shape)
    if x.size > 4 * _PROBES**2 and not np.array_equal(x[probe], y[probe]):
        return False
    if x.ndim < 2:
        return np.array_equal(x, y)
    if x.ndim > 2:
        return all(_all_equal(a, b) for a, b in zip(x, y, strict=True))
    rows = max(_BLOCK // max(x.shape[1], 1), 1)
    return all(np.array_equal(x[i : i + rows], y[i : i + rows]) for i in range(0, len(x), rows))


def _counter(array: np.ndarray, bits: np.ndarray, dtype: DType) -> Rule | None:
    """iota: start + step * i along one axis."""
    if dtype.kind == "b" or array.ndim == 0:
        return None
    base = (0,) * array.ndim
    moving = [a for a, n in enumerate(array.shape) if n > 1 and bits[_at(base, a, 1)] != bits[base]]
    if len(moving) != 1 or array.shape[moving[0]] < 3:
        return None
    axis = moving[0]
    line = array[tuple(slice(None) if a == axis else 0 for a in range(array.ndim))]
    start, second = (_number(line[i], dtype) for i in (0, 1))
    step = second - start
    if not (math.isfinite(start) and math.isfinite(step)) or max(abs(start), abs(step) * line.size) >= 2**62:
        return None
    attrs = {"shape": array.shape, "dtype": dtype, "axis": axis, "start": start, "step": step}
    with np.errstate(all="ignore"):
        made = np.ascontiguousarray(iota.meaning(**{**attrs, "shape": line.shape, "axis": 0}))
    same = made.view(bits.dtype)
    if not np.array_equal(same, bits[tuple(slice(None) if a == axis else 0 for a in range(array.ndim))]):
        return None
    shape = [-1 if a == axis else 1 for a in range(array.ndim)]
    return Rule("iota", attrs) if _all_equal(bits, same.reshape(shape)) else None


def _at(base: tuple[int, ...], axis: int, place: int) -> tuple[int, ...]:
    return (*base[:axis], place, *base[axis + 1 :])


def _band(array: np.ndarray, bits: np.ndarray, dtype: DType) -> Rule | None:
    """band: two values, one of them where low <= j - i <= high, in the last two dims."""
    if array.ndim < 2 or min(array.shape[-2:]) < 2:
        return None
    rows, columns = array.shape[-2:]
    first = (0,) * (array.ndim - 2)
    # Element (i, j) is diagonals[j - i + rows - 1]: the first column from below, then the first row.
    diagonals = np.concatenate([bits[(*first, slice(None, 0, -1), 0)], bits[(*first, 0)]])
    values = np.concatenate([array[(*first, slice(None, 0, -1), 0)], array[(*first, 0)]])
    changes = np.flatnonzero(diagonals[1:] != diagonals[:-1]) + 1
    if not 1 <= len(changes) <= 2 or (len(changes) == 2 and diagonals[0] != diagonals[-1]):
        return None
    if len(changes) == 2:
        begin, end = int(changes[0]), int(changes[1])
    elif values[0] != 0 and values[-1] == 0:  # a lower triangle
        begin, end = 0, int(changes[0])
    else:
        begin, end = int(changes[0]), len(diagonals)
    inside, outside = values[begin], values[begin - 1 if begin else end]
    if np.isnan(inside) or np.isnan(outside):
        return None
    step = diagonals.itemsize
    spread = np.lib.stride_tricks.as_strided(diagonals[rows - 1 :], (rows, columns), (-step, step), writeable=False)
    if not _all_equal(bits, spread):
        return None
    low = begin - (rows - 1) if begin else None
    high = end - 1 - (rows - 1) if end < len(diagonals) else None
    numbers = {"inside": _number(inside, dtype), "outside": _number(outside, dtype)}
    return Rule("band", {"shape": array.shape, "dtype": dtype, "low": low, "high": high, **numbers})
