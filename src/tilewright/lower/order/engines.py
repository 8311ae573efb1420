"""Which engine runs what: instructions that several engines can run are shared out so that the busiest engine of a loop
is done first.

What an instruction may become is told by its record, as the engines that it names and its rules allow, and by the rules
of `forms.py`. Costs are those of the records. DMA and the Tensor engine, whose work does not move, count as the others
do, so that nothing is moved where they decide; engines that share a port take turns at it, so that it is busy with the
work of both.

Expects instructions of one step; guarantees the same results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from tilewright.ir.core import Op, Region
from tilewright.lower.decisions import decided
from tilewright.lower.order.dispatch import Dispatch
from tilewright.lower.order.forms import FORMS, Form, Part, halved, shared_columns
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.builder import TileBuilder
from tilewright.tile.alu import ALU
from tilewright.tile.common import INT32
from tilewright.tile.cost import RIVALS
from tilewright.tile.costed import cost_of
from tilewright.tile.ops import FOR, trips
from tilewright.tile.record import TABLE, Record
from tilewright.tile.view import View

SHARED = ("tensor_copy", "memset", "tensor_tensor", "tensor_scalar")
"""Instructions that mean the same on every engine that has them, but for arithmetic of 32-bit integers by
`tensor_tensor`: GpSimd alone does it exactly."""

Takes = dict[str, float]
"""ns by engine, and by port that another engine may want."""

SHARPNESS = 24
"""How much more the busiest engine counts than the others: the exponent of a norm."""


@dataclass(slots=True)
class Work:
    """An instruction that runs so often, what it may become, and what each of these takes."""

    op: Op
    times: int
    forms: list[Form]
    takes: list[Takes]
    chosen: int = 0


@dataclass(slots=True)
class Unit:
    """What overlaps: the instructions of a loop with all that stands in it, or those between two loops."""

    pairs: Sequence[tuple[str, str]]
    loads: Takes = field(default_factory=dict)
    works: list[Work] = field(default_factory=list)

    def add(self, takes: Takes, times: float) -> None:
        """Count an instruction."""
        for name, ns in takes.items():
            self.loads[name] = self.loads.get(name, 0.0) + ns * times

    def size(self, work: Work | None = None, form: int = 0) -> float:
        """How long it takes, more or less; with another form of an instruction if told so."""
        loads = self.loads
        if work is not None:
            loads = dict(loads)
            for takes, times in ((work.takes[work.chosen], -work.times), (work.takes[form], work.times)):
                for name, ns in takes.items():
                    loads[name] = loads.get(name, 0.0) + ns * times
        busy = [ns for name, ns in loads.items() if ":" not in name]
        # Alone an engine has a port to itself.
        for one, other in self.pairs:
            ports = loads.get(one, 0.0), loads.get(other, 0.0)
            busy += [sum(ports)] if min(ports) > 0 else []
        most = max(busy, default=0.0)
        return most * sum((ns / most) ** SHARPNESS for ns in busy if ns > 0) ** (1 / SHARPNESS) if most else 0.0

    def choose(self, work: Work, form: int) -> None:
        """Give an instruction another form."""
        self.add(work.takes[work.chosen], -work.times)
        self.add(work.takes[form], work.times)
        work.chosen = form


def share_out(b: TileBuilder, ops: Sequence[Op]) -> None:
    """Give the instructions of some loops to the engines that are done with them first."""
    sharing = Sharing(b)
    straight: list[Op] = []
    for op in ops:
        if op.definition is FOR:
            sharing.straight(straight)
            sharing.unit([*instructions([op])])
            straight = []
        elif isinstance(op.definition, Record):
            straight.append(op)
    sharing.straight(straight)


def _options(unit: Unit) -> Iterator[tuple[float, int, int]]:
    """How long it takes with each form of each instruction; those that take the same now and then are asked of once."""
    known: dict[tuple, float] = {}
    for n, work in enumerate(unit.works):
        now = (work.times, *work.takes[work.chosen].items())
        for i, takes in enumerate(work.takes):
            key = now, *takes.items()
            if key not in known:
                known[key] = unit.size(work, i)
                yield known[key], n, i


class Sharing:
    """Shares out the instructions of a kernel."""

    def __init__(self, b: TileBuilder) -> None:
        self.b = b
        self.pairs = [pair for feature, pair in RIVALS.items() if b.target[feature]]
        self._known: dict[tuple, Takes] = {}
        self._known_halves: dict[tuple, Takes] = {}

    def unit(self, ops: Sequence[tuple[Op, int]]) -> None:
        """Share out instructions, each with how often it runs."""
        unit = Unit(self.pairs)
        for inner, times in ops:
            work = Work(inner, times, [(_part(inner),)], [self._takes((_part(inner),))])
            unit.add(work.takes[0], times)
            for form in self.forms(inner):
                takes = self._takes(form)
                if not any(_is_within(known, takes) for known in work.takes):
                    work.forms.append(form)
                    work.takes.append(takes)
            if len(work.forms) > 1:
                unit.works.append(work)
        self._climb(unit)
        in_vain: set[tuple] = set()
        for work in unit.works:
            if (cut := self._cut(unit, work, in_vain)) is not None:
                in_vain.clear()
                work.forms.append(cut)
                work.takes.append(self._takes(cut))
                unit.choose(work, len(work.forms) - 1)
        for work in unit.works:
            if work.chosen:
                self.write(work.op, work.forms[work.chosen])

    def _climb(self, unit: Unit) -> None:
        """Change one instruction at a time, the one that gains most, for as long as that gains anything to speak of."""
        for _ in range(4 * len(unit.works)):
            now = unit.size()
            best, n, form = min(_options(unit), default=(now, 0, 0))
            if best >= now * (1 - TUNING.least_gain):
                return
            unit.choose(unit.works[n], form)

    def _cut(self, unit: Unit, work: Work, in_vain: set[tuple]) -> Form | None:
        """An instruction as two, of some columns each, where both engines are done earlier that way.

        in_vain: those that gained nothing since another was cut
        """
        now = work.forms[work.chosen]
        others = [form[0] for form in work.forms if len(form) == len(now) == 1 and form is not now]
        able = [(other, n) for other in others if (n := shared_columns(now[0], other)) is not None]
        key = (work.times, self._facts(now[0]), *[self._facts(other) for other, _ in able]) if able else None
        if key is None or key in in_vain:
            return None
        least, found = unit.size() * (1 - TUNING.least_gain), None
        for other, columns in able:
            for cut in _cuts(columns):
                takes = self._halves(now[0], other, columns, cut)
                size = unit.size(Work(work.op, work.times, [], [work.takes[work.chosen], takes]), 1)
                if size < least:
                    least, found = size, (other, columns, cut)
        if found is None:
            in_vain.add(key)
            return None
        return halved(now[0], *found)

    def _halves(self, one: Part, other: Part, columns: int, cut: int) -> Takes:
        """What an instruction takes as two."""
        key = self._facts(one), self._facts(other), cut
        found = self._known_halves.get(key)
        if found is None:
            found = self._known_halves[key] = self._takes(halved(one, other, columns, cut))
        return found

    @staticmethod
    def own(op: Op) -> Form:
        """An instruction as it is."""
        return (_part(op),)

    def straight(self, ops: Sequence[Op]) -> None:
        """Share out instructions that stand by themselves."""
        if len(ops) > TUNING.dispatched:
            self.unit([(op, 1) for op in ops])
            return
        for op, form in Dispatch(self).run(ops):
            self.write(op, form)

    def forms(self, op: Op) -> Iterator[Form]:
        """What else an instruction may be."""
        own = _part(op)
        made = [(own,), *(form for rule in FORMS.get(own.name, ()) if (form := rule(own)) is not None)]
        for form in made:
            for placed in product(*(self._placed(part) for part in form)):
                if placed != (own,) and all(self._is_legal(part) for part in placed):
                    yield placed

    def _placed(self, part: Part) -> list[Part]:
        """An instruction on each of the engines that its record names, with all of its attributes."""
        record = TABLE[part.name]
        views = [x for x in part.operands if isinstance(x, View)]
        whole = part.name == "tensor_tensor" and all(view.dtype in INT32 for view in views)
        if part.name not in SHARED or (whole and not ALU[part.attrs["op"]].bitvec):
            given = [part.attrs]
        else:
            given = [{**part.attrs, "engine": engine} for engine in record.engines]
        return [Part(part.name, part.operands, self.b.attributes(record, attrs)) for attrs in given]

    def _is_legal(self, part: Part) -> bool:
        record = TABLE[part.name]
        return self.b.verifier.check(record, part.operands, self.b.attributes(record, part.attrs), None).legal

    def _takes(self, form: Form) -> Takes:
        made: Takes = {}
        for part in form:
            for name, ns in self.takes_of(part).items():
                made[name] = made.get(name, 0.0) + ns
        return made

    def takes_of(self, part: Part) -> Takes:
        """What an instruction takes of its engine, which comes first, and of ports."""
        key = self._facts(part)
        found = self._known.get(key)
        if found is None:
            record, attrs = TABLE[part.name], self.b.attributes(TABLE[part.name], part.attrs)
            engine, cost = cost_of(record, part.operands, attrs, self.b.target)
            taken = cost.busy_ns if engine == "dma" else cost.interval_ns
            found = self._known[key] = {engine: taken}
            found.update({port: taken for pair in self.pairs for port in pair if port in cost.ports})
        return found

    def _facts(self, part: Part) -> tuple:
        """All that what it takes may depend on."""
        attrs = self.b.attributes(TABLE[part.name], part.attrs)
        return (part.name, attrs.number, *[x.signature if isinstance(x, View) else (x,) for x in part.operands])

    def write(self, op: Op, form: Form) -> None:
        """Put a form in the place of an instruction."""
        region = op.parent
        assert isinstance(region, Region)
        decided("engine: shared out" if len(form) == 1 else "engine: shared out in parts")
        for part in form:
            attrs = self.b.attributes(TABLE[part.name], part.attrs)
            region.insert_before(op, Op(TABLE[part.name], part.operands, (), attrs, location=op.location))
        op.erase()


def _is_within(one: Takes, other: Takes) -> bool:
    """True where one takes no more of anything than the other."""
    return all(ns <= other.get(name, 0.0) for name, ns in one.items())


def _cuts(columns: int) -> Iterator[int]:
    """Where an instruction of so many columns may be cut."""
    shares = (round(columns * n / TUNING.shares / TUNING.aligned) * TUNING.aligned for n in range(1, TUNING.shares))
    yield from (cut for cut in dict.fromkeys(shares) if 0 < cut < columns)


def _part(op: Op) -> Part:
    assert isinstance(op.definition, Record)
    return Part(op.definition.name, op.operands, op.attrs)


def instructions(ops: Iterable[Op], times: int = 1) -> Iterator[tuple[Op, int]]:
    """Every instruction, those of loops too, and how often it runs."""
    for op in ops:
        if op.definition is FOR:
            yield from instructions(op.regions[0].ops, times * len(trips(op)))
        elif isinstance(op.definition, Record):
            yield op, times
