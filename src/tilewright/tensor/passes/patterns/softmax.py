"""Softmax: exponentials over their sum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilewright.ir.core import Graph, Op, Value
from tilewright.tensor.passes.match import maker, reduces_leading, two_ways
from tilewright.tensor.passes.patterns.extent import between, everywhere


@dataclass(frozen=True, slots=True)
class Softmax:
    """result = e / total with e = exp(x - shift) and total = sum of e over axes; shift is the max of x, or None."""

    result: Value
    x: Value
    axes: tuple[int, ...]
    shift: Value | None
    exponentials: Value
    total: Value

    @property
    def ops(self) -> list[Op]:
        """From x to the result, in order."""
        return between((self.x,), self.result)


def find_softmaxes(graph: Graph) -> list[Softmax]:
    """Every softmax of a graph."""
    return list(everywhere(graph, softmax_of))


def softmax_of(value: Value) -> Softmax | None:
    """The softmax whose result a value is: e / sum(e), or e * reciprocal(sum(e))."""
    for exponentials, total in _quotients(value):
        exp, reduced = maker(exponentials, "exp"), maker(total, "sum")
        if exp is None or reduced is None or reduced.operands[0] is not exponentials:
            continue
        if not reduced.attrs["keepdims"] and not reduces_leading(reduced):
            continue
        x, shift = exp.operands[0], None
        less = maker(x, "subtract")
        if less is not None and isinstance(less.operands[0], Value) and isinstance(less.operands[1], Value):
            top = maker(_unmoved(less.operands[1]), "max")
            if top is not None and top.operands[0] is less.operands[0]:
                x, shift = less.operands
        return Softmax(value, x, reduced.attrs["axes"], shift, exponentials, total)
    return None


def _quotients(value: Value) -> Iterator[tuple[Any, Any]]:
    """Pairs a, b with value = a / b."""
    op = maker(value, "divide", "multiply")
    if op is None:
        return
    if op.name == "divide":
        yield op.operands[0], op.operands[1]
        return
    for a, b in two_ways(op):
        inverse = maker(b, "reciprocal")
        if inverse is not None:
            yield a, inverse.operands[0]


def _unmoved(x: Value) -> Value:
    """x before reshapes."""
    op = maker(x, "reshape")
    return x if op is None else op.operands[0]
