"""Decompose: every op that lowering does not take becomes ops that it does take."""

from __future__ import annotations

from collections import Counter
from functools import cache

from tilewright.ir.core import Graph
from tilewright.ir.rewrite import Rule, Trace, rewrite, rules_of
from tilewright.ir.walk import walk
from tilewright.tensor.passes import expand_index, expand_linalg, expand_windows
from tilewright.tensor.passes.decompose import (
    bits,
    division,
    divisor,
    exponential,
    integers,
    power,
    reductions,
    rounding,
    trigonometry,
)
from tilewright.tensor.passes.simplify.sorting import partition_in_order
from tilewright.tensor.record import TABLE

RULES: tuple[Rule, ...] = (
    *(
        each
        for module in (
            *(rounding, division, integers, divisor, power, exponential, trigonometry),
            *(bits, reductions, expand_index, expand_linalg, expand_windows),
        )
        for each in rules_of(module)
    ),
    partition_in_order,
)
"""Every decomposition. Where several take the same op the first that applies is used."""


@cache
def _usable() -> tuple[Rule, ...]:
    """Rules for ops that are not primitive."""
    return tuple(r for r in RULES if not any(TABLE[name].primitive for name in r.ops))


def decompose(graph: Graph, trace: Trace | None = None) -> Counter[str]:
    """Replace what is not primitive, until only primitive ops are left; says how often each rule fired.

    Expects: element types of at most 32 bits. Guarantees: every op is primitive (`OpRecord.primitive`).
    """
    fired = rewrite(graph, _usable(), inexact=True, trace=trace)
    left = sorted({op.name for op in walk(graph) if not op.definition.primitive})
    assert not left, f"ops without a decomposition: {', '.join(left)}"
    return fired


def is_decomposed(graph: Graph) -> bool:
    """Whether every op is one that lowering takes."""
    return all(op.definition.primitive for op in walk(graph))
