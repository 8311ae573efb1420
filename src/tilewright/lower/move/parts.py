"""Parts of a result in HBM: elements of views, or numbers, and where they go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dtypes import DType
from tilewright.lower.write.views import merged, sliced
from tilewright.tile.memory import HBM, Buffer
from tilewright.tile.view import View


@dataclass(frozen=True, slots=True)
class Part:
    """Elements of a view, and where in the result they go: from `start` on along each dim, `step` apart.

    value: the number that all of them are, in which case they are nowhere.
    """

    source: View
    start: tuple[int, ...]
    step: tuple[int, ...]
    value: float | None = None

    def of(self, result: View, first: int = 0) -> View:
        """Where the part lies in the result, or in a tile whose dims from one on have boxes of the result's."""
        for d, (start, size, step) in enumerate(zip(self.start, self.source.sizes, self.step, strict=True), first):
            result = sliced(result, d, start, min(size, result.sizes[d]), step)
        return result

    def cut(self, d: int, start: int, size: int) -> Part:
        """What belongs to a part of a dim that is whole."""
        return Part(sliced(self.source, d, start, size), self.start, self.step, self.value)

    def between(self, d: int, first: int, stop: int) -> Part | None:
        """What lies between two places of a dim, as a part of just that; None if nothing does."""
        size = self.source.sizes[d]
        if self.start[d] >= stop or self.start[d] + size <= first:
            return None
        begin, end = max(first, self.start[d]), min(stop, self.start[d] + size)
        start = (*self.start[:d], begin - first, *self.start[d + 1 :])
        return Part(sliced(self.source, d, begin - self.start[d], end - begin), start, self.step, self.value)

    def is_whole(self, d: int, size: int) -> bool:
        """True when the part has all there is of a dim."""
        return self.source.sizes[d] == size and self.start[d] == 0 and self.step[d] == 1


def everything(source: View) -> Part:
    """A part that is all of the result."""
    return Part(source, (0,) * source.ndim, (1,) * source.ndim)


def number(value: float, sizes: Sequence[int], start: Sequence[int], step: Sequence[int], dtype: DType) -> Part:
    """A part that is one number."""
    nowhere = View(Buffer(dtype, (1,), HBM), dtype, 0, tuple(sizes), (0,) * len(sizes))
    return Part(nowhere, tuple(start), tuple(step), value)


def in_order(out: View, parts: Sequence[Part]) -> tuple[View, list[Part]]:
    """Dims in the order that the result has in memory, without those of size 1, neighbours merged where they can be."""
    order = sorted((d for d in range(out.ndim) if out.sizes[d] != 1), key=lambda d: -abs(out.strides[d]))
    out, parts = _dims(out, order), [Part(_dims(p.source, order), *_of(p, order), p.value) for p in parts]
    d = 0
    while d + 1 < out.ndim:
        made = _pair(out, parts, d)
        out, parts, d = (out, parts, d + 1) if made is None else (*made, d)
    return out, parts


def _pair(out: View, parts: Sequence[Part], d: int) -> tuple[View, list[Part]] | None:
    both = [merged(view, d, d + 1) for view in (out, *(part.source for part in parts))]
    if any(view is None for view in both) or not all(p.is_whole(i, out.sizes[i]) for p in parts for i in (d, d + 1)):
        return None
    one, *sources = (view for view in both if view is not None)
    keep = [i for i in range(out.ndim) if i != d]
    return one, [Part(source, *_of(p, keep), p.value) for source, p in zip(sources, parts, strict=True)]


def _of(part: Part, dims: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    kept = list(dims) or [None]
    return tuple(0 if d is None else part.start[d] for d in kept), tuple(1 if d is None else part.step[d] for d in kept)


def _dims(view: View, dims: Sequence[int]) -> View:
    """Some dims of a view, of whose others there is one element each."""
    kept = list(dims) or [None]
    sizes = tuple(1 if d is None else view.sizes[d] for d in kept)
    strides = tuple(1 if d is None else view.strides[d] for d in kept)
    return View(view.buffer, view.dtype, view.offset, sizes, strides, view.terms, view.dynamic)
