"""Long axes that are reduced to a number: in lines, so that many rows share the work.

`np.exp(x).mean()` of a million numbers is one row. What leads to the reduction is computed on [lines, length] instead:
a group of ordinary rows, block by block, of which each gives a number; a second reduction takes those together.
Where rows are needed again with what they were reduced to (softmax of one row), they lie across partitions instead
(`split_rows.py`).

Sums are added up in another order.
"""

from __future__ import annotations

from math import prod

from tilewright.dtypes import float32
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import eliminate_dead_code, sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.regions.axes import COMBINED
from tilewright.lower.regions.checks import CHECKS, looks_up
from tilewright.lower.regions.even import longest_line
from tilewright.lower.tuning import TUNING
from tilewright.target import Target
from tilewright.tensor.build import insert_tree, read_instead, value


def reduce_lines_first(graph: Graph, target: Target) -> None:
    """Cut the long axes of a program that are reduced."""
    while _reduce_lines(graph, target):
        # What is in lines now may be reduced elsewhere too.
        sort_topologically(graph.body)
        eliminate_dead_code(graph)


def _reduce_lines(graph: Graph, target: Target) -> bool:
    changed = False
    for op in list(graph.ops):
        length = _length(op, target["limits.partitions"])
        if length is None:
            continue
        (x,) = op.operands
        lines = Lines(x.type.shape, length)
        made = lines.value(x)
        if _is_needed_again(op, x.type.shape) or lines.were_reduced or lines.fit(target):
            continue
        decided("rule: lines are reduced first")
        last = x.type.rank
        first = value(op.name, made, axes=(last,), keepdims=False)
        done = value(op.name, first, axes=(last - 1,), keepdims=False)
        result = value("reshape", done, shape=op.result.type.shape)
        lines.replace(op)
        insert_tree(result, op)
        op.result.replace_all_uses(result)
        changed = True
    return changed


def _length(op: Op, lanes: int) -> int | None:
    """How long the lines are of what an op reduces, the longest that leave something to do for all partitions."""
    if op.name not in COMBINED or op.attrs["axes"] != (op.operands[0].type.rank - 1,):
        return None
    (x,) = op.operands
    size, rows = x.type.shape[-1], prod(x.type.shape[:-1])
    exact = x.type.dtype in ("float32", "int32", "uint32") or op.name in ("max", "min")
    # The numbers of places are made for rows that are on one partition each: shorter axes are worth it then.
    least = lanes if _counts_places(x) else TUNING.line
    if not exact or rows >= TUNING.few_rows or size < lanes * least:
        return None
    return longest_line(size, lanes)


def _counts_places(x: Value) -> bool:
    """True for what is made, element by element, of the numbers of places."""
    seen, todo = set[Value](), [x]
    while todo:
        op = todo.pop().producer
        if op is not None and op.name == "iota":
            return True
        if op is not None and op.definition.family == "elementwise":
            todo += [y for y in op.values() if y not in seen and y.type.shape == x.type.shape]
            seen.update(todo)
    return False


def _is_needed_again(op: Op, shape: tuple[int, ...]) -> bool:
    """True where something of a shape is computed with the result of an op."""
    seen, todo = set[Op](), [op]
    while todo:
        for use in (use for result in todo.pop().results for use in result.uses if use not in seen):
            if any(result.type.shape == shape for result in use.results):
                return True
            seen.add(use)
            todo.append(use)
    return False


class Lines:
    """Values of one shape with their last axis in lines."""

    def __init__(self, shape: tuple[int, ...], length: int) -> None:
        self.shape = shape
        self.lines = (*shape[:-1], shape[-1] // length, length)
        self.made: dict[Value, Value] = {}
        self.others: list[Value] = []

    def value(self, x: Value) -> Value:
        """A value in lines."""
        todo = [x]
        while todo:
            missing = [y for y in self._operands(todo[-1]) if y not in self.made]
            if missing:
                todo += missing
            else:
                made = todo.pop()
                if made not in self.made:
                    self.made[made] = self._value(made)
        return self.made[x]

    def _operands(self, x: Value) -> list[Value]:
        """What is in lines too, for a value to be."""
        op = x.producer
        if op is None or x.type.shape != self.shape:
            return []
        if op.name == "take" and looks_up(op):
            return [op.operands[1]]
        return op.values() if op.definition.family == "elementwise" or op.name in CHECKS else []

    def _value(self, x: Value) -> Value:
        op = x.producer
        if x.type.shape != self.shape:
            self.others.append(x)
            shape = x.type.shape
            if not shape:
                return x
            lines = self.lines[-2:] if shape[-1] == self.shape[-1] else (1, *shape[-1:])
            return value("reshape", x, shape=(*shape[:-1], *lines))
        if op is not None and op.name == "reshape" and op.operands[0].type.shape == self.lines:
            return op.operands[0]
        if op is not None and self._operands(x):
            inner = self._operands(x)
            return value(op.name, *(self.made[y] if y in inner else y for y in op.operands), **op.attrs)
        return value("reshape", x, shape=self.lines)

    def fit(self, target: Target) -> bool:
        """True where whole rows may lie across all partitions, with all that is in work at a time."""
        if any(x.producer is not None and x.producer.name == "iota" for x in self.made):
            return False
        new = (made for made in self.made.values() if made.type.shape == self.lines)
        if any(made.producer is not None and made.producer.parent is not None for made in new):
            return False
        room = target["memory.sbuf_usable_bytes"] * target["limits.partitions"]
        order = list(self.made)
        last = {
            x: i for i, y in enumerate(order) for x in (y.producer.values() if y.producer else ()) if x in self.made
        }
        most = max(sum(last.get(x, i) >= i for x in order[: i + 1]) for i in range(len(order)))
        return most * prod(self.shape) * float32.itemsize <= room

    @property
    def were_reduced(self) -> bool:
        """True where something is computed with what the same rows were reduced to before."""
        seen, todo = set[Value](), list(self.others)
        while todo:
            x = todo.pop()
            if x in self.made and x.type.shape == self.shape:
                return True
            if x not in seen and x.producer is not None:
                seen.add(x)
                todo += x.producer.values()
        return False

    def replace(self, before: Op) -> None:
        """Who reads a value that was computed on the way reads it in lines."""
        for old, new in self.made.items():
            op = new.producer
            if op is not None and op.parent is None and op.name != "reshape":
                read_instead(old, new, before)
