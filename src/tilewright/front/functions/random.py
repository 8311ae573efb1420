"""`tw.random`: random numbers as pure functions of a key (Threefry-2x32, 20 rounds). NumPy in, traced in.

The same key and shape give the same numbers everywhere; different numbers come from different keys, which `split` and
`fold_in` make. A key is an array of two uint32 words. With a key that is a NumPy array the result is computed at once
(inside a traced function: a constant of the program); with a traced key it is computed by the program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from tilewright.dtypes import DType, host_dtype
from tilewright.errors import TileTypeError, TileValueError, fail
from tilewright.front.array import TracedArray
from tilewright.front.functions.apply import apply, given
from tilewright.front.refusal import axis_in

__all__ = ["bernoulli", "bits", "fold_in", "key", "normal", "permutation", "randint", "split", "uniform"]

Shape = Sequence[SupportsIndex] | SupportsIndex

_WORD = 32
# The second word of the counter tells apart what a key is used for.
_BITS, _SPLIT, _FOLD = 0, 1, 2
# How many random bits a fraction holds without rounding.
_FRACTION = {"float16": 11, "bfloat16": 8, "float32": 24}


def key(seed: Any) -> Any:
    """The key of a seed: any integer, or a traced scalar of an integer type of up to 32 bits."""
    if isinstance(seed, TracedArray):
        if seed.dtype.kind not in "iu" or seed.dtype.itemsize * 8 > _WORD or seed.shape:
            raise fail(
                "E108",
                f"a traced seed is a scalar of an integer type of up to 32 bits, not {seed.dtype}{seed.shape}",
                hint="make the key outside: tw.random.key(seed) is an array of two uint32 that can be an argument",
                error=TileTypeError,
            )
        low = seed.astype(np.uint32)
        high = seed.astype(np.int32) >> (_WORD - 1) if seed.dtype.kind == "i" else np.zeros((), np.uint32)
        return np.stack([high.astype(np.uint32), low])
    if not isinstance(seed, SupportsIndex):
        hint = "such as tw.random.key(0)"
        raise fail("E108", f"the seed of a key is an integer, not {seed!r}", hint=hint, error=TileTypeError)
    number = seed.__index__() % 2 ** (2 * _WORD)
    return np.array([number >> _WORD, number % 2**_WORD], np.uint32)


def split(key: Any, num: int = 2) -> Any:
    """`num` new keys, uint32[num, 2]; do not use the old one again."""
    (count,) = _shape(num)
    return np.stack(_threefry(key, np.arange(count, dtype=np.uint32), _SPLIT), axis=1)


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and an integer, such as the number of a step or a layer."""
    number = given(data)
    traced = isinstance(number, TracedArray)
    if number.shape != () or number.dtype.kind not in "biu":
        hint = "such as the number of a step or a layer"
        raise fail("E108", f"a key is folded with one integer, not {data!r:.60}", hint=hint, error=TileTypeError)
    word = number.astype(np.uint32) if traced else np.array(int(number) % 2**_WORD, np.uint32)
    return np.stack(_threefry(key, word, _FOLD))


def bits(key: Any, shape: Shape = ()) -> Any:
    """Random uint32 words."""
    sizes = _shape(shape)
    count = math.prod(sizes)
    # Each counter gives two words.
    pair = _threefry(key, np.arange((count + 1) // 2, dtype=np.uint32), _BITS)
    return np.concatenate(pair)[:count].reshape(sizes)


def uniform(key: Any, shape: Shape = (), dtype: object = "float32", minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Numbers of a float type, each as likely, with minval <= x < maxval (x may round to maxval if 0 and 1 are not)."""
    kind = _float(dtype)
    sizes = _shape(shape)
    if kind == "float64":
        high, low = bits(key, (2, *sizes))
        unit = ((high >> 5).astype(np.float64) * 2.0**26 + (low >> 6).astype(np.float64)) * 2.0**-53
    else:
        held = _FRACTION[kind]
        unit = ((bits(key, sizes) >> (_WORD - held)).astype(np.float32) * 2.0**-held).astype(kind.np)
    if isinstance(minval, (int, float)) and isinstance(maxval, (int, float)) and (minval, maxval) == (0, 1):
        return unit
    return (unit * (maxval - minval) + minval).astype(kind.np)


def normal(key: Any, shape: Shape = (), dtype: object = "float32") -> Any:
    """Numbers of the standard normal distribution (Box-Muller in float32, |x| < 6.8)."""
    kind = _float(dtype)
    sizes = _shape(shape)
    count = math.prod(sizes)
    first, second = _threefry(key, np.arange((count + 1) // 2, dtype=np.uint32), _BITS)
    # Never 0, whose logarithm is infinite; near 0 all 32 bits count.
    radius = np.sqrt(np.log((first.astype(np.float32) + 0.5) * 2.0**-_WORD) * -2.0)
    angle = (second >> (_WORD - _FRACTION["float32"])).astype(np.float32) * (2 * math.pi * 2.0 ** -_FRACTION["float32"])
    found = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count].reshape(sizes)
    return found.astype(kind.np)


def randint(key: Any, shape: Shape, minval: int, maxval: int, dtype: object = "int32") -> Any:
    """Integers with minval <= x < maxval; how likely each is differs by less than (maxval - minval) / 2**32."""
    kind = host_dtype(dtype)
    low, high = int(minval), int(maxval)
    if not kind.is_integer or kind.kind == "b":
        raise fail("E102", f"randint gives integers, not {kind}", error=TileTypeError)
    if not (kind.min <= low < high <= kind.max + 1 and high - low <= 2**_WORD):
        raise fail("E108", f"randint: there is no {kind} with {low} <= x < {high}", error=TileValueError)
    words = bits(key, shape)
    offset = words if high - low == 2**_WORD else words % np.uint32(high - low)
    # In uint32, wrapping, then in the type asked for: no number in between is too large for 32 bits.
    if kind.itemsize * 8 > _WORD:
        return offset.astype(kind.np) + low
    return (offset + np.uint32(low % 2**_WORD)).astype(kind.np)


def bernoulli(key: Any, p: Any = 0.5, shape: Shape | None = None) -> Any:
    """True with probability p; by default in the shape of p."""
    sizes = np.shape(p) if shape is None else _shape(shape)
    return uniform(key, sizes) < p


def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """The numbers 0 .. x - 1, or an array's parts along axis, in random order."""
    if isinstance(x, (int, np.integer)):
        return np.argsort(bits(key, int(x)), kind="stable")
    array = given(x)
    where = axis_in(axis, array.ndim)
    return apply("take", array, np.argsort(bits(key, array.shape[where]), kind="stable"), axis=where)


def _threefry(key: Any, counter: Any, use: int) -> tuple[Any, Any]:
    key = given(key)
    if key.shape != (2,) or key.dtype != np.uint32:
        raise fail(
            "E108",
            f"a key is an array of two uint32, not {key.dtype}{key.shape}",
            hint="make one with tw.random.key(seed); of several made by split, take one",
            error=TileValueError,
        )
    return apply("threefry2x32", key, counter, np.full(np.shape(counter), use, np.uint32))


def _shape(shape: Shape) -> tuple[int, ...]:
    items = (shape,) if isinstance(shape, SupportsIndex) or not isinstance(shape, Iterable) else tuple(shape)
    sizes = tuple(size.__index__() for size in items if isinstance(size, SupportsIndex))
    if len(sizes) < len(items) or any(size < 0 for size in sizes):
        told = f"shape {shape!r}: sizes are whole numbers, none negative"
        raise fail("E108", told, hint="such as (128, 512)", error=TileValueError)
    return sizes


def _float(dtype: object) -> DType:
    kind = host_dtype(dtype)
    if kind not in _FRACTION and kind != "float64":
        allowed = ", ".join((*_FRACTION, "float64"))
        raise fail("E102", f"random fractions are of {allowed}, not {kind}", error=TileTypeError)
    return kind
