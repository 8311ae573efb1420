"""Instructions on views of more dims than an access pattern has: dims that lie evenly are merged, others loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.lower.write.views import merged, picked
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.write.builder import TileBuilder


def with_fewer_dims(b: TileBuilder, name: str, operands: Sequence[Any], attrs: dict[str, Any], limit: int) -> None:
    """Write an instruction some of whose views have more dims than `limit`."""
    views = {i: view for i, view in enumerate(operands) if isinstance(view, View)}
    if name == "dma_copy":
        # Each side is read in its own order.
        less = {i: collapsed(view) for i, view in views.items()}
        if all(view.ndim <= limit for view in less.values()):
            _again(b, name, operands, less, attrs)
            return
    axes = attrs.get("axis", ())
    dst = views[0]
    if axes and len(views) == 2:
        # What is reduced are the last dims: as few as they lie evenly.
        kept = min(axis % views[1].ndim for axis in axes)
        views[1] = tail = _tail_merged(views[1], kept)
        attrs = attrs | {"axis": tuple(range(kept, tail.ndim))}
        if tail.ndim <= limit:
            _again(b, name, operands, views, attrs)
            return
    full = {i: view for i, view in views.items() if view.sizes == dst.sizes} if not axes else views
    if not axes:
        full = joined(full)
        if all(view.ndim <= limit for view in full.values()):
            _again(b, name, operands, full, attrs)
            return
    assert attrs.get("reduce_op") is None, f"{name} of {dst.ndim} dims sums what no access pattern describes"
    # The first free dim is the same of all of them, other than of columns and numbers.
    size = next(iter(full.values())).sizes[1]
    assert all(view.sizes[1] == size for view in full.values()), f"{name} of {[view.sizes for view in full.values()]}"
    if axes:
        # Counted from the first dim, of which there is one less inside.
        attrs = attrs | {"axis": tuple(axis - 1 if axis > 0 else axis for axis in attrs["axis"])}
    with b.loop(size, "d") as at:
        _again(b, name, operands, {i: picked(view, 1, at) for i, view in full.items()}, attrs)


def _again(b: TileBuilder, name: str, operands: Sequence[Any], views: dict[int, View], attrs: dict[str, Any]) -> None:
    b.op(name, *(views.get(i, x) for i, x in enumerate(operands)), **attrs)


def collapsed(view: View) -> View:
    """A view with dims that lie evenly merged; on chip not with that of the partitions."""
    d = 1 if view.on_chip else 0
    while d + 1 < view.ndim:
        one = merged(view, d, d + 1)
        if one is None:
            d += 1
        else:
            view = one
    return view


def _tail_merged(view: View, first: int) -> View:
    """A view with the dims from one on merged where they lie evenly."""
    d = first
    while d + 1 < view.ndim:
        one = merged(view, d, d + 1)
        view, d = (view, d + 1) if one is None else (one, d)
    return view


def joined(views: dict[int, View]) -> dict[int, View]:
    """Views of the same sizes, free dims merged where all of them allow."""
    d = 1
    while d + 1 < next(iter(views.values())).ndim:
        made = {i: merged(view, d, d + 1) for i, view in views.items()}
        if any(view is None for view in made.values()):
            d += 1
        else:
            views = {i: view for i, view in made.items() if view is not None}
    return views
