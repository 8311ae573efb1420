"""What partitions have of the dims of an array, and the tiles and runs that are for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from tilewright.dtypes import DType
from tilewright.lower.write.views import Affine, split
from tilewright.tile.memory import SBUF, Buffer, MemoryRegion
from tilewright.tile.view import View, whole


@dataclass(frozen=True, slots=True)
class Cuts:
    """How dims lie in work: so many partitions have so many neighbouring elements each, in so many trips."""

    lanes: tuple[int, ...]
    inside: tuple[int, ...]
    trips: tuple[int, ...]

    @property
    def each(self) -> tuple[int, ...]:
        """Elements of each dim in a trip."""
        return tuple(p * f for p, f in zip(self.lanes, self.inside, strict=True))

    @property
    def done(self) -> tuple[int, ...]:
        """Elements of each dim in all trips."""
        return tuple(t * n for t, n in zip(self.trips, self.each, strict=True))

    @property
    def lane_dims(self) -> list[int]:
        """The dims of which several partitions have parts; one without others."""
        return [d for d, n in enumerate(self.lanes) if n > 1] or [0]

    def box(self, view: View, at: Sequence[Affine] | None = None) -> View:
        """What is in work of a view: [partitions, dim by dim; what each has]. A part has its own sizes inside."""
        origin = Affine(view.offset, view.terms)
        if at is not None:
            for start, stride in zip(at, view.strides, strict=True):
                origin = origin + start * stride
        across = self.lane_dims
        inside = [min(f, n) for f, n in zip(self.inside, view.sizes, strict=True)]
        sizes = (*[self.lanes[d] for d in across], *inside)
        strides = (*[view.strides[d] * self.inside[d] for d in across], *view.strides)
        return View(view.buffer, view.dtype, origin.const, sizes, strides, origin.terms)


@dataclass(frozen=True, slots=True)
class Held:
    """A tile [partitions, ...] for a box of a part, the runs that fill it, and where the elements are in it."""

    spanned: int
    shape: tuple[int, ...]
    runs: View
    offset: int
    strides: tuple[int, ...]

    def elements(self, tile: View, sizes: Sequence[int]) -> View:
        """The elements in a tile of this shape: [partitions, *sizes]."""
        return View(tile.buffer, tile.dtype, self.offset, (tile.sizes[0], *sizes), (tile.row, *self.strides))


def held(box: View, lanes: int, spanned: int) -> Held:
    """A box of a part: of the `spanned` innermost dims all is read from the first element to the last."""
    free = range(lanes, box.ndim)
    order = _lying(box, lanes)
    outer, inner = order[: len(order) - spanned], order[len(order) - spanned :]
    length = 1 + sum((box.sizes[d] - 1) * abs(box.strides[d]) for d in inner)
    steps, step = {d: abs(box.strides[d]) for d in inner}, length
    for d in reversed(outer):
        steps[d] = step
        step *= box.sizes[d]
    offset, start = 0, box.offset
    for d in order:
        if box.strides[d] < 0:
            offset += (box.sizes[d] - 1) * steps[d]
            start += (box.sizes[d] - 1) * box.strides[d]
            steps[d] = -steps[d]
    sizes = (*box.sizes[:lanes], *[box.sizes[d] for d in outer], length)
    strides = (*box.strides[:lanes], *[abs(box.strides[d]) for d in outer], 1)
    runs = View(box.buffer, box.dtype, start, sizes, strides, box.terms)
    return Held(spanned, (prod(box.sizes[:lanes]), *sizes[lanes:]), runs, offset, tuple(steps.get(d, 0) for d in free))


def holds(box: View, lanes: int) -> Iterator[Held]:
    """Ways to hold a box: longer and longer runs, from those that have nothing between the elements on."""
    order = _lying(box, lanes)
    dense, length = 0, 1
    for d in reversed(order):
        if abs(box.strides[d]) != length:
            break
        dense, length = dense + 1, length * box.sizes[d]
    for spanned in range(dense, len(order) + 1):
        yield held(box, lanes, spanned)


def _lying(box: View, lanes: int) -> list[int]:
    """The free dims along which there is more than one element in memory, from the outermost on."""
    dims = (d for d in range(lanes, box.ndim) if box.sizes[d] > 1 and box.strides[d])
    return sorted(dims, key=lambda d: -abs(box.strides[d]))


# Tiles.


def thought(shape: Sequence[int], dtype: DType, memory: MemoryRegion = SBUF) -> View:
    """A tile that is only thought of."""
    return whole(Buffer(dtype, tuple(shape), memory))


def apart(tile: View, box: View, count: int) -> View:
    """A tile with its partitions as the dims that a box has for them."""
    return split(tile, 0, box.sizes[:count])


def once(box: View, count: int) -> View:
    """A box with one element along dims on which it is repeated."""
    free = [
        1 if d >= count and stride == 0 else n for d, (n, stride) in enumerate(zip(box.sizes, box.strides, strict=True))
    ]
    return View(box.buffer, box.dtype, box.offset, tuple(free), box.strides, box.terms)


def again(tile: View, box: View) -> View:
    """A tile read again along the dims that a box has more of."""
    strides = tuple(0 if n != m else s for n, m, s in zip(tile.sizes, box.sizes, tile.strides, strict=True))
    return View(tile.buffer, tile.dtype, tile.offset, box.sizes, strides, tile.terms)


# Which cuts there are.


def all_cuts(out: View, sources: Sequence[View], is_whole: Sequence[bool], lanes: int, most: int) -> Iterator[Cuts]:
    """Cuts with runs of several lengths on both sides, up to `most` elements inside; dims that are not whole are.

    Dims along which all sources repeat their elements are also tried as a whole, and take no room then.
    """
    sizes, seen = out.sizes, set()
    least = [1 if can else n for n, can in zip(sizes, is_whole, strict=True)]
    repeated = [all(source.strides[d] == 0 for source in sources) for d in range(out.ndim)]
    starts = [least, *[[n if r else f for n, f, r in zip(sizes, least, repeated, strict=True)]] * any(repeated)]
    orders = dict.fromkeys(tuple(_inside_first(source)) for source in sources)
    for start, order, run_in, run_out in product(starts, orders, _runs(most), _runs(most)):
        inside = start.copy()
        _fill(inside, sizes, order, run_in)
        _fill(inside, sizes, _inside_first(out), run_out)
        held = prod(f for f, r in zip(inside, repeated, strict=True) if not r or start is least)
        if held <= most and tuple(inside) not in seen:
            seen.add(tuple(inside))
            across = _spread([n // f for n, f in zip(sizes, inside, strict=True)], lanes)
            trips = tuple(n // (f * p) for n, f, p in zip(sizes, inside, across, strict=True))
            yield Cuts(across, tuple(inside), trips)


def _inside_first(view: View) -> list[int]:
    """Dims from the innermost in memory on, without those that repeat."""
    return sorted((d for d in range(view.ndim) if view.strides[d]), key=lambda d: (abs(view.strides[d]), -d))


def _runs(most: int) -> list[int]:
    """Lengths of runs to try."""
    return [1, *[1 << i for i in range(3, most.bit_length())]]


def _fill(inside: list[int], sizes: Sequence[int], order: Sequence[int], run: int) -> None:
    """Take so much of the innermost dims that runs have a length at least."""
    have = 1
    for d in order:
        if have >= run:
            return
        inside[d] = max(inside[d], _even(sizes[d], -(-run // have)))
        have *= inside[d]


def _even(size: int, least: int) -> int:
    """A part of a dim of about some length, such that nothing is left over if there is one."""
    if 2 * least > size:
        return size
    near = [n for n in range(-(-2 * least // 3), 3 * least // 2 + 1) if size % n == 0]
    return min(near, key=lambda n: abs(n - least), default=least)


def _spread(sizes: Sequence[int], lanes: int) -> tuple[int, ...]:
    """How many of each dim lie on partitions: as many as there are, or evenly if that needs at most twice the trips."""
    made = [1] * len(sizes)
    for d in sorted(range(len(sizes)), key=lambda d: -sizes[d]):
        if sizes[d] <= lanes:
            made[d] = sizes[d]
        else:
            even = next(n for n in range(lanes, 0, -1) if sizes[d] % n == 0)
            made[d] = even if 2 * even >= lanes else lanes
        lanes //= made[d]
    return tuple(made)
