"""np.packbits and np.unpackbits: truth values as bits of bytes, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.front.array import TracedArray
from tilewright.front.functions.shape import array_of
from tilewright.front.refusal import axis_in, numpy_error
from tilewright.front.registry import implements

_BITS = 8


def _flat(a: Any, axis: Any) -> tuple[Any, int]:
    """The array with the axis that is packed last, and where that axis was."""
    x: Any = array_of(a)
    if axis is None or not x.ndim:
        return np.reshape(x, -1), 0
    place = axis_in(axis, x.ndim)
    return np.moveaxis(x, place, -1), place


def _places(bitorder: str) -> np.ndarray:
    if bitorder not in ("big", "little"):
        raise numpy_error(ValueError, f"bitorder must be either 'little' or 'big', not {bitorder!r}")
    places = np.arange(_BITS, dtype=np.uint8)
    return places if bitorder == "little" else places[::-1]


@implements(np.packbits)
def packbits(a: Any, /, axis: Any = None, bitorder: str = "big") -> TracedArray:
    """np.packbits"""
    x, place = _flat(a, axis)
    places = _places(bitorder)
    if x.dtype.kind not in "biu":
        raise numpy_error(TypeError, "Expected an input array of integer or boolean data type")
    missing = -x.shape[-1] % _BITS
    whole = np.pad(x != 0, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
    bytes_ = np.reshape(whole, (*x.shape[:-1], (x.shape[-1] + missing) // _BITS, _BITS))
    weights = np.left_shift(np.uint8(1), places)
    return np.moveaxis(np.sum(bytes_ * weights, axis=-1, dtype=np.uint8), -1, place)  # type: ignore[return-value]


@implements(np.unpackbits)
def unpackbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: str = "big") -> TracedArray:
    """np.unpackbits"""
    x, place = _flat(a, axis)
    places = _places(bitorder)
    if x.dtype != np.uint8:
        raise numpy_error(TypeError, "Expected an input array of unsigned byte data type")
    bits = np.reshape(np.right_shift(x[..., None], places) & np.uint8(1), (*x.shape[:-1], x.shape[-1] * _BITS))
    size = x.shape[-1] * _BITS
    if count is not None:
        wanted = size + count if count < 0 else count
        if wanted < 0:
            raise numpy_error(ValueError, f"-count larger than number of elements: {count}")
        bits = bits[..., :wanted]
        bits = np.pad(bits, [(0, 0)] * (x.ndim - 1) + [(0, max(wanted - size, 0))])
    return np.moveaxis(bits, -1, place)  # type: ignore[return-value]
