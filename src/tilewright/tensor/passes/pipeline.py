"""The passes over tensor IR, in their order, as data; and the driver that runs them.

The graph is verified before the first pass and after each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from tilewright.ir.core import Graph
from tilewright.ir.rewrite import Rule
from tilewright.ir.verify import check
from tilewright.tensor.passes.decompose import decompose
from tilewright.tensor.passes.narrow import Narrowed, narrow
from tilewright.tensor.passes.precision import lower_precision
from tilewright.tensor.passes.quotients import exact_quotients
from tilewright.tensor.passes.remainders import short_remainders
from tilewright.tensor.passes.simplify import EXACT, recognise, shifts, simplify, unfolded, windows

RECOGNISED: tuple[Rule, ...] = (
    recognise.rsqrt,
    recognise.rsqrt_of_reciprocal,
    recognise.rsqrt_of_power,
    recognise.sigmoid,
    recognise.silu,
    recognise.silu_of_product,
    recognise.gelu,
    recognise.gelu_by_sigmoid,
    recognise.solve_of_factor,
    windows.sum_of_windows,
    windows.sum_of_weighted_windows,
    unfolded.product_of_windows,
    shifts.sum_of_shifted,
)
"""The rules that are not exact and yet used: each replaces a formula by a function that is rounded once, or adds up
in another order."""

COMPOSED: tuple[Rule, ...] = (recognise.silu, recognise.silu_of_product)
"""Those of them that make ops that are not primitive: what is decomposed stays so."""

Dump = Callable[[str, Graph, float], None]
"""Called after each pass with its name, the graph and the seconds it took."""


@dataclass(slots=True)
class Ran:
    """What the passes gave: the graph, what was narrowed, how often each rule fired, and seconds by pass.

    simplified: a copy of the graph before it was decomposed, for what is asked of the program and not of its parts.
    precision: how products of float32 are to be computed (`passes.precision.PRECISIONS`).
    """

    graph: Graph
    narrowed: Narrowed | None = None
    simplified: Graph | None = None
    precision: str = "float32"
    fired: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass: its name, the function that takes `Ran.graph` on, what it expects and what it guarantees."""

    name: str
    step: Callable[[Ran], None]
    expects: str
    guarantees: str


def _narrow(ran: Ran) -> None:
    ran.narrowed = narrow(ran.graph)
    ran.graph = ran.narrowed.graph


def _simplify(ran: Ran) -> None:
    ran.fired += simplify(ran.graph, (*EXACT, *RECOGNISED))


def _tidy(ran: Ran) -> None:
    ran.fired += simplify(ran.graph, (*EXACT, *(r for r in RECOGNISED if r not in COMPOSED)))


def _decompose(ran: Ran) -> None:
    ran.simplified = ran.graph.clone()
    ran.fired += exact_quotients(ran.graph)
    ran.fired += short_remainders(ran.graph)
    ran.fired += decompose(ran.graph)


def _lower_precision(ran: Ran) -> None:
    ran.fired += lower_precision(ran.graph, ran.precision)


PASSES: tuple[Pass, ...] = (
    Pass("narrow", _narrow, "any graph", "element types of at most 32 bits; the graph given is left as it is"),
    Pass("simplify", _simplify, "any graph", "the same outputs, within the ulp of RECOGNISED; no dead ops"),
    Pass("decompose", _decompose, "element types of at most 32 bits", "primitive ops only"),
    Pass("precision", _lower_precision, "primitive ops only", "products of float32 as they were asked for"),
    Pass("tidy", _tidy, "any graph", "simplify once more: primitive ops stay primitive"),
)
"""In order. The names are those of `--stop-after`."""


def run(graph: Graph, stop_after: str | None = None, dump: Dump | None = None, precision: str = "float32") -> Ran:
    """Run the passes to the one named `stop_after`, or to the end. The graph given is not changed."""
    assert stop_after is None or stop_after in {p.name for p in PASSES}, f"there is no pass {stop_after}"
    ran = Ran(graph, precision=precision)
    check(graph)
    for each in PASSES:
        start = perf_counter()
        each.step(ran)
        check(ran.graph)
        ran.seconds[each.name] = perf_counter() - start
        if dump is not None:
            dump(each.name, ran.graph, ran.seconds[each.name])
        if each.name == stop_after:
            break
    return ran
