"""Accesses with run-time indices on intervals: which rows can be chosen, and whether some lie outside of the tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.diagnose.spread import Spread, lifted, spread, watch
from tilewright.ir.core import Value
from tilewright.tile.view import View

Read = Callable[[View], Spread]


def chosen(view: View, read: Read, registers: Mapping[Value, Any], skip: bool) -> np.ndarray | None:
    """The indices of an access, where they are known and in bounds; who watches is told of those that can be outside.

    skip: the instruction passes over such indices.
    """
    dynamic = view.dynamic
    assert dynamic is not None
    if isinstance(dynamic.index, Value):
        held = registers.get(dynamic.index)
        index = None if held is None else lifted(held).reshape(1)
    else:
        tile = read(dynamic.index)
        # Indices count down the columns of their tile.
        index = tile.reshape(tile.shape[0], -1).T.reshape(-1)
        index = index[: view.sizes[0]] if dynamic.kind == "vector" else index
    if index is None:
        return None
    outside = (index.lo < 0) | (index.hi >= dynamic.limit)
    if outside.any() and not skip:
        low, high = index.lo.min(), index.hi.max()
        name = view.buffer.name or "the tensor"
        watch().wrong("index", f"an index can be in [{low:g}, {high:g}]; {name} has [0, {dynamic.limit})", outside)
    known = dynamic.kind != "columns" and index.is_point and not outside.any()
    return index.lo.astype(np.int64) if known else None


def gathered(view: View, pairs: np.ndarray, rows: np.ndarray | None) -> Spread:
    """What an access reads of all that it can choose from: the rows, else whatever any of them may hold."""
    assert view.dynamic is not None
    axis = 1 if view.on_chip else 0
    is_one = view.dynamic.kind == "scalar"
    if rows is not None:
        taken = pairs.take(int(rows[0]) if is_one else rows, axis)
        return spread(taken["lo"], taken["hi"], view.dtype.np)
    lo, hi = pairs["lo"].min(axis, keepdims=True), pairs["hi"].max(axis, keepdims=True)
    if is_one:
        lo, hi = lo.squeeze(axis), hi.squeeze(axis)
    return spread(np.broadcast_to(lo, view.sizes).copy(), np.broadcast_to(hi, view.sizes).copy(), view.dtype.np)


def scatter(view: View, held: np.ndarray, pairs: np.ndarray, rows: np.ndarray | None) -> None:
    """Write to the rows, one after the other; where they are not known, any of them may have been written."""
    assert view.dynamic is not None
    axis = 1 if view.on_chip else 0
    if view.dynamic.kind == "scalar":
        pairs = np.expand_dims(pairs, axis)
    if rows is not None:
        for lane, row in enumerate(rows):
            np.moveaxis(held, axis, 0)[row] = np.moveaxis(pairs, axis, 0)[lane]
        return
    lo, hi = pairs["lo"].min(axis, keepdims=True), pairs["hi"].max(axis, keepdims=True)
    # What was never written becomes what is written; the rest may be either.
    held["lo"][...] = np.fmin(held["lo"], lo)
    held["hi"][...] = np.fmax(held["hi"], hi)
