"""Convolutions of each channel by itself: every channel on its own partition, a number per partition for each offset.

No product of matrices: an infinity in one channel would reach the others. The Vector engine multiplies and adds in one
instruction; what it has no time for the Scalar engine multiplies and GpSimd adds, offset by offset.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, float32
from tilewright.ir.core import Op
from tilewright.lower.decisions import decision
from tilewright.lower.move.join import fill_hbm, result_in_hbm
from tilewright.lower.move.moves import load_rows, replicate
from tilewright.lower.products.windows import Input, Part, Region, Shape, block_sizes, boxes, cut, offsets
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Hbm, device_dtype
from tilewright.lower.write.loops import tiled
from tilewright.lower.write.views import Affine, affine, as_shape, permuted, picked, sliced, split
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


@decision("conv: channel by channel")
def channel_by_channel(low: Lowering, op: Op, shape: Shape) -> None:
    """The whole convolution, regions of the input one after the other."""
    b, each, total = low.b, shape.outs, prod(shape.kernel)
    shape = replace(shape, channels=shape.groups, groups=1)
    dtype = device_dtype(op.operands[0].type.dtype)
    given = Input(low, shape, dtype, op.location, folds=False)
    out = split(result_in_hbm(low, op), 1, (shape.channels, each))
    weights = _columns(low, op, given, each * total)
    for region in given.regions(_channels_apart(low, op)):
        sizes = tuple(n for _, n in region.box)
        for at, count in given.blocks_of_channels():
            block = given.block(at)
            tile = sliced(picked(region.tile, 1, block), 0, 0, count)
            with b.loop(each, "m") as i:
                column = sliced(picked(weights, 1, block), 1, affine(i) * total, total)
                into = permuted(sliced(picked(out, 2, i), 1, at, count), (1, 0, *range(2, out.ndim - 1)))
                for box in boxes(b, sizes, block_sizes(sizes, TUNING.panel)):
                    sums = _weighted(low, given, tile, box, sliced(column, 0, 0, count))
                    b.op("dma_copy", cut(into, _places(region, box)), sums)


def _places(region: Region, box: list[Part]) -> list[Part]:
    return [(affine(at) + start, n) for (at, n), (start, _) in zip(box, region.box, strict=True)]


def _channels_apart(low: Lowering, op: Op) -> View:
    """The input in HBM; one whose channels are neighbours is laid there anew."""
    (x, _) = op.operands
    view = low.in_hbm(x)
    if view.strides[1] != 1 or view.sizes[1] == 1 or view.size <= view.sizes[1]:
        return view
    made = low.b.hbm(view.sizes, view.dtype, "channels")
    low.store(Hbm(view), made)
    return made


def _columns(low: Lowering, op: Op, given: Input, width: int) -> View:
    """[lanes, blocks, width]: the weights of each channel on its partition, in float32."""
    channels = given.shape.channels
    rows = as_shape(low.contiguous(op.operands[1]), (channels, width))
    weights = low.b.sbuf((min(channels, given.lanes), given.blocks, width), rows.dtype, "weights")
    load_rows(low, weights, rows)
    if rows.dtype is float32:
        return weights
    wide = low.b.sbuf(weights.sizes, float32, "weights")
    for at, count in given.blocks_of_channels():
        low.b.op("tensor_copy", *(sliced(picked(v, 1, given.block(at)), 0, 0, count) for v in (wide, weights)))
    return wide


def _weighted(low: Lowering, given: Input, tile: View, box: list[Part], column: View) -> View:
    """The sum over the offsets of what the windows of a box see there times a number per channel."""
    b, sizes, kernel = low.b, (column.sizes[0], *[n for _, n in box]), given.shape.kernel
    total = b.sbuf(sizes, float32, "sums", depth=2)
    if prod(kernel) <= TUNING.depthwise_unrolled:
        places = list(product(*(range(n) for n in kernel)))
        numbers = [sliced(column, 1, i, 1) for i in range(len(places))]
        weigh(low, total, [given.windows(tile, box, place) for place in places], numbers)
    else:
        b.op("memset", total, value=0.0)
        for step, place, _ in offsets(b, [(n, 1) for n in kernel]):
            seen = given.windows(tile, box, place)
            number = sliced(column, 1, step, 1)
            b.op("scalar_tensor_tensor", total, seen, number, total, op0="multiply", op1="add")
    if given.dtype is float32:
        return total
    made = b.sbuf(sizes, given.dtype, "out", depth=2)
    low.evict(made, total)
    return made


def weigh(low: Lowering, total: View, seen: list[View], numbers: list[View], begun: bool = False) -> None:
    """total = the sum of views, each times a number per partition.    begun: that is added to what `total` holds."""
    b = low.b
    own = len(seen) - _helped(low, total, seen[0], numbers[0], len(seen))
    if not begun:
        b.op("tensor_scalar", total, seen[0], numbers[0], op0="multiply")
    for view, number in zip(seen[not begun : own], numbers[not begun : own], strict=True):
        b.op("scalar_tensor_tensor", total, view, number, total, op0="multiply", op1="add")
    if own == len(seen):
        return
    rest = b.sbuf(total.sizes, float32, "rest", depth=2)
    b.op("activation", rest, seen[own], None, numbers[own], op="copy")
    for view, number in zip(seen[own + 1 :], numbers[own + 1 :], strict=True):
        term = b.sbuf(total.sizes, float32, "term", depth=2)
        b.op("activation", term, view, None, number, op="copy")
        b.op("tensor_tensor", rest, rest, term, op="add", engine="gpsimd")
    b.op("tensor_tensor", total, total, rest, op="add", engine="gpsimd")


def _helped(low: Lowering, total: View, seen: View, number: View, count: int) -> int:
    """How many offsets are better left to the Scalar engine and GpSimd."""
    b = low.b
    if low.target["features.port_vector_gpsimd_sbuf"] or count == 1:
        # The two would wait for each other.
        return 0
    first = b.cost_ns("tensor_scalar", total, seen, number, op0="multiply")
    each = b.cost_ns("scalar_tensor_tensor", total, seen, number, total, op0="multiply", op1="add")
    scaled = b.cost_ns("activation", total, seen, None, number, op="copy")
    added = max(b.cost_ns("tensor_tensor", total, total, total, op="add", engine="gpsimd"), scaled)
    return min(range(count), key=lambda n: max(first + each * (count - 1 - n), added * n))


# Signals.


def is_signal(low: Lowering, shape: Shape, dtype: DType) -> bool:
    """True for a few long rows, each convolved with a shorter one: they lie across partitions.

    As products of matrices they would have one row each, which leaves the Tensor engine next to nothing to do.
    """
    rows, lanes = shape.batch * shape.groups, low.target["limits.partitions"]
    single = shape.depth == 1 and shape.channels == shape.outs == 1 and dtype is float32
    if not single or 2 * rows >= lanes or shape.counts[0] < lanes * lanes:
        return False
    part = min(shape.counts[0] // lanes, TUNING.panel)
    # Two tiles in turn of what a part sees, its sums, terms and their sums; and the numbers.
    held = 2 * (shape.reach(0, part) + 3 * part) + shape.kernel[0]
    return held * float32.itemsize <= low.room()


@decision("conv: signals")
def signals(low: Lowering, op: Op, shape: Shape) -> None:
    """Rows one after the other, every partition with the part that its windows see."""
    b, (count,), (kernel,), (stride,) = low.b, shape.counts, shape.kernel, shape.stride
    lanes, reach = low.target["limits.partitions"], shape.reach(0, count)
    x, w, out = low.contiguous(op.operands[0]), low.contiguous(op.operands[1]), result_in_hbm(low, op)
    if shape.is_padded(0):
        wide = b.hbm((shape.batch, shape.groups, reach), x.dtype, "padded")
        before = shape.low[0]
        seen = min(shape.spatial[0], reach - before)
        low.store(Hbm(sliced(x, 2, 0, seen)), sliced(wide, 2, before, seen))
        for start, size in ((0, before), (before + seen, reach - before - seen)):
            if size:
                fill_hbm(low, sliced(wide, 2, start, size), 0)
        x = wide
    # Fewer than there are partitions are left, for one of them.
    per = count // lanes
    with b.loop(shape.batch, "n") as n, b.loop(shape.groups, "c") as c:
        row, target = (picked(picked(view, 0, n), 0, c) for view in (x, out))
        weights = replicate(low, picked(picked(w, 0, c), 0, 0), lanes, "weights")
        whole, rest = divmod(count, per)
        for first, height, width in ((0, whole, per), (whole * per, 1, rest)):
            for at, some in tiled(b, width, TUNING.panel, "s") if height * width else ():
                start = affine(at) + first
                # Parts that neighbours see lie on both.
                begin = Affine(row.offset, row.terms) + start * stride
                length = (some - 1) * stride + shape.dilation[0] * (kernel - 1) + 1
                part = View(row.buffer, row.dtype, begin.const, (height, length), (per * stride, 1), begin.terms)
                tile, total = (
                    b.sbuf((height, size), float32, name, depth=2) for size, name in ((length, "x"), (some, "sums"))
                )
                b.op("dma_copy", tile, part)
                numbers = sliced(weights, 0, 0, height)
                each = min(kernel, TUNING.depthwise_unrolled)
                _add_offsets(low, total, tile, numbers, shape, affine(0), each, False)
                for k, more in tiled(b, kernel - each, each, "k"):
                    _add_offsets(low, total, tile, numbers, shape, affine(k) + each, more, True)
                place = Affine(target.offset, target.terms) + start
                b.op(
                    "dma_copy",
                    View(target.buffer, target.dtype, place.const, total.sizes, (per, 1), place.terms),
                    total,
                )


def _add_offsets(
    low: Lowering, total: View, tile: View, numbers: View, shape: Shape, first: Affine, count: int, begun: bool
) -> None:
    """Some offsets of a signal, from `first` on."""
    some, (stride,), (dilation,) = total.sizes[1], shape.stride, shape.dilation
    places = [first + k for k in range(count)]
    views = [sliced(tile, 1, k * dilation, some, stride) for k in places]
    weigh(low, total, views, [sliced(numbers, 1, k, 1) for k in places], begun)
