"""Arrays in HBM made of parts of others, by way of SBUF: brought in by long runs, put in order, sent out by long runs.

Every dim is cut in three: trips of a loop, partitions, and what each partition has of it. A partition then has a box of
the result. For that it reads runs as long as they can be, with what lies between the elements of a part if that takes
less time than many short runs. An engine puts the elements in order; where runs are long anyway, the transfer does.
Which cut and which order take the least time, the costs of the instructions say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from tilewright.lower.decisions import decision
from tilewright.lower.move.lay import lay, laying_ns
from tilewright.lower.move.parts import Part, in_order
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.boxes import Cuts, again, all_cuts, apart, held, holds, once, thought
from tilewright.lower.write.transfers import Moving, moving, transfer
from tilewright.lower.write.views import sliced
from tilewright.target import Target
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.write.builder import TileBuilder


# Plans.


@dataclass(frozen=True, slots=True)
class Way:
    """How a part gets to its place in the tile of the result: by way of a tile of its own, or (None) by its transfer.

    extra_ns: what is held against reading more than the part.
    """

    spanned: int | None
    moving: Moving
    copy_ns: float = 0.0
    bytes: int = 0
    extra_ns: float = 0.0

    def ns(self, trips: int) -> float:
        """About how long that takes."""
        move = self.moving
        each = max(move.busy_ns, self.copy_ns, move.queue_ns, move.issue_ns)
        return move.ns + self.copy_ns + (trips - 1) * each + self.extra_ns * trips


def quickest(b: TileBuilder, place: View, box: View, count: int, trips: int, most: int) -> Way:
    """The quickest way for a box in HBM to its place in a tile; `most` elements of a partition in between."""
    target = b.target
    ways = [Way(None, moving(apart(place, box, count), box, target, count), extra_ns=excess_ns(box, box, target))]
    for found in holds(box, count):
        if prod(found.shape[1:]) > most:
            break
        own = thought(found.shape, box.dtype)
        load = moving(apart(own, box, count), found.runs, target, count)
        copy = laying_ns(b, place, found.elements(own, box.sizes[count:]))
        extra = excess_ns(found.runs, box, target)
        ways.append(Way(found.spanned, load, copy, own.free * own.dtype.itemsize, extra))
    return min(ways, key=lambda way: way.ns(trips))


def excess_ns(read: View, wanted: View, target: Target) -> float:
    """What is held against reading more than the elements that are wanted, each once."""
    once = prod(n for n, stride in zip(wanted.sizes, wanted.strides, strict=True) if stride)
    more = max(read.size - once, 0) * read.dtype.itemsize
    return TUNING.excess * more / target["dma.core_bandwidth"]


@decision("load: through another tile")
def bring(low: Lowering, way: Way, place: View, box: View, count: int, depth: int) -> None:
    """A box in HBM, of whose dims the first `count` are partitions, to its place in a tile."""
    if way.spanned is None:
        transfer(low.b, apart(place, box, count), box, count)
        return
    found = held(box, count, way.spanned)
    own = low.b.sbuf(found.shape, box.dtype, "part", depth)
    transfer(low.b, apart(own, box, count), found.runs, count)
    lay(low, place, found.elements(own, box.sizes[count:]))


@dataclass(frozen=True)
class Plan:
    """Cuts with a way for each part. covered: the share of the result that they leave nothing over of.

    repeats: the tile has no dims along which elements are repeated; the store reads it again for them.
    """

    cuts: Cuts
    repeats: bool
    ways: tuple[Way, ...]
    store: Moving
    out_bytes: int
    covered: float

    @cached_property
    def ns(self) -> float:
        """About how long it takes, beside the fixed times of transfers."""
        moves = (*(way.moving for way in self.ways), self.store)
        busy = sum(move.busy_ns for move in moves)
        issue = sum(move.issue_ns for move in moves)
        queue = max(move.queue_ns for move in moves)
        copies = sum(way.copy_ns for way in self.ways)
        extra = sum(way.extra_ns for way in self.ways)
        once = max(way.ns(1) for way in self.ways) + self.store.ns
        each = max(busy, issue, queue, copies)
        trips = prod(self.cuts.trips) / self.covered
        return max(once, each) + (trips - 1) * each + trips * extra

    def copies(self, room: int) -> int:
        """How many copies of its tiles so many bytes of a partition have room for, up to what is of use."""
        return min(room // (self.out_bytes + sum(way.bytes for way in self.ways)), prod(self.cuts.trips), TUNING.copies)


class Assembly:
    """A result in HBM and its parts. Dims are in the result's own order, neighbours merged where all allow it."""

    def __init__(self, low: Lowering, out: View, parts: Sequence[Part]) -> None:
        self.low, self.b, self.target = low, low.b, low.target
        self.out, self.parts = in_order(out, parts)
        self.lanes: int = self.target["limits.partitions"]
        self.room: int = self.target["memory.sbuf_usable_bytes"] // 2
        stride, each = self.target["limits.access_stride_max"], self.out.dtype.itemsize
        self.most = min(self.room // each // 2, stride)
        self.is_whole = [all(p.is_whole(d, n) for p in self.parts) for d, n in enumerate(self.out.sizes)]

    def best(self, other_ns: float) -> Plan | None:
        """The plan that takes the least time, where it takes less than another way."""
        if self._least_ns() > other_ns:
            return None
        best: Plan | None = None
        for cuts in all_cuts(self.out, [part.source for part in self.parts], self.is_whole, self.lanes, self.most):
            for plan in self._plans(cuts, other_ns):
                if plan.ns < other_ns and plan.copies(self.room) >= min(prod(cuts.trips), 2):
                    best, other_ns = plan, plan.ns
        return best

    def _least_ns(self) -> float:
        """The least time that any plan takes: two transfers one after the other, and the result."""
        one = thought((1, 1), self.out.dtype)
        return 2 * moving(one, one, self.target).ns + self.out.nbytes / self.target["dma.core_bandwidth"]

    def _plans(self, cuts: Cuts, most_ns: float) -> Iterator[Plan]:
        """Plans with some cuts, where storing the result alone does not take as long as something else."""
        box, count = cuts.box(self.out), len(cuts.lane_dims)
        covered = prod(cuts.done) / self.out.size
        tile = thought((prod(cuts.lanes), *box.sizes[count:]), box.dtype)
        store = moving(box, apart(tile, box, count), self.target, count)
        bound = store.ns + (prod(cuts.trips) / covered - 1) * store.busy_ns
        if bound < most_ns and tile.free <= self.most:
            ways = tuple(self._way(part, tile, cuts) for part in self.parts)
            yield Plan(cuts, False, ways, store, tile.free * tile.dtype.itemsize, covered)
        if len(self.parts) == 1:
            few = once(cuts.box(self.parts[0].source), count)
            tile = thought((prod(cuts.lanes), *few.sizes[count:]), few.dtype)
            load = moving(apart(tile, few, count), few, self.target, count)
            store = moving(box, again(apart(tile, few, count), box), self.target, count)
            way = Way(None, load, extra_ns=self._again_ns(few, cuts))
            yield Plan(cuts, True, (way,), store, tile.free * tile.dtype.itemsize, covered)

    def _again_ns(self, box: View, cuts: Cuts) -> float:
        """What is held against reading the same for several partitions and in several trips."""
        source = self.parts[0].source
        trips = prod(t for t, stride in zip(cuts.trips, source.strides, strict=True) if stride == 0)
        again = TUNING.excess * box.nbytes / self.target["dma.core_bandwidth"] * (1 - 1 / trips)
        return max(again, excess_ns(box, box, self.target))

    def _way(self, part: Part, tile: View, cuts: Cuts) -> Way:
        place = part.of(tile, 1)
        if part.value is not None:
            return Way(None, Moving(), self.b.cost_ns("memset", place, value=part.value, engine="vector"))
        return quickest(self.b, place, cuts.box(part.source), len(cuts.lane_dims), prod(cuts.trips), self.most)

    # Writing.

    def write(self, plan: Plan) -> Iterator[tuple[View, list[Part]]]:
        """What a plan does; gives what it leaves over."""
        self._write(plan)
        out, parts = self.out, list(self.parts)
        for d, done in enumerate(plan.cuts.done):
            size = out.sizes[d]
            if done < size:
                yield sliced(out, d, done, size - done), [part.cut(d, done, size - done) for part in parts]
                out, parts = sliced(out, d, 0, done), [part.cut(d, 0, done) for part in parts]

    def _write(self, plan: Plan) -> None:
        b, cuts, count = self.b, plan.cuts, len(plan.cuts.lane_dims)
        depth = plan.copies(self.room)

        def new(box: View, name: str) -> View:
            return b.sbuf((prod(box.sizes[:count]), *box.sizes[count:]), box.dtype, name, depth)

        with ExitStack() as loops:
            at = [loops.enter_context(b.loop(t, "b", n)) for t, n in zip(cuts.trips, cuts.each, strict=True)]
            box = cuts.box(self.out, at)
            if plan.repeats:
                few = once(cuts.box(self.parts[0].source, at), count)
                tile = apart(new(few, "part"), few, count)
                transfer(b, tile, few, count)
                transfer(b, box, again(tile, box), count)
                return
            tile = new(box, "order")
            for part, way in zip(self.parts, plan.ways, strict=True):
                place, some = part.of(tile, 1), cuts.box(part.source, at)
                if part.value is not None:
                    self.low.selecting.fill(place, part.value)
                else:
                    bring(self.low, way, place, some, count, depth)
            transfer(b, box, apart(tile, box, count), count)
