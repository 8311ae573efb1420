"""Simplify: rules that keep the meaning and leave less to do, to a fixpoint, with common subexpressions shared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.ir.core import Graph
from tilewright.ir.rewrite import Rule, Trace, rewrite, rules_of
from tilewright.tensor.passes.simplify import (
    algebra,
    broadcasts,
    casts,
    constants,
    folding,
    indices,
    joins,
    logic,
    numbers,
    picks,
    ramps,
    recognise,
    reductions,
    shared,
    shifts,
    slices,
    sorting,
    unfolded,
    updates,
    views,
    windows,
)

EXACT: tuple[Rule, ...] = tuple(
    each
    for module in (
        *(numbers, constants, algebra, logic, casts, views, broadcasts),
        *(slices, sorting, updates, indices, picks, joins, reductions, ramps, folding, windows, shifts),
    )
    for each in rules_of(module)
    if each.exact
)
"""Rules that change no bit of a result, besides those of a NaN and the sign of a zero from NumPy's max, min and sum."""

INEXACT: tuple[Rule, ...] = (
    *rules_of(recognise),
    *(each for module in (windows, unfolded, shifts) for each in rules_of(module) if not each.exact),
)
"""Rules that change the rounding of a result, each within its `ulp`. All of them are used by default."""


def simplify(graph: Graph, rules: Sequence[Rule] = (*EXACT, *INEXACT), trace: Trace | None = None) -> Counter[str]:
    """Apply the rules and share common subexpressions until nothing changes; says how often each rule fired.

    Expects: any graph. Guarantees: the same outputs, exactly but for `INEXACT` rules; no dead ops.
    """
    fired: Counter[str] = Counter()
    while True:
        fired += rewrite(graph, rules, inexact=True, trace=trace)
        found = shared.share(graph)
        if not found:
            return fired
        fired["share"] += found
