"""Quotients whose last digit shows: those that are made whole or compared become `quotient`, rounded as NumPy's are.

Engines multiply by the inverse, which is a digit off now and then: 28 / 7 is more than 4. As a result that is rounding;
but np.floor(x / 7), np.round(x / scale) and x > x.mean() make a whole number or a truth value of it. What is made whole
is exact, as many numbers lie next to a border, unless products of matrices of floats are all that is made of it: there
one more or less is lost among the others. Two numbers are seldom equal, but for whole ones, sums of them and their
like: what is compared is exact where no function lies before it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.rewrite import Rule, rewrite
from tilewright.ir.walk import walk
from tilewright.tensor.build import value
from tilewright.tensor.ops.elementwise import COMPARE
from tilewright.tensor.passes.match import is_number

_WHOLE = frozenset({"floor", "ceil", "trunc", "rint", "nearest", "floor_divide", "mod", "fmod"})
_SUMS = frozenset({"add", "subtract"})
_PRODUCTS = frozenset({"multiply", "divide", "negative", "abs", "square"})
_MOVES = frozenset({"maximum", "minimum", "relu", "where", "cast", "max", "min", "take", "take_along_axis", "put_rows"})
_EXACT = frozenset({*_WHOLE, *COMPARE, *_SUMS, *_MOVES, *_PRODUCTS, "sum", "any", "all", "cumsum", "sort"} - {"divide"})
"""Ops that give whole numbers of whole ones."""


def exact_quotients(graph: Graph) -> Counter[str]:
    """Make `quotient` of every `divide` whose last digit shows; says how often."""
    found = _shown(graph)

    def replace(op: Op) -> Any:
        return value("quotient", *op.operands) if op in found else None

    equation = "x / y -> quotient(x, y)        where the last digit shows"
    return rewrite(graph, [Rule("exact_quotient", ("divide",), replace, equation)])


def _shown(graph: Graph) -> set[Op]:
    whole, compared, signed = set[Value](), set[Value](), set[Value]()
    ops = list(walk(graph))
    seen = _seen(graph, ops)
    for op in reversed(ops):
        if op.name in _WHOLE or (op.name == "cast" and not _is_float(op.result)):
            whole.update(op.values() if op.result in seen else ())
        elif op.name == "sign" or (op.name in COMPARE and is_number(op.operands[1], 0)):
            signed.update(op.values())
        elif op.name in COMPARE:
            compared.update(op.values())
        else:
            _pass_on(op, whole, compared, signed)
    exact = _exact_ones(graph, ops)
    return {
        op
        for op in ops
        if op.name == "divide"
        and (op.result in whole or (op.result in compared and all(x in exact for x in op.values())))
    }


def _pass_on(op: Op, whole: set[Value], compared: set[Value], signed: set[Value]) -> None:
    """What shows of a result shows of the operands. The sign of a product is that of its factors, whatever digits they
    have; that of a sum is not."""
    is_sum = op.name in _SUMS
    if not (is_sum or op.name in _PRODUCTS or op.name in _MOVES or op.definition.family == "shape"):
        return
    for shown, then in ((whole, whole), (compared, compared), (signed, compared if is_sum else signed)):
        if any(x in shown for x in op.results):
            then.update(op.values())


def _seen(graph: Graph, ops: list[Op]) -> set[Value]:
    """Values of which a single element shows in a result: all that whole results are made of, and what floats are made
    of without products of matrices."""
    singly = set(graph.outputs)
    wholly = {x for x in graph.outputs if not _is_float(x)}
    for op in reversed(ops):
        if any(x in wholly for x in op.results):
            wholly.update(op.values())
        if op.definition.family != "contraction" and any(x in singly for x in op.results):
            singly.update(op.values())
    return singly | wholly


def _exact_ones(graph: Graph, ops: list[Op]) -> set[Value]:
    """Values that are whole where all inputs are."""
    exact = set(graph.inputs)
    for op in ops:
        known = op.name in _EXACT or op.definition.family == "shape" or not _is_float(op.results[0])
        if known and all(x in exact for x in op.values()):
            exact.update(op.results)
    return exact


def _is_float(x: Value) -> bool:
    return x.type.dtype.is_float
