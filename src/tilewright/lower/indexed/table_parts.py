"""Rows of a table that does not fit on a partition, by run-time indices: part by part of the table is brought to all
partitions, and each looks its own rows up in it.

What is looked up in a part stays where the index is not below it, so that the last part an index reaches has its row.
"""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING

from tilewright.dtypes import int32, uint8, uint32
from tilewright.ir.core import Op
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.counting import in_lines, laid
from tilewright.lower.indexed.indices import check, is_checked, wrapped
from tilewright.lower.move.join import result_in_hbm
from tilewright.lower.move.moves import shuffle_over
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import device_dtype
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import once
from tilewright.lower.write.views import affine, as_shape, broadcast, expanded, reshaped, sliced
from tilewright.tensor.ranges import EXACT
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

PASSES = 6
"""Passes over the indices of a part, a number that is looked up counting for two."""


def parts_ns(low: Lowering, op: Op) -> float:
    """About how long it takes; infinity where it cannot be done."""
    (x, index), target = op.operands, low.target
    width, count = prod(x.type.shape[1:]), index.type.size
    rows = _rows_of_a_part(low, op)
    if op.attrs["axis"] != 0 or rows < 1 or count < TUNING.looked_up or x.type.size > EXACT:
        return inf
    lanes, clock = target["limits.partitions"], target["clock_ghz.vector"]
    each, _ = _indices(low, op)
    parts, times = -(-x.type.shape[0] // rows), -(-count // (lanes * each))
    spread = times * x.type.size / target["vector.elements_per_cycle.shuffle"] / clock
    looked_up = PASSES * parts * (-(-count // lanes) * width + times * target["vector.overhead_cycles.other"]) / clock
    return spread + looked_up


def _rows_of_a_part(low: Lowering, op: Op) -> int:
    """Rows of the table that are on chip at a time, twice."""
    x = op.operands[0]
    room = (low.room() + low.target["memory.sbuf_usable_bytes"] // 16) // 2
    return min(x.type.shape[0], room // max(prod(x.type.shape[1:]) * device_dtype(x.type.dtype).itemsize, 1))


def _indices(low: Lowering, op: Op) -> tuple[int, int]:
    """Indices that a partition has at a time, with what it found, and that it looks up at a time."""
    x, index = op.operands
    width, itemsize = prod(x.type.shape[1:]), device_dtype(x.type.dtype).itemsize
    room = low.target["memory.sbuf_usable_bytes"] // 16
    held = max(2 * room // (2 * int32.itemsize + width * itemsize), 1)
    # Each in two copies.
    looked_up = max(room // (2 * (int32.itemsize + uint8.itemsize + width * (uint32.itemsize + itemsize))), 1)
    return min(held, -(-index.type.size // low.target["limits.partitions"])), looked_up


@decision("take: by parts of the table")
def take_by_parts(low: Lowering, op: Op) -> None:
    """All rows, as many at a time as there is room for."""
    x, index = op.operands
    width, count, size = prod(x.type.shape[1:]), index.type.size, x.type.shape[0]
    line, row = as_shape(low.contiguous(index), (count,)), as_shape(low.contiguous(x), (1, size * width))
    out = as_shape(result_in_hbm(low, op), (count * width,))
    lanes, (each, looked_up) = low.target["limits.partitions"], _indices(low, op)
    rows = _rows_of_a_part(low, op)
    for at, some in tiled(low.b, count, lanes * each, "n"):
        per = -(-some // lanes)
        places = wrapped(low, laid(low, sliced(line, 0, at, some), per), index)
        if not is_checked(index, size):
            check(low, places, size)
        made = low.b.sbuf((lanes, per, width), out.dtype, "taken")
        for first in range(0, size, rows):
            height = min(rows, size - first)
            part = low.b.sbuf((lanes, rows * width), row.dtype, "table", depth=2)
            part = sliced(part, 1, 0, height * width)
            shuffle_over(low, part, sliced(row, 1, first * width, height * width))
            for i, n in tiled(low.b, per, min(looked_up, per), "i"):
                _look_up(low, sliced(made, 1, i, n), part, sliced(places, 1, i, n), first, height)
        flat = as_shape(made, (lanes, per * width))
        start = affine(at) * width
        for tile, there in in_lines(flat, sliced(out, 0, start, some * width)):
            low.b.op("dma_copy", there, tile)


def _look_up(low: Lowering, made: View, part: View, places: View, first: int, height: int) -> None:
    """Rows of a part of the table, where an index is not below it; of the first part, everywhere."""
    b, (lanes, per, width) = low.b, made.sizes
    own = b.sbuf((lanes, per), int32, "own", depth=2)
    b.op("tensor_scalar", own, places, float(-first), 0.0, op0="add", op1="maximum")
    b.op("tensor_scalar", own, own, float(height - 1), float(width), op0="minimum", op1="multiply")
    wide = b.sbuf((lanes, per, width), uint32, "wide", depth=2)
    steps = broadcast(expanded(_ramp(low, width), 1), wide.sizes)
    b.op("tensor_tensor", wide, broadcast(expanded(own, 2), wide.sizes), steps, op="add")
    got = b.sbuf(made.sizes, made.dtype, "got", depth=2) if first else made
    flat = [reshaped(view, (lanes, per * width)) for view in (got, wide)]
    assert flat[0] is not None and flat[1] is not None
    b.op("nc_n_gather", flat[0], part, flat[1])
    if first:
        there = b.sbuf((lanes, per), uint8, "there", depth=2)
        b.op("tensor_scalar", there, places, float(first), op0="greater_equal")
        b.op("tensor_copy_predicated", made, got, broadcast(expanded(there, 2), made.sizes))


def _ramp(low: Lowering, width: int) -> View:
    """[lanes, width]: 0, 1, 2, ..."""

    def make() -> View:
        made = low.b.sbuf((low.target["limits.partitions"], width), int32, "ramp")
        low.b.op("iota", made, pattern=((1, width),), offset=0, channel_multiplier=0)
        return made

    return once(low, ("integers", width), make)
