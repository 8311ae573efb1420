"""conv: windows are views of the input on chip, never copied out.

    out[o, i] = sum over k of w[o, :, k] @ x[:, stride * i + dilation * k]

Channels lie on partitions. For each offset k of the kernel that is not folded into them (windows.py) the Tensor engine
multiplies the weights of that offset with a strided view of the input, all into one bank of PSUM. Channels that are
convolved each by itself: depthwise.py.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, float32
from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.move.copy import turn_by_squares
from tilewright.lower.move.join import fill_hbm, result_in_hbm
from tilewright.lower.products.depthwise import channel_by_channel, is_signal, signals
from tilewright.lower.products.windows import Input, Part, Region, Shape, block_sizes, boxes, cut, offsets
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import transposed
from tilewright.lower.write.homes import Chip, device_dtype
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.patterns import identity
from tilewright.lower.write.views import At, affine, as_shape, expanded, permuted, picked, sliced
from tilewright.tile.memory import PSUM
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def conv(low: Lowering, op: Op) -> None:
    """A convolution: groups one after the other, or channel by channel."""
    x, w = op.operands
    attrs, out = op.attrs, op.result.type
    if not out.size or not w.type.size:
        view = result_in_hbm(low, op)
        if out.size:
            fill_hbm(low, view, 0)
        return
    groups = attrs["groups"]
    shape = Shape(
        x.type.shape[0],
        w.type.shape[1],
        w.type.shape[0] // groups,
        x.type.shape[2:],
        w.type.shape[2:],
        attrs["stride"],
        attrs["low"],
        attrs["dilation"],
        out.shape[2:],
        groups,
    )
    if is_signal(low, shape, device_dtype(x.type.dtype)):
        signals(low, op, shape)
    elif shape.channels == 1 and groups > 1:
        channel_by_channel(low, op, shape)
    else:
        Convolution(low, op, shape).run()


class Convolution:
    """Writes one convolution."""

    def __init__(self, low: Lowering, op: Op, shape: Shape) -> None:
        self.low, self.b, self.op, self.shape = low, low.b, op, shape
        self.dtype: DType = device_dtype(op.operands[0].type.dtype)
        self.input = Input(low, shape, self.dtype, op.location, folds=True)
        self.lanes = self.input.lanes
        self.part = self.input.budget // TUNING.convolution_parts
        """Bytes per partition that a load of weights may bring."""
        self.kept: View | None = None
        self.out = self._home()

    def _home(self) -> View | None:
        """Where the result goes: HBM, or it is kept on chip with its channels on partitions."""
        low, value, shape = self.low, self.op.result, self.shape
        later = any(use is not low.program.output_op for use in value.uses)
        blocks = -(-shape.outs // self.lanes)
        size = blocks * shape.batch * prod(shape.counts) * self.dtype.itemsize
        if not later or shape.groups > 1 or size > low.room():
            return result_in_hbm(low, self.op)
        free = (shape.batch, *shape.counts)
        self.kept = self.b.sbuf((min(shape.outs, self.lanes), blocks, *free), self.dtype, value.name or "conv")
        low.homes[value] = Chip(self.kept, value.type.shape, (1, 2))
        low.resident[value] = size
        return None

    def run(self) -> None:
        """All groups."""
        shape, b = self.shape, self.b
        inputs, weights = (self._in_order(v) for v in self.op.operands)
        with b.loop(shape.groups, "g") as group:
            x = sliced(inputs, 1, group * shape.channels, shape.channels)
            w = sliced(weights, 0, group * shape.outs, shape.outs)
            out = None if self.out is None else sliced(self.out, 1, group * shape.outs, shape.outs)
            if self._share_memory():
                self._pass(x, w, out, 0, shape.outs)
            elif self.input.is_single:
                # Weights of some outs at a time, past an input that stays.
                for region in self.input.regions(x):
                    for start, count in tiled(b, shape.outs, self.lanes, "o"):
                        self._products(region, self._weights(sliced(w, 0, start, count), count), out, start, count)
            else:
                # The input is read again for each part of the weights.
                for start, count in tiled(b, shape.outs, self.lanes, "o"):
                    self._pass(x, sliced(w, 0, start, count), out, start, count)

    def _in_order(self, x: Value) -> View:
        """An operand in HBM; a large one whose neighbours in memory are channels is brought into order first, on chip:
        loads would move every element by itself."""
        view = self.low.in_hbm(x)
        strides = [stride for size, stride in zip(view.sizes, view.strides, strict=True) if size != 1]
        apart = strides and strides[-1] != 1 and x.type.size > TUNING.few_elements
        return self.low.contiguous(x) if apart else view

    def _share_memory(self) -> bool:
        """Give the input what weights leave; says whether those of all outs stay."""
        room = self.low.target["memory.sbuf_usable_bytes"] - sum(self.low.resident.values())
        room -= TUNING.most_copies * self.low.target["memory.psum_bank_bytes"]
        each = self._steps * self.input.blocks * self.dtype.itemsize
        stay = each * self.shape.outs <= room // 2
        taken = each * (self.shape.outs if stay else min(self.shape.outs, self.lanes))
        if taken > room // 2:
            raise fail(
                "E501",
                f"conv: weights of {min(self.shape.outs, self.lanes)} out channels take {taken} bytes per partition",
                hint="add up convolutions with parts of the kernel",
                location=self.op.location,
                error=TileNotImplementedError,
            )
        self.part = room // TUNING.convolution_parts
        self.input.budget = room - 2 * self.part - taken
        return stay

    def _pass(self, x: View, w: View, out: View | None, first: At, outs: int) -> None:
        """Some outs from the whole input."""
        weights = self._weights(w, outs)
        for region in self.input.regions(x):
            self._products(region, weights, out, first, outs)

    # Offsets of the kernel.

    @property
    def _steps(self) -> int:
        """Products of a window."""
        return prod(-(-size // fold) for size, fold in self._kernel)

    @property
    def _kernel(self) -> list[tuple[int, int]]:
        """Size of the kernel along each dim, and how many offsets a product takes; 1 where rows have them all."""
        sizes = [1 if d in self.input.folded else n for d, n in enumerate(self.shape.kernel)]
        return list(zip(sizes, self.input.folds, strict=True))

    # Weights.

    def _weights(self, w: View, outs: int) -> View:
        """[rows of the input, steps, blocks of channels, outs], turned by the Tensor engine."""
        shape, b, given = self.shape, self.b, self.input
        made = b.sbuf((given.height, self._steps, given.blocks, outs), self.dtype, "weights")
        height = min(shape.channels, self.lanes)
        if height * prod(shape.kernel) * self.dtype.itemsize > self.part:
            # Parts of a block start at partitions that engines can write to.
            height = self.low.target["limits.quadrant_partitions"]
        for start, count in tiled(b, outs, self.lanes, "o"):
            for at, channels in given.blocks_of_channels():
                for inside in range(0, channels, height):
                    size = min(height, channels - inside)
                    tile = b.sbuf((count, size, *shape.kernel), self.dtype, "w", depth=2)
                    b.op("dma_copy", tile, sliced(sliced(w, 0, start, count), 1, affine(at) + inside, size))
                    into = sliced(sliced(picked(made, 2, given.block(at)), 2, start, count), 0, inside, made.sizes[0])
                    self._turn(into, tile)
        return made

    def _turn(self, into: View, tile: View) -> None:
        """[outs, channels, *kernel] of weights to [rows, step, outs]."""
        b, count, folded = self.b, tile.sizes[0], self.input.folded
        unit = sliced(sliced(identity(self.low, self.dtype), 0, 0, count), 1, 0, count)
        narrow = self.dtype.itemsize == 2 and self.low.target["features.transpose_16bit_psum"]
        for step, place, counts in offsets(b, self._kernel):
            part = tile
            for d, (at, n) in enumerate(zip(place, counts, strict=True)):
                part = part if d in folded else sliced(part, 2 + d, at, n)
            # Offsets that are shifted copies, those that rows have, channels.
            shifted = [2 + d for d in range(self.shape.depth) if d not in folded]
            part = permuted(part, (0, *shifted, *[2 + d for d in folded], 1))
            rows = part.size // count
            if not self.low.target["features.transpose_bit_exact"]:
                line = b.sbuf((count, rows), self.dtype, "line", depth=2)
                shaped = as_shape(line, part.sizes)
                self.low.evict(shaped, part)
                turn_by_squares(self.low, expanded(sliced(picked(into, 1, step), 0, 0, rows), 1), line, rows)
                continue
            bank = b.psum((rows, count), self.dtype if narrow else float32, transposed(tile, PSUM), depth=2)
            b.op("nc_matmul", bank, part, unit, is_transpose=True, is_moving_onezero=True)
            self.low.evict(sliced(picked(into, 1, step), 0, 0, rows), bank)

    # Products.

    @decision("conv: products")
    def _products(self, region: Region, weights: View, out: View | None, first: At, outs: int) -> None:
        """All windows of a region: blocks of outs, and of windows that fill a bank."""
        sizes = tuple(n for _, n in region.box)
        steps = block_sizes(sizes, self.low.target["memory.psum_bank_bytes"] // float32.itemsize)
        for start, count in tiled(self.b, outs, self.lanes, "o"):
            for box in boxes(self.b, sizes, steps):
                # What is left over takes a bank for itself alone, one after the other.
                depth = 2 if region.is_full and [n for _, n in box] == steps else 1
                bank = self.b.psum((count, *[n for _, n in box]), float32, "sums", depth=depth)
                self._sum(region, weights, bank, box, start, count)
                self._store(region, out, bank, box, affine(first) + start, count)

    def _sum(self, region: Region, weights: View, bank: View, box: list[Part], start: At, count: int) -> None:
        given = self.input
        for step, place, counts in offsets(self.b, self._kernel):
            for at, channels in given.blocks_of_channels():
                rows = prod(counts) * given.rows if given.blocks == 1 else channels
                block = given.block(at)
                moving = given.windows(sliced(picked(region.tile, 1, block), 0, 0, rows), box, place)
                still = sliced(picked(picked(weights, 2, block), 1, step), 0, 0, rows)
                self.b.op("nc_matmul", bank, sliced(still, 1, start, count), moving)

    def _store(self, region: Region, out: View | None, bank: View, box: list[Part], first: At, count: int) -> None:
        places = [(affine(at) + start, n) for (at, n), (start, _) in zip(box, region.box, strict=True)]
        if out is None:
            assert self.kept is not None
            self.low.evict(cut(sliced(picked(self.kept, 1, self.input.block(first)), 0, 0, count), places), bank)
            return
        tile = self.b.sbuf(bank.sizes, self.dtype, "out", depth=2)
        self.low.evict(tile, bank)
        into = permuted(sliced(out, 1, first, count), (1, 0, *range(2, out.ndim)))
        self.b.op("dma_copy", cut(into, places), tile)
