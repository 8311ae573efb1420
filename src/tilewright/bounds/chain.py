"""The longest chain of ops that depend on each other, each at the least latency of an instruction that does it.

A run of sums and products of numbers or of matrices may be one scan, or be added up in another order: however long, it
counts once, as long as nothing stands in it that is not linear. Functions count each. What instructions do on the way
counts nothing. A chain begins with a load and ends with a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.bounds.facts import Analysis, record_of
from tilewright.bounds.moves import MOVES
from tilewright.bounds.needed import Needs
from tilewright.bounds.operands import ROWS
from tilewright.bounds.passes import FUNCTIONS, Passes
from tilewright.bounds.products import PRODUCTS
from tilewright.bounds.rates import Rates, function, one_input, through_tensor_engine, two_inputs
from tilewright.ir.core import Op, Value
from tilewright.tile.alu import ACTIVATIONS

_LINEAR = frozenset({"add", "subtract", "multiply", "divide", "negative", "sum", "cumsum", "cumprod", "prod"})


class Reach(NamedTuple):
    """When a value can be there, in ns after its first load: `begin` is when its run of linear ops began, `step` what
    the run takes. computed: an engine made it."""

    begin: float
    step: float
    at: float
    computed: bool


def chain_ns(analysis: Analysis, outputs: Sequence[Value], needs: Needs, passes: Passes, rates: Rates) -> float:
    """The least time from the first load to the last store."""
    known: dict[Value, Reach] = {value: Reach(0.0, 0.0, 0.0, False) for value in analysis.graph.inputs}
    for op in analysis.graph.ops:
        if not any(needs.of(value).count for value in op.results):
            continue
        operands = [known[x] for x in op.operands if isinstance(x, Value) and x in known]
        if operands:
            moved = op.name in MOVES or (op.name in ROWS and op.operands[1] not in known)
            found = _moved(operands) if moved else _reached(op, operands, passes, rates)
            known.update((value, found) for value in op.results)
    ends = [known[value] for value in outputs if value in known]
    computed = [end.at for end in ends if end.computed]
    store = rates.transfer_ns(loads=False) if outputs else 0.0
    # What is only moved is one transfer, what is computed is loaded first.
    return store + (rates.transfer_ns(loads=True) + max(computed) if computed else 0.0)


def _moved(operands: list[Reach]) -> Reach:
    last = max(operands, key=lambda each: each.at)
    begin, computed = max(each.begin for each in operands), any(each.computed for each in operands)
    return Reach(begin, last.step, last.at, computed)


def _reached(op: Op, operands: list[Reach], passes: Passes, rates: Rates) -> Reach:
    at = max(each.at for each in operands)
    if op.name in FUNCTIONS:
        named = op.name in ACTIVATIONS
        probes = function(op.name) if named else one_input()
        at += rates.latency(op.name if named else "one_input", probes)
        return Reach(at, 0.0, at, True)
    linear = op.name in PRODUCTS or op.name in _LINEAR
    if not linear:
        return Reach(at, 0.0, at, True)
    begin = max(each.begin for each in operands)
    step = max(max(each.step for each in operands), _step(op, passes, rates))
    return Reach(begin, step, max(at, begin + step), True)


def _step(op: Op, passes: Passes, rates: Rates) -> float:
    """The least latency of one op of a linear run; 0 for one that is done on the way."""
    if op.name in PRODUCTS:
        return rates.latency("product", through_tensor_engine())
    if record_of(op).family == "elementwise" and passes.pass_of(op) is not None:
        return rates.latency("two_inputs", two_inputs("multiply"))
    return 0.0
