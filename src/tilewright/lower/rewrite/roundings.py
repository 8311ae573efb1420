"""The nearest whole number, by what is known of the number and of who reads it.

2**23 added and taken off again rounds to a whole number: there neighbouring float32 numbers differ by 1. Half as much
again serves numbers of either sign up to 2**22, and makes 0.0 of what is rounded to -0.0, which hardly any program that
computes with it can tell. Larger numbers are taken from integers, to which engines round, as far as they are not whole
anyway.
"""

from __future__ import annotations

from tilewright.dtypes import float32, int32
from tilewright.ir.core import Graph, Op, Value
from tilewright.lower.decisions import decided
from tilewright.lower.rewrite.zeros import told_signs
from tilewright.tensor.build import insert_tree, value
from tilewright.tensor.passes.decompose.rounding import MIDDLE, WHOLE
from tilewright.tensor.ranges import range_of


def write_roundings(graph: Graph) -> None:
    """Replace every `rint`."""
    ops = [op for op in graph.ops if op.name == "rint"]
    told = told_signs(graph) | _returned(graph) if ops else set[Value]()
    for op in ops:
        made = _rounded(op, op.result in told)
        insert_tree(made, op)
        op.result.replace_all_uses(made)
        op.erase()


def _returned(graph: Graph) -> set[Value]:
    """What is returned as it was rounded: its zeros have the signs that NumPy's have."""
    found = set(graph.outputs)
    for op in reversed(graph.ops):
        if len(op.results) == 1 and op.result in found:
            same = op.definition.family == "shape" or op.name in ("negative", "cast")
            found.update(op.values() if same else op.values()[:1] if op.name == "subtract" else ())
    return found


def _rounded(op: Op, is_told: bool) -> Value:
    (x,) = op.operands
    wide = x if x.type.dtype is float32 else value("cast", x, dtype=float32)
    if is_told:
        made = _signed(wide)
    elif range_of(x).is_inside(-WHOLE / 2, WHOLE / 2):
        decided("rule: small numbers are rounded in one step")
        made = value("subtract", value("add", wide, MIDDLE), MIDDLE)
    else:
        whole = value("cast", value("nearest", wide, dtype=int32), dtype=float32)
        made = value("where", _has_fraction(wide), whole, wide)
    return made if wide is x else value("cast", made, dtype=x.type.dtype)


def _has_fraction(x: Value) -> Value:
    """Whether a number may have one: from 2**23 on all are whole, infinities too, and NaN stays what it is."""
    return value("less", value("abs", x), WHOLE)


def _signed(x: Value) -> Value:
    """Its size rounded, with its sign: zeros keep theirs."""
    size = value("abs", x)
    whole = value("bitcast", value("subtract", value("add", size, WHOLE), WHOLE), dtype=int32)
    sign = value("bitwise_and", value("bitcast", x, dtype=int32), int32.min)
    made = value("bitcast", value("bitwise_or", whole, sign), dtype=float32)
    return value("where", value("less", size, WHOLE), made, x)
