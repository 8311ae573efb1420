"""Reductions of all that a region of neighbours makes of a value: each patch reduces its own elements, and the
partitions meet when all patches are done (totals.py)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.lower.decisions import decision
from tilewright.lower.nest.totals import Total
from tilewright.lower.regions.patches import Along, Run, Span, over
from tilewright.lower.select.select import REDUCE, start_of
from tilewright.lower.write.views import broadcast, expanded, picked, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.nest.patched import PatchEmitter


@decision("totals: patches taken in")
def take_in_patches(e: PatchEmitter, total: Total) -> None:
    """The elements that the patches in work make: not their borders, and nothing beyond the ends of the array."""
    (x,) = total.op.operands
    e.b.location = total.op.location
    into, count = sliced(total.tiles[0], 0, 0, e.block.partitions), e.block.partitions
    dims = zip(e.patches.dims, e.patches.along, strict=True)
    parts = [list(_parts((0, dim.size(x)), dim.made(x, along), along)) for dim, along in dims]
    for chosen in product(*parts):
        lanes = _lanes(e, [patches for _, patches in chosen])
        if not lanes:
            continue
        part = e.b.sbuf(into.sizes, float32, "part", depth=e.depth)
        _reduce(e, total, part, e.window(x, [span for span, _ in chosen]))
        if len(lanes) < count:
            others = tuple(i for i in range(count) if i not in lanes)
            start = broadcast(e.number(float32, start_of(total.op.name, float32), part.ndim), part.sizes)
            e.b.op("tensor_copy_predicated", part, start, e.mask(others, part.ndim))
        e.b.op("tensor_tensor", into, into, part, op=REDUCE[total.op.name])


def _reduce(e: PatchEmitter, total: Total, part: View, tile: View) -> None:
    """One number for each patch."""
    for d in reversed(range(1, tile.ndim)):
        tile = picked(tile, d, 0) if tile.sizes[d] == 1 else tile
    if tile.ndim == 1:
        e.select.copy(part, expanded(tile, 1))
    else:
        e.b.op("tensor_reduce", part, tile, op=REDUCE[total.op.name], axis=tuple(range(1 - tile.ndim, 0)))


def _parts(array: Span, made: Span, along: Along) -> Iterator[tuple[Span, set[int]]]:
    """The places that patches make along a dim, those together that the same patches have within the array: which."""
    runs = list(over(array, made, along))
    ends = sorted({end for run in runs for end in (run.place, run.place + run.length)})
    for first, stop in pairwise(ends):
        patches = {b for run in runs if _covers(run, first, stop) for b in range(run.first, run.first + run.count)}
        if patches:
            yield (first, stop), patches


def _covers(run: Run, first: int, stop: int) -> bool:
    return run.place <= first and stop <= run.place + run.length


def _lanes(e: PatchEmitter, chosen: list[set[int]]) -> set[int]:
    """The partitions of some patches that are in work, by their numbers along each dim."""
    each = zip(chosen, e.cells, strict=True)
    here = [[i for i in range(count) if first + i in patches] for patches, (first, count) in each]
    return set(e.patches.partitions(here, [count for _, count in e.cells]))
