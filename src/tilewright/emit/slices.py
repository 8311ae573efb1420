"""Static accesses as slices of their tensor, which may have to be reshaped first and permuted or broadcast after.

A view of a tensor is a slice when every dim of it walks along one axis of the tensor's shape. Where it does not, other
shapes over the same elements are tried: axes split where the view steps, and merged where it walks across them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.emit.affine import Ranges, Sum, split
from tilewright.tile.view import View, row_major


@dataclass(frozen=True, slots=True)
class Part:
    """What one axis contributes: `size` elements from `start`, or (size None) the one element there, without a dim."""

    start: Sum
    size: int | None
    step: int
    extent: int

    @property
    def is_whole(self) -> bool:
        return self.size == self.extent and self.step == 1 and self.start == Sum(0)


@dataclass(frozen=True, slots=True)
class Sliced:
    """A tensor in `shape`, one part per axis, then dims in another order, inserted, and repeated.

    order: None, or where each dim comes from. inserted: positions of new dims of size 1, ascending. repeated: (dim,
    size) of those that are broadcast.
    """

    shape: tuple[int, ...]
    parts: tuple[Part, ...]
    order: tuple[int, ...] | None
    inserted: tuple[int, ...]
    repeated: tuple[tuple[int, int], ...]

    @property
    def plain(self) -> bool:
        """Whether indexing is all that it takes."""
        return self.order is None and not self.inserted and not self.repeated


def slices(view: View, shape: tuple[int, ...], ranges: Ranges) -> Iterator[Sliced]:
    """Ways to write a static view of a tensor of `shape` (in elements of the view's dtype), the plainest first."""
    placed = _placed(view, shape, ranges)
    if placed is not None:
        yield placed
    for tried in _shapes(view, shape, 1 if view.on_chip else 0):
        placed = _placed(view, tried, ranges)
        if placed is not None:
            yield placed


# Shapes.


def _shapes(view: View, shape: tuple[int, ...], first: int) -> Iterator[tuple[int, ...]]:
    """Other shapes over the same elements; axes before `first` stay as they are."""
    own = {stride for size, stride in zip(shape[first:], row_major(shape)[first:], strict=True) if size > 1}
    dims = [(size, stride) for size, stride in zip(view.sizes, view.strides, strict=True)][first:]
    walked = [(size, stride) for size, stride in dims if size > 1 and stride > 0]
    steps = {stride for _, stride in walked}
    ends = {size * stride for size, stride in walked}
    # Strides of the tensor's own that a dim of the view walks across.
    crossed = {c for c in own for size, stride in walked if stride < c < stride * size}
    total = prod(shape[first:])
    for strides in ((own | steps) - crossed, steps, steps | ends):
        made = _from_strides(strides, total)
        if made is not None:
            yield (*shape[:first], *made)


def _from_strides(strides: set[int], total: int) -> tuple[int, ...] | None:
    """The shape whose axes have these strides; None where they do not divide each other."""
    chain = sorted({1, *strides} - {total}) or [1]
    sizes: list[int] = []
    for inner, outer in zip(chain, [*chain[1:], total], strict=True):
        if outer % inner:
            return None
        sizes.append(outer // inner)
    return tuple(reversed(sizes))


# Placing the dims of a view on the axes of a shape.


def _placed(view: View, shape: tuple[int, ...], ranges: Ranges) -> Sliced | None:
    strides = row_major(shape)
    axis_of: dict[int, int] = {}
    for dim, (size, stride) in enumerate(zip(view.sizes, view.strides, strict=True)):
        if size == 1 or stride == 0:
            continue
        axis = _axis(stride, shape, strides)
        if axis is None or axis in axis_of.values():
            return None
        axis_of[dim] = axis
    starts, rest = split(Sum(view.offset, view.terms), strides)
    if rest:
        return None
    walked = list(axis_of)
    in_order = walked == sorted(walked, key=axis_of.__getitem__)
    hosts = _hosts(view, shape, axis_of, in_order)
    dim_on = {axis: dim for dim, axis in (axis_of | hosts).items()}
    parts: list[Part] = []
    for axis, (start, extent) in enumerate(zip(starts, shape, strict=True)):
        dim = dim_on.get(axis)
        size = None if dim is None else view.sizes[dim] if dim in axis_of else 1
        step = view.strides[dim] // strides[axis] if dim is not None and dim in axis_of else 1
        low, high = start.bounds(ranges)
        if low < 0 or high + ((size or 1) - 1) * step >= extent:
            return None
        parts.append(Part(start, size, step, extent))
    return _arranged(view, shape, tuple(parts), [dim_on[axis] for axis in sorted(dim_on)])


def _axis(stride: int, shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The axis along which a step of `stride` elements goes."""
    for axis, (size, base) in enumerate(zip(shape, strides, strict=True)):
        if base <= stride < base * size and stride % base == 0:
            return axis
    return None


def _hosts(view: View, shape: Sequence[int], axis_of: dict[int, int], in_order: bool) -> dict[int, int]:
    """Axes for dims of size 1 (or repeated ones): those that lie between the axes of their neighbours.

    The partition dim stays, and a view has at least one more dim on chip and at least one in HBM.
    """
    found: dict[int, int] = {}
    lone = [dim for dim in range(view.ndim) if dim not in axis_of]
    if view.on_chip and 0 in lone:
        found[0] = 0
        lone.remove(0)
    if in_order:
        free = [axis for axis in range(len(shape)) if axis not in {*axis_of.values(), *found.values()}]
        # From the last dim backwards: what is innermost in the view is so in the tensor.
        for dim in reversed(lone):
            before = max([axis for d, axis in {**axis_of, **found}.items() if d < dim], default=-1)
            after = min([axis for d, axis in {**axis_of, **found}.items() if d > dim], default=len(shape))
            axis = next((a for a in reversed(free) if before < a < after), None)
            if axis is not None:
                found[dim] = axis
                free.remove(axis)
    least = 2 if view.on_chip else 1
    if len(axis_of) + len(found) < least and lone and lone[-1] not in found:
        free = [axis for axis in range(len(shape)) if axis not in {*axis_of.values(), *found.values()}]
        found[lone[-1]] = free[-1]
    return found


def _arranged(view: View, shape: tuple[int, ...], parts: tuple[Part, ...], dims: list[int]) -> Sliced:
    """What is left to do when indexing gave these dims of the view, in this order."""
    ordered = sorted(dims)
    order = None if dims == ordered else tuple(dims.index(dim) for dim in ordered)
    inserted = tuple(dim for dim in range(view.ndim) if dim not in dims)
    repeated = tuple((dim, size) for dim, size in enumerate(view.sizes) if size > 1 and view.strides[dim] == 0)
    return Sliced(shape, parts, order, inserted, repeated)
