"""Loops that tracing unrolled: what every step does by itself is done for all steps at once.

A program that walks over time steps, heads or tiles takes one slice of its inputs after the other and does the same
with each. What does not depend on the steps before (the products of an LSTM with its inputs, the decays of a state
space) becomes one op on all slices, laid one after the other along a new first dim; only the recurrence stays step by
step. Which ops belong together is found from the slices on: values of one *series* differ in nothing but the place
of the slices that they are made of.

Every element is computed from the same elements by the same ops as before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.regions.axes import COMBINED
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.rewrite.recurrences import comes_to, scan_recurrences
from tilewright.lower.rewrite.time_last import lay_time_last
from tilewright.lower.tuning import TUNING
from tilewright.target import Target
from tilewright.tensor.build import insert_tree, value
from tilewright.tensor.passes.simplify import EXACT, simplify


@dataclass(eq=False, slots=True)
class Series:
    """Values that are made in the same way, by the number of their step; `joined` is all of them, once that is there.

    operands: for each operand of their ops another series, a value or number that all of them share, or one of each
    step's own.
    """

    members: dict[int, Value] = field(default_factory=dict)
    operands: tuple[Any, ...] = ()
    is_slice: bool = False
    joined: Value | None = None

    @property
    def first(self) -> int:
        """The number of its first step."""
        return min(self.members)

    @property
    def example(self) -> Op:
        """The op of its first step."""
        op = self.members[self.first].producer
        assert op is not None
        return op

    @property
    def is_whole(self) -> bool:
        """True where no step is left out."""
        return len(self.members) == max(self.members) - self.first + 1


@dataclass(frozen=True, slots=True)
class Shifted:
    """A series that is read so many steps later."""

    series: Series
    by: int


OWN = object()
"""In place of an operand that each step has for itself."""


def roll_up(graph: Graph, target: Target) -> None:
    """Join the series of a program, as long as there are any."""
    room = target["memory.sbuf_usable_bytes"] * target["limits.partitions"] // 2
    for _ in range(TUNING.rolled_up):
        finder = _Finder(graph)
        found = finder.run()
        if scan_recurrences(graph, target, finder.of):
            finder = _Finder(graph)
            found = finder.run()
        able = {series for series in found if series.example.definition.family == "shape" or _fits(series, room)}
        able |= _passing(found)
        joined = [series for series in found if _join(series, able) and series.example.definition.family != "shape"]
        if not joined:
            break
        decided("rule: unrolled")
        for series in joined:
            _replace(series)
        sort_topologically(graph.body)
        simplify(graph, EXACT)
    lay_time_last(graph)
    simplify(graph, EXACT)


class _Finder:
    """Goes through a program once and sorts values into series."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.of: dict[Value, tuple[Series, int]] = {}
        self.by_key: dict[tuple, Series] = {}
        self.later: set[Value] = set()
        """Values that are made after some step, without being of a series."""

    def run(self) -> list[Series]:
        """Series of ops that compute something, those that others need first."""
        self._slices()
        for op in self.graph.ops:
            if len(op.results) == 1 and op.result not in self.of and (op.name in RULES or _is_elementwise(op)):
                self._op(op)
            if any(x in self.of or x in self.later for x in op.values()):
                self.later.update(x for x in op.results if x not in self.of)
        known = [series for series in self.by_key.values() if not series.is_slice]
        kept = {series for series, _ in self.of.values() if series.is_slice}
        for series in known:
            inner = [each for each in series.operands if isinstance(each, Shifted)]
            steps = set(series.members)
            whole = len(steps) >= TUNING.least_steps and series.is_whole
            if whole and all(x.series in kept and {t + x.by for t in steps} <= set(x.series.members) for x in inner):
                kept.add(series)
        return [series for series in known if series in kept]

    def _slices(self) -> None:
        """Slices of one value that follow each other along a dim."""
        groups: dict[tuple, list[Op]] = defaultdict(list)
        for op in self.graph.ops:
            if op.name == "slice" and set(op.attrs["steps"]) == {1}:
                (x,) = op.operands
                starts, sizes = op.attrs["starts"], op.attrs["sizes"]
                for axis, (size, whole) in enumerate(zip(sizes, x.type.shape, strict=True)):
                    if size < whole and starts[axis] % size == 0:
                        groups[x, axis, sizes, (*starts[:axis], *starts[axis + 1 :])].append(op)
        for (_, axis, sizes, _), ops in sorted(groups.items(), key=lambda each: -len(each[1])):
            free = [op for op in ops if op.result not in self.of]
            if len(free) >= TUNING.least_steps:
                series = Series(is_slice=True)
                for op in free:
                    number = op.attrs["starts"][axis] // sizes[axis]
                    series.members.setdefault(number, op.result)
                    self.of[op.result] = series, number
                series.operands = (axis,)

    def _op(self, op: Op) -> None:
        """Put an op into the series of those like it."""
        numbered = [self.of[x][1] for x in op.values() if x in self.of]
        if not numbered:
            return
        number, parts = numbered[0], []
        for x in op.operands:
            if not isinstance(x, Value):
                parts.append(("number", repr(x)))
            elif x in self.of:
                series, at = self.of[x]
                parts.append(("series", series, at - number))
            elif x in self.later:
                parts.append(("own", x.type))
            else:
                parts.append(("shared", x))
        key = (op.name, repr(sorted(op.attrs.items())), op.result.type, *parts)
        series = self.by_key.setdefault(key, Series())
        if not series.members:
            series.operands = tuple(
                Shifted(part[1], part[2]) if part[0] == "series" else OWN if part[0] == "own" else x
                for part, x in zip(parts, op.operands, strict=True)
            )
        if number not in series.members:
            series.members[number] = op.result
            self.of[op.result] = series, number


def _is_elementwise(op: Op) -> bool:
    return op.definition.family == "elementwise"


def _passing(found: list[Series]) -> set[Series]:
    """Series of which nothing but one array is made, step by step: they need no room beside it."""
    owner = {x: series for series in found for x in series.members.values()}
    passing = set[Series]()
    for series in reversed(found):
        uses = [use for x in series.members.values() for use in x.uses]
        readers = {use if use.name == "concatenate" else owner.get(use.result) for use in uses if use.results}
        if len(readers) == 1 and uses and all(isinstance(x, Op) or x in passing for x in readers):
            passing.add(series)
    return passing


def _fits(series: Series, room: int) -> bool:
    """True for a series whose results have room on chip together."""
    one = series.example.result.type
    return one.size * one.dtype.itemsize * len(series.members) <= room


# One op for a series.


def _join(series: Series, able: set[Series]) -> bool:
    """Make the op that computes a series at once; says whether there is one."""
    if series.joined is not None:
        return True
    if series not in able and not series.is_slice:
        return False
    steps = sorted(series.members)
    if series.is_slice:
        series.joined = _joined_slices(series, steps)
        return True
    own = [x for x in series.operands if x is OWN]
    if own and (_is_circular(series) or series.example.name in PRODUCTS):
        return False
    operands: list[Any] = []
    for i, x in enumerate(series.operands):
        if isinstance(x, Shifted):
            if not _join(x.series, able):
                return False
            first = steps[0] + x.by - x.series.first
            whole = x.series.joined
            assert whole is not None
            operands.append(_part(whole, 0, first, len(steps)))
        elif x is OWN:
            parts = [_operand(series, t, i) for t in steps]
            rows = [value("reshape", part, shape=(1, *part.type.shape)) for part in parts]
            operands.append(value("concatenate", *rows, axis=0))
        else:
            operands.append(x)
    op = series.example
    shared = [x is not OWN and not isinstance(x, Shifted) for x in series.operands]
    rule = RULES.get(op.name, _elementwise)
    made = rule(op, operands, shared, len(steps))
    if made is None or made.type.shape != (len(steps), *op.result.type.shape):
        return False
    assert made.producer is not None
    made.producer.location = op.location
    series.joined = made
    return True


def _operand(series: Series, step: int, at: int) -> Value:
    op = series.members[step].producer
    assert op is not None
    return op.operands[at]


def _is_circular(series: Series) -> bool:
    """True where what a step has for itself depends on another step of the series."""
    wanted = {_operand(series, t, i) for t in series.members for i, x in enumerate(series.operands) if x is OWN}
    return comes_to(series.members.values(), wanted)


def _joined_slices(series: Series, steps: Sequence[int]) -> Value:
    """The slices one after the other: a part of what they are taken from, its dims in another order."""
    (axis,) = series.operands
    op = series.example
    (x,) = op.operands
    starts, sizes = op.attrs["starts"], op.attrs["sizes"]
    count = steps[-1] - steps[0] + 1
    whole = (*sizes[:axis], count * sizes[axis], *sizes[axis + 1 :])
    part = value("slice", x, starts=starts, sizes=whole, steps=(1,) * len(sizes))
    split = value("reshape", part, shape=(*sizes[:axis], count, *sizes[axis:]))
    rank = len(sizes) + 1
    return value("transpose", split, perm=(axis, *(d for d in range(rank) if d != axis)))


def _part(x: Value, axis: int, start: int, size: int) -> Value:
    if x.type.shape[axis] == size:
        return x
    rank = x.type.rank
    starts = tuple(start if d == axis else 0 for d in range(rank))
    sizes = tuple(size if d == axis else n for d, n in enumerate(x.type.shape))
    return value("slice", x, starts=starts, sizes=sizes, steps=(1,) * rank)


def _replace(series: Series) -> None:
    """Every step reads its part of what was computed at once. What is out of order then is sorted later."""
    whole = series.joined
    assert whole is not None
    anchor = series.example
    insert_tree(whole, anchor)
    for number, old in series.members.items():
        part = _part(whole, 0, number - series.first, 1)
        new = value("reshape", part, shape=old.type.shape)
        new.name = old.name
        insert_tree(new, anchor)
        old.replace_all_uses(new)


# What each op becomes.

Rule = Callable[[Op, list[Any], list[bool], int], Value | None]


def _elementwise(op: Op, operands: list[Any], shared: list[bool], count: int) -> Value:
    rank = op.result.type.rank
    ready = [
        _ranked(x, rank) if isinstance(x, Value) and not own else x for x, own in zip(operands, shared, strict=True)
    ]
    return value(op.name, *ready, **op.attrs)


def _ranked(x: Value, rank: int) -> Value:
    """With dims of one element after the first, so that there are as many as the result has."""
    missing = rank + 1 - x.type.rank
    return value("reshape", x, shape=(x.type.shape[0], *(1,) * missing, *x.type.shape[1:])) if missing else x


def _reshape(op: Op, operands: list[Any], shared: list[bool], count: int) -> Value:
    return value("reshape", operands[0], shape=(count, *op.attrs["shape"]))


def _broadcast(op: Op, operands: list[Any], shared: list[bool], count: int) -> Value:
    shape = op.attrs["shape"]
    return value("broadcast_to", _ranked(operands[0], len(shape)), shape=(count, *shape))


def _transpose(op: Op, operands: list[Any], shared: list[bool], count: int) -> Value:
    return value("transpose", operands[0], perm=(0, *(d + 1 for d in op.attrs["perm"])))


def _slice(op: Op, operands: list[Any], shared: list[bool], count: int) -> Value:
    before = {"starts": 0, "sizes": count, "steps": 1}
    return value("slice", operands[0], **{name: (n, *op.attrs[name]) for name, n in before.items()})


def _sum(op: Op, operands: list[Any], shared: list[bool], count: int) -> Value:
    axes = tuple(axis + 1 for axis in op.attrs["axes"])
    return value(op.name, operands[0], **{**op.attrs, "axes": axes})


def _product(op: Op, operands: list[Any], shared: list[bool], count: int) -> Value | None:
    """The few rows of each step together by one matrix. Many rows fill the Tensor engine by themselves, and would have
    to be moved to other partitions afterwards."""
    x, y = operands
    if shared[1] and y.type.rank == 2 and x.type.rank == 3 and x.type.shape[1] <= TUNING.few_rows:
        rows = value("reshape", x, shape=(prod(x.type.shape[:2]), x.type.shape[2]))
        made = value(op.name, rows, y)
        return value("reshape", made, shape=(*x.type.shape[:2], y.type.shape[1]))
    return None


RULES: dict[str, Rule] = {
    "reshape": _reshape,
    "broadcast_to": _broadcast,
    "transpose": _transpose,
    "slice": _slice,
    **dict.fromkeys(COMBINED, _sum),
    **dict.fromkeys(PRODUCTS, _product),
}
