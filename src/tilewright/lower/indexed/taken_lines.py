"""Elements by run-time indices along an axis with little behind it: what is before it are rows, on partitions.

    out[r, i] = x[r, index[i]]

Where rows are many, a partition has several of them, and the same indices for each. Where they are few, several
partitions have the same row, and some of the indices each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import uint32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.indices import check, is_checked, wrapped
from tilewright.lower.move.join import result_in_hbm
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import device_dtype
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.views import as_shape, broadcast, expanded, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


@dataclass(frozen=True, slots=True)
class Lines:
    """x as [rows, size, after], and how it lies on chip.

    per: rows of a partition;    shares: parts of the indices, each on partitions of its own.
    """

    rows: int
    size: int
    after: int
    count: int
    per: int
    shares: int

    def room(self, itemsize: int, lanes: int) -> int:
        """Bytes of a partition: all but the indices in two copies, where there are several blocks of rows."""
        taken = self.per * -(-self.count // self.shares) * self.after
        copies = 1 if self.rows <= lanes * self.per else 2
        return copies * itemsize * (self.per * self.size * self.after + taken) + 3 * uint32.itemsize * taken


def _lines(low: Lowering, op: Op) -> Lines | None:
    """How rows lie on chip, or None where there is no room, or where each element had better be fetched."""
    x, index = op.operands
    axis, shape, lanes = op.attrs["axis"], x.type.shape, low.target["limits.partitions"]
    rows, after, count = prod(shape[:axis]), prod(shape[axis + 1 :]), index.type.size
    itemsize = device_dtype(x.type.dtype).itemsize
    if rows == 1 or rows * count <= 2 * lanes or after * itemsize >= TUNING.long_run:
        return None
    room, found = low.room() + low.target["memory.sbuf_usable_bytes"] // 4, None
    # More rows than this overlap nothing.
    most = max(1, min(rows // lanes, TUNING.tile_bytes // (shape[axis] * after * itemsize)))
    for per in [n for n in range(1, most + 1) if rows % n == 0]:
        lines = Lines(rows, shape[axis], after, count, per, max(1, min(lanes // max(rows // per, 1), count)))
        found = lines if lines.room(itemsize, lanes) <= room else found
    return found


@decision("take: along rows on chip", if_found=True)
def take_on_chip(low: Lowering, op: Op) -> bool:
    """Rows on partitions, each gathers for itself."""
    lines = _lines(low, op)
    if lines is None:
        return False
    x, index = op.operands
    b, lanes, dtype = low.b, low.target["limits.partitions"], device_dtype(x.type.dtype)
    high = lines.rows // lines.per
    source = as_shape(low.contiguous(x), (high, lines.per * lines.size * lines.after))
    out = as_shape(result_in_hbm(low, op), (high, lines.per, lines.count * lines.after))
    line = as_shape(low.contiguous(index), (lines.count,))
    each = -(-lines.count // lines.shares)
    starts = range(0, lines.count, each)
    step = lanes if lines.shares == 1 else high
    places = _places(low, line, index, lines, min(step, high))
    for at, height in tiled(b, high, step, "r"):
        tile = b.sbuf((len(starts) * height, source.sizes[1]), dtype, "rows", depth=2)
        made = b.sbuf((len(starts) * height, lines.per * each * lines.after), dtype, "taken", depth=2)
        for share in range(len(starts)):
            b.op("dma_copy", sliced(tile, 0, share * height, height), sliced(source, 0, at, height))
        b.op("nc_n_gather", made, tile, sliced(places, 0, 0, made.sizes[0]))
        for share, start in enumerate(starts):
            some = min(each, lines.count - start) * lines.after
            there = sliced(sliced(out, 0, at, height), 2, start * lines.after, some)
            own = split(sliced(made, 0, share * height, height), 1, (lines.per, each * lines.after))
            b.op("dma_copy", there, sliced(own, 2, 0, some))
    return True


def _places(low: Lowering, line: View, index: Value, lines: Lines, height: int) -> View:
    """[partitions, per * indices * after]: where in a partition's rows what it takes lies; checked."""
    b, each = low.b, -(-lines.count // lines.shares)
    starts = range(0, lines.count, each)
    tile = b.sbuf((len(starts) * height, each), line.dtype, "index")
    if len(starts) * each != lines.count:
        b.op("memset", tile, value=0)
    for share, start in enumerate(starts):
        some = min(each, lines.count - start)
        own = sliced(sliced(tile, 0, share * height, height), 1, 0, some)
        b.op("dma_copy", own, broadcast(expanded(sliced(line, 0, start, some), 0), own.sizes))
    tile = wrapped(low, tile, index)
    if not is_checked(index, lines.size):
        check(low, tile, lines.size)
    sizes = (tile.sizes[0], lines.per, each, lines.after)
    made, steps = b.sbuf(sizes, uint32, "places"), b.sbuf((tile.sizes[0], lines.per, lines.after), uint32, "steps")
    pattern = ((lines.size * lines.after, lines.per), (1, lines.after))
    b.op("iota", steps, pattern=pattern, offset=0, channel_multiplier=0)
    if lines.after > 1:
        scaled = b.sbuf(tile.sizes, uint32, "places")
        b.op("tensor_scalar", scaled, tile, float(lines.after), op0="multiply")
        tile = scaled
    wide = broadcast(expanded(expanded(tile, 2), 1), sizes)
    b.op("tensor_tensor", made, wide, broadcast(expanded(steps, 2), sizes), op="add", engine="vector")
    return as_shape(made, (sizes[0], prod(sizes[1:])))
