"""When the variables of a kernel are last needed, in the order of its text."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ir.core import Graph, Op, Region, Value


def lifetimes(graph: Graph) -> tuple[Mapping[Op, int], Mapping[Value, int]]:
    """Where each op stands, and from where on each value is not used any more.

    What a loop uses from outside, it needs until its last trip ends.
    """
    at: dict[Op, int] = {}
    over: dict[Value, int] = {}

    def walk(region: Region) -> set[Value]:
        own = {*region.arguments}
        used: set[Value] = set()
        for op in region.ops:
            at[op] = len(at)
            needed = {*op.values()}
            for inner in op.regions:
                needed |= walk(inner)
                over.update(dict.fromkeys(inner.arguments, len(at)))
            over.update(dict.fromkeys(needed, len(at)))
            own.update(op.results)
            used |= needed
        return used - own

    walk(graph.body)
    over.update(dict.fromkeys(graph.output_op.values(), len(at)))
    return at, over
