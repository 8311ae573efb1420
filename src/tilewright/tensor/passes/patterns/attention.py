"""Attention: the softmax of scaled and masked products of queries and keys, times values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.ir.core import Graph, Op, Value
from tilewright.tensor.passes.match import maker, number, two_ways
from tilewright.tensor.passes.patterns.extent import between, everywhere
from tilewright.tensor.passes.patterns.softmax import Softmax, softmax_of


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


def find_attentions(graph: Graph) -> list[Attention]:
    """Every attention of a graph."""
    return list(everywhere(graph, attention_of))


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
