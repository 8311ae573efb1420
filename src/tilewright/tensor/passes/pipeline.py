"""The passes over tensor IR, in their order, as data; and the driver that runs them.

The graph is verified before the first pass and after each. `stop_after` ends with a pass; `dump` is called with the
name and the graph after each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from tilewright.ir.core import Graph
from tilewright.ir.verify import check
from tilewright.tensor.passes.decompose import decompose
from tilewright.tensor.passes.simplify import EXACT, INEXACT, simplify

Dump = Callable[[str, Graph], None]


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass: its name, the function that changes a graph, what it expects and what it guarantees."""

    name: str
    run: Callable[[Graph], Any]
    expects: str
    guarantees: str


DEFAULT_RULES = (*EXACT, *INEXACT)
"""What `simplify` uses unless told otherwise: the recognition of rsqrt, sigmoid, silu and gelu, too, which are not
exact but no less accurate than the formulas they replace."""

PASSES: tuple[Pass, ...] = (
    Pass("simplify", lambda graph: simplify(graph, DEFAULT_RULES), "any graph", "the same outputs, no dead ops"),
    Pass("decompose", decompose, "element types of at most 32 bits", "primitive ops only"),
    Pass("tidy", lambda graph: simplify(graph, DEFAULT_RULES), "any graph", "the same outputs, no dead ops"),
)
"""In order. The names are those of `--stop-after`."""


@dataclass(slots=True)
class Ran:
    """What running the passes gave: what each pass returned, and its time in seconds."""

    results: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def run(graph: Graph, stop_after: str | None = None, dump: Dump | None = None) -> Ran:
    """Run the passes on a graph, in place, to the one named `stop_after` or to the end."""
    assert stop_after is None or stop_after in {p.name for p in PASSES}, f"there is no pass {stop_after}"
    ran = Ran()
    check(graph)
    for each in PASSES:
        start = perf_counter()
        ran.results[each.name] = each.run(graph)
        check(graph)
        ran.seconds[each.name] = perf_counter() - start
        if dump is not None:
            dump(each.name, graph)
        if each.name == stop_after:
            break
    return ran
