"""Lifetimes in tile IR: free each on-chip buffer right after its last use."""

from __future__ import annotations

from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC, DEALLOC
from tilewright.tile.view import whole


def insert_deallocs(graph: Graph) -> None:
    """Expects a kernel without dealloc; guarantees one per on-chip allocation, in the allocation's own region.

    A buffer used inside a loop that stands in its region is freed after the loop: the next trip may use it again.
    """
    _region(graph.body, set(graph.outputs))


def _region(region: Region, kept: set[Value]) -> None:
    buffers = [op.result for op in region.ops if op.definition is ALLOC]
    last: dict[Value, Op] = {}
    for op in region.ops:
        for value in _used(op):
            last[value] = op
        for inner in op.regions:
            _region(inner, kept)
    for buffer in buffers:
        assert isinstance(buffer, Buffer)
        if not buffer.on_chip or buffer in kept:
            continue
        anchor = last.get(buffer, buffer.producer)
        assert anchor is not None
        region.insert_after(anchor, Op(DEALLOC, (whole(buffer),), location=anchor.location))


def _used(op: Op) -> list[Value]:
    found = list(op.values())
    for region in op.regions:
        for inner in region.ops:
            found += _used(inner)
    return found
