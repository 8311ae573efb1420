"""Scans over steps, and what they are made of and is made of them element by element, with time as the last dim.

Each element of the state is a line of its own then, and a line is what the Vector engine scans.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import sort_topologically
from tilewright.lower.regions.axes import COMBINED
from tilewright.tensor.build import insert_tree, value
from tilewright.tensor.ranges import DEPTH


def lay_time_last(graph: Graph) -> None:
    """Lay scans over the first dim, and what they are made of and is made of them element by element, by lines."""
    scans = [op for op in graph.ops if op.name == "recurrence" and op.attrs["axis"] == 0 and op.result.type.rank > 1]
    if not scans:
        return
    turned = _Turned()
    for op in list(graph.ops):
        if op in scans:
            attrs = {**op.attrs, "axis": op.result.type.rank - 1}
            made = value(op.name, *(turned.of(each) for each in op.operands), **attrs)
        elif any(x in turned.known for x in op.values()) and op.results[0] not in turned.known:
            made = turned.followed(op)
        else:
            continue
        if made is not None:
            assert made.producer is not None
            made.producer.location = op.location
            turned.known[op.result] = made
    for old, new in turned.known.items():
        anchor = old.producer
        assert anchor is not None
        insert_tree(new, anchor)
        left = [use for use in old.uses if not (len(use.results) == 1 and use.result in turned.known)]
        if left:
            back = value("transpose", new, perm=(new.type.rank - 1, *range(new.type.rank - 1)))
            back.name = old.name
            insert_tree(back, anchor)
            old.replace_all_uses(back)
    sort_topologically(graph.body)


class _Turned:
    """Values whose first dim is the last one."""

    def __init__(self) -> None:
        self.known: dict[Value, Value] = {}
        """Those that take the place of others."""
        self.made: dict[Value, Value] = {}
        """Those that are made beside others."""
        self.depth = 0

    def of(self, x: Value) -> Value:
        """A value with its first dim last: made of what is, where it is computed element by element."""
        found = self.known.get(x) or self.made.get(x)
        if found is None:
            self.depth += 1
            copied = self._copied(x) if self.depth < DEPTH else None
            self.depth -= 1
            found = self.made[x] = copied or value("transpose", x, perm=(*range(1, x.type.rank), 0))
        return found

    def _copied(self, x: Value) -> Value | None:
        op = x.producer
        if op is None or len(op.results) != 1:
            return None
        shape = (*x.type.shape[1:], x.type.shape[0])
        if op.name == "full":
            return value("full", **{**op.attrs, "shape": shape})
        if op.name == "broadcast_to":
            (inner,) = op.operands
            return value("broadcast_to", self.aligned(inner, x.type.rank), shape=shape)
        if op.name == "reshape" and op.operands[0].type.shape[:1] == x.type.shape[:1]:
            return value("reshape", self.of(op.operands[0]), shape=shape)
        if op.name == "concatenate" and op.attrs["axis"] == 0:
            return value("concatenate", *(self.of(each) for each in op.operands), axis=x.type.rank - 1)
        if op.definition.family == "elementwise":
            return value(op.name, *(self.aligned(each, x.type.rank) for each in op.operands), **op.attrs)
        return None

    def aligned(self, x: Any, rank: int) -> Any:
        """An operand of an op whose result has so many dims."""
        if not isinstance(x, Value):
            return x
        return self.of(x) if x.type.rank == rank else value("reshape", x, shape=(*x.type.shape, 1))

    def followed(self, op: Op) -> Value | None:
        """What an op makes of operands that were turned, where it leaves their lines as they are."""
        if len(op.results) != 1:
            return None
        result, x = op.result.type, op.operands[0]
        if op.definition.family == "elementwise":
            lines = {(each.type.rank, each.type.shape[0]) for each in op.values() if each in self.known}
            if lines == {(result.rank, result.shape[0])}:
                return value(op.name, *(self.aligned(each, result.rank) for each in op.operands), **op.attrs)
        elif op.name in COMBINED and 0 not in op.attrs["axes"]:
            return value(op.name, self.of(x), **{**op.attrs, "axes": tuple(a - 1 for a in op.attrs["axes"])})
        elif op.name == "reshape" and result.rank > 1 and result.shape[0] == x.type.shape[0]:
            return value("reshape", self.of(x), shape=(*result.shape[1:], result.shape[0]))
        return None
