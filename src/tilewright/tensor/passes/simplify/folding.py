"""Computing at compile time what is made of constants alone."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright.tensor.ops  # noqa: F401  (fills the table)
from tilewright.ir.core import Op, Value
from tilewright.ir.dense import Dense
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import make
from tilewright.tensor.interpret import run_op
from tilewright.tensor.record import TABLE

FOLDED_BYTES = 2**12
"""Results of constants are computed up to this size, or up to the size of the constants they are made of."""

FOLDED_ELEMENTS = 1
"""What a rule describes (a ramp, a band) costs no memory: it is written out up to so many elements only."""

_FAMILIES = ("elementwise", "shape", "reduction", "scan", "contraction")
_FOLDED = tuple(r.name for r in TABLE.values() if r.family in _FAMILIES)
_DESCRIBED = ("full", "iota", "band")


@rule(*_FOLDED)
def fold(op: Op) -> Any:
    """f(constants) -> constant        of bounded size"""
    arrays = [x for x in op.operands if isinstance(x, Value)]
    makers = [x.producer for x in arrays if x.producer is not None]
    if len(op.results) != 1 or not arrays or len(makers) != len(arrays) or not all(map(_is_constant, makers)):
        return None
    type = op.result.type
    if any(m.name in ("iota", "band") for m in makers):
        small = type.size <= FOLDED_ELEMENTS
    else:
        small = type.nbytes <= max(FOLDED_BYTES, sum(m.result.type.nbytes for m in makers if m.name == "constant"))
    # What is described may be far larger than what becomes of it.
    large = any(m.name != "constant" and m.result.type.size > max(type.size, FOLDED_BYTES) for m in makers)
    if not small or large:
        return None
    with np.errstate(all="ignore"):
        (found,) = run_op(op, {m.result: run_op(m, {})[0] for m in makers})
    return make("constant", value=Dense(found, type.dtype))


def _is_constant(op: Op) -> bool:
    return op.name == "constant" or op.name in _DESCRIBED
