"""Sorting by networks: pairs at fixed distances are compared, the less to the front, log2(n)^2 / 2 times for all.

Rows that lie on a partition each are sorted there, many at a time. A long row lies across all partitions: what is
compared within a partition is as before; for pairs on different partitions rows and columns change places. Where a part
has to be sorted backwards its elements are negative for the time.

Values go without positions: NaN count as infinity, and how many there are is known in the end. Positions go with keys
(picker.py), and of equal keys the lower position comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float32, int32, uint8
from tilewright.lower.decisions import decision
from tilewright.lower.loops import tiled
from tilewright.lower.patterns import column_numbers, identity, once
from tilewright.lower.picker import Picker
from tilewright.lower.ranks import RowPicker
from tilewright.lower.tuning import TUNING
from tilewright.lower.views import At, expanded, picked, reshaped, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


Tiles = list[View]
"""What is sorted by, and perhaps positions that go with it."""


def sorts_rows(pick: Picker, rows: int, size: int) -> bool:
    """True where whole rows are sorted on a partition each, for their values, in less time than by rounds of eight."""
    target = pick.low.target
    if pick.wants_places or not pick.wants_values or size > TUNING.searched or rows < target["limits.partitions"] // 2:
        return False
    width = _power(size)
    stages = width.bit_length() * (width.bit_length() - 1) // 2
    eight = target["limits.max8_width"]
    rounds = 2 * -(-pick.k // eight) * (size + target["vector.overhead_cycles.max8"])
    return stages * (width + target["vector.overhead_cycles.other"]) < rounds


def sorts_long(pick: Picker, rows: int, size: int) -> bool:
    """True where a row lies across all partitions."""
    target = pick.low.target
    if not target["features.transpose_bit_exact"] or not TUNING.least_long <= size <= TUNING.sorted_long:
        return False
    return pick.counts(rows, size) or (size > TUNING.searched and 2 * pick.k > size)


def _power(size: int) -> int:
    return 1 << max(size - 1, 1).bit_length()


# Rows on partitions.


@decision("sort: rows by a network")
def sort_rows(low: Lowering, pick: Picker, source: View, out: View) -> None:
    """The best k values of each row of [rows, size] in HBM."""
    lanes, (rows, size) = low.target["limits.partitions"], source.sizes
    each = max(1, TUNING.searched // _power(size))
    whole, rest = divmod(rows, lanes)

    def some(start: At, height: int, blocks: int) -> None:
        x = low.b.sbuf((height, blocks, size), source.dtype, "x", depth=2)
        there, into = (split(sliced(v, 0, start, height * blocks), 0, (height, blocks)) for v in (source, out))
        low.b.op("dma_copy", x, there)
        low.b.op("dma_copy", into, _sorted_values(low, pick, x))

    for at, count in tiled(low.b, whole, each, "r") if whole else ():
        some(at * lanes, lanes, count)
    if rest:
        some(whole * lanes, rest, 1)


def _sorted_values(low: Lowering, pick: Picker, x: View) -> View:
    """[lanes, blocks, k]: the best values of rows."""
    b, (lanes, blocks, size) = low.b, x.sizes
    width = _power(size)
    keys = b.sbuf((lanes, blocks, width), float32, "keys", depth=2)
    holes = _spread(low, keys, x)
    (found,) = Network(low, [keys]).sort()
    if holes is not None:
        count = b.sbuf((lanes, blocks), float32, "count", depth=2)
        b.op("tensor_reduce", count, holes, op="add", axis=(-1,))
        _put_holes(low, found, count, size)
    best = sliced(found, 2, 0, pick.k)
    if pick.largest:
        best = _backwards(sliced(found, 2, size - pick.k, pick.k))
    made = b.sbuf((lanes, blocks, pick.k), pick.dtype, "best", depth=2)
    low.selecting.copy(made, best)
    return made


def _spread(low: Lowering, keys: View, x: View) -> View | None:
    """x in float32, NaN as infinity and infinity behind the last; 1 where there was NaN."""
    b, size = low.b, x.sizes[-1]
    if size < keys.sizes[-1]:
        b.op("memset", sliced(keys, keys.ndim - 1, size, keys.sizes[-1] - size), value=float("inf"))
    own = sliced(keys, keys.ndim - 1, 0, size)
    low.selecting.copy(own, x)
    if x.dtype.is_integer:
        return None
    holes = b.sbuf(x.sizes, uint8, "holes", depth=2)
    b.op("tensor_scalar", holes, x, float("inf"), 0.0, op0="less_equal", op1="equal")
    b.op("tensor_copy_predicated", own, float("inf"), holes)
    return holes


def _put_holes(low: Lowering, found: View, count: View, size: int) -> None:
    """NaN in place of the last of each row, as many as there were."""
    b, (lanes, blocks, _) = low.b, found.sizes
    first = b.sbuf(count.sizes, float32, "first", depth=2)
    b.op("tensor_scalar", first, count, -1.0, float(size), op0="multiply", op1="add")
    ramp = sliced(column_numbers(low, size), 0, 0, lanes)
    behind = b.sbuf((lanes, blocks, size), uint8, "behind", depth=2)
    for j in range(blocks):
        b.op("tensor_scalar", picked(behind, 1, j), ramp, sliced(first, 1, j, 1), op0="greater_equal")
    b.op("tensor_copy_predicated", sliced(found, 2, 0, size), float("nan"), behind)


def _backwards(view: View) -> View:
    last = view.ndim - 1
    offset = view.offset + (view.sizes[last] - 1) * view.strides[last]
    return View(view.buffer, view.dtype, offset, view.sizes, (*view.strides[:last], -view.strides[last]), view.terms)


class Network:
    """Compares pairs of tiles [lanes, blocks, width], writing from one set of tiles to another and back."""

    def __init__(self, low: Lowering, tiles: Tiles) -> None:
        self.low, self.b, self.tiles = low, low.b, tiles
        self.other = [low.b.sbuf(tile.sizes, tile.dtype, "sorted", depth=2) for tile in tiles]
        shared = low.target["features.port_vector_gpsimd_sbuf"]
        self.helper = "vector" if shared else "gpsimd"
        # Space of its own for what is compared: networks in a loop would need it anew for every step.
        names = {"greater": bfloat16, "equal": bfloat16, "later": bfloat16, "step": float32} if len(tiles) > 1 else {}
        half = (tiles[0].sizes[0], max(tiles[0].free, low.target["limits.partitions"]) // 2)
        self.space = {name: low.b.sbuf(half, dtype, name) for name, dtype in names.items()}

    def _space(self, name: str, like: View) -> View:
        tile = sliced(sliced(self.space[name], 0, 0, like.sizes[0]), 1, 0, like.free)
        made = reshaped(tile, like.sizes)
        assert made is not None
        return made

    def sort(self) -> Tiles:
        """All of it, ascending."""
        size = 2
        while size <= self.tiles[0].sizes[-1]:
            self._pairs(size, is_mirrored=True)
            self.merge(size // 2)
            size *= 2
        return self.tiles

    def merge(self, size: int) -> Tiles:
        """Parts of this size, each rising and then falling, become sorted."""
        while size > 1:
            self._pairs(size)
            size //= 2
        return self.tiles

    def _pairs(self, size: int, is_mirrored: bool = False) -> None:
        """Elements half a part of this size apart, or at the same distance from its ends."""
        halves = [
            [picked(split(tile, 2, (tile.sizes[2] // size, 2, size // 2)), 3, side) for tile in tiles]
            for tiles in (self.tiles, self.other)
            for side in (0, 1)
        ]
        first, second, less, more = halves
        if is_mirrored:
            second, more = ([_backwards(tile) for tile in tiles] for tiles in (second, more))
        self.exchange(first, second, less, more)
        self.turn()

    def turn(self) -> None:
        """What was written is read next."""
        self.tiles, self.other = self.other, self.tiles

    def exchange(self, first: Tiles, second: Tiles, less: Tiles, more: Tiles) -> None:
        """The less of each pair to one side, the more to the other."""
        b, helper = self.b, self.helper
        (one, *own), (two, *their) = first, second
        b.op("tensor_tensor", less[0], one, two, op="minimum", engine="vector" if not own else helper)
        b.op("tensor_tensor", more[0], one, two, op="maximum", engine=helper)
        if not own:
            return
        greater, equal, later, step = (self._space(name, one) for name in ("greater", "equal", "later", "step"))
        b.op("tensor_tensor", greater, one, two, op="greater", engine="vector")
        b.op("tensor_tensor", equal, one, two, op="equal", engine=helper)
        b.op("tensor_tensor", later, own[0], their[0], op="greater", engine="vector")
        b.op("tensor_tensor", later, later, equal, op="minimum", engine="vector")
        b.op("tensor_tensor", later, later, greater, op="maximum", engine="vector")
        b.op("tensor_tensor", step, their[0], own[0], op="subtract", engine=helper)
        b.op("tensor_tensor", step, step, later, op="multiply", engine="vector")
        b.op("tensor_tensor", less[1], own[0], step, op="add", engine=helper)
        b.op("tensor_tensor", more[1], their[0], step, op="subtract", engine="vector")


# Long rows.


class LongNetwork(Network):
    """A row across partitions: element p * width + f is the f-th of partition p; tiles are [lanes, 1, width]."""

    def __init__(self, low: Lowering, tiles: Tiles) -> None:
        super().__init__(low, tiles)
        lanes, _, width = tiles[0].sizes
        height = min(lanes, width)
        self.turned = [[low.b.sbuf((height, width // height, lanes), float32, "turned") for _ in tiles] for _ in (0, 1)]
        bank = low.target["memory.psum_bank_bytes"] // float32.itemsize
        self.banks = [low.b.psum((lanes, bank), float32, "turn") for _ in range(TUNING.bitonic_turns)]

    def sort_across(self) -> Tiles:
        """All of it, ascending."""
        lanes, _, width = self.tiles[0].sizes
        self._sign(1)
        self.sort()
        self._sign(1)
        many = 2
        while many <= lanes:
            self._across(many)
            self._sign(many)
            self.merge(width)
            self._sign(many)
            many *= 2
        return self.tiles

    def _sign(self, many: int) -> None:
        """Parts of so many partitions are negative in turn, but for the last step, in which there is but one."""
        if many == self.tiles[0].sizes[0]:
            return
        for tile in self.tiles:
            self.b.op("tensor_scalar", tile, tile, _signs(self.low, many), op0="multiply")

    def _across(self, many: int) -> None:
        """Pairs on different partitions, parts of so many rising and falling in turn."""
        straight = self.tiles, self.other
        self.tiles, self.other = self.turned
        for source, target in zip(straight[0], self.tiles, strict=True):
            parts = split(picked(source, 1, 0), 1, target.sizes[1::-1])
            self._transpose(target, parts)
        lanes = straight[0][0].sizes[0]
        distance = many // 2
        while distance:
            for backwards in range(1 if many == lanes else 2):
                self._crossed(many, distance, bool(backwards))
            self.turn()
            distance //= 2
        for source, target in zip(self.tiles, straight[0], strict=True):
            self._transpose(split(picked(target, 1, 0), 1, source.sizes[1::-1]), source)
        self.tiles, self.other = straight

    def _transpose(self, target: View, source: View) -> None:
        """[a, blocks, b] -> [b, blocks, a], some blocks to a bank."""
        low, b, (height, blocks, wide) = self.low, self.b, source.sizes
        unit = sliced(sliced(identity(low, float32), 0, 0, height), 1, 0, height)
        each = min(blocks, self.banks[0].sizes[1] // height)
        at = 0
        turns = min(len(self.banks), blocks // each)
        with b.loop(blocks // (each * turns), "b", each * turns) as first:
            for bank in self.banks[:turns]:
                into = split(sliced(sliced(bank, 0, 0, wide), 1, 0, each * height), 1, (each, height))
                for i in range(each):
                    own = picked(source, 1, first + at + i)
                    flags = {"is_transpose": True, "is_moving_onezero": True, "accumulate": False}
                    b.op("nc_matmul", picked(into, 1, i), own, unit, **flags)
                low.evict(sliced(target, 1, first + at, each), into)
                at += each

    def _crossed(self, many: int, distance: int, backwards: bool) -> None:
        def parts(tile: View) -> tuple[View, View]:
            lanes = tile.sizes[2]
            if many < lanes:
                turns = split(tile, 2, (lanes // (2 * many), 2, many))
                tile = picked(turns, 3, int(backwards))
            else:
                tile = expanded(tile, 2)
            pairs = split(tile, 3, (many // (2 * distance), 2, distance))
            one, two = (picked(pairs, 4, i) for i in (0, 1))
            return (two, one) if backwards else (one, two)

        read, written = [parts(tile) for tile in self.tiles], [parts(tile) for tile in self.other]
        self.exchange([a for a, _ in read], [b for _, b in read], [a for a, _ in written], [b for _, b in written])


def _signs(low: Lowering, many: int) -> View:
    """[lanes, 1]: 1 on so many partitions, then -1 on as many, and so on."""
    lanes, b = low.target["limits.partitions"], low.b

    def make() -> View:
        numbers, made = b.sbuf((lanes, 1), int32, "numbers"), b.sbuf((lanes, 1), float32, "signs")
        b.op("iota", numbers, pattern=((0, 1),), offset=0, channel_multiplier=1)
        b.op("tensor_scalar", numbers, numbers, many, op0="bitwise_and")
        b.op("tensor_scalar", made, numbers, -2.0 / many, 1.0, op0="multiply", op1="add")
        return made

    return once(low, ("signs", many), make)


@decision("sort: one row across partitions")
def sort_long(low: Lowering, pick: Picker, source: View, values: View, places: View) -> None:
    """The best k of each row of [rows, size] in HBM, row after row; values and positions each by themselves."""
    with low.b.loop(source.sizes[0], "r") as r:
        row = picked(source, 0, r)
        x = _laid(low, row)
        if pick.wants_values:
            _long_values(low, pick, x, picked(values, 0, r), row.sizes[0])
        if pick.wants_places:
            _long_places(low, pick, x, picked(places, 0, r), row.sizes[0])


def _laid(low: Lowering, row: View) -> View:
    """[lanes, 1, width]: a row across partitions, and zeros behind it."""
    lanes, size = low.target["limits.partitions"], row.sizes[0]
    width = _power(-(-size // lanes))
    tile = low.b.sbuf((lanes, 1, width), row.dtype, "x", depth=2)
    whole, rest = divmod(size, width)
    if whole < lanes:
        low.b.op("memset", tile, value=0 if row.dtype.is_integer else 0.0)
    for held, there in _pieces(picked(tile, 1, 0), row, whole, rest):
        low.b.op("dma_copy", held, there)
    return tile


def _pieces(tile: View, row: View, whole: int, rest: int) -> list[tuple[View, View]]:
    """Partitions of a tile that are full, and the one that is not, each with its part of a row in HBM."""
    width, made = tile.sizes[1], []
    if whole:
        part = reshaped(sliced(row, 0, 0, whole * width), (whole, width))
        assert part is not None
        made.append((sliced(tile, 0, 0, whole), part))
    if rest:
        made.append((sliced(sliced(tile, 0, whole, 1), 1, 0, rest), expanded(sliced(row, 0, whole * width, rest), 0)))
    return made


def _numbers(low: Lowering, width: int) -> View:
    """[lanes, 1, width] in float32: the position of each element in the row."""
    b, lanes = low.b, low.target["limits.partitions"]

    def make() -> View:
        whole, made = b.sbuf((lanes, 1, width), int32, "numbers"), b.sbuf((lanes, 1, width), float32, "numbers")
        b.op("iota", picked(whole, 1, 0), pattern=((1, width),), offset=0, channel_multiplier=width)
        b.op("tensor_copy", made, whole)
        return made

    return once(low, ("positions", width), make)


def _store(low: Lowering, out: View, tile: View) -> None:
    """The first elements of a row across partitions."""
    flat = picked(tile, 1, 0)
    for held, there in _pieces(flat, out, *divmod(out.sizes[0], flat.sizes[1])):
        low.b.op("dma_copy", there, held)


def _behind(low: Lowering, width: int, size: int) -> View:
    """1 where the row has ended, else 0."""
    made = low.b.sbuf((low.target["limits.partitions"], 1, width), uint8, "behind", depth=2)
    low.b.op("tensor_scalar", made, _numbers(low, width), float(size), op0="greater_equal")
    return made


def _long_values(low: Lowering, pick: Picker, x: View, out: View, size: int) -> None:
    b, (lanes, _, width) = low.b, x.sizes
    # Descending: of negative numbers, with NaN before and the rest behind all of them.
    factor = -1.0 if pick.largest else 1.0
    keys = b.sbuf(x.sizes, float32, "keys", depth=2)
    b.op("tensor_scalar", keys, x, factor, op0="multiply")
    first = None
    if x.dtype.is_float:
        holes = b.sbuf(x.sizes, uint8, "holes", depth=2)
        b.op("tensor_scalar", holes, x, float("inf"), 0.0, op0="less_equal", op1="equal")
        b.op("tensor_copy_predicated", keys, factor * float("inf"), holes)
        own = b.sbuf((lanes, 1), float32, "own", depth=2)
        b.op("tensor_reduce", own, picked(holes, 1, 0), op="add", axis=(1,))
        first = _total(low, own)
    b.op("tensor_copy_predicated", keys, float("inf"), _behind(low, width, size))
    (found,) = LongNetwork(low, [keys]).sort_across()
    if first is not None:
        marks = b.sbuf(x.sizes, uint8, "marks", depth=2)
        numbers = _numbers(low, width)
        if pick.largest:
            b.op("tensor_scalar", picked(marks, 1, 0), picked(numbers, 1, 0), first, op0="less")
        else:
            b.op("tensor_scalar", first, first, -1.0, float(size), op0="multiply", op1="add")
            b.op("tensor_scalar", picked(marks, 1, 0), picked(numbers, 1, 0), first, op0="greater_equal")
        b.op("tensor_copy_predicated", found, float("nan"), marks)
    made = b.sbuf(x.sizes, pick.dtype, "best", depth=2)
    b.op("tensor_scalar", made, found, factor, op0="multiply")
    _store(low, out, made)


def _total(low: Lowering, own: View) -> View:
    """[lanes, 1]: the sum over partitions, on each."""
    lanes, b = own.sizes[0], low.b

    def make() -> View:
        made = b.sbuf((lanes, lanes), float32, "ones")
        b.op("memset", made, value=1.0)
        return made

    ones = once(low, ("ones",), make)
    bank = b.psum((lanes, 1), float32, "total")
    b.op("nc_matmul", bank, ones, own)
    total = b.sbuf((lanes, 1), float32, "total", depth=2)
    low.evict(total, bank)
    return total


def _long_places(low: Lowering, pick: Picker, x: View, out: View, size: int) -> None:
    b, width = low.b, x.sizes[2]
    picker = RowPicker(low, pick.dtype, pick.k, pick.largest, pick.wants_values, pick.wants_places, pick.op)
    found = picker.keys(x)
    keys, numbers = (b.sbuf(x.sizes, float32, name, depth=2) for name in ("keys", "numbers"))
    # The greatest key comes first: ascending by what is negative.
    b.op("tensor_scalar", keys, sliced(found, 2, 0, width), -1.0, op0="multiply")
    b.op("tensor_copy_predicated", keys, float("inf"), _behind(low, width, size))
    b.op("tensor_copy", numbers, _numbers(low, width))
    _, places = LongNetwork(low, [keys, numbers]).sort_across()
    made = b.sbuf(x.sizes, out.dtype, "places", depth=2)
    b.op("tensor_copy", made, places)
    _store(low, out, made)
