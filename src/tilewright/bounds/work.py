"""What a program's passes take of the Vector, Scalar and GpSimd engines together.

Each pass may go to any engine that has it, the Tensor engine included where a product does the same; the best split of
all passes over the engines counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.bounds.facts import Analysis
from tilewright.bounds.groups import Groups
from tilewright.bounds.passes import Pass, Passes
from tilewright.bounds.rates import Rates, function, one_input, reduction, scan, through_tensor_engine, two_inputs
from tilewright.tile.alu import ACTIVATIONS

ENGINES = ("vector", "scalar", "gpsimd", "tensor")
_STEPS = 24
"""Into so many parts prices are divided when the best split is looked for."""


_OF_TWO = ("two_inputs", "contracted", "sum")
"""Forms of passes over two arrays."""


def _shares(parts: int, engines: int) -> list[tuple[int, ...]]:
    """All ways to divide so many parts among so many engines."""
    if engines == 1:
        return [(parts,)]
    return [(first, *rest) for first in range(parts + 1) for rest in _shares(parts - first, engines - 1)]


_PRICES = np.array(_shares(_STEPS, len(ENGINES))) / _STEPS


@dataclass(frozen=True, slots=True)
class Work:
    """least_ns: of the best split. prices: by engine, where it is seen to be least. sum_ns: each pass at its best."""

    least_ns: float
    prices: Mapping[str, float]
    sum_ns: float

    def paid(self, spent: Mapping[str, float]) -> float:
        """The time that engines spent, at the prices."""
        return sum(price * spent.get(engine, 0.0) for engine, price in self.prices.items())


def least_work(analysis: Analysis, passes: Passes, rates: Rates) -> Work:
    """The least work of all passes of a program."""
    groups = Groups(analysis)
    # Less than an instruction takes besides. A column of each partition is an operand of any engine's instructions: of
    # a few of them, the Scalar engine does what two whole arrays need another one for.
    few = rates.target["limits.partitions"] * rates.target["vector.overhead_cycles.other"]
    for op in analysis.graph.ops:
        found = passes.pass_of(op)
        if found is not None and (found.form not in _OF_TWO or passes.elements(op) > few):
            groups.add(op, passes.elements(op), found)
    return _best(groups.sums(), rates)


def _times(each: Pass, rates: Rates) -> dict[str, float]:
    """ns of an element by engine."""
    through = ("through", through_tensor_engine())
    probes = {
        "function": lambda: function(each.op) if each.op in ACTIVATIONS else one_input(),
        "one_input": one_input,
        "two_inputs": lambda: two_inputs("multiply"),
        "contracted": lambda: two_inputs("multiply"),
        "sum": lambda: two_inputs("add"),
        "reduction": lambda: reduction(each.op),
        "scan": lambda: scan(each.op),
    }[each.form]()
    found = dict(rates.per_element(each[:2], probes, each.wide))
    if each.form in ("contracted", "sum") or each[:2] == ("scan", "add"):
        found |= rates.per_element(*through, each.wide)
    return found


def _best(elements: Mapping[Pass, float], rates: Rates) -> Work:
    """The least time in which the engines can do all passes together: that of the prices at which it costs most.

    Whatever an engine's hour costs, a split that takes T on each costs T at most where the prices add up to 1; and
    no split costs less than each pass where it is cheapest. So every choice of prices gives a bound.
    """
    if not elements:
        return Work(0.0, {}, 0.0)
    table = np.full((len(elements), len(ENGINES)), np.inf)
    for row, (each, count) in enumerate(elements.items()):
        for engine, ns in _times(each, rates).items():
            table[row, ENGINES.index(engine)] = ns * count
    with np.errstate(invalid="ignore"):
        costs = np.where(np.isinf(table), np.inf, table * _PRICES[:, None, :]).min(axis=2).sum(axis=1)
    best = int(costs.argmax())
    chosen = {engine: float(price) for engine, price in zip(ENGINES, _PRICES[best], strict=True) if price}
    return Work(float(costs[best]), chosen, float(table.min(axis=1).sum()))
