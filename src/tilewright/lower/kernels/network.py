"""Networks that sort: pairs at fixed distances are compared, the less to the front, log2(n)^2 / 2 times for all.

A row lies on one partition, or across a power of two of them, its `span`: element l * width + f is the f-th of the
l-th. What is compared within a partition lies along it; for pairs on different partitions rows and columns change
places. Where a part has to be sorted backwards its elements are negative for the time; of integers of 32 bits, which
GpSimd compares exactly, all bits are turned over. All rows are compared at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float32, int32
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import transposed
from tilewright.lower.write.patterns import identity, once
from tilewright.lower.write.views import as_shape, bits_of, picked, sliced, split
from tilewright.tile.memory import PSUM
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


Tiles = list[View]
"""What is sorted by, and perhaps positions that go with it."""


class Network:
    """Sorts tiles [lanes, blocks, width] of float32 or 32-bit integers, writing from one set to another and back.

    span: partitions of a row; several only where there is one block.
    """

    def __init__(self, low: Lowering, tiles: Tiles, span: int = 1) -> None:
        self.low, self.b, self.tiles, self.span = low, low.b, tiles, span
        self.other = [low.b.sbuf(tile.sizes, tile.dtype, "sorted", depth=2) for tile in tiles]
        self.shares = not low.target["features.port_vector_gpsimd_sbuf"]
        lanes, _, width = tiles[0].sizes
        # Space of its own for what is compared: networks in a loop would need it anew for every step.
        names = {"greater": bfloat16, "equal": bfloat16, "later": bfloat16, "step": float32} if len(tiles) > 1 else {}
        half = (low.target["limits.partitions"], max(tiles[0].free, lanes) // 2)
        self.space = {name: low.b.sbuf(half, dtype, name) for name, dtype in names.items()}
        if span > 1:
            height = min(low.target["limits.partitions"], width)
            self.turned = [
                [low.b.sbuf((height, width // height, lanes), tile.dtype, transposed(tile)) for tile in tiles]
                for _ in (0, 1)
            ]
            bank = low.target["memory.psum_bank_bytes"] // float32.itemsize
            self.banks = [
                low.b.psum((low.target["limits.partitions"], bank), float32, transposed(tiles[0], PSUM))
                for _ in range(TUNING.together)
            ]

    def sort(self) -> Tiles:
        """All rows, ascending."""
        self._sign(0, 1)
        size = 2
        while size <= self.tiles[0].sizes[-1]:
            self._pairs(size, is_mirrored=True)
            self._merge(size // 2)
            size *= 2
        many = 1
        while many < self.span:
            self._sign(many, 2 * many)
            many *= 2
            self._across(many // 2)
            self._merge(self.tiles[0].sizes[-1])
        return self.tiles

    def _merge(self, size: int) -> None:
        """Parts of this size, each rising and then falling, become sorted."""
        while size > 1:
            self._pairs(size)
            size //= 2

    def _pairs(self, size: int, is_mirrored: bool = False) -> None:
        """Elements half a part of this size apart, or at the same distance from its ends."""
        halves = [
            [picked(split(tile, 2, (tile.sizes[2] // size, 2, size // 2)), 3, side) for tile in tiles]
            for tiles in (self.tiles, self.other)
            for side in (0, 1)
        ]
        first, second, less, more = halves
        if is_mirrored:
            second, more = ([backwards(tile) for tile in tiles] for tiles in (second, more))
        self._exchange(first, second, less, more)
        self._turn()

    def _turn(self) -> None:
        """What was written is read next."""
        self.tiles, self.other = self.other, self.tiles

    # Pairs.

    def _exchange(self, first: Tiles, second: Tiles, less: Tiles, more: Tiles) -> None:
        """The less of each pair to one side, the more to the other."""
        if len(first) > 1:
            self._exchange_places(first, second, less, more)
            return
        one, two = first[0], second[0]
        if one.dtype.is_integer:
            for out, alu in ((less[0], "minimum"), (more[0], "maximum")):
                self.b.op("tensor_tensor", out, one, two, op=alu, engine="gpsimd")
            return
        self.b.op("tensor_tensor", less[0], one, two, op="minimum", engine="vector")
        dim, cut = self._share(more[0], one, two)
        whole = one.sizes[dim]
        for start, size, engine in ((0, cut, "vector"), (cut, whole - cut, "gpsimd")):
            if size:
                parts = [sliced(view, dim, start, size) for view in (more[0], one, two)]
                self.b.op("tensor_tensor", *parts, op="maximum", engine=engine)

    def _share(self, out: View, one: View, two: View) -> tuple[int, int]:
        """(dim, entries of it) of which the Vector engine finds the greater, so that GpSimd is done with the others
        when it is; all of them where waiting for GpSimd takes longer."""
        dim = max(range(1, one.ndim), key=lambda d: one.sizes[d])
        whole = one.sizes[dim]
        if not self.shares or whole == 1:
            return dim, whole
        mine, its = (
            self.b.cost_ns("tensor_tensor", out, one, two, op="maximum", engine=engine)
            for engine in ("vector", "gpsimd")
        )
        cut = round(whole * max(its - mine, 0) / (its + mine))
        saved = mine * (1 - cut / whole)
        target = self.low.target
        waited = target["gpsimd.latency_ns"] + target["gpsimd.fixed_cycles"] / target["clock_ghz.gpsimd"]
        return dim, cut if saved > waited else whole

    def _exchange_places(self, first: Tiles, second: Tiles, less: Tiles, more: Tiles) -> None:
        """Positions go with their keys, and of equal keys the lower position comes first."""
        b, helper = self.b, "gpsimd" if self.shares else "vector"
        (one, own), (two, their) = first, second
        b.op("tensor_tensor", less[0], one, two, op="minimum", engine=helper)
        b.op("tensor_tensor", more[0], one, two, op="maximum", engine=helper)
        greater, equal, later, step = (self._space(name, one) for name in ("greater", "equal", "later", "step"))
        b.op("tensor_tensor", greater, one, two, op="greater", engine="vector")
        b.op("tensor_tensor", equal, one, two, op="equal", engine=helper)
        b.op("tensor_tensor", later, own, their, op="greater", engine="vector")
        b.op("tensor_tensor", later, later, equal, op="minimum", engine="vector")
        b.op("tensor_tensor", later, later, greater, op="maximum", engine="vector")
        b.op("tensor_tensor", step, their, own, op="subtract", engine=helper)
        b.op("tensor_tensor", step, step, later, op="multiply", engine="vector")
        b.op("tensor_tensor", less[1], own, step, op="add", engine=helper)
        b.op("tensor_tensor", more[1], their, step, op="subtract", engine="vector")

    def _space(self, name: str, like: View) -> View:
        tile = sliced(sliced(self.space[name], 0, 0, like.sizes[0]), 1, 0, like.free)
        return as_shape(tile, like.sizes)

    # Across partitions.

    def _sign(self, before: int, after: int) -> None:
        """Parts of so many partitions are negative in turn, instead of parts of another number.

        At the end there is one part to a row, and nothing is negative.
        """
        if self.span == 1:
            return
        for tile in self.tiles:
            if tile.dtype.is_integer:
                mask = sliced(_masks(self.low, before, after % self.span), 0, 0, tile.sizes[0])
                self.b.op("tensor_scalar", bits_of(tile), bits_of(tile), mask, op0="bitwise_xor")
            else:
                column = sliced(_signs(self.low, before, after % self.span), 0, 0, tile.sizes[0])
                self.b.op("tensor_scalar", tile, tile, column, op0="multiply")

    def _across(self, distance: int) -> None:
        """Pairs so many partitions apart, then half as many, down to neighbours."""
        straight = self.tiles, self.other
        self.tiles, self.other = self.turned
        for source, target in zip(straight[0], self.tiles, strict=True):
            self._transpose(target, split(picked(source, 1, 0), 1, target.sizes[1::-1]))
        while distance:
            halves = [
                [picked(split(tile, 2, (tile.sizes[2] // (2 * distance), 2, distance)), 3, side) for tile in tiles]
                for tiles in (self.tiles, self.other)
                for side in (0, 1)
            ]
            self._exchange(*halves)
            self._turn()
            distance //= 2
        for source, target in zip(self.tiles, straight[0], strict=True):
            self._transpose(split(picked(target, 1, 0), 1, source.sizes[1::-1]), source)
        self.tiles, self.other = straight

    def _transpose(self, target: View, source: View) -> None:
        """[a, blocks, b] -> [b, blocks, a], some blocks to a bank."""
        low, b, (height, blocks, wide) = self.low, self.b, source.sizes
        source, target = _as_float(source), _as_float(target)
        unit = sliced(sliced(identity(low, float32), 0, 0, height), 1, 0, height)
        each = min(blocks, self.banks[0].sizes[1] // height)
        while blocks % each:
            each -= 1
        turns = min(len(self.banks), blocks // each)
        while blocks // each % turns:
            turns -= 1
        at = 0
        with b.loop(blocks // (each * turns), "b", each * turns) as first:
            for bank in self.banks[:turns]:
                into = split(sliced(sliced(bank, 0, 0, wide), 1, 0, each * height), 1, (each, height))
                for i in range(each):
                    own = picked(source, 1, first + at + i)
                    flags = {"is_transpose": True, "is_moving_onezero": True, "accumulate": False}
                    b.op("nc_matmul", picked(into, 1, i), own, unit, **flags)
                low.evict(sliced(target, 1, first + at, each), into)
                at += each


def backwards(view: View) -> View:
    """The last dim from its end on."""
    last = view.ndim - 1
    offset = view.offset + (view.sizes[last] - 1) * view.strides[last]
    return View(view.buffer, view.dtype, offset, view.sizes, (*view.strides[:last], -view.strides[last]), view.terms)


def _as_float(view: View) -> View:
    """The same bits as float32, which moves them unchanged."""
    return View(view.buffer, float32, view.offset, view.sizes, view.strides, view.terms)


def _masks(low: Lowering, *parts: int) -> View:
    """[lanes, 1]: no bits where `_signs` has 1, all of them where it has -1."""
    lanes, b = low.target["limits.partitions"], low.b

    def make() -> View:
        numbers, made = b.sbuf((lanes, 1), int32, "numbers"), b.sbuf((lanes, 1), int32, "masks")
        b.op("memset", made, value=0)
        for many in [many for many in parts if many]:
            b.op("iota", numbers, pattern=((0, 1),), offset=0, channel_multiplier=1)
            b.op("tensor_scalar", numbers, numbers, many, op0="bitwise_and")
            b.op("tensor_scalar", numbers, numbers, -1.0 / many, op0="multiply")
            b.op("tensor_tensor", made, made, numbers, op="bitwise_xor", engine="vector")
        return bits_of(made)

    return once(low, ("masks", *parts), make)


def _signs(low: Lowering, *parts: int) -> View:
    """[lanes, 1]: 1 on so many partitions, then -1 on as many, and so on; of several numbers but 0, the product."""
    lanes, b = low.target["limits.partitions"], low.b
    known = tuple(many for many in parts if many)

    def alternating(many: int) -> View:
        numbers, made = b.sbuf((lanes, 1), int32, "numbers"), b.sbuf((lanes, 1), float32, "signs")
        b.op("iota", numbers, pattern=((0, 1),), offset=0, channel_multiplier=1)
        b.op("tensor_scalar", numbers, numbers, many, op0="bitwise_and")
        b.op("tensor_scalar", made, numbers, -2.0 / many, 1.0, op0="multiply", op1="add")
        return made

    def make() -> View:
        first, *others = [alternating(many) for many in known]
        for other in others:
            b.op("tensor_tensor", first, first, other, op="multiply", engine="vector")
        return first

    return once(low, ("signs", *known), make)
