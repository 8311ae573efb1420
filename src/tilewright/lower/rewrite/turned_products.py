"""Products of few rows that follow each other, with their columns on partitions: x @ w is (w.T @ x.T).T.

The left operand of a product needs the contracted dim on partitions. Where it is computed, as the state of a recurrent
network is at each step, it has to be turned each time, and a few rows leave most partitions idle. With the last dim of
every value first, what one product gives is what the next one needs, weights are left operands as they lie in memory,
and what is computed between the products has all partitions.

A region is such products with all that is computed around them. What it reads comes turned, and what is read of it
elsewhere is turned back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tilewright.ir.core import OUTPUTS, Graph, Op, Value
from tilewright.ir.walk import eliminate_dead_code, sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.regions.axes import COMBINED
from tilewright.lower.rewrite.by_rows import moved, shaped, write_anew
from tilewright.lower.write.homes import is_view
from tilewright.target import Target
from tilewright.tensor.build import value
from tilewright.tensor.passes.simplify import EXACT, simplify


def turn_products(graph: Graph, target: Target) -> Graph | None:
    """A copy of a program with such regions turned; None where there is none."""
    made = graph.clone()
    region = _region(made, target["limits.partitions"])
    if not region:
        return None
    decided("rule: turned products")
    _Turner(region).run(made)
    sort_topologically(made.body)
    eliminate_dead_code(made)
    simplify(made, EXACT)
    return made


# What is turned.


def _region(graph: Graph, lanes: int) -> set[Op]:
    """Products of few rows whose left operands are computed, what is made of them, and what is made only for that."""
    ops = [op for op in graph.ops if _is_able(op)]
    region = {op for op in ops if op.name == "matmul" and _is_idle(op, lanes) and _is_computed(op.operands[0])}
    if not region:
        return region
    for op in ops:
        is_reader = any(x.producer in region for x in op.values())
        if is_reader and (op.name != "matmul" or (op.operands[0].producer in region and _is_idle(op, lanes))):
            region.add(op)
    for op in reversed(ops):
        if op not in region and op.result.uses and all(_takes_turned(use, op.result, region) for use in op.result.uses):
            # Views of what is not computed are left as they are.
            if not is_view(op) or _is_computed(op.result):
                region.add(op)
    return region


def _takes_turned(use: Op, x: Value, region: set[Op]) -> bool:
    """True for an op of the region that reads a value turned: right operands are no rows of it."""
    return use in region and (use.name != "matmul" or use.operands[1] is not x)


def _is_idle(op: Op, lanes: int) -> bool:
    """True for a product that leaves partitions idle, and fewer with its columns on them."""
    rows, columns = op.result.type.shape[-2:]
    return rows < min(lanes, columns)


def _is_computed(x: Value) -> bool:
    """True for what is no view of an input or of a constant."""
    op = x.producer
    while op is not None and is_view(op):
        op = op.operands[0].producer
    return op is not None and op.definition.family != "creation"


def _is_able(op: Op) -> bool:
    """True for an op that can be written with the last dim first."""
    if op.definition is OUTPUTS or len(op.results) != 1 or not op.result.type.rank or not op.result.type.size:
        return False
    if op.definition.family == "elementwise":
        return True
    able = _ABLE.get(op.name)
    return able is not None and able(op)


def _keeps_last(op: Op) -> bool:
    return op.operands[0].type.shape[-1:] == op.result.type.shape[-1:]


def _has_turned_last(op: Op) -> bool:
    return op.attrs["perm"][-1] == op.result.type.rank - 1


def _has_one_right(op: Op) -> bool:
    x, y = op.operands
    return y.type.rank == 2 and x.type.rank >= 2


def _leaves_last(op: Op) -> bool:
    return op.attrs["keepdims"] or op.operands[0].type.rank - 1 not in op.attrs["axes"]


_ABLE: dict[str, Callable[[Op], bool]] = {
    "matmul": _has_one_right,
    "reshape": _keeps_last,
    "transpose": _has_turned_last,
    **dict.fromkeys(("slice", "concatenate", "broadcast_to"), lambda op: True),
    **dict.fromkeys(COMBINED, _leaves_last),
}


# Turning.


class _Turner:
    """Writes the ops of a region anew, with the last dim of each value first."""

    def __init__(self, region: set[Op]) -> None:
        self.region = region
        self.new: dict[Value, Value] = {}

    def run(self, graph: Graph) -> None:
        """Put the new ops beside the old ones, which nothing reads any more."""
        region = self.region
        write_anew(graph, region, self.new, self._op, self._back, lambda use, x: _takes_turned(use, x, region))

    @staticmethod
    def _back(made: Value, old: Value) -> Value:
        """A value as it was, for who reads it so."""
        found = moved(made, (*range(1, made.type.rank), 0))
        found.name = old.name
        return found

    def _turned(self, x: Value) -> Value:
        """A value with its last dim first."""
        found = self.new.get(x)
        if found is None:
            rank, maker = x.type.rank, x.producer
            if maker is not None and maker.name == "full":
                found = value("full", **{**maker.attrs, "shape": _rotated(x.type.shape)})
            else:
                found = moved(x, (rank - 1, *range(rank - 1)))
            found.name = x.name
            self.new[x] = found
        return found

    def _op(self, op: Op) -> Value:
        if op.name == "matmul":
            return self._product(op)
        attrs, rank = dict(op.attrs), op.result.type.rank
        if op.definition.family == "elementwise" or op.name == "broadcast_to":
            if "shape" in attrs:
                attrs["shape"] = _rotated(attrs["shape"])
            return value(op.name, *[self._as_operand(x, rank) for x in op.operands], **attrs)
        operands = [self._turned(x) for x in op.values()]
        if op.name == "reshape":
            return shaped(operands[0], _rotated(attrs["shape"]))
        if op.name == "transpose":
            return moved(operands[0], (0, *(d + 1 for d in attrs["perm"][:-1])))
        for name in ("starts", "sizes", "steps"):
            if name in attrs:
                attrs[name] = _rotated(attrs[name])
        own = op.operands[0].type.rank
        if "axis" in attrs:
            attrs["axis"] = (attrs["axis"] + 1) % own
        if "axes" in attrs:
            attrs["axes"] = tuple((d + 1) % own for d in attrs["axes"])
        return value(op.name, *operands, **attrs)

    def _as_operand(self, x: Any, rank: int) -> Any:
        """An operand of an elementwise op: dims are counted from the last one, which is first now."""
        if not isinstance(x, Value) or not x.type.rank:
            return x
        made = self._turned(x)
        ones = (1 for _ in range(rank - x.type.rank))
        return shaped(made, (made.type.shape[0], *ones, *made.type.shape[1:]))

    def _product(self, op: Op) -> Value:
        """x @ y as y.T @ x.T, all rows of x as columns."""
        x, y = op.operands
        moving = self._turned(x)
        moving = shaped(moving, (moving.type.shape[0], prod(moving.type.shape[1:])))
        made = value(op.name, moved(y, (1, 0)), moving)
        return shaped(made, _rotated(op.result.type.shape))


def _rotated(dims: Sequence[int]) -> tuple[int, ...]:
    """The last one first."""
    return (dims[-1], *dims[:-1])
