"""A tensor of which several cores touch the same elements between two meetings, byte by byte: is it a race?

It is none where the outcome is the same in every order: cores that compute the same thing write the same last values,
and read what they have written themselves.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
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

    def key(self, extent: Extent) -> Hashable:
        """Equal for accesses of the same elements."""
        if self.chosen is None and self.where is None:
            return extent
        return extent, *(None if each is None else each.tobytes() for each in (self.chosen, self.where))

    def of(self, entries: np.ndarray) -> np.ndarray:
        """The entries of an array with one per byte of the tensor; a trailing dim holds those of an element."""
        return self._strided(entries) if self.chosen is None else self._strided(entries)[self.chosen]

    def bytes_of(self, storage: Storage) -> np.ndarray:
        """What the tensor holds there."""
        return self.of(np.ndarray(storage.data.nbytes, np.uint8, storage.data))

    def put(self, entries: np.ndarray, values: Any) -> None:
        """Set the entries."""
        target: Any = ... if self.chosen is None else self.chosen
        into = self._strided(entries)
        if self.where is not None:
            values = np.where(self.where[..., None], values, into[target])
        into[target] = values

    def _strided(self, entries: np.ndarray) -> np.ndarray:
        size = self.itemsize * entries.itemsize
        strides = (*[s * size for s in self.view.strides], entries.itemsize)
        return np.ndarray((*self.view.sizes, self.itemsize), entries.dtype, entries, self.offset * size, strides)


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


class Contest:
    """Who wrote what into each byte of a tensor, and who read it. Lines have numbers; 0 is nobody's."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._size = storage.data.nbytes
        self._writers: dict[int, np.ndarray] = {}
        self._values: dict[int, np.ndarray] = {}
        self._readers: dict[int, np.ndarray] = {}
        self._lines: dict[Location | None, int] = {}

    def adopt(self, core: int, part: Part, writes: bool, location: Location | None) -> None:
        """An access from before the contest, when nobody else had to do with its elements."""
        if writes:
            self._write(core, part, part.bytes_of(self._storage), location)
        else:
            part.put(self._of(self._readers, core), self._line(location))

    def read(self, core: int, part: Part, location: Location | None) -> Clash | None:
        """A read clashes with what another core wrote, unless this one wrote the same itself."""
        found = None
        for other, writers in self._writers.items():
            if other == core:
                continue
            theirs = part.of(writers)
            foreign = theirs != 0
            if core in self._writers:
                same = part.of(self._values[other]) == part.of(self._values[core])
                foreign &= (part.of(self._writers[core]) == 0) | ~same
            if foreign.any():
                found = Clash(core, "reads", location, other, "writes", self._where(theirs[foreign][0]))
        part.put(self._of(self._readers, core), self._line(location))
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
        found = None
        changed = before != after
        for other, readers in self._readers.items():
            if other == core:
                continue
            theirs = part.of(readers)
            seen = (theirs != 0) if other in early else changed & (theirs != 0)
            if seen.any():
                found = Clash(core, "writes", location, other, "reads", self._where(theirs[seen][0]), other in early)
        self._write(core, part, after, location)
        return found

    def outcome(self) -> Clash | None:
        """Of what several cores wrote, the last values must be the same: any of them may stay."""
        cores = sorted(self._writers)
        for place, core in enumerate(cores):
            for other in cores[:place]:
                mine, theirs = self._writers[core], self._writers[other]
                differ = (mine != 0) & (theirs != 0) & (self._values[core] != self._values[other])
                if differ.any():
                    at = int(differ.argmax())
                    return Clash(core, "writes", self._where(mine[at]), other, "writes", self._where(theirs[at]))
        return None

    def _write(self, core: int, part: Part, values: np.ndarray, location: Location | None) -> None:
        part.put(self._of(self._writers, core), self._line(location))
        if core not in self._values:
            self._values[core] = np.empty(self._size, np.uint8)
        part.put(self._values[core], values)

    def _of(self, known: dict[int, np.ndarray], core: int) -> np.ndarray:
        if core not in known:
            known[core] = np.zeros(self._size, np.uint16)
        return known[core]

    def _line(self, location: Location | None) -> int:
        return self._lines.setdefault(location, len(self._lines) + 1)

    def _where(self, number: int) -> Location | None:
        return next(line for line, each in self._lines.items() if each == number)
