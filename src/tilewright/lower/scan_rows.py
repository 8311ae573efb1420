"""Running sums and products over rows: long rows lie across partitions, and each takes in the one before it."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op
from tilewright.lower.join import result_in_hbm
from tilewright.lower.loops import tiled
from tilewright.lower.tuning import SCANNED_BYTES, SCANNED_PART
from tilewright.lower.views import At, affine, permuted, picked, reshaped, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def scan_rows(low: Lowering, op: Op) -> None:
    """cumsum or cumprod along an axis that is not the last."""
    (x,) = op.operands
    axis, shape = op.attrs["axis"], x.type.shape
    count, width = shape[axis], prod(shape[axis + 1 :])
    flat = (x.type.size // (count * width), count, width)
    source, out = reshaped(low.contiguous(x), flat), reshaped(result_in_hbm(low, op), flat)
    assert source is not None and out is not None
    lanes = low.target["limits.partitions"]
    # Parts of a row long enough for transfers, on as many partitions as that leaves.
    length = max(SCANNED_PART, -(-width // lanes))
    for at, columns in tiled(low.b, width, length * lanes, "c"):
        # Whole parts, then what is left of the row.
        whole = columns // length * length
        for start, size in ((at, whole), (affine(at) + whole, columns - whole)):
            if size:
                parts = max(size // length, 1)
                for first, blocks in tiled(low.b, flat[0], lanes // parts, "b"):
                    pair = [_parts(sliced(v, 0, first, blocks), start, size, parts) for v in (source, out)]
                    _scan(low, op.name, *pair)


def _parts(view: View, at: At, size: int, parts: int) -> View:
    """Some columns of [blocks, rows, width], as [blocks, parts, rows, length]."""
    return permuted(split(sliced(view, 2, at, size), 2, (parts, size // parts)), (0, 2, 1, 3))


def _scan(low: Lowering, name: str, source: View, out: View) -> None:
    """Chunk by chunk of [blocks, parts, rows, length]: row 0 of a tile is the last one of the chunk before."""
    b, (blocks, parts, rows, length) = low.b, source.sizes
    last = b.sbuf((blocks * parts, length), float32, "last")
    b.op("memset", last, value=0.0 if name == "cumsum" else 1.0)
    most = max(min(rows, SCANNED_BYTES // (length * float32.itemsize)), 1)
    for at, count in tiled(b, rows, most, "r"):
        tile = b.sbuf((blocks * parts, count + 1, length), float32, "rows", depth=3)
        inside = sliced(tile, 1, 1, count)
        for i in range(blocks):
            b.op("dma_copy", sliced(inside, 0, i * parts, parts), sliced(picked(source, 0, i), 1, at, count))
        b.op("tensor_copy", picked(tile, 1, 0), last)
        with b.loop(count, "i") as i:
            before, row = picked(tile, 1, i), picked(tile, 1, affine(i) + 1)
            b.op("tensor_tensor", row, before, row, op="add" if name == "cumsum" else "multiply")
        b.op("tensor_copy", last, picked(tile, 1, count))
        for i in range(blocks):
            b.op("dma_copy", sliced(picked(out, 0, i), 1, at, count), sliced(inside, 0, i * parts, parts))
