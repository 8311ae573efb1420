"""Regions of ops that read each other's neighbours: elements that lie a few places further along some dims.

Slices, paddings, joins, rolls and updates of parts say which neighbours; everything else computes element by element.
All dims are alike here: whether one lies on partitions, in patches with a border or as a whole is decided later
(`patches.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from math import prod

from tilewright.ir.core import OUTPUTS, Graph, Op, Value
from tilewright.lower.regions.totals import REDUCTIONS
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.alike import Alike

Box = tuple[tuple[int, int], ...]
"""First and last element (excluded) along each dim."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Some elements of a value that are taken from another one, or are a number.

    source: what they are taken from; element i along a dim is its element factor * i + shift, the factor being 0 or 1.
    Elements that lie there otherwise are patches of one element.
    """

    box: Box
    source: Value | float
    factors: tuple[int, ...] = ()
    shifts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Assembly:
    """A value made of others: most of it is `main`, of which it has element i + shifts[d] at i; patches lie over it."""

    main: Value
    shifts: tuple[int, ...]
    patches: tuple[Patch, ...]


@dataclass(slots=True)
class Stencil:
    """A region: its ops in the program's order, and how each moves elements.

    shifted: values that are another one, moved; steps: those that take only every second, third, ... element of it
    along some dims. assembled: values that are put together. rolled: dims that are read as a ring, all values having
    as many elements there.
    """

    ops: list[Op]
    rank: int
    shifted: dict[Value, tuple[Value, tuple[int, ...]]] = field(default_factory=dict)
    steps: dict[Value, tuple[int, ...]] = field(default_factory=dict)
    density: dict[Value, tuple[int, ...]] = field(default_factory=dict)
    """How many elements a value has along each dim for one of the region's results, where these are more than one."""
    assembled: dict[Value, Assembly] = field(default_factory=dict)
    rolled: dict[int, int] = field(default_factory=dict)
    idle: set[Op] = field(default_factory=set)
    """Views that patches and rolls see through."""
    totals: list[Op] = field(default_factory=list)
    """Reductions of all elements of a value that the region makes: each patch adds its own."""

    @property
    def made(self) -> list[Value]:
        """Values of which every element is made: what something outside reads, and what is reduced."""
        inside = set(self.ops)
        return [op.result for op in self.ops if any(use not in inside for use in op.result.uses)]

    @property
    def results(self) -> list[Value]:
        """Values that something outside reads."""
        inside = {*self.ops, *self.totals}
        return [op.result for op in self.ops if any(use not in inside for use in op.result.uses)]

    @property
    def reads(self) -> list[Value]:
        """Values from outside."""
        made = {op.result for op in self.ops}
        return list(dict.fromkeys(v for op in self.ops for v in op.values() if v not in made))


MOVING = ("slice", "pad", "concatenate", "update_slice")
EXCLUDED = ("checked_index", "bounded_index")


def find_stencils(graph: Graph, lanes: int) -> list[Stencil]:
    """All regions of a program in which elements are read with their neighbours along a dim other than the last, or
    along the last one where rows are too few for all partitions; and what only lies between them."""
    found: list[Stencil] = []
    others: list[Stencil] = []
    for stencil in _all_described([op for op in graph.ops if _may_belong(op)]):
        (found if any(_moves(op, lanes) for op in stencil.ops) else others).append(stencil)
    found += _between(found, others) if found else []
    return found if _has_an_order(graph, found) else []


def _all_described(ops: list[Op]) -> Iterator[Stencil]:
    """The regions of some ops that have much to compute."""
    for own in _regions(ops):
        computing = [op for op in own if op.definition.family == "elementwise"]
        if max((op.result.type.size for op in computing), default=0) <= TUNING.few_elements:
            continue
        stencil, dense = _described(own), [op for op in own if not _is_sparse(op)]
        if stencil is not None:
            yield stencil
        elif len(dense) < len(own):
            # Without what takes every other element it may be one, or several.
            yield from _all_described(dense)


def _between(found: list[Stencil], others: list[Stencil]) -> list[Stencil]:
    """Regions that read no neighbours, but what regions make that do, and whose results nothing else reads than these:
    all of them may be cut alike, so that nothing is moved from one to the next."""
    while True:
        inside = {op for stencil in (*found, *others) for op in (*stencil.ops, *stencil.totals)}
        kept = [each for each in others if all(_stays(x, inside) for x in each.results)]
        if len(kept) == len(others):
            break
        others = kept
    near = {op for stencil in found for op in stencil.ops}
    return [each for each in others if any(x.producer in near for x in each.reads if x.type.rank == each.rank)]


def _stays(x: Value, inside: set[Op]) -> bool:
    """True for what nothing but some ops, and who called the program, reads."""
    return all(use in inside or use.definition is OUTPUTS for use in x.uses)


def _regions(ops: list[Op]) -> Iterator[list[Op]]:
    """Ops that read each other's results element by element, such that nothing outside lies between two of them."""
    for component in _components(ops):
        late = _late(component)
        if late:
            yield from _regions([op for op in component if op not in late])
            yield from _regions([op for op in component if op in late])
        else:
            yield component


def _may_belong(op: Op) -> bool:
    """True for an op that computes element by element, or that moves elements by whole numbers of places."""
    if len(op.results) != 1 or op.result.type.rank < 2 or not op.result.type.size:
        return False
    if op.name in ("slice", "update_slice") and any(step != 1 for step in op.attrs["steps"]):
        if op.name == "slice" and _is_short(op) and all(use.name == "concatenate" for use in op.result.uses):
            return True
        return _is_sparse(op)
    if op.name == "broadcast_to":
        return op.values()[0].type.rank == op.result.type.rank and all(
            use.name == "concatenate" for use in op.result.uses
        )
    if op.name in MOVING:
        return True
    return op.definition.family == "elementwise" and op.name not in EXCLUDED


def _is_sparse(op: Op) -> bool:
    """True for a slice of every second, third, ... element along some dims, in their order."""
    return op.name == "slice" and min(op.attrs["steps"]) > 0 and not _is_plain(op)


def _is_short(op: Op) -> bool:
    """True for a slice that takes few elements along the dims in which these are not neighbours, or lie in another
    order: each of them is a patch by itself."""
    along = zip(op.result.type.shape, op.attrs["steps"], strict=True)
    return prod(n for n, step in along if step != 1) <= TUNING.few_rows


def _moves(op: Op, lanes: int) -> bool:
    """True for an op that moves elements along a dim other than the last, or along the last one of a few rows."""
    if op.name not in MOVING:
        return False
    before, after = op.operands[0].type.shape, op.result.type.shape
    few = prod(after[:-1]) < lanes and before != after and (op.name != "slice" or _has_neighbours(op))
    return few or op.name == "update_slice" or before[:-1] != after[:-1]


def _has_neighbours(op: Op) -> bool:
    """True for a part of a value of which another part begins elsewhere and has some of the same elements."""
    if op.attrs["steps"][-1] != 1:
        return False
    (x,), start, size = op.operands, op.attrs["starts"][-1], op.attrs["sizes"][-1]
    others = [use for use in x.uses if use.name == "slice"]
    begins = [(use.attrs["starts"][-1], use.attrs["starts"][-1] + use.attrs["sizes"][-1]) for use in others]
    return any(first != start and first < start + size and start < last for first, last in begins)


def _components(ops: list[Op]) -> Iterator[list[Op]]:
    """Ops that read each other's results element by element."""
    inside, same = set(ops), Alike[Op]()
    for op in ops:
        for x in op.values():
            joined = op.name in MOVING or op.name == "broadcast_to" or x.type.shape == op.result.type.shape
            if x.producer in inside and joined:
                same.join(x.producer, op)
    # Readers of the same array.
    readers: dict[Value, Op] = {}
    for op in ops:
        for x in op.values():
            if x.producer not in inside and x.type.rank == op.result.type.rank and x.type.size > TUNING.few_elements:
                same.join(op, readers.setdefault(x, op))
    groups: dict[Op, list[Op]] = {}
    for op in ops:
        groups.setdefault(same.root(op), []).append(op)
    yield from groups.values()


def _late(ops: list[Op]) -> set[Op]:
    """Those that read something outside which some of them come before."""
    inside = set(ops)
    work = [use for op in ops for use in op.result.uses if use not in inside]
    after = set(work)
    while work:
        new = {use for value in work.pop().results for use in value.uses} - after
        after |= new
        work.extend(new)
    return after & inside


def _has_an_order(graph: Graph, found: list[Stencil]) -> bool:
    """True where regions, each as one step, can follow each other."""
    of = {op: i for i, stencil in enumerate(found) for op in stencil.ops}
    before: dict[int, set[int]] = {i: set() for i in range(len(found))}
    behind: dict[Value, set[int]] = {}
    for op in graph.ops:
        seen = set[int]().union(*(behind.get(x, set()) for x in op.values())) if op.values() else set()
        own = of.get(op)
        if own is not None:
            before[own] |= seen - {own}
            seen = seen | {own}
        for value in op.results:
            behind[value] = seen
    while before:
        free = next((i for i, others in before.items() if not others & before.keys()), None)
        if free is None:
            return False
        del before[free]
    return True


def _described(ops: list[Op]) -> Stencil | None:
    """What the ops of a region do; None where one of them does more than a region can."""
    rank = ops[-1].result.type.rank
    stencil = Stencil(ops, rank, totals=_totals(ops))
    if any(op.result.type.rank != rank for op in ops):
        return None
    for op in ops:
        if op.name == "slice":
            stencil.shifted[op.result] = op.operands[0], op.attrs["starts"]
            if not _is_plain(op):
                stencil.steps[op.result] = op.attrs["steps"]
        elif op.name == "pad":
            stencil.assembled[op.result] = _padded(op)
        elif op.name == "update_slice":
            stencil.assembled[op.result] = _updated(op, stencil)
        elif op.name == "concatenate":
            roll = _roll(op)
            if roll is None:
                stencil.assembled[op.result] = _joined(op, stencil)
                continue
            x, by = roll
            axis, size = op.attrs["axis"], op.result.type.shape[op.attrs["axis"]]
            stencil.rolled[axis] = size
            stencil.shifted[op.result] = x, tuple(by if d == axis else 0 for d in range(rank))
    _see_through(stencil)
    for op in stencil.idle:
        stencil.steps.pop(op.result, None)
    if stencil.steps and not _has_densities(stencil):
        return None
    return stencil if all(_is_ring(stencil, d, n) for d, n in stencil.rolled.items()) else None


def _has_densities(stencil: Stencil) -> bool:
    """Find how many elements of each value belong to one of the results; says whether that is the same everywhere."""
    rank, found = stencil.rank, stencil.density
    plain = (1,) * rank
    if stencil.rolled or any(min(steps) < 1 for steps in stencil.steps.values()):
        return False
    for x in stencil.made:
        found[x] = plain
        while x in stencil.shifted:
            if x in stencil.steps:
                return False
            x = stencil.shifted[x][0]

    def fits(x: Value, wanted: tuple[int, ...]) -> bool:
        if any(n != 1 for n in wanted) and x.type.rank != rank:
            return False
        return found.setdefault(x, wanted) == wanted

    for op in reversed(stencil.ops):
        v = op.result
        if op in stencil.idle or v not in found:
            continue
        own = found[v]
        if v in stencil.shifted:
            by = stencil.steps.get(v, plain)
            alike = fits(stencil.shifted[v][0], tuple(a * b for a, b in zip(own, by, strict=True)))
        elif v in stencil.assembled:
            assembly = stencil.assembled[v]
            sources = [patch.source for patch in assembly.patches if isinstance(patch.source, Value)]
            alike = all(fits(x, own) for x in (assembly.main, *sources))
        else:
            wide = [x for x in op.values() if x.type.shape == v.type.shape or own == plain]
            # What is the same for all places goes with any density.
            others = [x for x in op.values() if x not in wide]
            alike = all(fits(x, own) for x in wide) and all(x.type.size == 1 for x in others)
        if not alike:
            return False
    return True


def _totals(ops: list[Op]) -> list[Op]:
    """What is reduced to one number of what some ops make."""
    uses = dict.fromkeys(use for op in ops for use in op.result.uses if use.name in REDUCTIONS)
    return [op for op in uses if op.result.type.size == 1 and op.operands[0].type.dtype.is_float]


def _is_plain(op: Op) -> bool:
    """True for a slice of neighbours, in their order."""
    return all(step == 1 for step in op.attrs["steps"])


def _roll(op: Op) -> tuple[Value, int] | None:
    """What a join is a roll of, and by how much: element i is that at i + by."""
    axis = op.attrs["axis"]
    parts = [x.producer for x in op.operands]
    if len(parts) != 2 or any(part is None or part.name != "slice" or not _is_plain(part) for part in parts):
        return None
    (base, start), (other, again) = ((x.producer.operands[0], x.producer.attrs["starts"]) for x in op.operands)
    whole = [
        s == (n if d == axis else 0) for d, (s, n) in enumerate(zip(start, op.operands[1].type.shape, strict=True))
    ]
    if base is not other or any(again) or not all(whole) or base.type.shape != op.result.type.shape:
        return None
    by = start[axis]
    return base, by if 2 * by <= base.type.shape[axis] else by - base.type.shape[axis]


def _padded(op: Op) -> Assembly:
    x, low, shape = op.operands[0], op.attrs["low"], op.result.type.shape
    inside = [(a, a + n) for a, n in zip(low, x.type.shape, strict=True)]
    patches = tuple(Patch(box, op.attrs["value"]) for box in _around(inside, shape))
    return Assembly(x, tuple(-a for a in low), patches)


def _around(inside: list[tuple[int, int]], shape: tuple[int, ...]) -> Iterator[Box]:
    """What lies beside a part of an array, dim by dim."""
    whole = [(0, n) for n in shape]
    for d, ((first, stop), n) in enumerate(zip(inside, shape, strict=True)):
        for part in ((0, first), (stop, n)):
            if part[0] < part[1]:
                yield (*whole[:d], part, *whole[d + 1 :])


def _updated(op: Op, stencil: Stencil) -> Assembly:
    x, part = op.operands
    starts, rank = op.attrs["starts"], op.result.type.rank
    inside = [(a, a + n) for a, n in zip(starts, part.type.shape, strict=True)]
    if 2 * part.type.size < x.type.size:
        own = _patches(tuple(inside), part, tuple(-a for a in starts), stencil)
        return Assembly(x, (0,) * rank, tuple(own))
    patches = [patch for box in _around(inside, x.type.shape) for patch in _patches(box, x, (0,) * rank, stencil)]
    return Assembly(part, tuple(-a for a in starts), tuple(patches))


def _joined(op: Op, stencil: Stencil) -> Assembly:
    axis, shape = op.attrs["axis"], op.result.type.shape
    main = max(op.operands, key=_weight)
    patches: list[Patch] = []
    at, shifts = 0, (0,) * len(shape)
    taken = False
    for x in op.operands:
        n = x.type.shape[axis]
        moved = tuple(-at if d == axis else 0 for d in range(len(shape)))
        if x is main and not taken:
            shifts, taken = moved, True
        elif n:
            box = tuple((at, at + n) if d == axis else (0, m) for d, m in enumerate(shape))
            patches.extend(_patches(box, x, moved, stencil))
        at += n
    return Assembly(main, shifts, tuple(patches))


def _weight(x: Value) -> int:
    """How much of a join a part of it is: nothing, where its elements are patches by themselves."""
    op = x.producer
    return 0 if op is not None and op.name == "slice" and not _is_plain(op) and _is_short(op) else x.type.size


def _patches(box: Box, source: Value, shifts: tuple[int, ...], stencil: Stencil) -> Iterator[Patch]:
    """Elements of a value, seen through slices and repetitions of one element.

    Those that are no neighbours of each other there, or lie in another order, are patches by themselves.
    """
    factors, inside = [1] * len(box), set(stencil.ops)
    moved = list(shifts)
    while (op := source.producer) in inside and op is not None and _is_seen_through(op):
        (x,) = op.values()
        for d in range(len(box)):
            if op.name == "slice":
                factors[d] *= op.attrs["steps"][d]
                moved[d] = op.attrs["steps"][d] * moved[d] + op.attrs["starts"][d]
            elif x.type.shape[d] == 1 != op.result.type.shape[d]:
                factors[d], moved[d] = 0, 0
        source = x
    parts = [
        [span] if f in (0, 1) else [(i, i + 1) for i in range(*span)] for span, f in zip(box, factors, strict=True)
    ]
    for part in product(*parts):
        one = [f in (0, 1) for f in factors]
        by = [m if plain else f * first + m for m, f, plain, (first, _) in zip(moved, factors, one, part, strict=True)]
        yield Patch(part, source, tuple(f if plain else 0 for f, plain in zip(factors, one, strict=True)), tuple(by))


def _is_seen_through(op: Op) -> bool:
    """True for a view of which patches can tell what its elements are."""
    return op.name == "broadcast_to" or (op.name == "slice" and (_is_plain(op) or _is_short(op)))


def _see_through(stencil: Stencil) -> None:
    """Note the views that only patches and rolls read: nothing is to be made for them."""
    seen = {a.main for a in stencil.assembled.values()}
    seen |= {p.source for a in stencil.assembled.values() for p in a.patches if isinstance(p.source, Value)}
    seen |= {x for x, _ in stencil.shifted.values()}
    inside = set(stencil.ops)
    for op in reversed(stencil.ops):
        readers = [use for use in op.result.uses if use not in stencil.idle]
        joins = all(use in inside and (use.name in MOVING or use.name == "broadcast_to") for use in readers)
        if _is_seen_through(op) and joins and op.result not in _sources(stencil):
            stencil.idle.add(op)


def _sources(stencil: Stencil) -> set[Value]:
    """What shifts and assemblies take, those that nothing is made for left out."""
    found: set[Value] = set()
    for op in stencil.ops:
        if op in stencil.idle:
            continue
        if op.result in stencil.shifted:
            found.add(stencil.shifted[op.result][0])
        elif op.result in stencil.assembled:
            assembly = stencil.assembled[op.result]
            found.add(assembly.main)
            found |= {patch.source for patch in assembly.patches if isinstance(patch.source, Value)}
        else:
            found.update(op.values())
    return found


def _is_ring(stencil: Stencil, dim: int, size: int) -> bool:
    """True where all values have the same elements along a dim, and only rolls move them."""
    for op in stencil.ops:
        if op in stencil.idle:
            continue
        if op.result.type.shape[dim] != size:
            return False
        assembly = stencil.assembled.get(op.result)
        if assembly is not None and not _is_whole(assembly, dim, size):
            return False
        if op.name == "slice" and op.operands[0].type.shape[dim] != size:
            return False
    return True


def _is_whole(assembly: Assembly, dim: int, size: int) -> bool:
    parts = [
        (p.box[dim], p.shifts[dim] if p.shifts else 0, p.factors[dim] if p.factors else 1) for p in assembly.patches
    ]
    return assembly.shifts[dim] == 0 and all(part == ((0, size), 0, 1) for part in parts)
