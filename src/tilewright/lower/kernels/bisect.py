"""count_before: how many elements of a sorted row come before each value, by halving what is left of the row.

    place = 0;  for step in (n / 2, ..., 2, 1): place += step where row[place + step - 1] < value

The row lies on every partition, a part of it at a time if it is long, and each partition looks up the elements for its
own values. Beyond the end of the row the last element is looked up: it is before a value only if all are. Nothing is
less than NaN: for those the numbers of the row are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float32, int32, uint32
from tilewright.ir.core import Op
from tilewright.lower.decisions import decision
from tilewright.lower.move.join import fill_hbm, result_in_hbm
from tilewright.lower.move.moves import replicate
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import device_dtype
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.views import as_shape, reshaped, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


@decision("search: bisected")
def count_before(low: Lowering, op: Op) -> None:
    """All values, some on each partition at a time."""
    x, v = op.operands
    size, count = x.type.size, v.type.size
    out = result_in_hbm(low, op)
    if not count:
        return
    if not size:
        fill_hbm(low, out, 0)
        return
    row, values, flat = (as_shape(view, (n,)) for view, n in _lines(low, op, out))
    b, lanes = low.b, low.target["limits.partitions"]
    most = TUNING.searched - 1
    table = replicate(low, row, lanes, "table") if size <= most else None
    for start, some in tiled(b, count, lanes * TUNING.bisected_values, "v"):
        for held, there, made in _spread(low, sliced(values, 0, start, some), sliced(flat, 0, start, some)):
            b.op("dma_copy", held, there)
            height = held.sizes[0]
            if table is not None:
                place = _places(low, sliced(table, 0, 0, height), held, op.attrs["right"])
                _deliver(low, made, place)
                continue
            total = b.sbuf(held.sizes, float32, "total")
            b.op("memset", total, value=0.0)
            for at, width in tiled(b, size, most, "t"):
                part = sliced(replicate(low, sliced(row, 0, at, width), lanes, "table"), 0, 0, height)
                place = _places(low, part, held, op.attrs["right"])
                b.op("tensor_tensor", total, total, place, op="add", engine="vector")
            _deliver(low, made, total)


def _lines(low: Lowering, op: Op, out: View) -> list[tuple[View, int]]:
    x, v = op.operands
    return [(low.contiguous(x), x.type.size), (low.contiguous(v), v.type.size), (out, v.type.size)]


def _spread(low: Lowering, values: View, out: View) -> list[tuple[View, View, View]]:
    """Tiles with neighbours on one partition, what goes there, and where their places go: full ones, then the rest."""
    lanes, count = low.target["limits.partitions"], values.sizes[0]
    per = -(-count // lanes)
    whole, rest = divmod(count, per)
    found: list[tuple[View, View, View]] = []
    for first, height, width in ((0, whole, per), (whole * per, 1, rest)):
        if not height * width:
            continue
        tile = low.b.sbuf((height, width), device_dtype(values.dtype), "values", depth=2)
        parts = [reshaped(sliced(view, 0, first, height * width), (height, width)) for view in (values, out)]
        assert parts[0] is not None and parts[1] is not None
        found.append((tile, parts[0], parts[1]))
    return found


def _places(low: Lowering, table: View, values: View, right: bool) -> View:
    """[partitions, n] in float32: how many of the table come before each value."""
    b, size, last = low.b, values.sizes, table.sizes[1] - 1
    place, step = b.sbuf(size, float32, "place", depth=2), 1 << table.sizes[1].bit_length() - 1
    b.op("memset", place, value=0.0)
    alu = "less_equal" if right else "less"
    exact = values.dtype is int32
    while step:
        at = b.sbuf(size, uint32, "at", depth=2)
        b.op("tensor_scalar", at, place, float(step - 1), float(last), op0="add", op1="minimum")
        near = b.sbuf(size, table.dtype, "near", depth=2)
        b.op("nc_n_gather", near, table, at)
        before = b.sbuf(size, int32 if exact else bfloat16, "before", depth=2)
        b.op("tensor_tensor", before, near, values, op=alu, engine="gpsimd")
        b.op("scalar_tensor_tensor", place, before, float(step), place, op0="multiply", op1="add")
        step //= 2
    b.op("tensor_scalar", place, place, float(table.sizes[1]), op0="minimum")
    if not exact:
        holes = b.sbuf(size, bfloat16, "holes", depth=2)
        b.op("tensor_tensor", holes, values, values, op="not_equal", engine="gpsimd")
        numbers = float(table.sizes[1]) if right else _numbers(low, table)
        b.op("scalar_tensor_tensor", place, holes, numbers, place, op0="multiply", op1="add")
    return place


def _numbers(low: Lowering, table: View) -> View:
    """[partitions, 1]: how many elements are not NaN."""
    b = low.b
    known, total = (
        b.sbuf(table.sizes, bfloat16, "known", depth=2),
        b.sbuf((table.sizes[0], 1), float32, "numbers", depth=2),
    )
    b.op("tensor_tensor", known, table, table, op="equal", engine="gpsimd")
    b.op("tensor_reduce", total, known, op="add", axis=(1,))
    return total


def _deliver(low: Lowering, out: View, place: View) -> None:
    made = low.b.sbuf(place.sizes, out.dtype, "places", depth=2)
    low.b.op("tensor_copy", made, place)
    low.b.op("dma_copy", out, made)
