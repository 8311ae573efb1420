"""Transfers that many short runs would hold up, cut into several that move at the same time.

A queue takes the runs of a transfer one after the other, each with its way to memory and back. Several queues share
what the DMA engines can move; each further one takes a turn at being issued.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import TileBuilder
from tilewright.lower.write.dims import collapsed
from tilewright.lower.write.views import At, merged, picked, sliced
from tilewright.target import Target
from tilewright.tile.costed import cost_of
from tilewright.tile.record import TABLE
from tilewright.tile.view import View


@dataclass(frozen=True, slots=True)
class Moving:
    """What a transfer in parts takes: of the DMA engines, of the queue of each part, of the turns at being issued.

    ns: until all parts are there.
    """

    busy_ns: float = 0.0
    queue_ns: float = 0.0
    issue_ns: float = 0.0
    ns: float = 0.0
    parts: int = 0


def moving(dst: View, src: View, target: Target, lanes: int = 1) -> Moving:
    """The cost of `transfer`."""
    record = TABLE["dma_copy"]
    operands = whole_lanes(dst, lanes), whole_lanes(src, lanes)
    _, cost = cost_of(record, operands, record.attributes({}), target)
    busy = max(cost.busy_ns, max(dst.nbytes, src.nbytes) / target["dma.core_bandwidth"])
    queue, issue = max(cost.queue_ns, busy), cost.interval_ns

    def ns(parts: int) -> float:
        # All but the last share the engines; the last one's runs come one after the other.
        return max(busy * (parts - 1) / parts, (parts - 1) * issue) + queue / parts

    most = min(prod(dst.sizes[:lanes]), TUNING.most_parts)
    enough = TUNING.fewer_parts * min(ns(parts) for parts in range(1, most + 1))
    parts = next(parts for parts in range(1, most + 1) if ns(parts) <= enough)
    fixed = cost.latency_ns - cost.queue_ns
    return Moving(busy, queue / parts, parts * issue, fixed + ns(parts), parts)


def transfer(b: TileBuilder, dst: View, src: View, lanes: int = 1) -> None:
    """dst = src, which have the same sizes; the first `lanes` dims of a tile are its partitions.

    A dim too many for an access pattern becomes a loop.
    """
    limit = b.target["limits.max_view_dims"]
    if max(collapsed(whole_lanes(view, lanes)).ndim for view in (dst, src)) > limit:
        with b.loop(dst.sizes[0], "d") as at:
            rest = (_one(view, at, lanes) for view in (dst, src))
            transfer(b, *rest, lanes=max(lanes - 1, 1))
        return
    for one, other in zip(
        *(_cut(view, moving(dst, src, b.target, lanes).parts, lanes) for view in (dst, src)), strict=True
    ):
        b.op("dma_copy", one, other)


def _one(view: View, at: At, lanes: int) -> View:
    """One entry of the first dim, which stays where it is the only one of the partitions."""
    return picked(view, 0, at) if lanes > 1 or not view.on_chip else sliced(view, 0, at, 1)


def _cut(view: View, parts: int, lanes: int) -> Iterator[View]:
    """A view in about so many parts of its first dims."""
    size = view.sizes[0]
    if parts <= 1 or (size == 1 and lanes == 1):
        yield whole_lanes(view, lanes)
    elif size >= parts or lanes == 1:
        each = -(-size // parts)
        for first in range(0, size, each):
            yield whole_lanes(sliced(view, 0, first, min(each, size - first)), lanes)
    else:
        for i in range(size):
            yield from _cut(picked(view, 0, i), -(-parts // size), lanes - 1)


def whole_lanes(view: View, lanes: int) -> View:
    """A view of a tile with its partitions as one dim; others stay as they are."""
    if not view.on_chip or lanes == 1:
        return view
    made = merged(view, 0, lanes - 1)
    assert made is not None
    return made
