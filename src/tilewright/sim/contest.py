"""A tensor of which several cores touch the same elements between two meetings, one by one: is it a race?

It is none where the outcome is the same in every order: cores that compute the same thing write the same last values,
and read what they have written themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tilewright.errors import Location
from tilewright.sim.storage import Storage
from tilewright.tile.overlap import Extent
from tilewright.tile.view import View


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The elements of an access: of the view those rows that an index chose, and of these only some (where)."""

    view: View
    offset: int
    itemsize: int
    chosen: np.ndarray | None = None
    where: np.ndarray | None = None

    @property
    def plain(self) -> bool:
        """True when they are all of the view's."""
        return self.chosen is None and self.where is None

    def key(self, extent: Extent) -> Hashable:
        """Equal for accesses of the same elements."""
        if self.plain:
            return extent
        return extent, *(None if each is None else each.tobytes() for each in (self.chosen, self.where))

    def of(self, entries: np.ndarray, grain: int = 1) -> np.ndarray:
        """The entries of an array with one per grain of the tensor; a trailing dim holds those of an element."""
        return self._strided(entries, grain) if self.chosen is None else self._strided(entries, grain)[self.chosen]

    def bytes_of(self, storage: Storage) -> np.ndarray:
        """What the tensor holds there."""
        return self.of(np.ndarray(storage.data.nbytes, np.uint8, storage.data))

    def put(self, entries: np.ndarray, values: Any, grain: int = 1) -> None:
        """Set the entries."""
        target: Any = ... if self.chosen is None else self.chosen
        into = self._strided(entries, grain)
        if self.where is not None:
            values = np.where(self.where[..., None], values, into[target])
        into[target] = values

    def _strided(self, entries: np.ndarray, grain: int) -> np.ndarray:
        count = self.itemsize // grain
        size = count * entries.itemsize
        strides = (*[s * size for s in self.view.strides], entries.itemsize)
        return np.ndarray((*self.view.sizes, count), entries.dtype, entries, self.offset * size, strides)


@dataclass(frozen=True, slots=True)
class Clash:
    """Two accesses that nothing orders: what the two cores do, and where."""

    core: int
    does: str
    location: Location | None
    other: int
    did: str
    earlier: Location | None
    # The other core read before anything was written: that is wrong whatever was written.
    certain: bool = False
    # How many elements both touch in these accesses, and the first of them.
    count: int = 0
    first: tuple[int, ...] = ()


class Contest:
    """Who wrote what into each grain of a tensor, and who read it. Lines have numbers; 0 is nobody's.

    A grain is the smallest element that was accessed.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._grain = storage.buffer.dtype.itemsize
        self._writers: dict[int, np.ndarray] = {}
        self._values: dict[int, np.ndarray] = {}
        self._readers: dict[int, np.ndarray] = {}
        # What several cores have written.
        self._shared: list[Part] = []
        self._lines: dict[Location | None, int] = {}
        self._kind: type[np.unsignedinteger] = np.uint8

    def adopt(self, core: int, part: Part, writes: bool, location: Location | None) -> None:
        """An access from before the contest, when nobody else had to do with its elements."""
        self._split(part)
        if writes:
            self._write(core, part, part.bytes_of(self._storage), location)
        else:
            self._enter(self._readers, core, part, location)

    def read(self, core: int, part: Part, location: Location | None) -> Clash | None:
        """A read clashes with what another core wrote, unless this one wrote the same itself."""
        self._split(part)
        found = None
        for other, writers in self._writers.items():
            if other == core:
                continue
            theirs = part.of(writers, self._grain)
            foreign = theirs != 0
            if core in self._writers and foreign.any():
                foreign &= (part.of(self._writers[core], self._grain) == 0) | self._differ(part, core, other)
            if foreign.any():
                where = self._where(theirs[foreign][0])
                found = Clash(core, "reads", location, other, "writes", where, False, *self._elements(part, foreign))
        self._enter(self._readers, core, part, location)
        return found

    def write(
        self,
        core: int,
        part: Part,
        before: np.ndarray,
        after: np.ndarray,
        location: Location | None,
        early: Sequence[int] = (),
    ) -> Clash | None:
        """A write clashes with what another core has read, if it changes it, or if that one waits for it (early)."""
        self._split(part)
        found = None
        changed = self._grains(before != after)
        for other, readers in self._readers.items():
            if other == core:
                continue
            theirs = part.of(readers, self._grain)
            seen = (theirs != 0) if other in early else changed & (theirs != 0)
            if seen.any():
                where, met = self._where(theirs[seen][0]), self._elements(part, seen)
                found = Clash(core, "writes", location, other, "reads", where, other in early, *met)
        self._write(core, part, after, location)
        return found

    def outcome(self) -> Clash | None:
        """Of what several cores wrote, the last values must be the same: any of them may stay."""
        cores = sorted(self._writers)
        pairs = [(core, other) for place, core in enumerate(cores) for other in cores[:place]]
        for (core, other), part in product(pairs, self._shared):
            mine, theirs = (part.of(self._writers[each], self._grain) for each in (core, other))
            differ = (mine != 0) & (theirs != 0) & self._differ(part, core, other)
            if differ.any():
                where = self._where(mine[differ][0]), self._where(theirs[differ][0])
                return Clash(core, "writes", where[0], other, "writes", where[1], False, *self._elements(part, differ))
        return None

    def _elements(self, part: Part, marked: np.ndarray) -> tuple[int, tuple[int, ...]]:
        """How many elements of the tensor are marked in an access, and the index of the first."""
        buffer = self._storage.buffer
        grains = part.of(np.arange(self._storage.data.nbytes // self._grain), self._grain)[marked]
        elements = np.unique(grains * self._grain // buffer.dtype.itemsize)
        return elements.size, tuple(int(i) for i in np.unravel_index(int(elements[0]), buffer.shape))

    def _differ(self, part: Part, core: int, other: int) -> np.ndarray:
        """Which grains of an access two cores wrote different values to."""
        return self._grains(part.of(self._values[core]) != part.of(self._values[other]))

    def _grains(self, marked: np.ndarray) -> np.ndarray:
        """Which grains have marked bytes."""
        width = marked.shape[-1] // self._grain
        return np.asarray(marked.reshape(*marked.shape[:-1], width, self._grain).any(axis=-1))

    def _write(self, core: int, part: Part, values: np.ndarray, location: Location | None) -> None:
        self._enter(self._writers, core, part, location)
        others = [writers for other, writers in self._writers.items() if other != core]
        if any(part.of(writers, self._grain).any() for writers in others):
            self._shared.append(part)
        if core not in self._values:
            self._values[core] = np.empty(self._storage.data.nbytes, np.uint8)
        part.put(self._values[core], values)

    def _enter(self, known: dict[int, np.ndarray], core: int, part: Part, location: Location | None) -> None:
        number = self._lines.setdefault(location, len(self._lines) + 1)
        if number > np.iinfo(self._kind).max:
            self._kind = np.uint16
            self._change(lambda entries: entries.astype(np.uint16))
        if core not in known:
            known[core] = np.zeros(self._storage.data.nbytes // self._grain, self._kind)
        part.put(known[core], number, self._grain)

    def _split(self, part: Part) -> None:
        """Use smaller grains where an access has smaller elements."""
        if part.itemsize < self._grain:
            times, self._grain = self._grain // part.itemsize, part.itemsize
            self._change(lambda entries: np.repeat(entries, times))

    def _change(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        for known in (self._writers, self._readers):
            known.update({core: change(entries) for core, entries in known.items()})

    def _where(self, number: int) -> Location | None:
        return next(line for line, each in self._lines.items() if each == number)
