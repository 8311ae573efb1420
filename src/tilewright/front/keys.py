"""What stands between the brackets of x[...], read as NumPy reads it.

A key is basic (integers, slices, None, Ellipsis: a view) or advanced (arrays of integers or bools among them). Of an
advanced key, the slices and None are applied first, as a view; what remains are index arrays for some of its dims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from tilewright.front.array import TracedArray, as_traced, holds_traced
from tilewright.front.foreign import refuse_foreign
from tilewright.front.refusal import ask, numpy_error

_BAD = "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid"


@dataclass(frozen=True, slots=True)
class Mask:
    """A traced array of bools: which elements it selects is known at run time only."""

    array: TracedArray


Index = np.ndarray | TracedArray
"""Integers that select along one dim: known now, or at run time."""


def key_items(key: Any) -> tuple[Any, ...]:
    """The parts of a key; each is None, Ellipsis, a slice, an int, an integer array, an array of bools or a `Mask`."""
    items = key if isinstance(key, tuple) else (key,)
    return tuple(_item(item) for item in items)


def _item(item: Any) -> Any:
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, slice):
        return slice(*(_bound(x) for x in (item.start, item.stop, item.step)))
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, TracedArray) or (isinstance(item, (list, tuple)) and holds_traced(item)):
        return _traced_item(as_traced(item))
    refuse_foreign("an index", item)
    if isinstance(item, SupportsIndex) and not isinstance(item, np.ndarray):
        return item.__index__()
    return _array_item(item)


def _bound(x: Any) -> Any:
    # A traced bound would make the shape depend on data: asking for its number says so.
    return None if x is None else ask(x.__index__) if hasattr(x, "__index__") else x


def _traced_item(array: TracedArray) -> Any:
    if array.type.dtype.kind == "b":
        return Mask(array)
    if array.type.dtype.kind not in "iu":
        raise numpy_error(IndexError, "arrays used as indices must be of integer (or boolean) type")
    return array


def _array_item(item: Any) -> np.ndarray:
    array = ask(np.asarray, item)
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.intp)  # an empty list
    if array.dtype.kind not in "biu":
        kind = "arrays used as indices must be of integer (or boolean) type" if array.ndim else _BAD
        raise numpy_error(IndexError, kind)
    return array


def is_basic(items: tuple[Any, ...]) -> bool:
    """True when a key makes a view."""
    return all(item is None or item is Ellipsis or isinstance(item, (slice, int)) for item in items)


@dataclass(frozen=True, slots=True)
class Advanced:
    """An advanced key, in two steps: the basic key of a view, and index arrays for dims of that view.

    adjacent: the index arrays stand next to each other, and the dims they make stay in place; else those come first.
    """

    basic: tuple[Any, ...]
    axes: tuple[int, ...]
    indices: tuple[Index | Mask, ...]
    adjacent: bool


def advanced(items: tuple[Any, ...], shape: tuple[int, ...]) -> Advanced:
    """Take an advanced key apart for an array of `shape`."""
    basic: list[Any] = []
    axes: list[int] = []
    indices: list[Index | Mask] = []
    runs, inside = 0, False
    for item in _spelled_out(items, len(shape)):
        is_index = not (item is None or item is Ellipsis or isinstance(item, slice))
        runs += is_index and not inside
        inside = is_index
        if not is_index:
            basic += [] if item is Ellipsis else [item]
            continue
        for part in _index_arrays(item):
            axes.append(len(basic))
            indices.append(part)
            # A truth value alone selects no dim of the array: it stands for one of its own.
            basic += [slice(None)] * (1 if isinstance(part, _Selected) else _dims_of(item)) or [None]
    _check_masks(basic, axes, indices, shape)
    return Advanced(tuple(basic), tuple(axes), tuple(indices), runs == 1)


def _index_arrays(item: Any) -> list[Index | Mask]:
    if isinstance(item, int):
        return [np.asarray(item)]
    if isinstance(item, np.ndarray) and item.dtype.kind == "b":
        if item.ndim == 0:
            return [np.zeros(int(item), np.intp)]
        return [_Selected(part, size) for part, size in zip(np.nonzero(item), item.shape, strict=True)]
    return [item]


class _Selected(np.ndarray):
    """Places that an array of bools selects; it remembers the size of the dim, which must be the array's."""

    dim: int

    def __new__(cls, places: np.ndarray, dim: int) -> _Selected:
        made = places.view(cls)
        made.dim = dim
        return made


def _dims_of(item: Any) -> int:
    """How many dims of the array a part of a key consumes."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Mask):
        return item.array.ndim
    if isinstance(item, np.ndarray) and item.dtype.kind == "b":
        return item.ndim
    return 1


def _spelled_out(items: tuple[Any, ...], rank: int) -> list[Any]:
    """The key with slices after the Ellipsis, or at its end, for all dims that it does not name."""
    if sum(item is Ellipsis for item in items) > 1:
        raise numpy_error(IndexError, "an index can only have a single ellipsis ('...')")
    named = sum(map(_dims_of, items))
    if named > rank:
        raise numpy_error(
            IndexError, f"too many indices for array: array is {rank}-dimensional, but {named} were indexed"
        )
    missing = [slice(None)] * (rank - named)
    if not any(item is Ellipsis for item in items):
        return [*items, *missing]
    found: list[Any] = []
    for item in items:
        # An Ellipsis keeps index arrays apart even where it stands for no dim.
        found += [Ellipsis, *missing] if item is Ellipsis else [item]
    return found


def _check_masks(basic: list[Any], axes: list[int], indices: list[Index | Mask], shape: tuple[int, ...]) -> None:
    """Arrays of bools have the sizes of the dims they select from."""
    dims = iter(range(len(shape)))
    dim_at = [None if item is None else next(dims) for item in basic]
    for axis, index in zip(axes, indices, strict=True):
        sizes: tuple[int, ...] = ()
        if isinstance(index, Mask):
            sizes = index.array.shape
        elif isinstance(index, _Selected):
            sizes = (index.dim,)
        for offset, size in enumerate(sizes):
            dim = dim_at[axis + offset]
            assert dim is not None
            if shape[dim] != size:
                raise numpy_error(
                    IndexError,
                    f"boolean index did not match indexed array along axis {dim}; size of axis is {shape[dim]} "
                    f"but size of corresponding boolean axis is {size}",
                )
