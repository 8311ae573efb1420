"""An axis whose elements every op of a region treats alike, wherever it lies in the dims of each value.

Each partition can then compute a part of the axis by itself, whatever the others do. The axis may be several
neighbouring dims, or some digits of a dim that a reshape merges with others: in row-major order it is a run of digits,
`outer` elements to the left of it within its dims and `inner` to the right. Slices, joins, paddings, reductions and
running sums leave it alone where they work on other dims; transposes move its dims together. Reductions that go over
the whole axis have a part of their result from each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tilewright.dtypes import float32
from tilewright.ir.core import OUTPUTS, Graph, Op, Value, clone_ops
from tilewright.lower.regions.axes import COMBINED, SCANNED, is_left_alone
from tilewright.lower.regions.checks import CHECKS
from tilewright.lower.write.homes import is_view

Shape = tuple[int, ...]

PARTS = ("slice", "concatenate", "pad", "update_slice")
"""Ops that work on parts of some dims, and leave others as they are."""


@dataclass(frozen=True, slots=True)
class Run:
    """Where the axis lies in a value: in the dims first..last, as the digits between `outer` and `inner` elements."""

    first: int
    last: int
    outer: int = 1
    inner: int = 1


Place = Run | None
"""Where the axis lies; None: the value has the same for all of its elements."""


@dataclass(slots=True)
class RowRegion:
    """Ops that treat the elements of an axis alike; `places` has every value that they read or make."""

    size: int
    ops: dict[Op, None] = field(default_factory=dict)
    places: dict[Value, Place] = field(default_factory=dict)

    @property
    def work(self) -> int:
        """How many elements it computes."""
        return sum(op.result.type.size for op in self.ops if not is_view(op))

    @property
    def moved(self) -> list[Value]:
        """What is read from outside, or read there."""
        made = {op.result for op in self.ops}
        return [x for x in self.places if x not in made or any(use not in self.ops for use in x.uses)]

    def alone(self, graph: Graph) -> tuple[Graph, RowRegion]:
        """The region as a program of its own, which is given what it reads from outside."""
        made = {op.result for op in self.ops}
        creations = {x.producer for x in self.places if x.producer is not None and _is_creation(x.producer)}
        given = [x for x in self.places if x not in made and x.producer not in creations]
        values: dict[Value, Any] = {x: x.fresh() for x in given}
        program = Graph(graph.name, [values[x] for x in given], (), None, graph.dialect, graph.location)
        clone_ops([op for op in graph.ops if op in self.ops or op in creations], program.body, values)
        ordered = [op.result for op in graph.ops if op in self.ops]
        program.outputs = [values[x] for x in ordered if any(use not in self.ops for use in x.uses)]
        ops = dict.fromkeys(op for op in program.ops if not _is_creation(op))
        return program, RowRegion(self.size, ops, {values[x]: place for x, place in self.places.items()})

    def copied(self, graph: Graph, copy: Graph) -> RowRegion:
        """The same region of a copy of the program."""
        ops = dict(zip(graph.ops, copy.ops, strict=True))
        values = dict(zip(graph.inputs, copy.inputs, strict=True))
        for old, new in ops.items():
            values.update(zip(old.results, new.results, strict=True))
        places = {values[x]: place for x, place in self.places.items()}
        return RowRegion(self.size, {ops[op]: None for op in self.ops}, places)


def _is_creation(op: Op) -> bool:
    return op.definition.family == "creation"


def find_regions(graph: Graph, least: int) -> list[RowRegion]:
    """Regions without a common op, those with the most work first, whose axes have `least` elements or more."""
    every: list[RowRegion] = []
    known: set[tuple[Value, Run]] = set()
    for x in _seeds(graph):
        for run in _runs(x.type.shape, least):
            if (x, run) not in known:
                found = grow(x, run)
                known.update((v, place) for v, place in found.places.items() if place is not None)
                every.append(found)
    every.sort(key=lambda region: (-region.work, -region.size))
    taken: set[Op] = set()
    apart: list[RowRegion] = []
    for region in every:
        if taken.isdisjoint(region.ops) and region.work:
            taken.update(region.ops)
            apart.append(region)
    return apart


def _seeds(graph: Graph) -> Iterator[Value]:
    """What is worked on by parts, and what is computed: the largest first."""
    found: dict[Value, None] = {}
    for op in graph.ops:
        if _is_able(op):
            found.update(dict.fromkeys(op.values() if op.definition.family != "elementwise" else [op.result]))
    yield from sorted(found, key=lambda x: -x.type.size)


def _runs(shape: Shape, least: int) -> Iterator[Run]:
    """Neighbouring dims with so many elements together, the most first."""
    long = [d for d, n in enumerate(shape) if n != 1]
    runs = [Run(a, b) for a in long for b in long if a <= b and prod(shape[a : b + 1]) >= least]
    yield from sorted(runs, key=lambda run: -prod(shape[run.first : run.last + 1]))


def grow(x: Value, run: Run) -> RowRegion:
    """All ops around a value that treat alike the elements of an axis that it has there."""
    region = RowRegion(prod(x.type.shape[run.first : run.last + 1]) // (run.outer * run.inner))
    region.places[x] = run
    work = [x]
    while work:
        value = work.pop()
        around = ([] if value.producer is None else [value.producer]) + list(value.uses)
        for op in around:
            if op in region.ops or not _is_able(op):
                continue
            if is_total(op, region.places.get(op.values()[0])) and op.result not in region.places:
                region.ops[op] = None
                region.places[op.result] = None
                continue
            made = places_of(op, region.places, region.size)
            if made is not None and all(region.places.get(v, place) == place for v, place in made.items()):
                region.ops[op] = None
                work += [v for v, place in made.items() if v not in region.places and place is not None]
                region.places.update(made)
    return region


def _is_able(op: Op) -> bool:
    """True for an op that may leave an axis alone."""
    if op.definition is OUTPUTS or len(op.results) != 1 or not op.values() or not op.result.type.size:
        return False
    return op.definition.family == "elementwise" or op.name in _RULES


def is_total(op: Op, place: Place) -> bool:
    """True for a reduction that goes over the whole axis of its operand: parts of it can be reduced by themselves."""
    if op.name not in COMBINED or place is None or not set(range(place.first, place.last + 1)) <= {*op.attrs["axes"]}:
        return False
    # Sums of parts in a narrow type would be rounded to it.
    return op.name in ("max", "min") or op.result.type.dtype is float32


# Where the axis lies in the values of an op.


def places_of(op: Op, known: dict[Value, Place], size: int) -> dict[Value, Place] | None:
    """The places of all values of an op, given that of some; None where it does not treat all elements alike."""
    rule = _RULES.get(op.name, _aligned)
    result = known.get(op.result)
    if result is None:
        given = next(((i, known[x]) for i, x in enumerate(op.operands) if isinstance(x, Value) and known.get(x)), None)
        if given is None:
            return None
        result = rule(op, given[0], given[1], size, True)
    if result is None:
        return None
    made: dict[Value, Place] = {op.result: result}
    for i, x in enumerate(op.operands):
        if not isinstance(x, Value):
            continue
        place = rule(op, i, result, size, False)
        if place is _NOWHERE or made.get(x, place) != place:
            return None
        made[x] = place
    return made


_NOWHERE = Run(-1, -1)
"""An operand that has some of the axis' dims alone, or in another order."""


def _aligned(op: Op, i: int, run: Place, size: int, forwards: bool) -> Place:
    """Dims of operands are those of the result, counted from the last."""
    x, y = op.operands[i], op.result
    assert isinstance(x, Value) and run is not None
    by = y.type.rank - x.type.rank
    if forwards:
        made = Run(run.first + by, run.last + by, run.outer, run.inner)
        same = x.type.shape[run.first : run.last + 1] == y.type.shape[made.first : made.last + 1]
        return made if same else None
    own = [x.type.shape[d - by] if d >= by else 1 for d in range(run.first, run.last + 1)]
    if all(n == 1 for n in own):
        return None
    same = run.first >= by and tuple(own) == y.type.shape[run.first : run.last + 1]
    return Run(run.first - by, run.last - by, run.outer, run.inner) if same else _NOWHERE


def _transposed(op: Op, i: int, run: Place, size: int, forwards: bool) -> Place:
    assert run is not None
    perm = op.attrs["perm"]
    to = [perm.index(d) for d in range(len(perm))] if forwards else list(perm)
    dims = [to[d] for d in range(run.first, run.last + 1)]
    if dims != list(range(dims[0], dims[0] + len(dims))):
        return None if forwards else _NOWHERE
    return Run(dims[0], dims[-1], run.outer, run.inner)


def _reshaped(op: Op, i: int, run: Place, size: int, forwards: bool) -> Place:
    x, y = (op.operands[0], op.result) if forwards else (op.result, op.operands[0])
    assert run is not None
    made = run_at(y.type.shape, run.inner * prod(x.type.shape[run.last + 1 :]), size)
    return made if made is not None or forwards else _NOWHERE


def run_at(shape: Shape, right: int, size: int) -> Run | None:
    """The run of `size` elements with `right` of them to its right in row-major order; None where dims cut it."""
    last = len(shape) - 1
    after = 1
    while last >= 0 and (shape[last] == 1 or after * shape[last] <= right):
        after *= shape[last]
        last -= 1
    if last < 0 or right % after or shape[last] % (right // after):
        return None
    first, seen = last, after * shape[last]
    while seen < right * size:
        if not first:
            return None
        first -= 1
        seen *= shape[first]
    outer = seen // (right * size)
    return Run(first, last, outer, right // after) if seen % (right * size) == 0 and shape[first] % outer == 0 else None


def _reduced(op: Op, i: int, run: Place, size: int, forwards: bool) -> Place:
    """Dims that are not reduced stay in order; those of the axis stay neighbours."""
    assert run is not None
    axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
    kept = [d for d in range(op.operands[0].type.rank) if d not in axes]
    to = {d: d if op.attrs["keepdims"] else n for n, d in enumerate(kept)}
    moved = to if forwards else {n: d for d, n in to.items()}
    dims = [moved.get(d, -1) for d in range(run.first, run.last + 1)]
    if dims[0] < 0 or dims != list(range(dims[0], dims[0] + len(dims))):
        return None if forwards else _NOWHERE
    return Run(dims[0], dims[-1], run.outer, run.inner)


def _scanned(op: Op, i: int, run: Place, size: int, forwards: bool) -> Place:
    x = op.operands[i]
    assert run is not None and isinstance(x, Value)
    axis = op.attrs["axis"] - (op.result.type.rank - x.type.rank if forwards else 0)
    if run.first <= axis <= run.last:
        return None if forwards else _NOWHERE
    return _aligned(op, i, run, size, forwards)


def _parts(op: Op, i: int, run: Place, size: int, forwards: bool) -> Place:
    """Parts of other dims, or of the digits to the left of the axis: each with all of its elements."""
    assert run is not None
    touched = [d for d in range(run.first, run.last + 1) if not is_left_alone(op, d)]
    if not touched:
        return run
    made = _of_whole_axes(op, i, run, forwards) if touched == [run.first] else None
    return made if made is not None or forwards else _NOWHERE


def _of_whole_axes(op: Op, i: int, run: Run, forwards: bool) -> Place:
    """The same axis beside more or fewer of its like, where each is taken as a whole, as halves of a batch are."""
    given, other = (op.operands[i], op.result) if forwards else (op.result, op.operands[i])
    assert isinstance(given, Value) and isinstance(other, Value)
    d = run.first
    unit = given.type.shape[d] // run.outer
    if other.type.shape[d] % unit or any(edge % unit for edge in _edges(op, d)):
        return None
    return Run(run.first, run.last, other.type.shape[d] // unit, run.inner)


def _edges(op: Op, d: int) -> list[int]:
    """Where parts begin or end along a dim."""
    if op.name == "concatenate":
        return [x.type.shape[d] for x in op.values()]
    if op.name == "pad":
        return [op.attrs["low"][d], op.attrs["high"][d]]
    # Every other element is no part of neighbours.
    return [
        op.attrs["starts"][d],
        *(x.type.shape[d] for x in op.values()[1:]),
        *([1] if op.attrs["steps"][d] != 1 else []),
    ]


_RULES: dict[str, Callable[[Op, int, Place, int, bool], Place]] = {
    "broadcast_to": _aligned,
    "transpose": _transposed,
    "reshape": _reshaped,
    "argmax": _reduced,
    **dict.fromkeys(CHECKS, _aligned),
    **dict.fromkeys(COMBINED, _reduced),
    **dict.fromkeys(SCANNED, _scanned),
    **dict.fromkeys(PARTS, _parts),
}
"""Where the axis lies in the result, given its place in an operand (forwards), or in an operand, given the result's."""


def local_dims(shape: Sequence[int], run: Run, count: int) -> list[int]:
    """The dims of one of `count` equal parts of the axis: the dims of the run are one."""
    merged = prod(shape[run.first : run.last + 1]) // count
    return [*shape[: run.first], merged, *shape[run.last + 1 :]]
