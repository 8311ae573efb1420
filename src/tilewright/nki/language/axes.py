"""The axis argument of reductions: which dims, in which order, and what is left of the shape."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tilewright.errors import TileTypeError, fail
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate


@dataclass(frozen=True, slots=True)
class Axes:
    """Dims to reduce. `data` has the free ones among them last; `sizes` are the sizes in the order of the argument."""

    data: NkiTensor
    sizes: tuple[int, ...]
    free: tuple[int, ...]
    partitions: bool

    @property
    def all_free(self) -> bool:
        """True when one value per partition is left."""
        return len(self.free) == len(self.sizes) - 1

    def kept(self) -> tuple[int, ...]:
        """Free dims that stay."""
        return tuple(dim for dim in range(1, len(self.sizes)) if dim not in self.free)

    def kept_sizes(self) -> tuple[int, ...]:
        """Their sizes; (1,) when none stays, since a tile has at least 2 dims."""
        return tuple(self.sizes[dim] for dim in self.kept()) or (1,)

    def count(self) -> int:
        """Elements that one result is made of."""
        return prod(self.sizes[dim] for dim in self.free) * (self.sizes[0] if self.partitions else 1)

    def result_shape(self, keepdims: bool) -> tuple[int, ...]:
        """The shape of the result. One that would have fewer than 2 dims keeps its dims, where that may pass."""
        gone = (*self.free, 0) if self.partitions else self.free
        whole = tuple(1 if dim in gone else size for dim, size in enumerate(self.sizes))
        if keepdims:
            return whole
        rank = len(self.sizes) - len(gone)
        if rank < 2:
            violate(
                "R-tensor-02",
                f"the result has {rank} dim{'s' if rank != 1 else ''}; on chip a tensor has at least 2",
                hint="pass keepdims=True",
                operands=[self.data._view.note("x")],
            )
            return (whole[0], *self.kept_sizes())
        return tuple(size for dim, size in enumerate(self.sizes) if dim not in gone)

    def of(self, data: NkiTensor) -> Axes:
        """The same axes of another tile whose reduced dims are last."""
        return replace(self, data=data)

    def spread(self, kept: NkiTensor) -> NkiTensor:
        """A result with dims kept, repeated over the reduced dims of `data` by the access pattern."""
        reduced = len(self.free)
        first = self.data.ndim - reduced
        view = kept.reshape((*self.data.shape[:first], *(1,) * reduced))
        for dim in range(first, self.data.ndim):
            view = view.broadcast(dim, self.data.shape[dim])
        return view


def read_axes(api: str, x: NkiTensor, axis: Any, partitions: bool = True, order: bool = True) -> Axes:
    """Check an axis argument. partitions, order: dim 0 and dims that are not last may pass where a profile allows."""
    items = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    try:
        dims = tuple(operator.index(item) for item in items)
    except TypeError:
        raise fail(
            "E108",
            f"nl.{api}: axis={axis!r} is not made of whole numbers",
            error=TileTypeError,
            hint="pass an int, or a tuple of ints",
        ) from None
    if not dims or any(not -x.ndim <= dim < x.ndim for dim in dims):
        violate(
            "R-nl-08",
            f"nl.{api}: axis={axis!r} of a {x.ndim}-D tile",
            operands=[x._view.note("x")],
            final=True,
            hint="axis counts from 0, or from the end with -1",
        )
    chosen = tuple(sorted({dim % x.ndim for dim in dims}))
    free = tuple(dim for dim in chosen if dim != 0)
    last = tuple(range(x.ndim - len(free), x.ndim))
    if 0 in chosen or free != last:
        what = "dim 0 is the partition dim" if 0 in chosen else f"dims {free} are not the last ones"
        violate(
            "R-nl-08",
            f"nl.{api}: axis={axis!r} of a {x.ndim}-D tile: {what}",
            hint="reduce the last free dims; transpose, or multiply by a tile of ones, to reduce partitions",
            operands=[x._view.note("x")],
            final=(0 in chosen and not partitions) or (free != last and not order),
        )
    kept = tuple(dim for dim in range(1, x.ndim) if dim not in free)
    data = x if free == last else x.permute((0, *kept, *free))
    return Axes(data, x.shape, free, 0 in chosen)
