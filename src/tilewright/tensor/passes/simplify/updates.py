"""Arrays that are written piece by piece until nothing of what was there before is left."""

from __future__ import annotations

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
    """update_slice(update_slice(x, y, [0::2]), z, [1::2]) -> reshape(concatenate(y, z along a new last dim))        for
    every number of parts
    """
    if not _is_last(op):
        return None
    _, parts = _written(op)
    shape = op.result.type.shape
    axis = _axis([box for box, _ in parts], shape)
    count = len(parts)
    if axis is None or count < 2 or shape[axis] % count or shape[axis] == count:
        return None
    parts.sort(key=lambda pair: pair[0].starts[axis])
    if any(
        (box.starts[axis], box.sizes[axis], box.steps[axis]) != (place, shape[axis] // count, count)
        for place, (box, _) in enumerate(parts)
    ):
        return None
    each = (*shape[:axis], shape[axis] // count, 1, *shape[axis + 1 :])
    joined = value("concatenate", *(value("reshape", part, shape=each) for _, part in parts), axis=axis + 1)
    return value("reshape", joined, shape=shape)
