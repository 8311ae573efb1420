"""Phases: loops over one tensor in HBM that follow each other, as a compiler that orders accesses by tensor runs them.

A line that reads a tensor after some other line has written the last of it waits for all that this line wrote, not only
for the elements that it reads. Lines that take turns (a loop that loads a tile and stores another) are one phase, and
wait for elements as everywhere.
"""

from __future__ import annotations

from collections.abc import Hashable

from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.tile.record import Record
from tilewright.tile.view import View
from tilewright.timing.node import Users

Site = tuple[Hashable, Value]
"""A source line, and a tensor that it reads or writes."""


class Phases:
    """For each site of a kernel: whose writes it waits for, and where its own are collected."""

    def __init__(self, graph: Graph, ordered: set[Value]) -> None:
        self._spans: dict[bool, dict[Site, tuple[int, int]]] = {False: {}, True: {}}
        self._writers: dict[Value, dict[Hashable, Users]] = {}
        for position, op in enumerate(graph.body.ops):
            # All of a loop stands at one position: what is in it takes turns.
            for inner in _nested(op):
                self._note(inner, position, ordered)

    def _note(self, op: Op, position: int, ordered: set[Value]) -> None:
        for buffer, writes in _outside(op):
            if buffer in ordered:
                site = (op.location, buffer)
                first, _ = self._spans[writes].get(site, (position, position))
                self._spans[writes][site] = (first, position)
                if writes:
                    self._writers.setdefault(buffer, {}).setdefault(op.location, Users())

    def of(self, op: Op) -> tuple[tuple[Users, ...], tuple[Users, ...]]:
        """All writes that an op waits for, and those that it belongs to itself."""
        after: list[Users] = []
        joins: list[Users] = []
        for buffer, writes in _outside(op):
            writers = self._writers.get(buffer, {})
            if writes and op.location in writers:
                joins.append(writers[op.location])
            span = self._spans[False].get((op.location, buffer)) if not writes else None
            if span is not None:
                written = self._spans[True]
                after += [users for line, users in writers.items() if written[line, buffer][1] < span[0]]
        return tuple(after), tuple(joins)


def _outside(op: Op) -> list[tuple[Value, bool]]:
    """The tensors in HBM that an op accesses, and whether it writes them."""
    record = op.definition
    if not isinstance(record, Record):
        return []
    written = set(record.written)
    return [
        (view.buffer, position in written)
        for position, view in enumerate(op.operands)
        if isinstance(view, View) and not view.on_chip
    ]


def _nested(op: Op) -> list[Op]:
    found = [op]
    regions: list[Region] = list(op.regions)
    while regions:
        for inner in regions.pop().ops:
            found.append(inner)
            regions += inner.regions
    return found
