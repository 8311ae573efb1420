"""x[key] and x[key] = value, with NumPy's rules for views, index arrays and masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.dtypes import int32, int64
from tilewright.front.array import TracedArray, new, returned, view
from tilewright.front.assign import content_for, fill
from tilewright.front.keys import Advanced, Index, Mask, advanced, is_basic, key_items
from tilewright.front.lift import constant_of
from tilewright.front.local import settle
from tilewright.front.masks import select, write_masked
from tilewright.front.promote import as_input, cast, shape_of
from tilewright.front.refusal import numpy_error
from tilewright.front.storage import reshaped
from tilewright.front.trace import emit
from tilewright.front.views import shadow_at, sliced
from tilewright.ir.core import Value


def get_item(x: TracedArray, key: Any) -> TracedArray:
    """x[key]: a view for basic keys, a fresh array for advanced ones, a scalar where integers name one element."""
    if x.is_scalar:
        x = new(x.value)
    items = key_items(settle(key))
    if not is_basic(items):
        return _chosen_view(x, items) if _names_one(items) else _gather(x, items)
    found = sliced(x, items)
    # Only an Ellipsis keeps an array of rank 0; integers alone give a scalar, which shares nothing.
    if not found.shape and not any(item is Ellipsis for item in items):
        return returned(found.value)
    return found


def set_item(x: TracedArray, key: Any, value: Any) -> None:
    """x[key] = value."""
    if x.is_scalar or not x.writeable:
        x.assign(x.value)  # refuses, as NumPy does
    items, value = key_items(settle(key)), settle(value)
    if not is_basic(items):
        _scatter(x, items, value)
        return
    target = sliced(x, items)
    element = len(items) == x.ndim and all(isinstance(item, int) for item in items)
    # The truth of an array of one element is an element.
    fits = x.type.dtype.kind == "b" and math.prod(shape_of(as_input(value))) == 1
    if element and shape_of(as_input(value)) and not fits:
        raise numpy_error(ValueError, "setting an array element with a sequence.")
    fill(target, value)


def _names_one(items: tuple[Any, ...]) -> bool:
    """True for a basic key in which traced scalars stand for integers: NumPy makes a view of it."""
    indices = [item for item in items if not is_basic((item,))]
    return all(isinstance(item, TracedArray) and item.is_scalar for item in indices)


def _chosen_view(x: TracedArray, items: tuple[Any, ...]) -> TracedArray:
    shadow = shadow_at(x, tuple(0 if isinstance(item, TracedArray) else item for item in items))
    key = advanced(items, x.shape)
    base = sliced(x, key.basic)
    plan = _Plan(base, key)
    if not shadow.ndim and not any(item is Ellipsis for item in items):
        return returned(plan.read(base.value))
    return view(base, plan, shadow)


def _gather(x: TracedArray, items: tuple[Any, ...]) -> TracedArray:
    key = advanced(items, x.shape)
    if any(isinstance(index, Mask) for index in key.indices):
        return select(x, items, key.adjacent)
    base = sliced(x, key.basic)
    plan = _Plan(base, key)
    return returned(plan.read(base.value))


def _scatter(x: TracedArray, items: tuple[Any, ...], value: Any) -> None:
    key = advanced(items, x.shape)
    if any(isinstance(index, Mask) for index in key.indices):
        write_masked(x, items, key.adjacent, value)
        return
    base = sliced(x, key.basic)
    plan = _Plan(base, key)
    part = content_for(value, base, plan.shape)
    if part.type.size:
        base.assign(plan.write(base.value, part))


class _Plan:
    """Several index arrays as one: the dims they select from are merged, and rows of the merged dim are taken."""

    __slots__ = ("_back", "_perm", "_rest", "axes", "index", "shape", "sizes", "spread")

    def __init__(self, base: TracedArray, key: Advanced) -> None:
        shape = base.shape
        self.axes = key.axes
        indices = [index for index in key.indices if not isinstance(index, Mask)]
        self.spread = _common_shape(indices)
        sizes = [shape[a] for a in key.axes]
        selects = 0 not in self.spread
        self.index = _merged(
            [_checked(i, n, a, selects) for i, n, a in zip(indices, sizes, key.axes, strict=True)], sizes
        )
        rest = [a for a in range(len(shape)) if a not in key.axes]
        first = len([a for a in rest if a < key.axes[0]]) if key.adjacent else 0
        self.sizes = shape
        self._perm = (*key.axes, *rest)
        self._rest = tuple(shape[a] for a in rest)
        # Dims of the result: those of the index arrays at `first` among the others.
        count = len(self.spread)
        before, after = range(count, count + first), range(count + first, count + len(rest))
        self._back = (*before, *range(count), *after)
        found = (*self.spread, *self._rest)
        self.shape = tuple(found[a] for a in self._back)

    def read(self, base: Value) -> Value:
        """The elements that the index arrays name."""
        if len(self.axes) == 1:
            return emit("take", base, self._spread_index(), axis=self.axes[0])
        rows = emit("take", self._rows(base), self._spread_index(), axis=0)
        return _transposed(reshaped(rows, (*self.spread, *self._rest)), self._back)

    def write(self, base: Value, part: Value) -> Value:
        """The base with the elements that the index arrays name replaced."""
        count = int(np.prod(self.spread, dtype=np.int64))
        inverse = tuple(int(a) for a in np.argsort(self._back))
        rows = reshaped(_transposed(part, inverse), (count, *self._rest))
        index = reshaped(self._spread_index(), (count,))
        written = reshaped(emit("put_rows", self._rows(base), index, rows), tuple(self.sizes[a] for a in self._perm))
        return _transposed(written, tuple(int(a) for a in np.argsort(self._perm)))

    def _rows(self, x: Value) -> Value:
        merged = int(np.prod([self.sizes[a] for a in self.axes], dtype=np.int64))
        return reshaped(_transposed(x, self._perm), (merged, *self._rest))

    def _spread_index(self) -> Value:
        index = self.index
        if isinstance(index, np.ndarray):
            return constant_of(np.broadcast_to(index, self.spread))
        return index if index.type.shape == self.spread else emit("broadcast_to", index, shape=self.spread)


def _transposed(x: Value, perm: tuple[int, ...]) -> Value:
    return x if perm == tuple(range(len(perm))) else emit("transpose", x, perm=perm)


def _common_shape(indices: list[Index]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(index.shape for index in indices))
    except ValueError:
        shapes = " ".join(str(index.shape).replace(" ", "") for index in indices)
        raise numpy_error(
            IndexError, f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes} "
        ) from None


def _checked(index: Index, size: int, axis: int, selects: bool) -> np.ndarray | Value:
    """Indices from 0: negative ones count from the end, others that lie outside are errors, now or at run time."""
    if isinstance(index, TracedArray):
        # An element type too small for the dim could not hold what is counted from its end.
        dtype = index.type.dtype
        return emit("checked_index", cast(index.value, dtype if dtype.max >= size else int64), size=size)
    index = np.asarray(index)
    if selects and index.size and (index.min() < -size or index.max() >= size):
        bad = index.min() if index.min() < -size else index.max()
        raise numpy_error(IndexError, f"index {bad} is out of bounds for axis {axis} with size {size}")
    wide = index.astype(np.int64)
    return np.where(wide < 0, wide + size, wide).astype(np.int32 if size <= int32.max else np.int64)


def _merged(indices: list[np.ndarray | Value], sizes: list[int]) -> np.ndarray | Value:
    """One index into the merged dims: i * size + j."""
    if len(indices) == 1:
        return indices[0]
    dtype = int32 if math.prod(sizes) <= int32.max else int64
    indices = [cast(index, dtype) if isinstance(index, Value) else index.astype(dtype.np) for index in indices]
    found = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        if isinstance(found, np.ndarray) and isinstance(index, np.ndarray):
            found = np.asarray(found * found.dtype.type(size) + index)
            continue
        if isinstance(found, np.ndarray):
            found = np.asarray(found * found.dtype.type(size))
        else:
            found = emit("multiply", found, size)
        found = emit("add", _as_index(found), _as_index(index))
    return found


def _as_index(index: np.ndarray | Value) -> Value | int:
    if isinstance(index, Value):
        return index
    return constant_of(index) if index.ndim else int(index)
