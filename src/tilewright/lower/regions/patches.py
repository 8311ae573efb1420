"""How a region of neighbours is cut into patches, and what each patch has to hold of every value.

Along each dim, patch b makes `size` elements of every result from b * size on. What it needs of other values lies a few
places before and behind that: its border, which it reads or computes for itself. Places are counted from b * size, so
that they are the same for all patches; those beyond the ends of an array hold anything, and nothing that counts is made
of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf, prod

from tilewright.ir.core import Op, Value
from tilewright.lower.regions.stencils import Assembly, Patch, Stencil

MOST_TRANSFERS = 1000
"""Transfers of patches in one order that are counted to compare it with another."""

Span = tuple[int, int]
"""First place, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Along:
    """How a dim is cut: so many patches of so many elements.    ring: elements of a dim without ends."""

    size: int
    count: int
    ring: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Patches that do the same: some places of each, and where these begin in the array.

    step: from one place to the next in the array, 1 or 0.
    """

    first: int
    count: int
    place: int
    length: int
    start: int
    step: int = 1


def hull(a: Span | None, b: Span) -> Span:
    """The places of both and between."""
    return b if a is None else (min(a[0], b[0]), max(a[1], b[1]))


def moved(span: Span, by: int) -> Span:
    """The same places further on."""
    return span[0] + by, span[1] + by


def size_along(x: Value, dim: int, rank: int) -> int:
    """Elements of a value along a dim of the region, which it may lack."""
    at = dim - (rank - x.type.rank)
    return x.type.shape[at] if at >= 0 else 1


class Dim:
    """One dim of a region: where its values lie beside each other, and what patches need of them."""

    def __init__(self, stencil: Stencil, dim: int) -> None:
        self.stencil, self.dim = stencil, dim
        self.inside = {op.result for op in stencil.ops}
        self.ring = stencil.rolled.get(dim)
        self.ops = [op for op in stencil.ops if op not in stencil.idle]
        self.at = self._positions()
        made = stencil.made
        self.first = min(self.at[v] for v in made)
        self.extent = max(self.at[v] + self.size(v) for v in made) - self.first

    def size(self, x: Value) -> int:
        """Elements of a value along the dim."""
        return size_along(x, self.dim, self.stencil.rank)

    def own(self, x: Value, along: Along) -> Along:
        """How a value is cut where the dim is cut so."""
        density = self.stencil.density.get(x)
        return along if density is None else Along(along.size * density[self.dim], along.count, along.ring)

    def is_fixed(self, x: Value) -> bool:
        """True for a value from outside that is the same for all places."""
        return x not in self.inside and self.size(x) == 1

    @property
    def is_whole(self) -> bool:
        """True where it cannot be cut: all places read one element of a value of the region."""
        for op in self.ops:
            if op.result in self.stencil.shifted or op.result in self.stencil.assembled:
                continue
            if any(x in self.inside and self.size(x) != self.size(op.result) for x in op.values()):
                return True
        return False

    def _step(self, v: Value) -> int:
        """How far apart elements of a value are in the one that it is moved from."""
        return self.stencil.steps[v][self.dim] if v in self.stencil.steps else 1

    def _positions(self) -> dict[Value, int]:
        """Where the first element of each value lies: beside what it is made of."""
        at: dict[Value, int] = {}
        if self.ring is not None:
            return dict.fromkeys(self.inside, 0)
        for op in self.ops:
            v = op.result
            if v in self.stencil.shifted:
                x, by = self.stencil.shifted[v]
                at[v] = (at.get(x, 0) + by[self.dim]) // self._step(v)
            elif v in self.stencil.assembled:
                assembly = self.stencil.assembled[v]
                at[v] = at.get(assembly.main, 0) + assembly.shifts[self.dim]
            else:
                places = [at.get(x, 0) for x in op.values() if self.size(x) == self.size(v)]
                at[v] = (min(places) + max(places)) // 2 if places else 0
        return at

    def made(self, x: Value, along: Along) -> Span:
        """The places of a result that a patch makes."""
        begin = self.first - self.at[x]
        if along.count == 1 and along.ring is None:
            return 0, self.size(x)
        return begin, begin + along.size

    def needs(self, along: Along) -> dict[Value, Span]:
        """The places of every value that a patch needs."""
        found: dict[Value, Span] = {x: self.made(x, along) for x in self.stencil.made}
        for op in reversed(self.ops):
            span = found.get(op.result)
            if span is not None:
                for x, wanted in self._reads(op, span, along):
                    found[x] = hull(found.get(x), (0, 1) if self.is_fixed(x) else wanted)
        return found

    def _reads(self, op: Op, span: Span, along: Along) -> Iterator[tuple[Value, Span]]:
        v = op.result
        if v in self.stencil.shifted:
            x, by = self.stencil.shifted[v]
            step, (first, stop) = self._step(v), span
            yield x, moved((step * first, step * (stop - 1) + 1), by[self.dim])
        elif v in self.stencil.assembled:
            yield from self._assembled(v, self.stencil.assembled[v], span, along)
        else:
            for x in op.values():
                yield x, span if self.size(x) == self.size(v) else (0, 1)

    def _assembled(self, v: Value, assembly: Assembly, span: Span, along: Along) -> Iterator[tuple[Value, Span]]:
        main = moved(span, assembly.shifts[self.dim])
        if along.count == 1 and along.ring is None:
            main = max(main[0], 0), min(main[1], self.size(assembly.main))
        if main[0] < main[1]:
            yield assembly.main, main
        for patch in assembly.patches:
            if isinstance(patch.source, Value):
                for _, part in self.patched(v, patch, span, along):
                    yield patch.source, part

    def patched(self, x: Value, patch: Patch, span: Span, along: Along) -> Iterator[tuple[Run, Span]]:
        """The places of a value that a patch lies over, and where the source has them."""
        factor = patch.factors[self.dim] if patch.factors else 1
        shift = patch.shifts[self.dim] if patch.shifts else 0
        box, along = patch.box[self.dim], self.own(x, along)
        if along.ring is not None or (box == (0, self.size(x)) and factor):
            # Beyond the ends too, where anything will do.
            yield Run(0, along.count, span[0], span[1] - span[0], 0), moved(span, shift)
            return
        for run in over(box, span, along, merge=factor == 1):
            part = run.place, run.place + run.length
            fixed = shift - run.first * along.size
            yield run, moved(part, shift) if factor else (fixed, fixed + 1)


def over(box: Span, span: Span, along: Along, merge: bool = True) -> Iterator[Run]:
    """The places of each patch that lie in a part of an array; patches that lie in it as a whole together."""
    size = along.size
    inner = (-((span[0] - box[0]) // size), (box[1] - span[1]) // size + 1)
    inner = max(inner[0], 0), min(inner[1], along.count)
    if not merge or inner[1] <= inner[0]:
        inner = (0, 0)
    else:
        yield Run(inner[0], inner[1] - inner[0], span[0], span[1] - span[0], inner[0] * size + span[0])
    low, high = max(-((span[1] - 1 - box[0]) // size), 0), min((box[1] - 1 - span[0]) // size, along.count - 1)
    for b in range(low, high + 1):
        if inner[0] <= b < inner[1]:
            continue
        first, stop = max(box[0] - b * size, span[0]), min(box[1] - b * size, span[1])
        if first < stop:
            yield Run(b, 1, first, stop - first, b * size + first)


def loads(n: int, span: Span, along: Along) -> Iterator[Run]:
    """Where all places of each patch come from: beyond the ends from anywhere, on a ring from the other end."""
    if along.ring is not None:
        yield from _loads_of_ring(along.ring, span, along)
        return
    yield from over((0, n), span, along)
    for b in range(along.count):
        first, stop = moved(span, b * along.size)
        if first < 0:
            yield Run(b, 1, span[0], min(-first, stop - first), n // 2, 0)
        if stop > n:
            length = min(stop - n, stop - first)
            yield Run(b, 1, span[1] - length, length, n // 2, 0)


def _loads_of_ring(n: int, span: Span, along: Along) -> Iterator[Run]:
    """All turns of the ring that patches reach."""
    turns = range(span[0] // n, (span[1] + (along.count - 1) * along.size - 1) // n + 1)
    for turn in turns:
        for run in over((turn * n, turn * n + n), span, along):
            yield Run(run.first, run.count, run.place, run.length, run.start - turn * n)


def loads_of(patches: Patches, x: Value, is_dense: bool = True) -> Iterator[list[Run]]:
    """Transfers that bring all places of each patch: along each dim which.

    is_dense: beyond the end of a line lies the next one, which will do, so that only the ends of the array matter.
    """
    shape = [dim.size(x) for dim in patches.dims]
    strides, step = [0] * len(shape), 1
    for d in reversed(range(len(shape))):
        strides[d] = step
        step *= shape[d]

    cuts = [dim.own(x, along) for dim, along in zip(patches.dims, patches.along, strict=True)]

    def is_inside(runs: Sequence[Run]) -> bool:
        low = high = 0
        for d, (run, along) in enumerate(zip(runs, cuts, strict=True)):
            last = run.start + (0 if shape[d] == 1 else (run.count - 1) * along.size) + (run.length - 1) * run.step
            low, high = low + run.start * strides[d], high + last * strides[d]
        return low >= 0 and high < step

    def spread(chosen: list[Run]) -> Iterator[list[Run]]:
        d = len(chosen)
        rest = [_as_they_lie(patches, x, i) for i in range(d, len(shape))]
        known = [run for run in rest if run is not None]
        if len(known) == len(rest) and (d == len(shape) or (is_dense and is_inside([*chosen, *known]))):
            yield [*chosen, *known]
            return
        if patches.dims[d].is_fixed(x):
            yield from spread([*chosen, Run(0, patches.along[d].count, 0, 1, 0, 0)])
            return
        can_lie = is_dense and len(known) == len(rest)
        for run in loads(shape[d], patches.needs[x][d], cuts[d]):
            for part in _parted(run, shape[d]) if can_lie else (run,):
                yield from spread([*chosen, part])

    yield from spread([])


def _as_they_lie(patches: Patches, x: Value, d: int) -> Run | None:
    """All places of all patches along a dim, also beyond its ends; None on a ring."""
    (first, stop), along, dim = patches.needs[x][d], patches.along[d], patches.dims[d]
    if dim.is_fixed(x):
        return Run(0, along.count, 0, 1, 0, 0)
    return None if along.ring is not None else Run(0, along.count, first, stop - first, first)


def _parted(run: Run, n: int) -> Iterator[Run]:
    """A run of one patch with the first and the last element of the dim by themselves."""
    if run.count > 1 or not run.step or run.length < 3:
        yield run
        return
    first, last = int(run.start == 0), int(run.start + run.length == n)
    for begin, length in ((0, first), (first, run.length - first - last), (run.length - last, last)):
        if length:
            yield Run(run.first, 1, run.place + begin, length, run.start + begin)


@dataclass(slots=True)
class Patches:
    """A region cut along all of its dims.

    needs: the places of each value, by dim. held: those that its tile has room for.
    """

    stencil: Stencil
    dims: list[Dim]
    along: list[Along]
    needs: dict[Value, list[Span]] = field(default_factory=dict)
    held: dict[Value, list[Span]] = field(default_factory=dict)
    order: tuple[int, ...] = ()
    """The dims whose patches follow each other on the partitions, the last one fastest."""
    claimed: dict[Value, Value] = field(default_factory=dict)
    """Values whose tile is that of the one they are put together of, by value."""

    @staticmethod
    def of(stencil: Stencil, dims: Sequence[Dim], along: Sequence[Along]) -> Patches:
        """What patches of these sizes need."""
        made = Patches(stencil, list(dims), list(along), order=tuple(range(len(dims))))
        each = [dim.needs(a) for dim, a in zip(dims, along, strict=True)]
        for x in each[0]:
            if all(x in needs for needs in each):
                made.needs[x] = [needs[x] for needs in each]
        made.held = {x: list(spans) for x, spans in made.needs.items()}
        made._claim()
        made._set_order()
        return made

    def _set_order(self) -> None:
        """Patches of a dim that has few come after those of others where that takes fewer transfers: what some patches
        along it have is then loaded for all patches along the other dims at once."""
        natural = self.order
        other = tuple(sorted(natural, key=lambda d: self.along[d].count))
        cut = [d for d in other if self.along[d].count > 1]
        if cut != sorted(cut):
            counts = {order: sum(self.transfers(order, MOST_TRANSFERS)) for order in (natural, other)}
            self.order = min(counts, key=lambda order: counts[order])

    def transfers(self, order: Sequence[int] | None = None, most: float = inf) -> Iterator[int]:
        """How many transfers bring what is read and take away what is made, for each part of patches; those of patches
        that are neighbours on the partitions are one. No more than `most` are counted.
        """
        order = self.order if order is None else order
        made = {op.result for op in self.stencil.ops}
        sides: list[Iterable[Sequence[Run]]] = [loads_of(self, x) for x in self.needs if x not in made]
        for x in self.stencil.results:
            each = zip(self.dims, self.along, strict=True)
            sides.append(product(*[list(over((0, dim.size(x)), dim.made(x, cut), cut)) for dim, cut in each]))
        total = 0
        for runs in (runs for side in sides for runs in side):
            count = self._pieces(runs, order)
            total += count
            yield count
            if total > most:
                return

    def _pieces(self, runs: Sequence[Run], order: Sequence[int]) -> int:
        """Transfers of some parts of patches."""
        ordered = [(runs[d].count, self.along[d].count) for d in order]
        cut = max((i for i, (count, whole) in enumerate(ordered) if count != whole), default=0)
        return prod(count for count, _ in ordered[:cut])

    def partitions(self, chosen: Sequence[Sequence[int]], counts: Sequence[int]) -> list[int]:
        """Where patches lie, given by their numbers along each dim, of so many."""
        found = [0]
        for d in self.order:
            found = [at * counts[d] + i for at in found for i in chosen[d]]
        return found

    def _claim(self) -> None:
        """Let what is put together of one value for the most part have the tile of that."""
        claimed: set[Value] = set()
        for op in self.stencil.ops:
            assembly = self.stencil.assembled.get(op.result)
            if assembly is None or op.result not in self.needs or assembly.main not in self.needs:
                continue
            main = assembly.main
            is_over = any(_meets(patch.box, main, assembly.shifts) for patch in assembly.patches)
            if main in self.stencil.shifted or main in claimed or is_over or not self.is_full(main):
                continue
            claimed.add(main)
            self.claimed[op.result] = main
        for op in reversed(self.stencil.ops):
            main = self.claimed.get(op.result)
            if main is not None:
                shifts = self.stencil.assembled[op.result].shifts
                spans = zip(self.held[main], self.held[op.result], shifts, strict=True)
                self.held[main] = [hull(own, moved(other, by)) for own, other, by in spans]

    def is_full(self, x: Value) -> bool:
        """True for a value that has all dims of the region as patches have them."""
        return not any(dim.is_fixed(x) for dim in self.dims)

    @property
    def cells(self) -> int:
        """How many patches there are."""
        total = 1
        for each in self.along:
            total *= each.count
        return total


def _meets(box: Sequence[Span], main: Value, shifts: Sequence[int]) -> bool:
    """True where a patch lies over elements of the main part."""
    parts = zip(box, main.type.shape, shifts, strict=True)
    return all(first + by < n and stop + by > 0 for (first, stop), n, by in parts)
