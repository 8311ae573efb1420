"""Rows added up by their indices, out[index[i]] += part[i], where places are not many: as products that stay in PSUM.

Of 128 rows of the part, one on each partition, each has a row of a matrix that is 1 where its place is, for 128 places
at a time: the product of that matrix, turned, with the rows adds every row to its place, equal indices included. All of
it is bfloat16 (counting.py): a float32 is the sum of three such numbers; infinities and NaN are counted.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.counting import MOST, PARTS, finite_parts, known_places, marked
from tilewright.lower.indexed.exchanged_rows import added_in_turn, adds_rows, exchanged_ns
from tilewright.lower.indexed.indices import check, is_checked, wrapped
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import column_numbers
from tilewright.lower.write.views import At, as_shape, expanded, permuted, picked, reshaped, sliced, split
from tilewright.target import Target
from tilewright.tensor.ranges import EXACT
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

KINDS = PARTS + 2
"""Columns of a product for each column of the part: three parts of a number, infinities, negative ones."""


def places_rows(low: Lowering, op: Op) -> bool:
    """True where products with a matrix of all places take less time than fetching rows and sending them back."""
    x, index, part = op.operands
    plain = op.attrs["combine"] == "add" and x.type.dtype is float32 and part.type.size > 0
    if not plain or x.type.shape[0] > EXACT:
        return False
    target, width = low.target, prod(x.type.shape[1:])
    lanes = target["limits.partitions"]
    blocks, tiles = -(-index.type.size // lanes), -(-x.type.shape[0] // lanes)
    count, rows = index.type.size, x.type.shape[0]
    exchanged = (
        added_in_turn(target, count, rows, width)[1] if adds_rows(low, op) else count * exchanged_ns(target, width)
    )
    # Where it takes about as long: products move fewer bytes.
    return _products_ns(target, blocks, tiles, width) < TUNING.about_equal * exchanged


def _products_ns(target: Target, blocks: int, tiles: int, width: int) -> float:
    lanes, vector = target["limits.partitions"], target["clock_ghz.vector"]
    columns = max(KINDS * width, target["tensor.weight_load_min_columns"])
    product = columns / target["clock_ghz.tensor"] / target["tensor.throttle_fraction"]
    marked = lanes / target["vector.elements_per_cycle.two_inputs_16bit"] / vector
    # About nine cycles for each number that becomes five, and six for each sum.
    added = blocks * max(tiles * (product + target["tensor.weight_load_ns.other"]), tiles * marked + 9 * width / vector)
    return added + tiles * 6 * (width + target["vector.overhead_cycles.other"]) / vector


@decision("count: rows in PSUM")
def place_rows(low: Lowering, op: Op, out: View) -> None:
    """x with all rows of the part added to their places."""
    x, index, part = op.operands
    count, rows, width = index.type.size, x.type.shape[0], prod(x.type.shape[1:])
    views = (reshaped(low.contiguous(x), (rows, width)), reshaped(low.contiguous(index), (count,)))
    source, numbers = views
    data, target = reshaped(low.contiguous(part), (count, width)), reshaped(out, (rows, width))
    assert source is not None and numbers is not None and data is not None and target is not None
    bank = low.target["memory.psum_bank_bytes"] // float32.itemsize
    lanes = low.target["limits.partitions"]
    most = lanes * (low.target["memory.psum_banks"] * 3 // 4)
    for column in range(0, width, bank // KINDS):
        some = min(bank // KINDS, width - column)
        for first in range(0, rows, most):
            sums = PlacedRows(low, first, min(most, rows - first), some)
            sums.run(numbers, sliced(data, 1, column, some), index, None if is_checked(index, rows) or first else rows)
            sums.deliver(*(sliced(view, 1, column, some) for view in (source, target)))


class PlacedRows:
    """Adds up what belongs to some places, for some columns."""

    def __init__(self, low: Lowering, first: int, height: int, width: int) -> None:
        self.low, self.b, self.first, self.height, self.width = low, low.b, first, height, width
        self.lanes = low.target["limits.partitions"]
        self.tiles = [(at, min(self.lanes, height - at)) for at in range(0, height, self.lanes)]
        self.banks = [low.b.psum((size, KINDS * width), float32, "sums") for _, size in self.tiles]

    def run(self, numbers: View, data: View, index: Value, size: int | None) -> None:
        """All rows, some on each partition at a time; their indices are checked if a size is given."""
        per = max(TUNING.part_bytes // (4 * KINDS * self.width * bfloat16.itemsize), 1)
        for at, count in tiled(self.b, numbers.sizes[0], self.lanes * per, "n"):
            places = wrapped(self.low, self._laid(expanded(sliced(numbers, 0, at, count), 1), count, 2), index)
            if size is not None:
                check(self.low, places, size)
            new = self._laid(sliced(data, 0, at, count), count, 3)
            self._some(known_places(self.low, places, count), new)

    def _laid(self, rows: View, count: int, rank: int) -> View:
        """[lanes, per, width], or without the last: neighbours on one partition, and zeros behind the last."""
        b, width = self.b, rows.sizes[1]
        per = -(-count // self.lanes)
        tile = b.sbuf((self.lanes, per, width), rows.dtype, "rows", depth=2)
        whole, rest = divmod(count, per)
        if whole < self.lanes:
            b.op("memset", tile, value=0 if rows.dtype.is_integer else 0.0)
        if whole:
            b.op("dma_copy", sliced(tile, 0, 0, whole), split(sliced(rows, 0, 0, whole * per), 0, (whole, per)))
        if rest:
            part = expanded(sliced(rows, 0, whole * per, rest), 0)
            b.op("dma_copy", sliced(sliced(tile, 0, whole, 1), 1, 0, rest), part)
        return picked(tile, 2, 0) if rank == 2 else tile

    def _some(self, places: View, new: View) -> None:
        b, (lanes, per, width) = self.b, new.sizes
        moving = b.sbuf((lanes, per, KINDS, width), bfloat16, "moving", depth=2)
        finite_parts(self.low, new, [picked(moving, 2, kind) for kind in range(KINDS)])
        own = [b.sbuf(places.sizes, bfloat16, "place", depth=2) for _ in self.tiles]
        for tile, (at, _) in zip(own, self.tiles, strict=True):
            # Of these only 0 to 127 are places; rounding makes none of others.
            b.op("tensor_scalar", tile, places, float(-self.first - at), op0="add")
        each = max(1, TUNING.part_bytes // (self.height * bfloat16.itemsize))
        for at, count in tiled(b, per, min(each, per), "f"):
            self._products([sliced(tile, 1, at, count) for tile in own], sliced(moving, 1, at, count))

    def _products(self, own: list[View], moving: View) -> None:
        marks = [self._marked(tile, size) for tile, (_, size) in zip(own, self.tiles, strict=True)]
        with self.b.loop(moving.sizes[1], "j") as j:
            row = self._flat(moving, j)
            for bank, mark in zip(self.banks, marks, strict=True):
                self.b.op("nc_matmul", bank, picked(mark, 1, j), row)

    def _flat(self, moving: View, at: At) -> View:
        row = picked(moving, 1, at)
        return as_shape(row, (row.sizes[0], row.sizes[1] * row.sizes[2]))

    def _marked(self, own: View, size: int) -> View:
        return marked(self.low, own, sliced(column_numbers(self.low, self.lanes, bfloat16), 1, 0, size))

    def deliver(self, source: View, target: View) -> None:
        """Add the sums to what was there."""
        b, width = self.b, self.width
        for bank, (at, size) in zip(self.banks, self.tiles, strict=True):
            kinds = split(bank, 1, (KINDS, width))
            held, total = (b.sbuf((size, width), float32, name, depth=2) for name in ("held", "total"))
            start = self.first + at
            b.op("dma_copy", held, sliced(source, 0, start, size))
            b.op("tensor_reduce", total, permuted(sliced(kinds, 1, 0, PARTS), (0, 2, 1)), op="add", axis=(-1,))
            b.op("tensor_tensor", held, held, total, op="add")
            for kind, alu in ((PARTS, "add"), (PARTS + 1, "subtract")):
                # 0, or infinity
                beyond = b.sbuf((size, width), float32, "beyond", depth=2)
                b.op("tensor_scalar", beyond, picked(kinds, 1, kind), MOST, MOST, op0="multiply", op1="multiply")
                b.op("tensor_tensor", held, held, beyond, op=alu)
            b.op("dma_copy", sliced(target, 0, start, size), held)
