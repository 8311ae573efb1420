"""Values that steps take, one after the other along a new first dim: by as few ops as that takes.

The same value of every step is there once. Elements that follow each other in an array or in the results of an earlier
scan are a part of it. Results of the same op of each step are one op on what all steps take. What is left at either end
is put beside the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tilewright.dtypes import bool_, float32
from tilewright.ir.core import Graph, Op, Value
from tilewright.lower.tuning import TUNING
from tilewright.tensor.build import value
from tilewright.tensor.ranges import DEPTH, EXACT, Depth, Range, range_of
from tilewright.tensor.types import TensorType

_AS_FLOATS = ("add", "subtract", "minimum", "maximum", "where")
"""Ops of integers that float32 does as well, as far as it has them."""


class Stacker:
    """Lays values of steps one after the other; knows what became scans before."""

    def __init__(self, graph: Graph, series: dict[Value, tuple[Any, int]]) -> None:
        self.graph = graph
        self.series = series
        """Of values that are made in the same way step by step, which they belong to and the number of the step."""
        self.placed: dict[Value, tuple[Value, int]] = {}
        """Steps of scans: the scan and the number of the step."""
        self.newer: dict[Value, Value] = {}
        """What is read in place of values that became steps of scans."""
        self.known: dict[Value, tuple[int, Range]] = {}
        """What integers of the program may be, however many ops they are made by."""
        self.tries = 0

    def now(self, x: Any) -> Any:
        """What a value is read as now."""
        return self.newer.get(x, x) if isinstance(x, Value) else x

    def place(self, old: Value, new: Value, whole: Value, step: int) -> None:
        """A value became a step of a scan."""
        self.placed[new] = whole, step
        self.newer[old] = new
        if old in self.known:
            self.known[new] = self.known[old]

    def range_of(self, parts: list[Any]) -> Range:
        """Between which integers values of steps lie."""
        if not self.known:
            for x in (x for op in self.graph.ops for x in op.results if x.type.dtype.is_integer):
                self.known[x] = DEPTH, range_of(x, Depth(DEPTH, self.known))
        found = [range_of(x, Depth(DEPTH, self.known)) for x in parts]
        return Range(min(x.low for x in found), max(x.high for x in found))

    def stack(self, parts: list[Any]) -> Value | None:
        """Values of steps as float32 with the step as the first dim, which has one element where all are the same."""
        self.tries = TUNING.stack_tries
        return self._floats(parts)

    def _floats(self, parts: list[Any]) -> Value | None:
        """Floats as they are, integers as floats: of those it is known that these have them."""
        if all(not isinstance(x, Value) or x.type.dtype is float32 for x in parts):
            return self._native(parts)
        made = self._any(parts, self._placed_floats, self._op_of_floats)
        if made is None:
            native = self._native(parts)
            made = native and value("cast", native, dtype=float32)
        return made

    def _native(self, parts: list[Any]) -> Value | None:
        """Values of their own type."""
        made = self._any(parts, self._same, self._placed, _slices, self._op, self._of_a_series)
        return made or self._in_two(parts)

    def _any(self, parts: list[Any], *ways: Callable[[list[Any]], Value | None]) -> Value | None:
        """The first way that works."""
        self.tries -= 1
        if self.tries < 0 or len({x.type if isinstance(x, Value) else None for x in parts}) > 1:
            return None
        return next((made for way in ways if (made := way(parts)) is not None), None)

    def _in_two(self, parts: list[Any]) -> Value | None:
        """The first step or the last one often is made otherwise than all others."""
        count, types = len(parts), [x.type for x in parts if isinstance(x, Value)]
        if count < TUNING.least_steps or not types or any(x.with_shape(()) != types[0].with_shape(()) for x in types):
            return None
        if len({x.size for x in types}) > 1:
            return None
        for at in (1, count - 1):
            two = [self._native(some) for some in (parts[:at], parts[at:])]
            if two[0] is not None and two[1] is not None:
                return _joined([_as(x, n, types[-1]) for x, n in zip(two, (at, count - at), strict=True) if x])
        return None

    # Ways.

    def _same(self, parts: list[Any]) -> Value | None:
        first = parts[0]
        if isinstance(first, Value):
            return value("reshape", first, shape=(1, *first.type.shape)) if all(x is first for x in parts) else None
        numbers = parts[:1] if all(repr(x) == repr(first) for x in parts) else parts
        return _joined([value("full", shape=(1,), value=float(x), dtype=float32) for x in numbers])

    def _placed_floats(self, parts: list[Any]) -> Value | None:
        """A part of the results of a scan."""
        found = [self.placed.get(x) if isinstance(x, Value) else None for x in parts]
        if found[0] is None:
            return None
        whole, first = found[0]
        if any(each is None or each[0] is not whole or each[1] != first + t for t, each in enumerate(found)):
            return None
        return _part(whole, 0, first, len(parts), 1)

    def _placed(self, parts: list[Any]) -> Value | None:
        made, first = self._placed_floats(parts), parts[0]
        same = made is None or made.type.dtype is first.type.dtype
        return made if same else value("nearest", made, dtype=first.type.dtype)

    def _op(self, parts: list[Any]) -> Value | None:
        """The same op on what all steps take."""
        reshaped = [x.producer for x in parts if isinstance(x, Value) and x.producer and x.producer.name == "reshape"]
        if len(reshaped) == len(parts):
            inner = self._native([op.operands[0] for op in reshaped])
            return inner and value("reshape", inner, shape=(inner.type.shape[0], *parts[0].type.shape))
        return self._made(parts, self._native)

    def _op_of_floats(self, parts: list[Any]) -> Value | None:
        """The same op of integers on floats."""
        name = parts[0].producer and parts[0].producer.name
        if name not in _AS_FLOATS or not self.range_of(parts).is_inside(1 - EXACT, EXACT - 1):
            return None
        return self._made(parts, self._floats)

    def _made(self, parts: list[Any], stack: Callable[[list[Any]], Value | None]) -> Value | None:
        ops = [x.producer if isinstance(x, Value) else None for x in parts]
        first = ops[0]
        if first is None or first.definition.family != "elementwise" or not _are_alike(ops, first):
            return None
        operands: list[Any] = []
        for column in zip(*(op.operands for op in ops if op is not None), strict=True):
            is_number = not isinstance(column[0], Value) and all(repr(x) == repr(column[0]) for x in column)
            made = column[0] if is_number else self._operand(list(column), stack)
            if made is None:
                return None
            operands.append(ranked(made, first.result.type.rank) if isinstance(made, Value) else made)
        return value(first.name, *operands, **first.attrs)

    def _operand(self, column: list[Any], stack: Callable[[list[Any]], Value | None]) -> Value | None:
        integers = all(isinstance(x, Value) and x.type.dtype.is_integer for x in column)
        return (stack if integers and column[0].type.dtype is not bool_ else self._native)(column)

    def _of_a_series(self, parts: list[Any]) -> Value | None:
        """Values that are made in the same way by ops of any kind: `unrolled` makes them at once."""
        known = [self.series.get(x) if isinstance(x, Value) else None for x in parts]
        found = [each for each in known if each is not None and known[0] is not None and each[0] is known[0][0]]
        if len(found) < len(parts) or {b[1] - a[1] for a, b in pairwise(found)} not in ({1}, {-1}):
            return None
        return _joined([value("reshape", x, shape=(1, *x.type.shape)) for x in parts])


def _are_alike(ops: list[Op | None], first: Op) -> bool:
    return all(op is not None and (op.name, op.attrs) == (first.name, first.attrs) for op in ops)


def _slices(parts: list[Any]) -> Value | None:
    """Elements of one array, at equal distances along a dim."""
    found = [op for x in parts if (op := _slice_of(x)) is not None]
    if len(found) < len(parts) or len(parts) < 2:
        return None
    (source,), sizes = found[0].operands, found[0].attrs["sizes"]
    same = (op.operands[0] is source and op.attrs["sizes"] == sizes and set(op.attrs["steps"]) == {1} for op in found)
    if not all(same):
        return None
    starts = [op.attrs["starts"] for op in found]
    moved = [d for d in range(len(sizes)) if starts[0][d] != starts[1][d]]
    if len(moved) != 1 or sizes[moved[0]] != 1:
        return None
    (axis,) = moved
    step, before, after = starts[1][axis] - starts[0][axis], starts[0][:axis], starts[0][axis + 1 :]
    even = (at == (*before, starts[0][axis] + t * step, *after) for t, at in enumerate(starts))
    if step < 0 or not all(even):
        return None
    many = (*sizes[:axis], len(parts), *sizes[axis + 1 :])
    steps = tuple(step if d == axis else 1 for d in range(len(sizes)))
    whole = value("slice", source, starts=starts[0], sizes=many, steps=steps)
    turned = value("transpose", whole, perm=(axis, *(d for d in range(len(sizes)) if d != axis)))
    return value("reshape", turned, shape=(len(parts), *parts[0].type.shape))


def _slice_of(x: Any) -> Op | None:
    """The slice that a value is, whatever its dims."""
    op = x.producer if isinstance(x, Value) else None
    if op is not None and op.name == "reshape":
        op = op.operands[0].producer
    return op if op is not None and op.name == "slice" else None


def ranked(x: Value, rank: int) -> Value:
    """With dims of one element after the first, so that there are so many besides."""
    missing = rank + 1 - x.type.rank
    return value("reshape", x, shape=(x.type.shape[0], *(1,) * missing, *x.type.shape[1:])) if missing else x


def _as(x: Value, count: int, each: TensorType) -> Value:
    """So many steps of a type."""
    x = x if x.type.dtype is each.dtype else value("cast", x, dtype=each.dtype)
    shape = (x.type.shape[0], *(each.shape if x.type.size > x.type.shape[0] else (1,) * len(each.shape)))
    x = x if x.type.shape == shape else value("reshape", x, shape=shape)
    return x if shape == (count, *each.shape) else value("broadcast_to", x, shape=(count, *each.shape))


def _joined(parts: list[Value]) -> Value:
    return parts[0] if len(parts) == 1 else value("concatenate", *parts, axis=0)


def _part(x: Value, axis: int, start: int, size: int, step: int) -> Value:
    """Some elements along a dim."""
    rank = x.type.rank
    starts = tuple(start if d == axis else 0 for d in range(rank))
    sizes = tuple(size if d == axis else n for d, n in enumerate(x.type.shape))
    return value("slice", x, starts=starts, sizes=sizes, steps=tuple(step if d == axis else 1 for d in range(rank)))
