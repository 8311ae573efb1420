"""The input of a convolution on chip: tiles that fit, with zeros around the image and offsets of the kernel folded in.

A tile is [rows, blocks of channels, images, *spatial]. Rows are channels, and where those leave partitions free, more:
- of dims along which windows do not overlap and see no zeros, every offset of the kernel:
  each partition has the elements at its own offset alone;
- of the last dims, copies of all that shifted by one offset after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import DType
from tilewright.errors import Location, TileNotImplementedError, fail
from tilewright.lower.decisions import decision
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import TileBuilder
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.views import Affine, At, affine, permuted, picked, reshaped, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering

Sizes = tuple[int, ...]
Part = tuple[At, int]
"""Start and count."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is convolved with what: channels and outs are those of one group."""

    batch: int
    channels: int
    outs: int
    spatial: Sizes
    kernel: Sizes
    stride: Sizes
    low: Sizes
    dilation: Sizes
    counts: Sizes
    groups: int

    @property
    def depth(self) -> int:
        """The number of spatial dims."""
        return len(self.kernel)

    def reach(self, dim: int, count: int) -> int:
        """Elements along a dim that so many windows see."""
        return (count - 1) * self.stride[dim] + self.dilation[dim] * (self.kernel[dim] - 1) + 1

    def is_padded(self, dim: int) -> bool:
        """True where windows see zeros around the input."""
        return self.low[dim] > 0 or self.reach(dim, self.counts[dim]) > self.spatial[dim]


@dataclass(frozen=True, slots=True)
class Region:
    """A tile of the input, and the images and windows that it has; `is_full` unless they are what others left."""

    tile: View
    box: list[Part]
    is_full: bool = True


class Input:
    """Loads the input of one convolution."""

    def __init__(self, low: Lowering, shape: Shape, dtype: DType, location: Location | None, folds: bool) -> None:
        self.low, self.b, self.shape, self.dtype, self.location = low, low.b, shape, dtype, location
        self.lanes = low.target["limits.partitions"]
        self.blocks = -(-shape.channels // self.lanes)
        self.budget = (low.target["memory.sbuf_usable_bytes"] - sum(low.resident.values())) // 2
        """Bytes per partition for tiles of the input, two of each."""
        self.folded: tuple[int, ...] = self._folded_dims() if folds else ()
        self.rows = min(shape.channels, self.lanes) * prod(shape.kernel[d] for d in self.folded)
        self.folds = self._shifted() if folds else [1] * shape.depth
        """How many offsets along each dim are copies on further partitions."""

    def _shifted(self) -> list[int]:
        """Offsets of the last dim, and if those are all of it, of the one before."""
        shape, made, left = self.shape, [1] * self.shape.depth, self.lanes // self.rows
        for d in range(shape.depth - 1, -1, -1):
            if d in self.folded:
                break
            # No more than it takes for as few products.
            made[d] = even(shape.kernel[d], left)
            if made[d] < shape.kernel[d]:
                break
            left //= made[d]
        return made

    @property
    def height(self) -> int:
        """Partitions of a tile."""
        return self.rows * prod(self.folds)

    def _folded_dims(self) -> tuple[int, ...]:
        """Dims whose offsets lie on partitions, all of them."""
        shape, found, rows = self.shape, [], self.shape.channels
        for d in range(shape.depth - 2, -1, -1):
            is_apart = shape.reach(d, 1) <= shape.stride[d] and not shape.is_padded(d)
            if is_apart and shape.kernel[d] > 1 and rows * shape.kernel[d] <= self.lanes:
                found.insert(0, d)
                rows *= shape.kernel[d]
        return tuple(found)

    def seen(self, dim: int, count: int) -> int:
        """Elements along a dim that a tile has for so many windows: all of an inner dim, where a few are left over."""
        if dim in self.folded:
            return count
        shape, reach = self.shape, self.shape.reach(dim, count)
        whole = dim and count == shape.counts[dim] and not shape.is_padded(dim)
        return shape.spatial[dim] if whole and TUNING.window_rest * (shape.spatial[dim] - reach) < reach else reach

    def blocks_of_channels(self) -> Iterator[Part]:
        """(start, count) of each."""
        return tiled(self.b, self.shape.channels, self.lanes, "c")

    def block(self, at: At) -> At:
        """The number of the block of channels or outs that starts there."""
        found = affine(at)
        assert not any(amount % self.lanes for amount in (found.const, *(factor for _, factor in found.terms)))
        return Affine(found.const // self.lanes, tuple((v, factor // self.lanes) for v, factor in found.terms))

    def windows(self, tile: View, box: Sequence[Part], offsets: Sequence[At]) -> View:
        """What windows (images, then each dim) see at an offset of the kernel."""
        shape, view = self.shape, sliced(tile, 1, *box[0])
        for d, (first, count) in enumerate(box[1:]):
            if d in self.folded:
                view = sliced(view, 2 + d, first, count)
            else:
                start = affine(first) * shape.stride[d] + affine(offsets[d]) * shape.dilation[d]
                view = sliced(view, 2 + d, start, count, shape.stride[d])
        return view

    # Which windows at a time.

    def regions(self, x: View) -> Iterator[Region]:
        """The input in tiles that fit: several images, one, or some of its windows at a time."""
        shape = self.shape
        whole = self._bytes(shape.counts)
        if whole <= self.budget // 2:
            most = max(1, self.budget // (2 * whole))
            for at, count in tiled(self.b, shape.batch, even(shape.batch, most), "n"):
                yield self._load(x, at, count, [(0, n) for n in shape.counts])
            return
        cuts = self._cuts()
        with self.b.loop(shape.batch, "n") as image:
            for box in self._boxes(cuts):
                region = self._load(x, image, 1, box)
                yield replace(region, is_full=[n for _, n in box] == cuts)

    @property
    def is_single(self) -> bool:
        """True when all of the input is one tile."""
        return self.shape.batch * self._bytes(self.shape.counts) <= self.budget // 2

    def _bytes(self, counts: Sequence[int]) -> int:
        """Bytes per partition of the tiles for so many windows along each dim."""
        seen = prod(self.seen(d, n) for d, n in enumerate(counts))
        return self.blocks * seen * self.dtype.itemsize * (2 if self._is_padded_inside() else 1)

    def _cuts(self) -> list[int]:
        """Windows along each dim of a region: outer dims are cut before inner ones."""
        cuts = list(self.shape.counts)
        for d in range(self.shape.depth):
            while cuts[d] > 1 and self._bytes(cuts) > self.budget // 2:
                cuts[d] = -(-cuts[d] // 2)
        if self._bytes(cuts) > self.budget:
            raise fail(
                "E501",
                f"conv: what one window sees takes {self._bytes(cuts)} bytes per partition",
                location=self.location,
                error=TileNotImplementedError,
            )
        return cuts

    def _boxes(self, cuts: list[int], d: int = 0) -> Iterator[list[Part]]:
        if d == self.shape.depth:
            yield []
            return
        for part in self._slabs(d, cuts[d]):
            for rest in self._boxes(cuts, d + 1):
                yield [part, *rest]

    def _slabs(self, d: int, rows: int) -> Iterator[Part]:
        """Windows along a dim: those that see zeros around the image by themselves, all others in a loop."""
        shape = self.shape
        total, stride, size = shape.counts[d], shape.stride[d], shape.spatial[d]
        if rows == total:
            yield 0, total
            return
        first = min(total, -(-shape.low[d] // stride))
        # The first window that sees beyond the last row.
        last = max(first, min(total, (size + shape.low[d] - shape.reach(d, 1)) // stride + 1))
        for start in range(0, first, rows):
            yield start, min(rows, first - start)
        for at, count in tiled(self.b, last - first, rows, "s"):
            yield affine(at) + first, count
        for start in range(last, total, rows):
            yield start, min(rows, total - start)

    def _is_padded_inside(self) -> bool:
        """True where zeros stand between the rows of the input."""
        return any(self.shape.is_padded(d) for d in range(1, self.shape.depth))

    # Loads.

    def _load(self, x: View, image: At, images: int, box: list[Part]) -> Region:
        """The input that a box of windows of some images sees."""
        shape, b = self.shape, self.b
        seen = [self.seen(d, n) for d, (_, n) in enumerate(box)]
        tile = b.sbuf((self.height, self.blocks, images, *seen), self.dtype, "x", depth=2)
        starts = [affine(at) * shape.stride[d] + -shape.low[d] for d, (at, _) in enumerate(box)]
        parts = [
            (0, seen[d], start) if d in self.folded else _inside(start, seen[d], shape.spatial[d])
            for d, start in enumerate(starts)
        ]
        self._surround(sliced(tile, 0, 0, self.rows), parts)
        if all(size > 0 for _, size, _ in parts):
            for at, size in self.blocks_of_channels():
                source = sliced(sliced(x, 0, image, images), 1, at, size)
                self._fill(sliced(picked(tile, 1, self.block(at)), 0, 0, self.rows), source, parts)
        self._shift(tile)
        return Region(tile, [(image, images), *box])

    @decision("conv: surrounded")
    def _surround(self, tile: View, parts: list[tuple[int, int, At]]) -> None:
        """Zeros before and after the elements of the input, dim by dim, or everywhere if it is not worth more."""
        edges: list[View] = []
        for d, (before, size, _) in enumerate(parts):
            for start, count in ((0, before), (before + size, tile.sizes[3 + d] - before - size)):
                if count:
                    edges.append(sliced(tile, 3 + d, start, count))
        if len(edges) > 1 and (tile.free < TUNING.split_columns or 2 * sum(edge.free for edge in edges) > tile.free):
            edges = [tile]
        for edge in edges:
            self.b.op("memset", edge, value=0.0)

    def _fill(self, tile: View, source: View, parts: list[tuple[int, int, At]]) -> None:
        """Some channels of the input; each folded offset to partitions of its own."""
        shape, channels = self.shape, source.sizes[1]
        into = tile
        for d, (before, length, start) in enumerate(parts):
            step = shape.stride[d] if d in self.folded else 1
            source = sliced(source, 2 + d, start, length, step)
            into = sliced(into, 2 + d, before, length)
        source = permuted(source, (1, 0, *range(2, source.ndim)))
        if not self.folded:
            self._transfer(sliced(into, 0, 0, channels), source, parts[-1][1])
            return
        # The offsets of the last of these dims and the channels are neighbours on partitions: one transfer.
        *outer, last = self.folded
        with ExitStack() as stack:
            place: At = 0
            for d in outer:
                at = stack.enter_context(self.b.loop(shape.kernel[d], "k"))
                place = affine(place) * shape.kernel[d] + affine(at)
                source = _moved(source, affine(at) * (shape.dilation[d] * self._step(source, d)))
            count = shape.kernel[last]
            rows = sliced(into, 0, affine(place) * (count * channels), count * channels)
            for k, part in _each_offset(self, source, count, shape.dilation[last] * self._step(source, last)):
                self.b.op("dma_copy", rows if k is None else sliced(rows, 0, affine(k) * channels, channels), part)

    def _step(self, source: View, d: int) -> int:
        """Elements between neighbours of the input along a dim, given its strided view."""
        return source.strides[2 + d] // self.shape.stride[d]

    def _transfer(self, into: View, source: View, length: int) -> None:
        if length * self.dtype.itemsize < TUNING.long_run and self._is_padded_inside():
            # Short rows are loaded together and put between their zeros on chip.
            dense = self.b.sbuf(source.sizes, self.dtype, "dense", depth=2)
            self.b.op("dma_copy", dense, source)
            self.low.evict(into, dense)
        else:
            self.b.op("dma_copy", into, source)

    @decision("conv: shifted")
    def _shift(self, tile: View) -> None:
        """Copies on further partitions, each one offset further on. What is behind the end is never multiplied with
        anything."""
        length, rows = prod(tile.sizes[2:]), self.rows
        whole = reshaped(picked(tile, 1, 0), (tile.sizes[0], length)) if prod(self.folds) > 1 else None
        for d in range(self.shape.depth - 1, -1, -1):
            step = self.shape.dilation[d] * prod(tile.sizes[4 + d :])
            for i in range(1, self.folds[d]):
                if whole is not None and length > i * step:
                    source = sliced(sliced(whole, 0, 0, rows), 1, i * step, length - i * step)
                    self.b.op("dma_copy", sliced(sliced(whole, 0, i * rows, rows), 1, 0, length - i * step), source)
            rows *= self.folds[d]


def _each_offset(given: Input, source: View, count: int, step: int) -> Iterator[tuple[At | None, View]]:
    """All offsets of a dim as one view, or where that has too many dims one by one."""
    sizes, strides = (count, *source.sizes), (step, *source.strides)
    if sum(n != 1 for n in sizes) <= given.low.target["limits.max_view_dims"]:
        yield None, View(source.buffer, source.dtype, source.offset, sizes, strides, source.terms)
        return
    with given.b.loop(count, "k") as k:
        yield k, _moved(source, k * step)


def _moved(view: View, by: Affine) -> View:
    """The same access so many elements further on."""
    start = Affine(view.offset, view.terms) + by
    return View(view.buffer, view.dtype, start.const, view.sizes, view.strides, start.terms)


def block_sizes(sizes: Sizes, most: int) -> list[int]:
    """Windows along each dim of blocks of at most so many: inner dims as a whole, then as many as fit."""
    steps, left = [1] * len(sizes), most
    for d in range(len(sizes) - 1, -1, -1):
        steps[d] = even(sizes[d], left)
        if steps[d] < sizes[d]:
            break
        left //= sizes[d]
    return steps


def boxes(b: TileBuilder, sizes: Sizes, steps: Sequence[int]) -> Iterator[list[Part]]:
    """Blocks of windows, dim by dim."""
    if not sizes:
        yield []
        return
    for at, count in tiled(b, sizes[0], steps[0], "w"):
        for rest in boxes(b, sizes[1:], steps[1:]):
            yield [(at, count), *rest]


def cut(view: View, places: Sequence[Part]) -> View:
    """Parts of the dims after the first."""
    for d, part in enumerate(places):
        view = sliced(view, 1 + d, *part)
    return view


def even(size: int, most: int) -> int:
    """The largest of parts of about equal size, none above `most`."""
    most = max(1, min(size, most))
    return -(-size // -(-size // most))


def _inside(begin: At, reach: int, size: int) -> tuple[int, int, At]:
    """(before, length, at): [begin, begin + reach) cut to [0, size), where a start that a loop counts lies inside."""
    start = affine(begin)
    if start.terms:
        return 0, reach, start
    before = max(0, -start.const)
    stop = min(start.const + reach, size)
    return before, max(0, stop - start.const - before), start.const + before


def offsets(b: TileBuilder, kernel: Sequence[tuple[int, int]]) -> Iterator[tuple[At, list[At], list[int]]]:
    """Offsets of a kernel, several along each dim at a time: (number, first offset, how many)."""
    if not kernel:
        yield 0, [], []
        return
    *outer, (size, fold) = kernel
    whole, rest = divmod(size, fold)
    for step, place, counts in offsets(b, outer):
        first = affine(step) * -(-size // fold)
        if whole:
            with b.loop(whole, "k") as i:
                yield first + i, [*place, i * fold], [*counts, fold]
        if rest:
            yield first + whole, [*place, whole * fold], [*counts, rest]
