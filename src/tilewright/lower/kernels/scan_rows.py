"""Running sums and products over rows: blocks of rows are turned, so that each column is a line of its own partition.

Some columns after the others, and of these some rows after the others are loaded, turned, gone on with from the last
row, turned back and stored.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op
from tilewright.lower.decisions import decision
from tilewright.lower.move.copy import turn_tile
from tilewright.lower.move.join import result_in_hbm
from tilewright.lower.move.moves import load_rows, store_rows
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.views import as_shape, broadcast, permuted, picked, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def scan_rows(low: Lowering, op: Op) -> None:
    """cumsum or cumprod along an axis that is not the last."""
    (x,) = op.operands
    axis, shape = op.attrs["axis"], x.type.shape
    count, width = shape[axis], prod(shape[axis + 1 :])
    flat = (x.type.size // (count * width), count, width)
    source, out = as_shape(low.contiguous(x), flat), as_shape(result_in_hbm(low, op), flat)
    # What only the Vector engine does; who makes the copies depends on it.
    rate = low.target["clock_ghz.vector"] * low.target["vector.elements_per_cycle.scan"]
    low.selecting.load["vector"] += x.type.size / low.target["limits.partitions"] / rate
    # Rows first: [rows, batch, width].
    pair = [permuted(view, (1, 0, 2)) for view in (source, out)]
    most = min(width, TUNING.scanned_columns)
    for first, some in tiled(low.b, flat[0], max(TUNING.scanned_columns // width, 1), "b"):
        for at, columns in tiled(low.b, width, most, "c"):
            _scan(low, op.name, *(sliced(sliced(view, 1, first, some), 2, at, columns) for view in pair))


@decision("scan: over rows")
def _scan(low: Lowering, name: str, source: View, out: View) -> None:
    """All rows of [rows, batch, width]: every column goes on from what the rows before gave."""
    b, lanes = low.b, low.target["limits.partitions"]
    rows, batch, width = source.sizes
    columns = batch * width
    blocks = -(-columns // lanes)
    carry = b.sbuf((min(lanes, columns), blocks), float32, "carry")
    b.op("memset", carry, value=0.0 if name == "cumsum" else 1.0)
    ones = b.sbuf((min(lanes, columns), 1), float32, "ones")
    b.op("memset", ones, value=1.0)
    for at, count in tiled(b, rows, min(TUNING.scanned_rows, rows), "r"):
        high, deep = min(lanes, count), -(-count // lanes)
        tile = b.sbuf((high, deep, batch, width), float32, "rows", depth=3)
        load_rows(low, tile, sliced(source, 0, at, count))
        lines = b.sbuf((min(lanes, columns), blocks, count), float32, "lines", depth=2)
        flat = as_shape(tile, (high, deep, columns))
        for i in range(deep):
            held = min(lanes, count - i * lanes)
            turn_tile(low, sliced(lines, 2, i * lanes, held), sliced(picked(flat, 1, i), 0, 0, held), columns)
        for i in range(blocks):
            held = min(lanes, columns - i * lanes)
            line, last = sliced(picked(lines, 1, i), 0, 0, held), sliced(sliced(carry, 0, 0, held), 1, i, 1)
            one = broadcast(sliced(ones, 0, 0, held), line.sizes)
            operands = (one, line) if name == "cumsum" else (line, one)
            then = "add" if name == "cumsum" else "multiply"
            b.op("tensor_tensor_scan", line, *operands, last, op0="multiply", op1=then)
            b.op("tensor_copy", last, sliced(line, 1, count - 1, 1))
        made = b.sbuf((high, deep, batch, width), float32, "sums", depth=3)
        back = as_shape(made, (high, deep, columns))
        for i in range(blocks):
            held = min(lanes, columns - i * lanes)
            turn_tile(low, sliced(back, 2, i * lanes, held), sliced(picked(lines, 1, i), 0, 0, held), count)
        store_rows(low, sliced(out, 0, at, count), made)
