"""Sizes of a box of elements that are computations of their own, in values of which others repeat.

A gather may show a row many times. What is known is that rows by indices that an argument gives may all differ, up to
as many as there are, and that the elements of one row do. Every axis has a size here: for each place of the rest of the
axes, so many neighbours along this one (a divisor of its extent), together with those of the other axes, are different
for some indices. What is made of them elementwise, or as products with what does not repeat, is different too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.ir.core import Op, Value
from tilewright.tensor.intervals import interval_of
from tilewright.tensor.record import TABLE

Box = tuple[int, ...]

_CHECKS = ("checked_index", "cast", "bounded_index")
"""What an index passes on its way to who reads by it."""


def box_of(op: Op, boxes: Sequence[Box]) -> Box:
    """The box of an op's result, given those of its operands that are values; ones where nothing is known."""
    shape = op.results[0].type.shape
    ones = (1,) * len(shape)
    family = TABLE[op.name].family
    if op.name == "take":
        return _taken(op, boxes[0])
    if op.name == "transpose":
        return tuple(boxes[0][axis] for axis in op.attrs["perm"])
    if op.name == "reshape":
        return _reshaped(op.operands[0].type.shape, boxes[0], shape) or ones
    if op.name == "cast":
        return boxes[0]
    if op.name.startswith("matmul"):
        return _product(shape, *boxes)
    if family == "elementwise":
        # Of one operand alone: those of several may repeat in turn.
        values = zip(op.values(), boxes, strict=True)
        return max((_spread(x.type.shape, box, shape) for x, box in values), key=prod, default=ones)
    return ones


def _spread(have: Box, box: Box, shape: Box) -> Box:
    """A box of a value that broadcasts to a shape."""
    lead = len(shape) - len(have)
    return (1,) * lead + tuple(size if n == m else 1 for n, size, m in zip(have, box, shape[lead:], strict=True))


def _taken(op: Op, box: Box) -> Box:
    """Rows by an index that an argument gives: along its last axes all may differ, as long as there are enough rows.
    Of rows by a constant it is known which do."""
    x, index = op.operands
    axis, sizes, rows = op.attrs["axis"], [1] * index.type.rank, 1
    known = _constant(index)
    if _is_given(index) or (known is not None and box[axis] == x.type.shape[axis]):
        rows = box[axis]
    for a, n in reversed(list(enumerate(index.type.shape))):
        if n > rows or (known is not None and not _all_differ(known, a)):
            break
        sizes[a], rows = n, rows // n
    return (*box[:axis], *sizes, *box[axis + 1 :])


def _all_differ(index: np.ndarray, axis: int) -> bool:
    """True where every part of an index from an axis on has each row once at the most."""
    parts = np.sort(index.reshape(prod(index.shape[:axis]), -1), axis=1)
    return bool((parts[:, 1:] != parts[:, :-1]).all())


def _constant(index: Value) -> np.ndarray | None:
    """The numbers of an index, where they are known and none is counted from the end."""
    op = index.producer
    while op is not None and op.name in ("checked_index", "bounded_index"):
        op = op.operands[0].producer
    if op is None or op.name != "constant" or op.result.type.shape != index.type.shape:
        return None
    array = op.attrs["value"].array
    return array if array.size and array.min() >= 0 else None


def _is_given(index: Value) -> bool:
    """True for elements of an argument, each once, perhaps with negative numbers counted from the end."""
    for _ in range(16):
        op = index.producer
        if op is None:
            return True
        if op.name not in _CHECKS and op.name not in ("reshape", "transpose", "slice"):
            return False
        index = op.operands[0]
    return False


def most_shown(op: Op) -> int:
    """So many elements of its first operand at the most does an op show that picks them, by an index or as windows."""
    if op.name == "windows":
        return _in_windows(op)
    x, index = op.operands
    axis = op.attrs["axis"]
    rows = max(x.type.shape[axis], 1)
    known = _constant(index)
    if known is None:
        return x.type.size // rows * min(rows, _most_values(index))
    if op.name == "take":
        return x.type.size // rows * len(np.unique(known))
    lines = np.moveaxis(known, axis, -1).reshape(-1, known.shape[axis])
    return sum(len(np.unique(line)) for line in lines) * (x.type.size // rows // max(len(lines), 1))


def _in_windows(op: Op) -> int:
    """Elements that lie in any window."""
    x, made = op.operands[0].type, op.result.type
    count = x.size
    for place, axis in enumerate(op.attrs["axes"]):
        firsts = np.arange(made.shape[axis]) * op.attrs["stride"][place]
        inner = np.arange(made.shape[x.rank + place]) * op.attrs["dilation"][place]
        count = count // max(x.shape[axis], 1) * len(np.unique(np.add.outer(firsts, inner)))
    return count


def _most_values(index: Value) -> int:
    """So many different numbers at the most does an index have: not more than what it is made of has elements."""
    within = interval_of(index)
    most = within.high - within.low + 1
    for _ in range(16):
        most = min(most, index.type.size)
        op = index.producer
        if op is None or len(op.values()) != 1:
            break
        index = op.operands[0]
    return most


def _product(shape: Box, x: Box, y: Box) -> Box:
    """A pair of a row and a column differs from others where the row does, or the column."""
    rank = len(shape)
    first, second = ((1,) * (rank - len(box)) + box for box in (x, y))
    return (*max(first[:-2], second[:-2], key=prod), first[-2], second[-1])


def _reshaped(have: Box, box: Box, want: Box) -> Box | None:
    """The box after a reshape; None where its sides are cut."""
    parts: list[tuple[int, bool]] = []
    for n, size in zip(have, box, strict=True):
        parts += [(n // size, False), (size, True)]
    parts = [part for part in reversed(parts) if part[0] != 1]
    found: list[int] = []
    for n in reversed(want):
        size, is_inside = 1, True
        while n > 1:
            if not parts:
                return None
            count, differs = parts.pop(0)
            if count > n:
                if count % n:
                    return None
                parts.insert(0, (count // n, differs))
                count = n
            elif n % count:
                return None
            n //= count
            is_inside = is_inside and differs
            size *= count if is_inside else 1
        found.append(size)
    return tuple(reversed(found))
