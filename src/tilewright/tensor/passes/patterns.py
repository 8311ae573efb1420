"""Softmax, norms and attention in a simplified graph, as descriptions: the ops stay, lowering may use what it is told.

Each `..._of(value)` says what a value is, each `find_...(graph)` lists all of a graph. `ops` of a pattern are the ops
from its inputs to its result; `inner` those of their values that nothing outside of the pattern reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from tilewright.ir.core import Graph, Op, Value
from tilewright.tensor.passes.match import maker, number, two_ways


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


@dataclass(frozen=True, slots=True)
class Mask:
    """What is done to scores before softmax: `add` a value, or keep them `where` it holds and take `fill` elsewhere."""

    kind: str
    value: Value
    fill: float | None = None


@dataclass(frozen=True, slots=True)
class Attention:
    """result = softmax(mask(q @ k * scale)) @ v, with k as it stands (transposed=False: [..., d, s]) or transposed.

    `transposed` says that k is [..., s, d]. Masks are in the order they are applied.
    """

    result: Value
    q: Value
    k: Value
    v: Value
    transposed: bool
    scale: float
    masks: tuple[Mask, ...]
    softmax: Softmax

    @property
    def ops(self) -> list[Op]:
        """From q, k, v and the masks to the result, in order."""
        return between((self.q, self.k, self.v, *(m.value for m in self.masks)), self.result)


def between(inputs: Any, result: Value) -> list[Op]:
    """The ops that compute `result` from `inputs`, definitions before uses. Constants on the way belong to them."""
    stop, found = set(inputs), {}

    def visit(value: Value) -> None:
        op = value.producer
        if value in stop or op is None or op in found:
            return
        for operand in op.values():
            visit(operand)
        found[op] = None

    visit(result)
    return list(found)


def inner(ops: list[Op]) -> list[Value]:
    """The values of these ops that no other op reads."""
    own = set(ops)
    return [value for op in ops for value in op.results if all(user in own for user in value.uses)]


Found = TypeVar("Found")


def _everywhere(graph: Graph, match: Callable[[Value], Found | None]) -> Iterator[Found]:
    for op in graph.ops:
        for value in op.results:
            found = match(value)
            if found is not None:
                yield found


def find_softmaxes(graph: Graph) -> list[Softmax]:
    """Every softmax of a graph."""
    return list(_everywhere(graph, softmax_of))


def find_norms(graph: Graph) -> list[Norm]:
    """Every norm of a graph, each with its weight and bias: a norm that is part of a larger one is not listed."""
    found = list(_everywhere(graph, norm_of))
    largest = {id(f): f for f in found}
    for each in found:
        for other in found:
            if other is not each and other.x is each.x and each.result in {v for op in other.ops for v in op.values()}:
                largest.pop(id(each), None)
    return list(largest.values())


def find_attentions(graph: Graph) -> list[Attention]:
    """Every attention of a graph."""
    return list(_everywhere(graph, attention_of))


def softmax_of(value: Value) -> Softmax | None:
    """The softmax whose result a value is: e / sum(e), or e * reciprocal(sum(e))."""
    for exponentials, total in _quotients(value):
        exp, reduced = maker(exponentials, "exp"), maker(total, "sum")
        if exp is None or reduced is None or reduced.operands[0] is not exponentials or not reduced.attrs["keepdims"]:
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


def mean_of(value: Any) -> tuple[Value, tuple[int, ...]] | None:
    """x, axes where a value is the mean of x with dims kept: its sum times 1 / n, or over n."""
    op = maker(value, "multiply", "divide")
    if op is None or not isinstance(op.operands[0], Value):
        return None
    reduced, factor = maker(op.operands[0], "sum"), number(op.operands[1])
    if reduced is None or not factor or not reduced.attrs["keepdims"]:
        return None
    x, axes = reduced.operands[0], reduced.attrs["axes"]
    count = 1
    for axis in axes:
        count *= x.type.shape[axis]
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


def attention_of(value: Value) -> Attention | None:
    """The attention whose result a value is: a product of the softmax of scores over their last dim, and v."""
    op = maker(value, "matmul")
    if op is None:
        return None
    weights, v = op.operands
    softmax = softmax_of(_uncast(weights))
    if softmax is None or softmax.axes != (softmax.x.type.rank - 1,):
        return None
    scores, masks = _unmasked(softmax.x)
    scores, scale = _unscaled(scores)
    product = maker(_uncast(scores), "matmul")
    if product is None:
        return None
    q, k = product.operands
    swap = maker(k, "transpose")
    rank = k.type.rank
    swapped = swap is not None and swap.attrs["perm"] == (*range(rank - 2), rank - 1, rank - 2)
    if swap is not None and swapped:
        k = swap.operands[0]
    return Attention(value, q, k, v, swapped, scale, tuple(masks), softmax)


def _uncast(x: Value) -> Value:
    while (op := maker(x, "cast")) is not None:
        x = op.operands[0]
    return x


def _unmasked(x: Value) -> tuple[Value, list[Mask]]:
    """Scores before masks, and the masks in the order they are applied."""
    masks: list[Mask] = []
    while True:
        op = maker(x, "add", "where")
        if op is None:
            return x, masks[::-1]
        if op.name == "where":
            condition, kept, fill = op.operands
            if number(fill) is None or not isinstance(kept, Value):
                return x, masks[::-1]
            masks.append(Mask("where", condition, float(number(fill) or 0)))
            x = kept
            continue
        chosen = next((pair for pair in two_ways(op) if _is_product(pair[0]) and isinstance(pair[1], Value)), None)
        if chosen is None:
            return x, masks[::-1]
        masks.append(Mask("add", chosen[1]))
        x = chosen[0]


def _is_product(x: Any) -> bool:
    """Whether x is made from a product of matrices by scaling and masking alone."""
    while isinstance(x, Value):
        if maker(x, "matmul") is not None:
            return True
        op = maker(x, "multiply", "divide", "cast", "add", "where")
        if op is None:
            return False
        x = op.operands[1] if op.name == "where" else op.operands[0]
    return False


def _unscaled(x: Value) -> tuple[Value, float]:
    op = maker(x, "multiply", "divide")
    factor = number(op.operands[1]) if op is not None else None
    if op is None or not factor or not isinstance(op.operands[0], Value):
        return x, 1.0
    inside, scale = _unscaled(_uncast(op.operands[0]))
    return inside, scale * factor if op.name == "multiply" else scale / factor
