"""Dims of one element that are dropped after a product and put back before the next one: they stay meanwhile.

`np.einsum("hd,shd->hs", q, k)` is a product of [h, 1, d] by [h, d, s] with the dim of one element dropped, and what is
multiplied by `v` afterwards has it put back. With the dim left where it is, both products have the same rows, and all
that stands between them joins one group.
"""

from __future__ import annotations

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.regions.axes import COMBINED
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.tensor.build import insert_tree, read_instead, value
from tilewright.tensor.passes.simplify import EXACT, simplify


def keep_unit_dims(graph: Graph) -> None:
    """Let dims of one element stay between products."""
    changed = False
    for op in list(graph.ops):
        if op.name in PRODUCTS and (at := _put_back(op.operands[0])) is not None:
            source = op.operands[0].producer
            assert source is not None
            inside = _Inside(at, source.operands[0].type.rank)
            made = inside.value(source.operands[0])
            if inside.is_worth:
                decided("rule: unit dims stay")
                inside.replace(op)
                op.replace_operand(0, made)
                changed = True
    if changed:
        sort_topologically(graph.body)
        simplify(graph, EXACT)


def _put_back(x: Value) -> int | None:
    """Where a reshape puts a dim of one element: that of the rows of a product, and nothing else."""
    op = x.producer
    if op is None or op.name != "reshape" or x.type.rank < 3 or x.type.shape[-2] != 1:
        return None
    (source,) = op.operands
    at = x.type.rank - 2
    return at if source.type.shape == (*x.type.shape[:at], *x.type.shape[at + 1 :]) else None


class _Inside:
    """Values with a dim of one element more, at some place of those with the most dims."""

    def __init__(self, at: int, rank: int) -> None:
        self.at, self.rank = at, rank
        self.made: dict[Value, Value] = {}
        self.products = 0

    @property
    def is_worth(self) -> bool:
        """True where something was found that had the dim."""
        return self.products > 0

    def value(self, x: Value) -> Value:
        """A value with the dim."""
        found = self.made.get(x)
        if found is None:
            found = self.made[x] = self._value(x)
        return found

    def _value(self, x: Value) -> Value:
        at = self.at - (self.rank - x.type.rank)
        if at <= 0:
            return x
        op = x.producer
        shape = (*x.type.shape[:at], 1, *x.type.shape[at:])
        if op is not None and op.name == "reshape" and op.operands[0].type.shape == shape:
            (source,) = op.operands
            self.products += _is_product(source)
            return source
        if op is not None and op.definition.family == "elementwise":
            return value(op.name, *(self.value(y) if isinstance(y, Value) else y for y in op.operands), **op.attrs)
        if op is not None and op.name in COMBINED and op.attrs["keepdims"]:
            axes = tuple(axis + (axis >= at) for axis in op.attrs["axes"])
            return value(op.name, self.value(op.operands[0]), **{**op.attrs, "axes": axes})
        return value("reshape", x, shape=shape)

    def replace(self, before: Op) -> None:
        """Who reads a value without the dim reads the one with it."""
        for old, new in self.made.items():
            op = new.producer
            if op is not None and op.parent is None and op.name != "reshape":
                read_instead(old, new, before)
            else:
                insert_tree(new, before)


def _is_product(x: Value) -> bool:
    """True for a product, or what is computed from one alone."""
    op = x.producer
    while op is not None and op.definition.family == "elementwise" and len(op.values()) == 1:
        op = op.values()[0].producer
    return op is not None and op.name in PRODUCTS
