"""Which engine runs what where nothing repeats: each instruction in turn goes to the engine that is done with it first.

In a loop only the sum counts, trips overlap (`engines.py`). Instructions that stand by themselves wait for each other:
two engines that take turns, one whole operation each, gain nothing by having equal shares of the work. So each of them
is put where it ends earliest, after what it reads and what it overwrites, beside what runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tilewright.ir.core import Op
from tilewright.lower.order.forms import Form, Part
from tilewright.tile.memory import Buffer
from tilewright.tile.overlap import Extent
from tilewright.tile.patterns import extent_of
from tilewright.tile.record import TABLE

if TYPE_CHECKING:
    from tilewright.lower.order.engines import Sharing


class Touched(NamedTuple):
    """An access, and when it is over."""

    extent: Extent
    writes: bool
    end: float
    engine: str


class Dispatch:
    """The clocks of engines, and what is known of tiles."""

    def __init__(self, sharing: Sharing) -> None:
        self.sharing = sharing
        self._free: dict[str, float] = {}
        self._touched: dict[Buffer, list[Touched]] = {}
        self._asked: Part | None = None
        self._found: list[Touched] = []
        self._semaphore = sharing.b.target["semaphore.engine_ns"]
        self._start = sharing.b.target["dma.static_start_ns"]
        self._rival = {port: other for pair in sharing.pairs for port, other in (pair, pair[::-1])}

    def run(self, ops: Sequence[Op]) -> list[tuple[Op, Form]]:
        """Instructions that become others."""
        changed: list[tuple[Op, Form]] = []
        for op in ops:
            own = self.sharing.own(op)
            best, ends = own, self._ends(own)
            for form in self.sharing.forms(op):
                later = self._ends(form)
                if later[-1] < ends[-1]:
                    best, ends = form, later
            self._commit(best, ends)
            if best is not own:
                changed.append((op, best))
        return changed

    def _ends(self, form: Form) -> list[float]:
        """When each part of a form would be over."""
        made: list[float] = []
        taken: dict[str, float] = {}
        for part in form:
            takes = self.sharing.takes_of(part)
            engine = next(iter(takes))
            begin = max(self._ready(part, engine), taken.get(engine, self._free.get(engine, 0.0)), *made[-1:], 0.0)
            for port in takes:
                begin = max(begin, self._free.get(self._rival.get(port, ""), 0.0))
            taken[engine] = begin + takes[engine]
            made.append(taken[engine])
        return made

    def _ready(self, part: Part, engine: str) -> float:
        """When what an instruction reads is there, and what it overwrites is no longer needed."""
        ready = 0.0
        for other in self._earlier(part):
            ready = max(ready, other.end + (self._semaphore if other.engine != engine else 0.0))
        return ready

    def _earlier(self, part: Part) -> list[Touched]:
        """The accesses that an instruction comes after, on whichever engine it runs."""
        if self._asked is None or self._asked.operands is not part.operands or self._asked.name != part.name:
            self._asked, self._found = part, []
            for view, _, writes in TABLE[part.name].accesses(part.operands):
                own = extent_of(view)
                for other in self._touched.get(view.buffer, ()):
                    if (writes or other.writes) and own.meets(other.extent):
                        self._found.append(other)
        return self._found

    def _commit(self, form: Form, ends: Sequence[float]) -> None:
        self._asked = None
        for part, end in zip(form, ends, strict=True):
            takes = self.sharing.takes_of(part)
            engine = next(iter(takes))
            for name in takes:
                self._free[name] = end
            seen = end + (self._start if engine == "dma" else 0.0)
            for view, _, writes in TABLE[part.name].accesses(part.operands):
                known, own = self._touched.setdefault(view.buffer, []), extent_of(view)
                if writes:
                    known[:] = [other for other in known if not own.covers(other.extent)]
                known.append(Touched(own, writes, seen, engine))
