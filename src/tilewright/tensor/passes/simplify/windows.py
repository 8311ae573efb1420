"""What is computed of moving windows, computed of the array that they move over.

Windows of neighbours have most of their elements in common: reductions combine shifted parts of the array, twice as
much with each step, and products of windows and weights are convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import maker, used_once
from tilewright.tensor.passes.simplify.slices import Box, box_of

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over x: along each of `axes` `sizes` elements, windows `stride`, elements `dilation` apart."""

    x: Value
    axes: Ints
    sizes: Ints
    stride: Ints
    dilation: Ints

    @staticmethod
    def of(op: Op) -> Windows:
        """What an op says."""
        return Windows(op.operands[0], *(op.attrs[name] for name in ("axes", "sizes", "stride", "dilation")))

    @property
    def rank(self) -> int:
        """The number of dims of x, after which those of a window stand."""
        return self.x.type.rank

    def along(self) -> Iterator[tuple[int, int, int, int]]:
        """(axis, size, stride, dilation) of each axis."""
        return zip(self.axes, self.sizes, self.stride, self.dilation, strict=True)

    def made(self) -> Value:
        """The windows, as a value."""
        return value("windows", self.x, axes=self.axes, sizes=self.sizes, stride=self.stride, dilation=self.dilation)

    def without(self, at: int, x: Value) -> Windows:
        """Windows over another array that are the same along all axes but one."""
        axes, sizes, stride, dilation = (
            (*t[:at], *t[at + 1 :]) for t in (self.axes, self.sizes, self.stride, self.dilation)
        )
        return Windows(x, axes, sizes, stride, dilation)

    def counts(self) -> list[int]:
        """The number of windows along every dim of x."""
        found = list(self.x.type.shape)
        for axis, size, stride, dilation in self.along():
            found[axis] = (found[axis] - dilation * (size - 1) - 1) // stride + 1
        return found

    def element(self, at: Ints) -> Value:
        """The element at a place of every window."""
        starts, steps = [0] * self.rank, [1] * self.rank
        for k, (axis, _, stride, dilation) in zip(at, self.along(), strict=True):
            starts[axis], steps[axis] = k * dilation, stride
        return Box(tuple(starts), tuple(self.counts()), tuple(steps)).of(self.x)


@rule("slice")
def slice_of_windows(op: Op) -> Any:
    """slice(windows(x), b) -> windows(slice(x, b'))"""
    inner = maker(op.operands[0], "windows")
    box = box_of(op)
    if inner is None or not op.result.type.size or any(step < 1 for step in box.steps):
        return None
    seen = Windows.of(inner)
    starts, sizes, steps = list(box.starts[: seen.rank]), list(box.sizes[: seen.rank]), list(box.steps[: seen.rank])
    strides, dilations = [], []
    for i, (axis, _, stride, dilation) in enumerate(seen.along()):
        at = seen.rank + i
        strides.append(stride * box.steps[axis])
        dilations.append(dilation * box.steps[at])
        starts[axis] = box.starts[axis] * stride + box.starts[at] * dilation
        sizes[axis] = (box.sizes[axis] - 1) * strides[-1] + (box.sizes[at] - 1) * dilations[-1] + 1
        steps[axis] = 1
    part = Box(tuple(starts), tuple(sizes), tuple(steps)).of(seen.x)
    return Windows(part, seen.axes, box.sizes[seen.rank :], tuple(strides), tuple(dilations)).made()


@rule("windows")
def windows_of_one(op: Op) -> Any:
    """windows(x, sizes (..., 1, ...)) -> windows(slice(x), the other axes)        with a dim of size 1"""
    seen = Windows.of(op)
    if 1 not in seen.sizes:
        return None
    at = seen.sizes.index(1)
    part = Windows(seen.x, seen.axes[at : at + 1], (1,), seen.stride[at : at + 1], (1,)).element((0,))
    found = seen.without(at, part)
    return value("reshape", found.made() if found.axes else part, shape=op.result.type.shape)


@rule("abs", "negative", "square", "sqrt", "exp", "log", "add", "subtract", "multiply", "divide", "power", "cast")
def map_of_windows(op: Op) -> Any:
    """f(windows(x), c) -> windows(f(x, c))        of numbers c"""
    arrays = [x for x in op.operands if isinstance(x, Value)]
    if len(arrays) != 1 or op.result.type.shape != arrays[0].type.shape:
        return None
    inner = maker(arrays[0], "windows")
    if inner is None or not used_once(inner.result):
        return None
    seen = Windows.of(inner)
    made = value(op.name, *(seen.x if isinstance(y, Value) else y for y in op.operands), **op.attrs)
    return Windows(made, seen.axes, seen.sizes, seen.stride, seen.dilation).made()


# Reductions.

_COMBINE = {"max": "maximum", "min": "minimum", "any": "bitwise_or", "all": "bitwise_and", "sum": "add"}


@rule("max", "min", "any", "all")
def greatest_of_windows(op: Op) -> Any:
    """max(windows(x)) -> maximum(slice(x, k) for all k)        each step combining twice as many; also min, any, all"""
    if op.name in ("any", "all") and op.operands[0].type.dtype != "bool":
        return None
    return _reduced(op, may_overlap=True)


@rule("sum", exact=False, ulp=4.0)
def sum_of_windows(op: Op) -> Any:
    """sum(windows(x)) -> slice(x, 0) + slice(x, 1) + ...        each step adding up twice as many"""
    return _reduced(op, may_overlap=False) if _adds_up(op) else None


def _adds_up(op: Op) -> bool:
    """Whether sums of a few elements at a time are as good: those of narrow floats would be rounded too often."""
    dtype = op.result.type.dtype
    return dtype.is_integer or dtype.itemsize >= float32.itemsize


def _reduced(op: Op, may_overlap: bool) -> Value | None:
    """A reduction over dims of windows, and perhaps others, one axis after the other."""
    inner = maker(op.operands[0], "windows")
    if inner is None or not op.result.type.size:
        return None
    seen = Windows.of(inner)
    over = [a - seen.rank for a in op.attrs["axes"] if a >= seen.rank]
    if not over:
        return None
    combine: Callable[[Value, Value], Value] = lambda x, y: value(_COMBINE[op.name], x, y)  # noqa: E731
    for at in sorted(over, reverse=True):
        axis, size, stride, dilation = next(part for i, part in enumerate(seen.along()) if i == at)
        seen = seen.without(at, _moving(seen.x, axis, size, stride, dilation, combine, may_overlap))
    found = seen.made() if seen.axes else seen.x
    others = tuple(a for a in op.attrs["axes"] if a < seen.rank)
    if others:
        found = value(op.name, found, axes=others, keepdims=False)
    return found if found.type == op.result.type else value("reshape", found, shape=op.result.type.shape)


def _moving(
    x: Value, axis: int, size: int, stride: int, dilation: int, combine: Callable[[Value, Value], Value], overlap: bool
) -> Value:
    """The combined elements of all windows along an axis."""
    count = (x.type.shape[axis] - dilation * (size - 1) - 1) // stride + 1

    def part(of: Value, start: int, length: int, step: int) -> Value:
        shape = of.type.shape
        starts, sizes, steps = [0] * len(shape), list(shape), [1] * len(shape)
        starts[axis], sizes[axis], steps[axis] = start, length, step
        return Box(tuple(starts), tuple(sizes), tuple(steps)).of(of)

    if (size - 1) * count <= size.bit_length() * x.type.shape[axis]:
        # Few elements, or windows far apart: one by one.
        found = part(x, 0, count, stride)
        for k in range(1, size):
            found = combine(found, part(x, k * dilation, count, stride))
        return found
    # known[j] combines `done` elements from j on.
    known, done, powers = x, 1, {1: x}
    while 2 * done <= size:
        length = known.type.shape[axis] - done * dilation
        known = combine(part(known, 0, length, 1), part(known, done * dilation, length, 1))
        done *= 2
        powers[done] = known
    found, at = part(known, 0, count, stride), done
    if at < size and overlap:
        return combine(found, part(known, (size - done) * dilation, count, stride))
    while at < size:
        step = max(n for n in powers if n <= size - at)
        found = combine(found, part(powers[step], at * dilation, count, stride))
        at += step
    return found


# Products with weights.


@rule("sum", exact=False, ulp=4.0)
def sum_of_weighted_windows(op: Op) -> Any:
    """sum(windows(x) * w) -> conv(x, w) of every channel by itself        where w is the same for all windows"""
    inner = maker(op.operands[0], "multiply")
    if inner is None or not used_once(inner.result) or not op.result.type.size or not op.result.type.dtype.is_float:
        return None
    for x, w in (inner.operands, inner.operands[::-1]):
        made = maker(x, "windows")
        if made is None or not isinstance(w, Value) or x.type.shape != inner.result.type.shape:
            continue
        seen = Windows.of(made)
        weights = (1,) * (x.type.rank - w.type.rank) + w.type.shape
        over = {*range(seen.rank, x.type.rank)}
        if not over <= {*op.attrs["axes"]} or any(weights[a] != 1 for a in seen.axes):
            continue
        return _weighted(op, seen, w if w.type.shape == weights else value("reshape", w, shape=weights))
    return None


def _weighted(op: Op, seen: Windows, w: Value) -> Value:
    """Each channel by itself: dims along which weights differ, or all if they do along none."""
    shape, weights = seen.x.type.shape, w.type.shape
    outside = [d for d in range(seen.rank) if d not in seen.axes]
    channels = [d for d in outside if weights[d] != 1] or outside
    batch = [d for d in outside if d not in channels]
    many, each = prod(shape[d] for d in batch), prod(shape[d] for d in channels)
    order = (*batch, *channels, *seen.axes)
    x = value("reshape", value("transpose", seen.x, perm=order), shape=(many, each, *(shape[d] for d in seen.axes)))
    inside = (*(shape[d] for d in channels), *seen.sizes)
    w = value("reshape", w, shape=(*(weights[d] for d in channels), *weights[seen.rank :]))
    w = value("reshape", value("broadcast_to", w, shape=inside), shape=(each, 1, *seen.sizes))
    zeros = (0,) * len(seen.axes)
    found = value("conv", x, w, stride=seen.stride, low=zeros, high=zeros, dilation=seen.dilation, groups=each)
    counts = seen.counts()
    found = value("reshape", found, shape=tuple(counts[d] for d in order))
    found = value("transpose", found, perm=tuple(order.index(d) for d in range(seen.rank)))
    others = tuple(a for a in op.attrs["axes"] if a < seen.rank)
    if others:
        found = value("sum", found, axes=others, keepdims=False)
    return found if found.type == op.result.type else value("reshape", found, shape=op.result.type.shape)
