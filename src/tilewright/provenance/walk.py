"""The walk: from a bad value back over the steps of a tape to every place where it, or what made it, was born."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.ir.core import Value
from tilewright.provenance.cells import Cells, register_cells
from tilewright.provenance.influence import Source, influence
from tilewright.provenance.kinds import OUTSIDE, UNWRITTEN, kinds_of
from tilewright.provenance.lineage import makers
from tilewright.provenance.tape import Found, Step, Tape

MOST_BIRTHS = 16


@dataclass(slots=True)
class Birth:
    """Elements that became bad at one place.

    step, place: the instruction and which of its results; None: they came from outside (`cells`: an argument) or were
    never written. wanted: which elements, flat. sources: inputs that are bad in another way. child: the next step on
    the way to the error. kernel: where it happened, if that is not the kernel that failed. makers: the
    instructions whose results it was computed from, where these were numbers like others. argument: the array with
    which it came to a kernel before.
    """

    kind: int
    values: np.ndarray
    wanted: np.ndarray
    step: Step | None = None
    place: int = 0
    cells: Cells | None = None
    sources: list[Source] = field(default_factory=list)
    child: Step | None = None
    when: int = -1
    kernel: str = ""
    makers: list[Step] = field(default_factory=list)
    argument: np.ndarray | None = None

    @property
    def is_given(self) -> bool:
        """Whether it came with an argument."""
        return self.step is None and self.kind != UNWRITTEN


class Walk:
    """One walk over a tape."""

    def __init__(self, tape: Tape, limit: int | None) -> None:
        self.tape = tape
        self.limit = limit
        self.births: list[Birth] = []
        self._pending: dict[int, dict[int, np.ndarray]] = {}
        self._child: dict[int, Step | None] = {}

    def run(self, found: Found) -> list[Birth]:
        """The births of what was found, earliest first."""
        for cells, bad in found.cells:
            size = cells.addresses.size
            mask = np.ones(size, bool) if bad is None else bad.reshape(-1)
            self._follow(Source(cells, np.zeros(size), np.zeros(size), mask), found.before, None)
        while self._pending and len(self.births) < MOST_BIRTHS:
            number = max(self._pending)
            for place, wanted in self._pending.pop(number).items():
                self._visit(number, place, wanted)
        self.births.sort(key=lambda birth: birth.when)
        return self.births

    def _visit(self, number: int, place: int, wanted: np.ndarray) -> None:
        step = self.tape.steps[number]
        if not step.kept:
            return
        values = np.atleast_1d(np.asarray(step.outputs[place])).reshape(-1)
        kinds = kinds_of(values, self.limit)
        wanted = wanted & (kinds != 0)
        if not wanted.any():
            return
        # An index that is outside may come from one that is outside; what is not a number comes from no such thing.
        outside = kinds == OUTSIDE
        self._explain(number, place, values, kinds, wanted & outside, self.limit)
        self._explain(number, place, values, kinds, wanted & ~outside, None)

    def _explain(
        self, number: int, place: int, values: np.ndarray, kinds: np.ndarray, wanted: np.ndarray, limit: int | None
    ) -> None:
        if not wanted.any():
            return
        step = self.tape.steps[number]
        sources, born = influence(step, place, wanted, limit)
        known = {int(kind) for source in sources for kind in np.unique(source.kinds.reshape(-1)[source.chosen])}
        for kind in np.unique(kinds[wanted]):
            # What has another kind than all it is made of is born here, though not out of nothing.
            own = wanted & (kinds == kind) if int(kind) not in known else born & (kinds == kind)
            if own.any():
                child = self._child.get(number)
                made = Birth(int(kind), values, own, step, place, None, sources, child, number)
                if not sources:
                    made.makers = makers(self.tape, number, place, int(np.argmax(own)))
                self.births.append(made)
        for source in sources:
            self._follow(source, number, step)

    def _follow(self, source: Source, before: int, child: Step | None) -> None:
        """Ask who wrote the chosen elements of a source."""
        cells = source.cells
        if cells is None:
            return
        addresses = cells.addresses.reshape(-1)[source.chosen]
        left = np.arange(addresses.size)
        for number, place in reversed(self.tape.writes.get(cells.home, [])):
            if number >= before:
                continue
            target = self.tape.steps[number].targets[place]
            assert target is not None
            if left.size == 0 or not _meet(cells, target):
                continue
            at = target.covering(addresses[left])
            if (at >= 0).any():
                self._want(number, place, at[at >= 0], target, child)
                left = left[at < 0]
        if left.size and isinstance(cells.home, Value):
            self._computed(cells.home, before, child)
        elif left.size:
            self._outside(source, np.flatnonzero(source.chosen)[left], child)

    def _want(self, number: int, place: int, positions: np.ndarray, target: Cells, child: Step | None) -> None:
        places = self._pending.setdefault(number, {})
        if place not in places:
            places[place] = np.zeros(target.addresses.size, bool)
        places[place][positions] = True
        self._child.setdefault(number, child)

    def _computed(self, register: Value, before: int, child: Step | None) -> None:
        """A register that no instruction wrote was computed from others when it was made."""
        for operand in register.producer.operands if register.producer is not None else ():
            one = np.ones(1, bool)
            self._follow(Source(register_cells(operand), np.zeros(1), np.zeros(1), one), before, child)

    def _outside(self, source: Source, positions: np.ndarray, child: Step | None) -> None:
        """Elements that no instruction wrote: they came with an argument, or nobody wrote them."""
        cells = source.cells
        assert cells is not None
        wanted = np.zeros(source.chosen.size, bool)
        wanted[positions] = True
        given = cells.home in self.tape.given
        values: Any = source.values.reshape(-1)
        if given and child is None:
            values = cells.read(self.tape.given[cells.home]).reshape(-1)
        kinds = kinds_of(values, self.limit)
        for kind in np.unique(kinds[wanted]) if given else (UNWRITTEN,):
            own = wanted & (kinds == kind) if given else wanted
            if kind or not given:
                self.births.append(Birth(int(kind), values, own, cells=cells, child=child))


def _meet(a: Cells, b: Cells) -> bool:
    (first, last), (start, stop) = a.span, b.span
    return first < stop and start < last
