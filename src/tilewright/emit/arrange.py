"""Ops in the order in which people would write them: a tile is allocated where it is first used."""

from __future__ import annotations

from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.ir.walk import walk
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC, DEALLOC


def arrange(graph: Graph, addresses: bool = True) -> Graph:
    """A copy of the kernel with allocations right before their first use, without those that nothing uses; without the
    ends of lives, which NKI finds.

    addresses: False for a copy without them. Allocations stay in their region and are no instructions: what is executed
    stays the same.
    """
    made = graph.clone()
    if not addresses:
        for op in walk(made.body):
            for value in op.results:
                if isinstance(value, Buffer):
                    value.address = None
    _arrange(made.body, set(made.outputs))
    return made


def _arrange(region: Region, results: set[Value]) -> set[Value]:
    """Order one region; returns the values that it uses."""
    waiting: dict[Value, Op] = {}
    ordered: list[Op] = []
    used: set[Value] = set()
    for op in region.ops:
        if op.definition is DEALLOC:
            op.unregister()
            continue
        if op.definition is ALLOC and op.result not in results:
            waiting[op.result] = op
            continue
        needed = {*op.values()}
        for inner in op.regions:
            needed |= _arrange(inner, results)
        # In the order in which they were allocated.
        for value in [value for value in waiting if value in needed]:
            allocation = waiting.pop(value)
            allocation.location = op.location
            ordered.append(allocation)
        ordered.append(op)
        used |= needed
    for unused in waiting.values():
        unused.unregister()
    region.ops[:] = ordered
    return used
