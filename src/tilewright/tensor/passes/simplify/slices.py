"""Slices of slices, of joined, padded, broadcast and updated arrays; updates that are overwritten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import maker

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """The elements starts[a] + steps[a] * (0 .. sizes[a] - 1) of each dim a."""

    starts: Ints
    sizes: Ints
    steps: Ints

    def of(self, x: Value) -> Value:
        """These elements of x."""
        return value("slice", x, starts=self.starts, sizes=self.sizes, steps=self.steps)

    def is_all_of(self, shape: Ints) -> bool:
        """Whether these are all elements of an array of this shape, in order."""
        return (
            self.sizes == shape
            and not any(self.starts)
            and all(step == 1 or size == 1 for step, size in zip(self.steps, self.sizes, strict=True))
        )

    def inside(self, other: Box) -> Box:
        """These elements of `other`, as elements of the array that it is a box of."""
        return Box(
            tuple(b + s * a for a, b, s in zip(self.starts, other.starts, other.steps, strict=True)),
            self.sizes,
            tuple(a * b for a, b in zip(self.steps, other.steps, strict=True)),
        )

    def limits(self, axis: int) -> tuple[int, int]:
        """The least and the greatest index along an axis; there is one at least."""
        first = self.starts[axis]
        last = first + self.steps[axis] * (self.sizes[axis] - 1)
        return min(first, last), max(first, last)

    def misses(self, other: Box) -> bool:
        """Whether the two surely have no element in common: their limits, or what is left by their steps, differ."""
        for axis, step in enumerate(self.steps):
            (low, high), (least, most) = self.limits(axis), other.limits(axis)
            if high < least or most < low:
                return True
            both = abs(step) if abs(step) == abs(other.steps[axis]) else 1
            if (self.starts[axis] - other.starts[axis]) % both:
                return True
        return False

    def moved(self, axis: int, by: int) -> Box:
        """The box with its start moved along one axis."""
        starts = (*self.starts[:axis], self.starts[axis] + by, *self.starts[axis + 1 :])
        return Box(starts, self.sizes, self.steps)


def box_of(op: Op) -> Box:
    """The elements that a slice takes, or that an update writes."""
    sizes = op.attrs["sizes"] if op.name == "slice" else op.operands[1].type.shape
    return Box(op.attrs["starts"], sizes, op.attrs["steps"])


@rule("slice")
def slice_all(op: Op) -> Any:
    """slice(x, all of it) -> x"""
    (x,) = op.operands
    return x if box_of(op).is_all_of(x.type.shape) else None


@rule("slice")
def plain_steps(op: Op) -> Any:
    """slice(x, steps s) -> slice(x, steps 1)        along dims where one element is taken"""
    box = box_of(op)
    steps = tuple(1 if size == 1 else step for step, size in zip(box.steps, box.sizes, strict=True))
    return Box(box.starts, box.sizes, steps).of(op.operands[0]) if steps != box.steps else None


@rule("slice")
def slice_of_slice(op: Op) -> Any:
    """slice(slice(x, a), b) -> slice(x, a[b])"""
    inner = maker(op.operands[0], "slice")
    return None if inner is None else box_of(op).inside(box_of(inner)).of(inner.operands[0])


@rule("slice")
def slice_of_transpose(op: Op) -> Any:
    """slice(transpose(x, p), b) -> transpose(slice(x, b'), p)"""
    inner = maker(op.operands[0], "transpose")
    if inner is None:
        return None
    perm, box = inner.attrs["perm"], box_of(op)
    back = [perm.index(a) for a in range(len(perm))]
    starts, sizes, steps = (tuple(t[a] for a in back) for t in (box.starts, box.sizes, box.steps))
    return value("transpose", Box(starts, sizes, steps).of(inner.operands[0]), perm=perm)


@rule("slice")
def slice_of_broadcast(op: Op) -> Any:
    """slice(broadcast_to(x), b) -> broadcast_to(slice(x, b'))        of dims that x has itself"""
    inner = maker(op.operands[0], "broadcast_to")
    if inner is None:
        return None
    x, box = inner.operands[0], box_of(op)
    skipped = len(box.sizes) - x.type.rank
    own = [
        (start, size, step) if n == whole and n != 1 else (0, 1, 1)
        for n, whole, start, size, step in zip(
            *(x.type.shape, inner.result.type.shape[skipped:]),
            *(t[skipped:] for t in (box.starts, box.sizes, box.steps)),
            strict=True,
        )
    ]
    starts, sizes, steps = (tuple(t[k] for t in own) for k in range(3))
    return value("broadcast_to", Box(starts, sizes, steps).of(x), shape=box.sizes)


@rule("slice")
def slice_of_concatenate(op: Op) -> Any:
    """slice(concatenate(x, y, ...), b) -> slice(x, b')        where b lies in one part"""
    inner = maker(op.operands[0], "concatenate")
    if inner is None or not op.result.type.size:
        return None
    axis, box = inner.attrs["axis"], box_of(op)
    low, high = box.limits(axis)
    first = 0
    for part in inner.operands:
        end = first + part.type.shape[axis]
        if first <= low and high < end:
            return box.moved(axis, -first).of(part)
        first = end
    return None


@rule("slice")
def slice_across_parts(op: Op) -> Any:
    """slice(concatenate(x, y, z), b) -> slice(concatenate(x, y), b')        where b needs no other part

    Where others read most of it too, it is put together once for all of them.
    """
    inner = maker(op.operands[0], "concatenate")
    if inner is None or not op.result.type.size:
        return None
    axis, box = inner.attrs["axis"], box_of(op)
    low, high = box.limits(axis)
    first, before, kept = 0, 0, []
    for part in inner.operands:
        end = first + part.type.shape[axis]
        if end <= low:
            before = end
        elif first <= high:
            kept.append(part)
        first = end
    if len(kept) == len(inner.operands):
        return None
    size = sum(part.type.size for part in kept)
    if len(inner.result.uses) > 1 and 2 * size > inner.result.type.size:
        return None
    return box.moved(axis, -before).of(value("concatenate", *kept, axis=axis))


@rule("slice")
def slice_of_pad(op: Op) -> Any:
    """slice(pad(x), b) -> slice(x, b')        where b lies inside of x"""
    inner = maker(op.operands[0], "pad")
    if inner is None or not op.result.type.size:
        return None
    x, low, box = inner.operands[0], inner.attrs["low"], box_of(op)
    limits = [box.limits(axis) for axis in range(len(low))]
    if any(a < n or b >= n + size for (a, b), n, size in zip(limits, low, x.type.shape, strict=True)):
        return None
    return Box(tuple(a - n for a, n in zip(box.starts, low, strict=True)), box.sizes, box.steps).of(x)


@rule("slice")
def slice_of_iota(op: Op) -> Any:
    """slice(iota(start, step), b) -> iota(start + step * b.start, step * b.step)        of integers"""
    inner = maker(op.operands[0], "iota")
    if inner is None or not all(isinstance(inner.attrs[name], int) for name in ("start", "step")):
        return None
    axis, box = inner.attrs["axis"], box_of(op)
    start = inner.attrs["start"] + inner.attrs["step"] * box.starts[axis]
    step = inner.attrs["step"] * box.steps[axis]
    attrs = {**inner.attrs, "shape": box.sizes, "start": start, "step": step}
    return value("iota", **attrs)


@rule("slice")
def slice_of_update(op: Op) -> Any:
    """slice(update_slice(x, part, a), b) -> slice(part, b in a)        , or slice(x, b) where b misses a"""
    inner = maker(op.operands[0], "update_slice")
    if inner is None or not op.result.type.size:
        return None
    read = box_of(op)
    # A loop, not one firing per update: programs write row after row and read each row before.
    while inner is not None and inner.operands[1].type.size and read.misses(box_of(inner)):
        x = inner.operands[0]
        inner = maker(x, "update_slice")
        if inner is None:
            return read.of(x)
    if inner is None or not inner.operands[1].type.size:
        return None
    found = within(read, box_of(inner))
    if found is not None:
        return found.of(inner.operands[1])
    return None if inner.result is op.operands[0] else read.of(inner.result)


def within(read: Box, written: Box) -> Box | None:
    """The box of `written`'s elements that `read` takes, if it takes none besides."""
    starts: list[int] = []
    steps: list[int] = []
    for a, n, s, b, m, t in zip(
        *(read.starts, read.sizes, read.steps), *(written.starts, written.sizes, written.steps), strict=True
    ):
        step, off = divmod(s, t) if n > 1 else (1, 0)
        start, rest = divmod(a - b, t)
        if off or rest or not (0 <= start < m and 0 <= start + step * (n - 1) < m):
            return None
        starts.append(start)
        steps.append(step)
    return Box(tuple(starts), read.sizes, tuple(steps))


@rule("update_slice")
def update_all(op: Op) -> Any:
    """update_slice(x, part, all of x) -> part        , and of nothing -> x"""
    x, part = op.operands
    if not part.type.size:
        return x
    return part if box_of(op).is_all_of(x.type.shape) else None


@rule("update_slice")
def update_with_itself(op: Op) -> Any:
    """update_slice(x, slice(x, b), b) -> x"""
    x, part = op.operands
    inner = maker(part, "slice")
    return x if inner is not None and inner.operands[0] is x and box_of(inner) == box_of(op) else None


@rule("update_slice")
def update_of_update(op: Op) -> Any:
    """update_slice(update_slice(x, y, a), z, b) -> update_slice(x, z, b)        where a lies within b"""
    x, part = op.operands
    inner = maker(x, "update_slice")
    if inner is None or not part.type.size or not inner.operands[1].type.size:
        return None
    if within(box_of(inner), box_of(op)) is None:
        return None
    return value("update_slice", inner.operands[0], part, **op.attrs)
