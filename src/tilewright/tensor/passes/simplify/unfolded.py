"""Products of windows and weights: convolutions, whether an array of windows was asked for or put together by hand.

Windows may be a strided view, parts of an array that are joined or stacked, or an array into which these are written
one by one (im2col); reshapes and transposes may follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import prod
from operator import add
from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import maker
from tilewright.tensor.passes.simplify.slices import Box, box_of
from tilewright.tensor.passes.simplify.windows import Ints, Windows

_MOST_VIEWS = 8
"""Reshapes and transposes that are looked through, at most."""

_CHANNELS = 32
"""Channels from which on the windows that a program puts together are a convolution: of fewer, a product with all
elements of a window at a time has more to do at once."""


@rule("matmul", exact=False, ulp=4.0)
def product_of_windows(op: Op) -> Any:
    """matmul(reshape(transpose(windows(x))), w) -> conv(x, w)        the contracted dim being channels and windows

    Also with the windows as the right operand.
    """
    x, w = op.operands
    if not op.result.type.size or not x.type.dtype.is_float or x.type.dtype is not w.type.dtype:
        return None
    if w.type.rank == 2 and (cut := _unfolded(x, x.type.rank - 1)) is not None:
        return cut.convolved(value("transpose", w, perm=(1, 0)), op)
    if x.type.rank == 2 and (cut := _unfolded(w, w.type.rank - 2)) is not None:
        return cut.convolved(x, op)
    return None


@dataclass(frozen=True, slots=True)
class _Unfolded:
    """Windows as a matrix, or several: the dims of the windows that each of its dims has; `over` is contracted."""

    seen: Windows
    dims: list[Ints]
    over: int

    def convolved(self, w: Value, op: Op) -> Value | None:
        """The product with [outs, contracted]."""
        seen, rank = self.seen, self.seen.rank
        contracted, kept = self.dims[self.over], [d for i, dims in enumerate(self.dims) if i != self.over for d in dims]
        inside = {*range(rank, rank + len(seen.axes))}
        if not inside <= {*contracted} or not {*seen.axes} <= {*kept} or 0 in op.result.type.shape:
            return None
        batch = [d for d in kept if d not in seen.axes]
        channels = [d for d in contracted if d not in inside]
        outs, shape = w.type.shape[0], seen.x.type.shape
        x = value("transpose", seen.x, perm=(*batch, *channels, *seen.axes))
        many, each = prod(shape[d] for d in batch), prod(shape[d] for d in channels)
        x = value("reshape", x, shape=(many, each, *(shape[d] for d in seen.axes)))
        sizes = {**dict(enumerate(seen.counts())), **dict(zip(sorted(inside), seen.sizes, strict=True))}
        weights = value("reshape", w, shape=(outs, *(sizes[d] for d in contracted)))
        order = (*channels, *sorted(inside))
        weights = value("transpose", weights, perm=(0, *(1 + contracted.index(d) for d in order)))
        weights = value("reshape", weights, shape=(outs, each, *seen.sizes))
        zeros = (0,) * len(seen.axes)
        made = value("conv", x, weights, stride=seen.stride, low=zeros, high=zeros, dilation=seen.dilation, groups=1)
        made = value("reshape", made, shape=(*(shape[d] for d in batch), outs, *(sizes[d] for d in seen.axes)))
        # Dims as they stand now, the outs as -1; then as the product has them: outs take the place of what was summed.
        now = [*batch, -1, *seen.axes]
        wanted = [d for i, dims in enumerate(self.dims) for d in ((-1,) if i == self.over else dims)]
        made = value("transpose", made, perm=tuple(now.index(d) for d in wanted))
        return value("reshape", made, shape=op.result.type.shape)


def _unfolded(x: Value, over: int) -> _Unfolded | None:
    """x as windows, whose dims may have been merged and put into another order."""
    views: list[Op] = []
    while (op := maker(x, "reshape", "transpose")) is not None and len(views) < _MOST_VIEWS:
        views.append(op)
        (x,) = op.operands
    found = _windows(x)
    if found is None or not x.type.size:
        return None
    seen, dims = found
    sizes = [*seen.counts(), *seen.sizes]
    for op in reversed(views):
        if op.name == "transpose":
            dims = [dims[d] for d in op.attrs["perm"]]
        else:
            shaped = _regrouped([d for run in dims for d in run], sizes, op.result.type.shape)
            if shaped is None:
                return None
            dims = shaped
    channels = prod(sizes[d] for d in dims[over] if d < seen.rank)
    return None if maker(x, "windows") is None and channels < _CHANNELS else _Unfolded(seen, dims, over)


def _regrouped(order: Sequence[int], sizes: Sequence[int], shape: Ints) -> list[Ints] | None:
    """The dims of windows that each dim of a shape has; None where one of them would be torn apart."""
    dims: list[Ints] = []
    left = list(order)
    for size in shape:
        run: list[int] = []
        while left and prod(sizes[d] for d in run) < size:
            run.append(left.pop(0))
        if prod(sizes[d] for d in run) != size:
            return None
        dims.append(tuple(run))
    if left:
        if any(sizes[d] != 1 for d in left):
            return None
        dims[-1] = (*dims[-1], *left)
    return dims


def _windows(x: Value) -> tuple[Windows, list[Ints]] | None:
    """An array as windows over another one, and the dims of the windows that each of its dims has."""
    made = maker(x, "windows")
    if made is not None:
        return Windows.of(made), [(d,) for d in range(x.type.rank)]
    found = _joined(x) or _written(x)
    if found is None:
        return None
    parts, places, inner = found
    boxes = [_box(part, places, inner) for part in parts]
    seen = None if None in boxes else _grid(*_of_one_base([box for box in boxes if box is not None]))
    if seen is None:
        return None
    windows, taps = seen
    sizes, rank = [*windows.counts(), *windows.sizes], windows.rank
    own = iter(range(rank))
    order: list[int] = []
    for axis in range(x.type.rank):
        if axis == places[0]:
            order += taps
        if axis not in places or inner:
            order.append(next(own))
    shaped = _regrouped(order, sizes, x.type.shape)
    return None if shaped is None else (windows, shaped)


def _joined(x: Value) -> tuple[list[Value], Ints, bool] | None:
    """Parts that are joined: in order, the axis of theirs, and whether it was one before (a part has it too)."""
    op = maker(x, "concatenate")
    if op is None:
        return None
    parts, axis = list(op.values()), op.attrs["axis"]
    shapes = {part.type.shape for part in parts}
    stacked = all(part.type.shape[axis] == 1 and maker(part, "reshape") is not None for part in parts)
    return (parts, (axis,), not stacked) if len(shapes) == 1 else None


def _written(x: Value) -> tuple[list[Value], Ints, bool] | None:
    """Parts that are written into an array one by one: in the order of their places, and the axes along which they lie
    beside each other."""
    parts: dict[Ints, Value] = {}
    shape = x.type.shape
    while (op := maker(x, "update_slice")) is not None:
        x, part = op.operands
        if any(step != 1 for step in op.attrs["steps"]) or op.attrs["starts"] in parts:
            return None
        parts[op.attrs["starts"]] = part
    if len({part.type.shape for part in parts.values()}) != 1:
        return None
    size = next(iter(parts.values())).type.shape
    places = tuple(d for d, (n, m) in enumerate(zip(shape, size, strict=True)) if n != m)
    beside = places == tuple(range(places[0], places[-1] + 1)) if places else False
    if not beside or any(size[d] != 1 for d in places) or len(parts) != prod(shape[d] for d in places):
        return None
    order = sorted(parts)
    moved = all(not any(at for d, at in enumerate(start) if d not in places) for start in order)
    return ([parts[start] for start in order], places, False) if moved else None


def _box(part: Value, places: Ints, inner: bool) -> tuple[Value, Box] | None:
    """What a part is a slice of, and which; nothing where it has other dims since."""
    shape = part.type.shape if inner else tuple(n for d, n in enumerate(part.type.shape) if d not in places)
    shaped = None if inner else maker(part, "reshape")
    source = part if shaped is None else shaped.operands[0]
    if source.type.shape != shape:
        return None
    op = maker(source, "slice")
    if op is not None:
        return op.operands[0], box_of(op)
    return source, Box((0,) * len(shape), shape, (1,) * len(shape))


def _of_one_base(parts: Sequence[tuple[Value, Box]]) -> tuple[Value | None, list[Box]]:
    """What all parts are slices of, and which: of an array that was padded, or of what it was before."""
    bases = {base for base, _ in parts}
    padded = [base for base in bases if (op := maker(base, "pad")) is not None and op.operands[0] in bases]
    base = padded[0] if padded else parts[0][0]
    op = maker(base, "pad")
    inside = None if op is None else op.operands[0]
    if any(each is not base and each is not inside for each in bases):
        return None, []
    low = None if op is None else op.attrs["low"]
    return base, [
        box if own is base or low is None else replace(box, starts=tuple(map(add, box.starts, low)))
        for own, box in parts
    ]


def _grid(base: Value | None, boxes: Sequence[Box]) -> tuple[Windows, list[int]] | None:
    """Parts of one array as windows over it, and the order in which they come: the dims of a window, the slowest
    first."""
    if base is None or len(boxes) < 2 or len({(box.sizes, box.steps) for box in boxes}) > 1:
        return None
    first = boxes[0]
    rank = base.type.rank
    along = [sorted({box.starts[d] for box in boxes}) for d in range(rank)]
    axes = tuple(d for d in range(rank) if len(along[d]) > 1)
    apart = [{b - a for a, b in zip(along[d], along[d][1:], strict=False)} for d in axes]
    if not axes or any(len(each) != 1 for each in apart) or any(first.steps[d] < 1 for d in axes):
        return None
    sizes, dilation = tuple(len(along[d]) for d in axes), tuple(each.pop() for each in apart)
    taps = next((order for order in permutations(axes) if _is_in_order(boxes, along, order)), None)
    if taps is None:
        return None
    starts = tuple(each[0] for each in along)
    extent, steps = list(first.sizes), list(first.steps)
    for d, size, by in zip(axes, sizes, dilation, strict=True):
        extent[d], steps[d] = (first.sizes[d] - 1) * first.steps[d] + (size - 1) * by + 1, 1
    part = Box(starts, tuple(extent), tuple(steps)).of(base)
    windows = Windows(part, axes, sizes, tuple(first.steps[d] for d in axes), dilation)
    return windows, [rank + axes.index(d) for d in taps]


def _is_in_order(boxes: Sequence[Box], along: Sequence[Sequence[int]], order: Ints) -> bool:
    """True where parts come one after the other with the last of some axes as the fastest."""
    return [tuple(box.starts[d] for d in order) for box in boxes] == [*product(*(along[d] for d in order))]
