"""Work moves from one engine to another where the whole kernel is done sooner.

While groups are written, instructions are shared out by sums (`engines.py`, `dispatch.py`): as if everything that can
overlap did. In the finished kernel the clock tells what waits for what. Some of the instructions of an engine are given
to another that has them, spread evenly over the kernel, and taken back if that gains nothing.

Expects a kernel whose tiles have places; guarantees the same results: an instruction means the same on every engine
that is tried for it (`engines.SHARED`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.ir.core import Graph, Op
from tilewright.lower.decisions import decided
from tilewright.lower.order.engines import SHARED, Sharing, instructions
from tilewright.lower.order.forms import Part
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import TileBuilder
from tilewright.target import Target
from tilewright.tile.record import Attributes


class Clock(Protocol):
    """How long some instructions take, in ns."""

    def __call__(self, ops: Sequence[Op], /) -> float: ...

    def varied(self, ops: Sequence[Op], /) -> Callable[[], float]:
        """The same instructions again and again, whose engines differ from one time to the next, and nothing else."""
        ...


SHARES = (2, 4, 8)
"""One of so many instructions goes to the other engine."""


@dataclass(slots=True)
class Work:
    """An instruction that other engines have too, with its attributes and the time of all trips on each of them."""

    op: Op
    engine: str
    able: dict[str, tuple[Attributes, float]]

    @property
    def ns(self) -> float:
        """What it takes of its engine, with all trips."""
        return self.able[self.engine][1]


def rebalance(graph: Graph, target: Target, clock: Clock, profile: str, known: float | None) -> None:
    """Move work between engines for as long as that gains time. known: how long the kernel takes, where that was asked.

    What asking the clock costs goes by how many instructions the kernel executes.
    """
    executed = sum(times for _, times in instructions(graph.body.ops))
    tries = TUNING.rebalanced // max(executed, 1)
    if tries:
        _Balance(graph, target, clock, tries, profile).run(known)


class _Balance:
    """Tries changes of one kernel."""

    def __init__(self, graph: Graph, target: Target, clock: Clock, tries: int, profile: str) -> None:
        self.graph, self.clock, self.tries = graph, clock, tries
        self.b = TileBuilder(graph.name, target, profile)
        self.sharing = Sharing(self.b)
        self.busy: dict[str, float] = {}
        self.works: list[Work] = []
        self.timed: Callable[[], float] | None = None
        for op, times in instructions(graph.body.ops):
            self._add(op, times)

    def _add(self, op: Op, times: int) -> None:
        own = Part(op.definition.name, op.operands, op.attrs)
        takes = self.sharing.takes_of(own)
        engine = next(iter(takes))
        self.busy[engine] = self.busy.get(engine, 0.0) + takes[engine] * times
        if own.name not in SHARED:
            return
        able = {engine: (self.b.attributes(op.definition, op.attrs), takes[engine] * times)}
        for form in self.sharing.forms(op):
            if len(form) == 1 and form[0].name == own.name and form[0].operands == own.operands:
                takes = self.sharing.takes_of(form[0])
                there = next(iter(takes))
                able.setdefault(there, (self.b.attributes(op.definition, form[0].attrs), takes[there] * times))
        if len(able) > 1:
            self.works.append(Work(op, engine, able))

    def run(self, known: float | None) -> None:
        """Try all pairs of engines, from those with the most to do, until none gains anything."""
        if not self.works:
            return
        best = self._time() if known is None else known
        able: dict[str, float] = {}
        for work in self.works:
            able[work.engine] = able.get(work.engine, 0.0) + work.ns
        # What nobody else can do keeps an engine nearly as long as all of it takes.
        if max(ns - able.get(engine, 0.0) for engine, ns in self.busy.items()) * TUNING.overlapped_time >= best:
            return
        gained = True
        while gained and self.tries > 0:
            gained = False
            for source, target in self._pairs():
                for share in SHARES:
                    time = self._moved(source, target, share, best)
                    if time < best:
                        best, gained = time, True
                        break

    def _pairs(self) -> list[tuple[str, str]]:
        pairs = {(work.engine, other) for work in self.works for other in work.able if other != work.engine}
        return sorted(pairs, key=lambda pair: (self.busy.get(pair[1], 0.0) - self.busy[pair[0]], pair))

    def _moved(self, source: str, target: str, share: int, best: float) -> float:
        """The time with a share of the work of one engine on another; left so if it is less, else as it was."""
        chosen = list(_spread([w for w in self.works if w.engine == source and target in w.able], share))
        if not chosen or self.tries <= 0:
            return best
        self.tries -= 1
        for work in chosen:
            self._give(work, target)
        time = self._time()
        if time < best * (1 - TUNING.least_gain):
            decided("order: rebalanced")
            return time
        for work in chosen:
            self._give(work, source)
        return best

    def _time(self) -> float:
        """How long the kernel takes with the engines that its instructions have now."""
        if self.timed is None:
            self.timed = self.clock.varied(self.graph.body.ops)
        return self.timed()

    def _give(self, work: Work, engine: str) -> None:
        """Let another engine have an instruction."""
        self.busy[work.engine] -= work.ns
        work.op.attrs, _ = work.able[engine]
        work.engine = engine
        self.busy[engine] = self.busy.get(engine, 0.0) + work.ns


def _spread(works: Sequence[Work], share: int) -> Iterator[Work]:
    """Some of the work, one part of `share`, evenly over all of it."""
    seen = given = 0.0
    for work in works:
        seen += work.ns
        if seen / share >= given + work.ns / 2:
            given += work.ns
            yield work
