"""One number all over a view in HBM: a tile of it, sent as often as it takes."""

from __future__ import annotations

from contextlib import ExitStack
from math import prod
from typing import TYPE_CHECKING

from tilewright.lower.decisions import decision
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.boxes import Cuts, all_cuts, apart, thought
from tilewright.lower.write.dims import collapsed
from tilewright.lower.write.transfers import moving, transfer
from tilewright.lower.write.views import expanded, sliced
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


class Filling:
    """The quickest way to fill a view."""

    def __init__(self, low: Lowering, out: View, value: float) -> None:
        self.low, self.out, self.value = low, collapsed(out if out.ndim else expanded(out, 0)), value
        lanes, most = low.target["limits.partitions"], TUNING.piece_bytes // out.dtype.itemsize
        choices = all_cuts(self.out, [self.out], [True] * self.out.ndim, lanes, most)
        self.ns, self.cuts = min(((self._ns(cuts), cuts) for cuts in choices), key=lambda choice: choice[0])

    def _ns(self, cuts: Cuts) -> float:
        box, count = cuts.box(self.out), len(cuts.lane_dims)
        tile = thought((prod(cuts.lanes), *box.sizes[count:]), box.dtype)
        memset = self.low.b.cost_ns("memset", tile, value=0, engine="vector")
        store = moving(box, apart(tile, box, count), self.low.target, count)
        trips = prod(cuts.trips) * self.out.size / prod(cuts.done)
        return memset + store.ns + (trips - 1) * max(store.busy_ns, store.queue_ns, store.issue_ns)

    @decision("copy: filled")
    def write(self) -> None:
        """Write it."""
        b, cuts, out = self.low.b, self.cuts, self.out
        count = len(cuts.lane_dims)
        tile = b.sbuf((prod(cuts.lanes), *cuts.inside), out.dtype, "filled")
        self.low.selecting.fill(tile, self.value)
        with ExitStack() as loops:
            at = [loops.enter_context(b.loop(t, "f", n)) for t, n in zip(cuts.trips, cuts.each, strict=True)]
            box = cuts.box(out, at)
            transfer(b, box, apart(tile, box, count), count)
        for d, done in enumerate(cuts.done):
            if done < out.sizes[d]:
                Filling(self.low, sliced(out, d, done, out.sizes[d] - done), self.value).write()
                out = sliced(out, d, 0, done)
