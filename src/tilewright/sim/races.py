"""Races between the cores of a logical core: what both of them touch in shared HBM, one of them writing, unordered.

Cores are ordered only where they meet (core_barrier, sendrecv). What each has read and written since then is kept, as
accesses while those of different cores lie apart (almost all do), and byte by byte once they do not (`sim.contest`).
A barrier names what it orders: of other tensors it is remembered what was written before it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from tilewright.errors import WARNING, Diagnostic, Location
from tilewright.rules import Reporter
from tilewright.sim.contest import Clash, Contest, Part
from tilewright.sim.storage import Storage
from tilewright.tile.overlap import Extent, search
from tilewright.tile.patterns import extent_at
from tilewright.tile.view import View, whole

# Different accesses of a tensor by a core between two meetings; one that has more is looked at byte by byte.
LIMIT = 1 << 12
RULE = "R-LNC-02"
UNSEEN = "the results are the same in either order"


@dataclass(slots=True)
class Touched:
    """Accesses of one kind of a tensor by one core, each with its line, and the bytes they lie within."""

    at: dict[Hashable, tuple[Extent, Part, Location | None]] = field(default_factory=dict)
    low: int = 0
    high: int = 0

    def add(self, key: Hashable, new: Extent, part: Part, location: Location | None) -> None:
        self.low, self.high = (min(self.low, new.low), max(self.high, new.high)) if self.at else (new.low, new.high)
        self.at[key] = new, part, location

    def may_meet(self, other: Extent) -> bool:
        """False when no access shares an element with another core's."""
        if other.low >= self.high or self.low >= other.high:
            return False
        return any(
            each.meets(other) and search(each.pattern, other.pattern) is not False for each, *_ in self.at.values()
        )

    def meeting(self, other: Extent) -> Location | None:
        """The line of an access that shares elements with another one, neither of them by indices of run time."""
        if other.low >= self.high or self.low >= other.high:
            return None
        for each, part, location in self.at.values():
            if part.plain and each.meets(other) and search(each.pattern, other.pattern):
                return location
        return None


@dataclass(frozen=True, slots=True)
class Barrier:
    """Where cores met who order these tensors by it, and no others."""

    orders: tuple[Storage, ...]
    location: Location | None


@dataclass(frozen=True, slots=True)
class Loose:
    """An access to what another core wrote before a barrier of other tensors."""

    core: int
    does: str
    other: int
    earlier: Location | None
    barrier: Barrier


class Tensor:
    """What the cores have done with one tensor since they last met."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._touched: dict[tuple[int, bool], Touched] = {}
        self.contest: Contest | None = None
        self.early: list[int] = []
        # Before barriers that do not order this tensor, the last of which is kept.
        self._before: dict[tuple[int, bool], Touched] = {}
        self._barrier: Barrier | None = None

    def after(self, barrier: Barrier) -> Tensor:
        """The tensor after a barrier of others. What was looked at byte by byte is forgotten."""
        made = Tensor(self.storage)
        made._barrier = barrier
        for known in (self._before, {} if self.contest is not None else self._touched):
            for key, touched in known.items():
                kept = made._before.setdefault(key, Touched())
                for each, value in touched.at.items():
                    if len(kept.at) < LIMIT:
                        kept.add(each, *value)
        return made

    def look_back(self, core: int, part: Part, writes: bool) -> Loose | None:
        """What another core wrote before barriers of others, and nothing orders with this access.

        A core that reads what it wrote has waited for it, and what it tells others then comes later.
        """
        if self._barrier is None or not part.plain:
            return None
        extent = extent_at(part.view, part.offset)
        for (other, wrote), touched in self._before.items():
            if other == core or not wrote:
                continue
            earlier = touched.meeting(extent)
            waited = self._before.get((other, False))
            if earlier is not None and not (waited is not None and waited.may_meet(extent)):
                return Loose(core, "writes" if writes else "reads", other, earlier, self._barrier)
        return None

    def note(self, core: int, part: Part, writes: bool, location: Location | None) -> Contest | None:
        """Remember an access; returns the contest that decides about it if another core's may share elements with it.

        What it writes is not in the tensor yet.
        """
        if self.contest is not None:
            return self.contest
        extent = extent_at(part.view, part.offset)
        key = part.key(extent)
        mine = self._touched.setdefault((core, writes), Touched())
        if key in mine.at:
            return None
        if len(mine.at) < LIMIT and not any(
            touched.may_meet(extent)
            for (other, wrote), touched in self._touched.items()
            if other != core and (writes or wrote)
        ):
            mine.add(key, extent, part, location)
            return None
        self.contest = Contest(self.storage)
        for (each, wrote), touched in self._touched.items():
            for _, known, where in touched.at.values():
                self.contest.adopt(each, known, wrote, where)
        return self.contest


class Accesses:
    """What the cores of a launch have touched in shared HBM since they last met."""

    def __init__(self) -> None:
        # By the address of the bytes: every core has a storage of its own for an argument.
        self._tensors: dict[int, Tensor] = {}
        self.clashes: dict[Hashable, tuple[Clash, View]] = {}
        self.loose: dict[tuple[Location | None, Location | None], tuple[Loose, View]] = {}

    def meet(self, barrier: Barrier | None = None) -> None:
        """The cores have met: what comes now is ordered after what was, with a barrier that of its tensors."""
        met, self._tensors = self._tensors, {}
        ordered = {_address(each) for each in barrier.orders} if barrier is not None and met else set()
        for address, tensor in met.items():
            clash = tensor.contest.outcome() if tensor.contest is not None else None
            if clash is not None:
                self._add(clash, whole(tensor.storage.buffer))
            if barrier is not None and address not in ordered:
                self._tensors[address] = tensor.after(barrier)

    def lines(self) -> frozenset[Location | None]:
        """Where cores race, of both sides."""
        return frozenset(line for clash, _ in self.clashes.values() for line in (clash.location, clash.earlier))

    def _add(self, clash: Clash, view: View) -> None:
        self.clashes.setdefault((clash.location, clash.earlier, clash.certain), (clash, view))

    @contextmanager
    def too_early(self, core: int, storage: Storage) -> Iterator[None]:
        """This core waits for what it reads, which nobody has written: whoever writes it meanwhile races with it."""
        tensor = self._tensor(storage)
        tensor.early.append(core)
        try:
            yield
        finally:
            tensor.early.remove(core)

    def reads(self, core: int, storage: Storage, part: Part, location: Location | None) -> None:
        """A core reads."""
        contest = self._noted(core, storage, part, False, location)
        clash = None if contest is None else contest.read(core, part, location)
        if clash is not None:
            self._add(clash, part.view)

    def writing(self, core: int, storage: Storage, part: Part, location: Location | None) -> np.ndarray | None:
        """A core is about to write: what was there, if somebody else may have to do with it."""
        contest = self._noted(core, storage, part, True, location)
        return None if contest is None else part.bytes_of(storage).copy()

    def wrote(self, core: int, storage: Storage, part: Part, before: np.ndarray, location: Location | None) -> None:
        """The core has written."""
        tensor = self._tensor(storage)
        assert tensor.contest is not None, "there is a contest for what was there before"
        clash = tensor.contest.write(core, part, before, part.bytes_of(storage), location, tensor.early)
        if clash is not None:
            self._add(clash, part.view)

    def _noted(
        self, core: int, storage: Storage, part: Part, writes: bool, location: Location | None
    ) -> Contest | None:
        tensor = self._tensor(storage)
        loose = tensor.look_back(core, part, writes)
        if loose is not None:
            self.loose.setdefault((location, loose.earlier), (loose, part.view))
        return tensor.note(core, part, writes, location)

    def _tensor(self, storage: Storage) -> Tensor:
        address = _address(storage)
        tensor = self._tensors.get(address)
        if tensor is None:
            tensor = self._tensors[address] = Tensor(storage)
        return tensor


def _address(storage: Storage) -> int:
    return storage.data.__array_interface__["data"][0]


def told(clash: Clash, view: View) -> str:
    """A race in words, with the line of the other core."""
    name = view.buffer.name or "tensor"
    return (
        f"core {clash.core} {clash.does} elements of {name} that core {clash.other} {clash.did} at {clash.earlier}, "
        "and nothing orders the two"
    )


def report_races(reporter: Reporter, accesses: Accesses, matters: bool, what: str) -> None:
    """R-LNC-02, with both lines; a warning where the results do not depend on the order."""
    for clash, view in accesses.clashes.values():
        name = view.buffer.name or "tensor"
        message = f"race: {told(clash, view)}"
        hint = f"let both cores come to nisa.core_barrier({name}, (0, 1)) in between"
        some = f"{clash.count} element{'' if clash.count == 1 else 's'} of {name}, the first is {list(clash.first)}"
        if matters or clash.certain:
            reporter.violate(
                RULE,
                message,
                hint=hint,
                location=clash.location,
                operands=[view.note(name)],
                notes=["one core reads before the other has written" if clash.certain else what, some],
            )
        else:
            notes = (what, some)
            reporter.add(Diagnostic("E401", message, RULE, WARNING, hint, clash.location, (view.note(name),), notes))


def report_loose(reporter: Reporter, accesses: Accesses) -> None:
    """R-LNC-02 as warnings: cores that met in between, but in a barrier of other tensors."""
    for (location, _), (loose, view) in accesses.loose.items():
        name = view.buffer.name or "tensor"
        ordered = ", ".join(dict.fromkeys(each.buffer.name or "another tensor" for each in loose.barrier.orders))
        message = (
            f"race: core {loose.core} {loose.does} elements of {name} that core {loose.other} writes at "
            f"{loose.earlier}; the barrier in between, at {loose.barrier.location}, orders {ordered} alone"
        )
        hint = f"let both cores come to nisa.core_barrier({name}, (0, 1)) in between"
        reporter.add(Diagnostic("E401", message, RULE, WARNING, hint, location, (view.note(name),)))
