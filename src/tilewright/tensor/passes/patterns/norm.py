"""Norms: distances from the mean, or numbers themselves, over the root of their mean square."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.ir.core import Graph, Op, Value
from tilewright.tensor.passes.match import maker, number, reduces_leading, two_ways
from tilewright.tensor.passes.patterns.extent import between, everywhere


@dataclass(frozen=True, slots=True)
class Norm:
    """result = d * rsqrt(mean(d * d) + epsilon) * weight + bias over axes, with d = x - mean(x) if centred, else x."""

    result: Value
    x: Value
    axes: tuple[int, ...]
    centred: bool
    epsilon: float
    weight: Value | None
    bias: Value | None

    @property
    def ops(self) -> list[Op]:
        """From x, weight and bias to the result, in order."""
        inputs = [v for v in (self.x, self.weight, self.bias) if v is not None]
        return between(inputs, self.result)


def find_norms(graph: Graph) -> list[Norm]:
    """Every norm of a graph, each with its weight and bias: a norm that is part of a larger one is not listed."""
    found = list(everywhere(graph, norm_of))
    largest = {id(f): f for f in found}
    for each in found:
        for other in found:
            if other is not each and other.x is each.x and each.result in {v for op in other.ops for v in op.values()}:
                largest.pop(id(each), None)
    return list(largest.values())


def mean_of(value: Any) -> tuple[Value, tuple[int, ...]] | None:
    """x, axes where a value is the mean of x that lines up with it: its sum times 1 / n, or over n."""
    op = maker(value, "multiply", "divide")
    if op is None or not isinstance(op.operands[0], Value):
        return None
    reduced, factor = maker(op.operands[0], "sum"), number(op.operands[1])
    if reduced is None or not factor or not (reduced.attrs["keepdims"] or reduces_leading(reduced)):
        return None
    x, axes = reduced.operands[0], reduced.attrs["axes"]
    count = prod(x.type.shape[axis] for axis in axes)
    given = factor if op.name == "divide" else 1 / factor
    return (x, axes) if abs(given - count) <= 1e-4 * count else None


def norm_of(value: Value) -> Norm | None:
    """The norm whose result a value is, the weighted one first."""
    bias = None
    op = maker(value, "add")
    if op is not None:
        for inside, other in two_ways(op):
            found = _weighted(inside) if isinstance(inside, Value) else None
            if found is not None and isinstance(other, Value) and _is_along(other, found):
                bias = other
                return Norm(value, found.x, found.axes, found.centred, found.epsilon, found.weight, bias)
    found = _weighted(value)
    return None if found is None else Norm(value, found.x, found.axes, found.centred, found.epsilon, found.weight, None)


def _weighted(value: Value) -> Norm | None:
    op = maker(value, "multiply")
    if op is None:
        return None
    plain = _plain_norm(value)
    if plain is not None:
        return plain
    for inside, weight in two_ways(op):
        if not isinstance(inside, Value) or not isinstance(weight, Value):
            continue
        cast = maker(inside, "cast")
        found = _plain_norm(inside if cast is None else cast.operands[0])
        if found is not None and _is_along(weight, found):
            return Norm(value, found.x, found.axes, found.centred, found.epsilon, weight, None)
    return None


def _is_along(weight: Value, norm: Norm) -> bool:
    """Whether a weight has dims of more than one element along the axes of a norm alone."""
    rank = norm.x.type.rank
    first = rank - weight.type.rank
    return all(size == 1 or axis + first in norm.axes for axis, size in enumerate(weight.type.shape))


def _plain_norm(value: Value) -> Norm | None:
    op = maker(value, "multiply")
    for distance, inverse in two_ways(op) if op is not None else ():
        root = maker(inverse, "rsqrt")
        if root is None or not isinstance(distance, Value):
            continue
        total, epsilon = root.operands[0], 0.0
        plus = maker(total, "add")
        if plus is not None and number(plus.operands[1]) is not None:
            total, epsilon = plus.operands[0], float(number(plus.operands[1]) or 0)
        spread = mean_of(total)
        square = maker(spread[0], "square") if spread is not None else None
        if spread is None or square is None or square.operands[0] is not distance:
            continue
        less = maker(distance, "subtract")
        center = mean_of(less.operands[1]) if less is not None else None
        if less is not None and center is not None and center[0] is less.operands[0] and center[1] == spread[1]:
            return Norm(value, less.operands[0], spread[1], True, epsilon, None, None)
        return Norm(value, distance, spread[1], False, epsilon, None, None)
    return None
