"""What a program asks of its target, before anything is lowered: element types, and room in HBM."""

from __future__ import annotations

from tilewright.errors import Location, fail
from tilewright.ir.core import Graph, Value
from tilewright.ir.walk import walk
from tilewright.rules import Reporter
from tilewright.target import Target
from tilewright.tile.common import missing_dtype
from tilewright.tile.memory import IN_PARTS, hbm_fault


def check_program(graph: Graph, target: Target, profile: str) -> None:
    """Refuse a program in tensor IR with element types that the target does not have, or arrays that it cannot hold."""
    _check_dtypes(graph, target, Reporter(profile))
    # 64-bit types are narrowed to 32 bits.
    sizes = [x.type.size * min(x.type.dtype.itemsize, 4) for x in {*graph.inputs, *graph.outputs}]
    fault = hbm_fault(sum(sizes), target)
    if fault is not None:
        raise fail("E303", f"the arrays of {graph.name} {fault}", hint=IN_PARTS, location=graph.location)


def _check_dtypes(graph: Graph, target: Target, reporter: Reporter) -> None:
    missing = target["dtypes.missing"]
    found: list[tuple[str, Value, Location | None]] = [(f"argument {x.name}", x, graph.location) for x in graph.inputs]
    found += [(f"the result of {op.name}", x, op.location) for op in walk(graph) for x in op.results]
    for what, value, location in found:
        if value.type.dtype in missing:
            message, hint = missing_dtype(what, value.type.dtype, target)
            reporter.violate("R-tensor.dtype-01", message, hint=hint, location=location)
