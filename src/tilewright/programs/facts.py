"""What planning knows of each unit, and what keeps units from being one executable.

An executable is loaded as a whole. What is legal for each kernel alone may not be for several together:

| rule | what changes |
|---|---|
| R-program-01 | a tensor that leaves a kernel is internal to an executable with all of its users: there, shared HBM |
|              | is another memory, which only cores that can be joined have                                     |
| R-program-03 | tensors of all kernels lie behind each other in HBM: offsets that the hardware computes grow |
| R-program-04 | an executable runs on one number of cores |
| R-program-05 | collectives of one executable have groups of one size |
| R-program-06 | the tensors of all kernels are in HBM together |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tilewright.target import Target
from tilewright.tile.memory import hbm_fault

INTERNAL_SHARED, OFFSETS, CORES, GROUPS, ROOM = (f"R-program-{number:02d}" for number in (1, 3, 4, 5, 6))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a program as planning sees it.

    shared: it is in shared HBM where a kernel makes it. movable: it may be in private HBM instead. kept: the host reads
    it, or it was there before.
    """

    name: str
    nbytes: int
    shared: bool = False
    movable: bool = True
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """A unit as planning sees it: what it reads and writes, by number of the tensor, and what it asks for.

    scratch: tensors in HBM of its own. computed: pairs (tensor, largest byte of it that an offset reaches which the
    device computes). cores: on how many it runs; none for a collective. groups: sizes of the groups of its collectives.
    """

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    scratch: tuple[Tensor, ...] = ()
    computed: tuple[tuple[int, int], ...] = ()
    cores: int = 1
    groups: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Fault:
    """What makes a group of units illegal as one executable; `first` and `second` do not go together."""

    rule: str
    reason: str
    tensor: str | None
    first: str
    second: str


class Legality:
    """Answers whether some units may be one executable of a target."""

    def __init__(self, tensors: Sequence[Tensor], units: Sequence[Facts], target: Target, demote: bool = True) -> None:
        self.tensors, self.units, self.target, self.demote = tensors, units, target, demote
        self.shares = bool(target["features.lnc2"])
        self.readers: dict[int, set[int]] = {}
        for number, unit in enumerate(units):
            for tensor in unit.reads:
                self.readers.setdefault(tensor, set()).add(number)

    def faults(self, group: Sequence[int]) -> Iterator[Fault]:
        """What keeps some units, in the order in which they run, from being one executable."""
        units = [self.units[number] for number in group]
        yield from self._cores(units)
        yield from self._groups(units)
        if not self.shares:
            yield from self._shared(group)
        yield from self._room(group)
        yield from self._offsets(group)

    def is_legal(self, group: Sequence[int]) -> bool:
        """Whether nothing does."""
        return next(self.faults(group), None) is None

    def internal(self, group: Sequence[int]) -> list[int]:
        """The tensors that some units make and nobody else uses."""
        inside = set(group)
        made = [tensor for number in group for tensor in self.units[number].writes]
        return [
            tensor
            for tensor in dict.fromkeys(made)
            if not self.tensors[tensor].kept and self.readers.get(tensor, set()) <= inside
        ]

    def demoted(self, group: Sequence[int]) -> list[tuple[Tensor, str, bool]]:
        """Shared tensors of an executable that go to private HBM: the tensor, its unit, and whether it is scratch."""
        if self.shares:
            return []
        made = {tensor: self.units[n].name for n in group for tensor in self.units[n].writes}
        found = [(self.tensors[t], made[t], False) for t in self.internal(group) if self.tensors[t].shared]
        return found + [
            (each, self.units[n].name, True) for n in group for each in self.units[n].scratch if each.shared
        ]

    def _shared(self, group: Sequence[int]) -> Iterator[Fault]:
        """R-program-01: shared tensors of an executable that does not give them out, where no memory is shared."""
        for tensor, unit, is_scratch in self.demoted(group):
            if self.demote and tensor.movable:
                continue
            what = "is scratch of" if is_scratch else "is made and used up by kernels of one executable:"
            reason = (
                f"{tensor.name} {what} {unit} in shared_hbm; shared memory inside of an executable needs cores that "
                f"can be joined, which {self.target.title} does not have"
            )
            yield Fault(INTERNAL_SHARED, reason, tensor.name, unit, unit if is_scratch else self._user(tensor, group))

    def _user(self, tensor: Tensor, group: Sequence[int]) -> str:
        number = self.tensors.index(tensor)
        return next((self.units[n].name for n in group if number in self.units[n].reads), self.units[group[-1]].name)

    def _cores(self, units: Sequence[Facts]) -> Iterator[Fault]:
        running = [unit for unit in units if unit.cores]
        for unit in running[1:]:
            if unit.cores != running[0].cores:
                before = next(each for each in running if each.cores != unit.cores)
                reason = f"{before.name} runs on {before.cores} cores, {unit.name} on {unit.cores}"
                yield Fault(CORES, reason, None, before.name, unit.name)
                return

    def _groups(self, units: Sequence[Facts]) -> Iterator[Fault]:
        first: Facts | None = None
        for unit in units:
            if not unit.groups:
                continue
            first = first or unit
            sizes = first.groups | unit.groups
            if len(sizes) > 1:
                shown = ", ".join(map(str, sorted(sizes)))
                yield Fault(GROUPS, f"collectives of groups of {shown} ranks", None, first.name, unit.name)
                return

    def layout(self, group: Sequence[int]) -> dict[int, int]:
        """Where each tensor of an executable begins in HBM: behind each other, in the order of first use."""
        order = list(dict.fromkeys(t for n in group for t in (*self.units[n].reads, *self.units[n].writes)))
        ends = accumulate(self.tensors[t].nbytes for t in order)
        return {t: end - self.tensors[t].nbytes for t, end in zip(order, ends, strict=True)}

    def _room(self, group: Sequence[int]) -> Iterator[Fault]:
        """R-program-06: what is in HBM at once, over the whole executable, has room there."""
        internal = set(self.internal(group))
        used = {t for n in group for t in (*self.units[n].reads, *self.units[n].writes)}
        held = sum(self.tensors[t].nbytes for t in used - internal)
        last = {t: max(n for n in group if t in (*self.units[n].reads, *self.units[n].writes)) for t in internal}
        live: set[int] = set()
        for number in group:
            unit = self.units[number]
            live |= internal & set(unit.writes)
            own = sum(each.nbytes for each in unit.scratch)
            fault = hbm_fault(held + own + sum(self.tensors[t].nbytes for t in live), self.target)
            if fault is not None:
                yield Fault(ROOM, f"the tensors of one executable {fault}", None, self.units[group[0]].name, unit.name)
                return
            live = {t for t in live if last[t] > number}

    def _offsets(self, group: Sequence[int]) -> Iterator[Fault]:
        """R-program-03: offsets that the device computes fit the width it has for them."""
        computing = [number for number in group if self.units[number].computed]
        if not computing:
            return
        starts = self.layout(group)
        largest = (1 << self.target["dma.offset_bits"]) - 1
        for number in computing:
            for tensor, reach in self.units[number].computed:
                if starts[tensor] + reach > largest:
                    name = self.tensors[tensor].name
                    reason = (
                        f"an offset that the device computes for {name} reaches byte {starts[tensor] + reach} of the "
                        f"executable; {self.target['dma.offset_bits']} bits hold at most {largest}"
                    )
                    yield Fault(OFFSETS, reason, name, self.units[group[0]].name, self.units[number].name)
