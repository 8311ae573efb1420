"""Arrays that are written piece by piece until nothing of what was there before is left."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import maker, used_once
from tilewright.tensor.passes.simplify.slices import Box, box_of


def _written(op: Op) -> tuple[Value, list[tuple[Box, Value]]]:
    """What was there first, and what an update and those before it write; nothing else reads what is between."""
    found = [(box_of(op), op.operands[1])]
    at = op.operands[0]
    while used_once(at) and (inner := maker(at, "update_slice")) is not None:
        found.append((box_of(inner), inner.operands[1]))
        at = inner.operands[0]
    return at, found


def _axis(boxes: list[Box], shape: tuple[int, ...]) -> int | None:
    """The one axis along which the boxes are not all of the array, in order."""
    cut = {
        axis
        for box in boxes
        for axis, size in enumerate(shape)
        if (box.starts[axis], box.sizes[axis]) != (0, size) or (box.steps[axis] != 1 and size > 1)
    }
    return cut.pop() if len(cut) == 1 else None


def _is_last(op: Op) -> bool:
    """Whether no further update follows, with which the array may be complete."""
    return not (used_once(op.result) and op.result.uses[0].name == "update_slice" and _is_target(op))


def _is_target(op: Op) -> bool:
    return op.result.uses[0].operands[0] is op.result


@rule("update_slice")
def join_updates(op: Op) -> Any:
    """update_slice(update_slice(x, y, a), z, b) -> concatenate(y, slice(x, between), z)        where a and b are apart
    along one axis and whole along the others
    """
    if not _is_last(op):
        return None
    first, written = _written(op)
    parts = [(box, part) for box, part in written if part.type.size]
    shape = op.result.type.shape
    axis = _axis([box for box, _ in parts], shape)
    if axis is None or len(parts) < 2 or any(box.steps[axis] != 1 and box.sizes[axis] > 1 for box, _ in parts):
        return None
    joined: list[Value] = []
    at = 0
    for box, part in sorted(parts, key=lambda pair: pair[0].starts[axis]):
        if box.starts[axis] < at:
            return None
        joined += [*_between(first, axis, at, box.starts[axis]), part]
        at = box.starts[axis] + box.sizes[axis]
    joined += _between(first, axis, at, shape[axis])
    return value("concatenate", *joined, axis=axis)


@rule("update_slice")
def join_neighbours(op: Op) -> Any:
    """update_slice(update_slice(x, y[a:b], p), y[b:c], p + b - a) -> update_slice(x, y[a:c], p)"""
    inner = maker(op.operands[0], "update_slice")
    if inner is None or not used_once(op.operands[0]):
        return None
    parts = [_slice_of(each.operands[1]) for each in (inner, op)]
    if parts[0] is None or parts[1] is None or parts[0].operands[0] is not parts[1].operands[0]:
        return None
    read = _together(box_of(parts[0]), box_of(parts[1]))
    written = _together(box_of(inner), box_of(op))
    if read is None or written is None:
        return None
    whole = read.of(parts[0].operands[0])
    part = value("reshape", whole, shape=written.sizes)
    return value("update_slice", inner.operands[0], part, starts=written.starts, steps=written.steps)


def _slice_of(x: Value) -> Op | None:
    """The slice that has the elements of a value in their order."""
    reshaped = maker(x, "reshape")
    return maker(x if reshaped is None else reshaped.operands[0], "slice")


def _together(one: Box, other: Box) -> Box | None:
    """Two boxes of which the other one has the elements that come next, as one."""
    if {*one.steps, *other.steps} != {1}:
        return None
    moved = [d for d, (a, b) in enumerate(zip(one.starts, other.starts, strict=True)) if a != b]
    if len(moved) != 1:
        return None
    (axis,) = moved
    follows = other.starts[axis] == one.starts[axis] + one.sizes[axis]
    first, second = ((*box.sizes[:axis], 0, *box.sizes[axis + 1 :]) for box in (one, other))
    if not follows or first != second or any(n != 1 for n in one.sizes[:axis]):
        return None
    sizes = (*one.sizes[:axis], one.sizes[axis] + other.sizes[axis], *one.sizes[axis + 1 :])
    return Box(one.starts, sizes, one.steps)


def _between(x: Value, axis: int, start: int, stop: int) -> list[Value]:
    """The part of x from start to stop along an axis, if there is any."""
    if start == stop:
        return []
    shape = x.type.shape
    starts = tuple(start if a == axis else 0 for a in range(len(shape)))
    sizes = tuple(stop - start if a == axis else n for a, n in enumerate(shape))
    return [Box(starts, sizes, (1,) * len(shape)).of(x)]


@rule("update_slice")
def interleave_updates(op: Op) -> Any:
    """update_slice(update_slice(x, y, [0::2]), z, [1::2]) -> reshape(concatenate(y, z along a new dim))        for
    every number of parts and axes; what is left of x is one number
    """
    if not _is_last(op):
        return None
    first, written = _written(op)
    written = [(box, part) for box, part in written if part.type.size]
    steps = _phases([box for box, _ in written], op.result.type.shape)
    if steps is None or max(steps, default=1) == 1:
        return None
    cells = _Cells(first, [(_in_phases(box, steps), _phased(part, box, steps)) for box, part in written], steps)
    joined = cells.joined(*cells.all)
    return None if joined is None else value("reshape", joined, shape=op.result.type.shape)


def _phases(boxes: list[Box], shape: tuple[int, ...]) -> list[int] | None:
    """How far apart along each axis the elements are that boxes have, 1 where they have neighbours or all of it; None
    where boxes differ in that."""
    found: list[int] = []
    for axis, size in enumerate(shape):
        parts = {(box.starts[axis], box.sizes[axis], box.steps[axis]) for box in boxes}
        steps = {step if count > 1 else 1 for start, count, step in parts if (start, count) != (0, size)}
        step = max(steps, default=1)
        every = all(start < step and count * step == size for start, count, _ in parts if count != size)
        if len(steps) > 1 or min(steps, default=1) < 1 or (step > 1 and not every):
            return None
        found.append(step)
    return found


Region = tuple[tuple[int, ...], tuple[int, ...]]
"""First places and sizes along the dims of an array."""


def _in_phases(box: Box, steps: list[int]) -> Region:
    """A box of an array whose axes have a dim more for what lies between elements that are `steps` apart."""
    starts: list[int] = []
    sizes: list[int] = []
    for start, size, own, step in zip(box.starts, box.sizes, box.steps, steps, strict=True):
        if step == 1:
            starts, sizes = [*starts, start], [*sizes, size]
        else:
            starts = [*starts, 0, start]
            sizes = [*sizes, size, 1] if own == step else [*sizes, size // step, step]
    return tuple(starts), tuple(sizes)


def _phased(part: Value, box: Box, steps: list[int]) -> Value:
    return value("reshape", part, shape=_in_phases(box, steps)[1])


class _Cells:
    """An array that regions of others were written to, the last one first."""

    def __init__(self, first: Value, written: list[tuple[Region, Value]], steps: list[int]) -> None:
        self.first, self.written = first, written
        sizes = [(n,) if step == 1 else (n // step, step) for n, step in zip(first.type.shape, steps, strict=True)]
        shape = tuple(n for each in sizes for n in each)
        self.all: Region = (0,) * len(shape), shape

    def joined(self, starts: tuple[int, ...], sizes: tuple[int, ...]) -> Value | None:
        """A region of the array, joined from parts of what was written; None where more than a number is left of what
        was there first."""
        meeting = [(box, part) for box, part in self.written if _meet(box, (starts, sizes))]
        if not meeting:
            number = maker(self.first, "full")
            return None if number is None else value("full", **{**number.attrs, "shape": sizes})
        (begins, _), part = meeting[0]
        ends = _edges(meeting[0][0], (starts, sizes))
        if not any(ends):
            own = tuple(a - b for a, b in zip(starts, begins, strict=True))
            return part if part.type.shape == sizes else Box(own, sizes, (1,) * len(sizes)).of(part)
        every = [_edges(box, (starts, sizes)) for box, _ in meeting]
        axis = next(d for d in range(len(sizes)) if any(edges[d] for edges in every))
        cuts = sorted({starts[axis], starts[axis] + sizes[axis], *(at for edges in every for at in edges[axis])})
        pieces = [
            self.joined((*starts[:axis], a, *starts[axis + 1 :]), (*sizes[:axis], b - a, *sizes[axis + 1 :]))
            for a, b in pairwise(cuts)
        ]
        whole = [piece for piece in pieces if piece is not None]
        return value("concatenate", *whole, axis=axis) if len(whole) == len(pieces) else None


def _meet(one: Region, other: Region) -> bool:
    return all(a < b + m and b < a + n for a, n, b, m in zip(*one, *other, strict=True))


def _edges(box: Region, region: Region) -> list[list[int]]:
    """Where a box begins or ends inside of a region, by dim."""
    return [[at for at in (a, a + n) if b < at < b + m] for (a, n, b, m) in zip(*box, *region, strict=True)]
