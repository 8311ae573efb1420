"""Positions: of elements that are not zero, of distinct elements, and between flat and several indices.

How many there are is known at run time only, so NumPy's own functions are refused (E804); `tw.nonzero` and `tw.unique`
take the size of the result and fill what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.dtypes import int64
from tilewright.errors import TileValueError, fail
from tilewright.front.array import as_traced, holds_traced, returned
from tilewright.front.functions.apply import apply, given
from tilewright.front.functions.index import depends_on_data
from tilewright.front.promote import cast, value_of
from tilewright.front.refusal import ask, numpy_error
from tilewright.front.registry import implements
from tilewright.front.trace import emit
from tilewright.ir.core import Value


def nonzero(x: Any, size: int, fill_value: int | Sequence[int] = 0) -> tuple[Any, ...]:
    """np.nonzero with `size` positions: one array of indices per dim, `fill_value` after the last one found.

    x is an array of NumPy or a traced array. More than `size` elements that are not zero: the first ones count.
    """
    array = given(x)
    fills = (fill_value,) * array.ndim if isinstance(fill_value, (int, np.integer)) else tuple(fill_value)
    if len(fills) != array.ndim:
        raise fail("E108", f"nonzero: {len(fills)} fill values for {array.ndim} dims", error=TileValueError)
    row = np.reshape(array, -1)
    place = apply("nonzero", row, size=_size(size), fill=-1, dtype=int64)
    found = place >= 0
    return tuple(np.where(found, index, fill) for index, fill in zip(_split(place, array.shape), fills, strict=True))


def _split(place: Any, shape: Sequence[int]) -> list[Any]:
    """A flat index as one index per dim, the last dim varying fastest."""
    indices: list[Any] = []
    for n in reversed(shape):
        indices.append(place % max(n, 1) if len(indices) < len(shape) - 1 else place)
        place = place // max(n, 1)
    return indices[::-1]


def unique(
    x: Any,
    size: int,
    fill_value: Any = None,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """np.unique with `size` elements: the distinct elements of x in rising order, then `fill_value` (default: the least
    element), with a count of 0 and the index of the least element. NaNs count as one element, the last.

    x is an array of NumPy or a traced array. More than `size` distinct elements: the least ones count, and the inverse
    of the others is an index of `size` or more.
    """
    array = given(x)
    row = np.reshape(array, -1)
    n, count = math.prod(array.shape), _size(size)
    if not n and fill_value is None:
        raise fail("E108", "unique: an empty array has no least element", hint="give fill_value=", error=TileValueError)
    order = np.argsort(row, kind="stable")
    ordered = np.take(row, order)
    differs = ordered[1:] != ordered[:-1]
    if np.dtype(array.dtype).kind not in "biu":
        # NaN differs from itself, yet counts once; two neighbours that are both NaN are at the end.
        differs = differs & ((ordered[1:] == ordered[1:]) | (ordered[:-1] == ordered[:-1]))
    first = np.concatenate([np.ones(min(n, 1), np.bool_), differs])
    starts = apply("nonzero", first, size=count + 1, fill=n, dtype=int64)
    found, place = starts[:-1] < n, np.minimum(starts[:-1], max(n - 1, 0))
    if not n:
        ordered, order = np.full(1, fill_value, array.dtype), np.zeros(1, np.int64)
    fill = ordered[:1] if fill_value is None else np.asarray(fill_value, array.dtype)
    results: list[Any] = [np.where(found, np.take(ordered, place), fill)]
    if return_index:
        results.append(np.where(found, np.take(order, place), order[:1]))
    if return_inverse:
        rank = np.cumsum(first) - 1
        inverse = apply("put_rows", np.zeros(n, np.int64), order[:n], rank)
        results.append(np.reshape(inverse, array.shape))
    if return_counts:
        results.append(starts[1:] - starts[:-1])
    return tuple(results) if len(results) > 1 else results[0]


def _size(size: Any) -> int:
    if not isinstance(size, (int, np.integer)) or size < 0:
        told = f"size is a whole number, known while tracing, not {size!r}"
        raise fail("E108", told, hint="give how many places there are room for, such as x.size", error=TileValueError)
    return int(size)


def _refuse(hint: str, *functions: Any) -> None:
    """Register functions whose results have a shape that only the data know."""
    for function in functions:
        name = f"np.{function.__name__}"

        def handler(*args: Any, _name: str = name, **kwargs: Any) -> Any:
            raise depends_on_data(_name, "the shape of the result depends on data", hint)

        handler.__doc__ = name
        handler.__name__ = function.__name__
        implements(function, note=f"refused (E804): {hint}")(handler)


_refuse("use tw.nonzero(x, size=...)", np.nonzero, np.flatnonzero, np.argwhere)
_refuse(
    "use tw.unique(x, size=...)",
    *(np.unique, np.unique_all, np.unique_counts, np.unique_inverse, np.unique_values),
    *(np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d),
)
_refuse("cut the array at a place known while tracing: x[a:b]", np.trim_zeros)


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """np.unravel_index"""
    ask(np.unravel_index, np.zeros(0, np.int64), shape, order)
    dims = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(map(int, shape))
    index = as_traced(indices)
    if index.dtype.kind not in "iu":
        raise numpy_error(TypeError, "only int indices permitted")
    flat = emit("bounded_index", cast(index.value, int64), size=math.prod(dims))
    place = returned(flat)
    if order == "F":
        return tuple(_split(place, dims[::-1])[::-1])
    return tuple(_split(place, dims))


_MODES: dict[str, Callable[[Value, int], Value]] = {
    "raise": lambda index, n: emit("bounded_index", index, size=n),
    "wrap": lambda index, n: emit("mod", index, max(n, 1)),
    "clip": lambda index, n: emit("minimum", emit("maximum", index, 0), max(n - 1, 0)),
}


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """np.ravel_multi_index"""
    parts = list(multi_index)
    sizes = tuple(map(int, dims))
    modes = [mode] * len(parts) if isinstance(mode, str) else list(mode)
    ask(np.ravel_multi_index, (np.zeros(0, np.int64),) * len(parts), sizes, mode, order)
    total: Any = 0
    for part, n, how in sorted_dims(parts, sizes, modes, order):
        index = as_traced(part)
        if index.dtype.kind not in "iu":
            raise numpy_error(TypeError, "only int indices permitted")
        if not holds_traced(part):
            place = value_of(np.asarray(ask(np.ravel_multi_index, (part,), (n,), how)))
        else:
            place = _MODES[how](cast(index.value, int64), n)
        total = total * n + returned(place)
    return total


def sorted_dims(parts: list[Any], sizes: Sequence[int], modes: list[str], order: str) -> list[tuple[Any, int, str]]:
    """Dims from the one that varies slowest."""
    found = list(zip(parts, sizes, modes, strict=True))
    return found if order == "C" else found[::-1]


@implements(np.ix_)
def ix_(*args: Any) -> tuple[Any, ...]:
    """np.ix_"""
    found: list[Any] = []
    for place, arg in enumerate(args):
        if not holds_traced(arg):
            line: Any = np.ravel(ask(np.asarray, ask(np.ix_, arg)))
        else:
            line = as_traced(arg)
            if line.ndim != 1:
                raise numpy_error(ValueError, "Cross index must be 1 dimensional")
            if line.dtype == np.bool_:
                raise depends_on_data("np.ix_", "a mask is known only at run time", "use tw.nonzero(mask, size=...)")
        found.append(np.reshape(line, (1,) * place + (line.size,) + (1,) * (len(args) - place - 1)))
    return tuple(found)


def _of_shape(function: Any) -> None:
    """Register a function that looks at nothing but the shape of its array."""
    takes_k = function is not np.diag_indices_from

    def handler(arr: Any, k: int = 0) -> Any:
        shape = np.broadcast_to(np.zeros((), np.int8), as_traced(arr).shape)
        return ask(function, shape, k) if takes_k else ask(function, shape)

    implements(function)(handler)


for _function in (np.diag_indices_from, np.tril_indices_from, np.triu_indices_from):
    _of_shape(_function)
