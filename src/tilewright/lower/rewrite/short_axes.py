"""Short last axes, of which little comes in and little goes out: their elements apart, as arrays of their own.

Distances between points of three coordinates are computed of differences [i, j, 3]. Apart, each is an array [i, j]:
neighbours are neighbours in memory, what a row has one number of is a scale or a bias of an instruction, and the sum
over the axis is two additions, which any engine can do.
"""

from __future__ import annotations

from functools import partial, reduce

from tilewright.ir.core import OUTPUTS, Graph, Op, Value
from tilewright.ir.walk import eliminate_dead_code, sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.regions.axes import COMBINED
from tilewright.lower.select.select import REDUCE
from tilewright.target import Target
from tilewright.tensor.build import insert_tree, value

_MOST = 8
"""Elements of an axis whose arrays are written one by one: a kernel has so many times the instructions."""


def take_short_axes_apart(graph: Graph, target: Target) -> bool:
    """Compute element by element of short axes what is reduced in the end; says whether there was any."""
    lanes, done, changed = target["limits.partitions"], set[Value](), False
    for op in list(graph.ops):
        if not reduces_short_axis(op) or op.operands[0] in done:
            continue
        region = _region(op.operands[0], lanes)
        if region is None:
            continue
        decided("rule: short axes apart")
        done.update(region.inside)
        region.replace()
        changed = True
    if changed:
        sort_topologically(graph.body)
        eliminate_dead_code(graph)
    return changed


def reduces_short_axis(op: Op) -> bool:
    """True for a reduction of a last axis of a few elements, and nothing else."""
    if op.name not in COMBINED or len(op.results) != 1:
        return False
    (x,) = op.operands
    same = op.result.type.dtype is x.type.dtype
    return op.attrs["axes"] == (x.type.rank - 1,) and 1 < x.type.shape[-1] <= _MOST and same


def _region(x: Value, lanes: int) -> _Region | None:
    """All that is computed with a value element by element, up to reductions; None where more comes in or goes out."""
    count, todo = x.type.shape[-1], [x]
    found = _Region(count, {}, [])
    while todo:
        v = todo.pop()
        op = v.producer
        if v in found.inside:
            continue
        if v.type.shape[-1] != count or op is None or op.definition.family != "elementwise" or len(op.results) != 1:
            return None
        found.inside[v] = None
        for y in op.values():
            if _is_computed(y, v):
                todo.append(y)
            elif y.type.rank < 2 or (y.type.shape[-1] != 1 and y.type.size * lanes > v.type.size):
                return None
        for use in v.uses:
            if use.definition is not OUTPUTS and use.definition.family == "elementwise" and len(use.results) == 1:
                todo.append(use.result)
            elif use.name not in COMBINED or (v.type.rank - 1 in use.attrs["axes"] and not reduces_short_axis(use)):
                return None
            elif use not in found.ends:
                found.ends.append(use)
    return found


def _is_computed(x: Value, reader: Value) -> bool:
    """True for an operand that has the elements of the axis and is as large as what reads it."""
    op = x.producer
    return x.type.shape == reader.type.shape and op is not None and op.definition.family == "elementwise"


class _Region:
    """Values with a short last axis. ends: the reductions that read them."""

    def __init__(self, count: int, inside: dict[Value, None], ends: list[Op]) -> None:
        self.count, self.inside, self.ends = count, inside, ends
        self._made: dict[tuple[Value, int], Value] = {}

    def replace(self) -> None:
        """Reduce arrays of each element instead."""
        for op in self.ends:
            (x,) = op.operands
            parts = [self._part(x, i) for i in range(self.count)]
            if reduces_short_axis(op):
                made = reduce(partial(value, REDUCE[op.name]), parts)
            else:
                rows = [value(op.name, part, **op.attrs) for part in parts]
                made = value(
                    "concatenate",
                    *(value("reshape", row, shape=(*row.type.shape, 1)) for row in rows),
                    axis=rows[0].type.rank,
                )
            if made.type.shape != op.result.type.shape:
                made = value("reshape", made, shape=op.result.type.shape)
            insert_tree(made, op)
            op.result.replace_all_uses(made)

    def _part(self, x: Value, i: int) -> Value:
        """Element i of the axis of a value, without the axis."""
        found = self._made.get((x, i))
        if found is None:
            op = x.producer
            if x in self.inside:
                assert op is not None
                parts = (self._part(y, i) if isinstance(y, Value) else y for y in op.operands)
                found = value(op.name, *parts, **op.attrs)
            else:
                found = self._taken(x, i)
            self._made[x, i] = found
        return found

    def _taken(self, x: Value, i: int) -> Value:
        """The same of what comes from outside: of what it was reshaped from, if that has the axis too."""
        shape = x.type.shape[:-1]
        if x.type.shape[-1] == 1:
            return value("reshape", x, shape=shape)
        op = x.producer
        while op is not None and op.name == "reshape" and op.operands[0].type.shape[-1:] == (self.count,):
            (x,) = op.operands
            op = x.producer
        lead, rank = x.type.shape[:-1], x.type.rank
        part = value("slice", x, starts=(0,) * (rank - 1) + (i,), sizes=(*lead, 1), steps=(1,) * rank)
        return value("reshape", part, shape=shape)
