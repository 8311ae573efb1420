"""Work moves from one engine to another where the whole kernel is done sooner.

While groups are written, instructions are shared out by sums (`engines.py`, `dispatch.py`): as if everything that can
overlap did. In the finished kernel the clock tells what waits for what. Some of the instructions of an engine are given
to another that has them, spread evenly over the kernel, and taken back if that gains nothing.

Expects a kernel whose tiles have places; guarantees the same results, which other forms of an instruction give bit for
bit (`forms.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.ir.core import Graph, Op, Region
from tilewright.lower.decisions import decided
from tilewright.lower.order.engines import Sharing
from tilewright.lower.order.forms import Part
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import TileBuilder
from tilewright.target import Target
from tilewright.tile.ops import FOR, trips
from tilewright.tile.record import TABLE, Record

Clock = Callable[[Sequence[Op]], float]
"""How long some instructions take, in ns."""

SHARES = (2, 4, 8)
"""One of so many instructions goes to the other engine."""


@dataclass(slots=True)
class Work:
    """An instruction that other engines have too: what all trips take of its own, and what it may be there."""

    op: Op
    engine: str
    ns: float
    others: dict[str, Part]


def rebalance(graph: Graph, target: Target, clock: Clock, instructions: int, profile: str) -> dict[Op, Op]:
    """Move work between engines for as long as that gains time; which instructions became which.

    instructions: how many the kernel executes, which is what asking the clock costs.
    """
    tries = TUNING.rebalanced // max(instructions, 1)
    if not tries:
        return {}
    return _Balance(graph, target, clock, tries, profile).run()


class _Balance:
    """Tries changes of one kernel."""

    def __init__(self, graph: Graph, target: Target, clock: Clock, tries: int, profile: str) -> None:
        self.graph, self.clock, self.tries = graph, clock, tries
        self.b = TileBuilder(graph.name, target, profile)
        self.sharing = Sharing(self.b)
        self.busy: dict[str, float] = {}
        self.works: list[Work] = []
        for op, times in _instructions(graph.body.ops, 1):
            self._add(op, times)
        self.became: dict[Op, Op] = {}

    def _add(self, op: Op, times: int) -> None:
        own = Part(op.definition.name, op.operands, op.attrs)
        takes = self.sharing.takes_of(own)
        engine = next(iter(takes))
        self.busy[engine] = self.busy.get(engine, 0.0) + takes[engine] * times
        if engine == "dma":
            return
        others: dict[str, Part] = {}
        for form in self.sharing.forms(op):
            there = next(iter(self.sharing.takes_of(form[0])))
            if len(form) == 1 and there != engine:
                others.setdefault(there, form[0])
        if others:
            self.works.append(Work(op, engine, takes[engine] * times, others))

    def run(self) -> dict[Op, Op]:
        """Try all pairs of engines, from those with the most to do, until none gains anything."""
        if not self.works:
            return {}
        best = self.clock(self.graph.body.ops)
        able = {work.engine: 0.0 for work in self.works}
        for work in self.works:
            able[work.engine] += work.ns
        # What nobody else can do keeps an engine nearly as long as all of it takes.
        if max(ns - able.get(engine, 0.0) for engine, ns in self.busy.items()) * TUNING.overlapped_time >= best:
            return {}
        gained = True
        while gained and self.tries > 0:
            gained = False
            for source, target in self._pairs():
                for share in SHARES:
                    time = self._moved(source, target, share, best)
                    if time < best:
                        best, gained = time, True
                        break
                if self.tries <= 0:
                    break
        return self.became

    def _pairs(self) -> list[tuple[str, str]]:
        pairs = {(work.engine, other) for work in self.works for other in work.others}
        return sorted(pairs, key=lambda pair: (self.busy.get(pair[1], 0.0) - self.busy[pair[0]], pair))

    def _moved(self, source: str, target: str, share: int, best: float) -> float:
        """The time with a share of the work of one engine on another; left so if it is less, else as it was."""
        able = [work for work in self.works if work.engine == source and target in work.others]
        chosen = list(_spread(able, share))
        if not chosen or self.tries <= 0:
            return best
        self.tries -= 1
        changes = [(work, self._replace(work.op, work.others[target])) for work in chosen]
        time = self.clock(self.graph.body.ops)
        if time >= best * (1 - TUNING.least_gain):
            for work, new in changes:
                _put(work.op, new)
            return best
        decided("order: rebalanced")
        for work, new in changes:
            self._take(work, new, target)
        return time

    def _replace(self, op: Op, part: Part) -> Op:
        new = Op(TABLE[part.name], part.operands, (), self.b.attributes(TABLE[part.name], part.attrs), (), op.location)
        _put(new, op)
        return new

    def _take(self, work: Work, new: Op, engine: str) -> None:
        """Note a change that stays."""
        old = Part(work.op.definition.name, work.op.operands, work.op.attrs)
        first = next((before for before, now in self.became.items() if now is work.op), work.op)
        self.became[first] = new
        self.busy[work.engine] -= work.ns
        part = work.others.pop(engine)
        ns = work.ns * self.sharing.takes_of(part)[engine] / max(self.sharing.takes_of(old)[work.engine], 1e-9)
        work.others[work.engine] = old
        work.op, work.engine, work.ns = new, engine, ns
        self.busy[engine] = self.busy.get(engine, 0.0) + ns


def _put(new: Op, old: Op) -> None:
    """Put an instruction in the place of another."""
    region = old.parent
    assert isinstance(region, Region)
    region.insert_before(old, new)
    old.erase()


def _spread(works: Sequence[Work], share: int) -> Iterator[Work]:
    """Some of the work, one part of `share`, evenly over all of it."""
    total = sum(work.ns for work in works)
    seen = given = 0.0
    for work in works:
        seen += work.ns
        if seen / share >= given + work.ns / 2 and work.ns <= total:
            given += work.ns
            yield work


def _instructions(ops: Sequence[Op], times: int) -> Iterator[tuple[Op, int]]:
    """Every instruction, and how often it runs."""
    for op in ops:
        if op.definition is FOR:
            yield from _instructions(op.regions[0].ops, times * len(trips(op)))
        elif isinstance(op.definition, Record):
            yield op, times
