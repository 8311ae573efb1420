"""Sums of products and of what is added to them: what is there early is added first.

In `x[t] @ wx + h @ wh + b` the product with h comes last, after all steps before. With b added to the product with x,
one sum is left for when it comes, and the others are done for all steps at once.
"""

from __future__ import annotations

from tilewright.dtypes import float32
from tilewright.ir.core import Graph, Op, Value
from tilewright.lower.decisions import decided
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.tensor.build import insert_tree, value


def add_early_terms_first(graph: Graph) -> None:
    """(x + y) + z as (x + z) + y, where x and y are products, and y comes after more of them than x and z.

    The order of the terms of a product is open; its rounding is no smaller than that of one term more.
    """
    before: dict[Value, int] = {}
    for op in list(graph.ops):
        early = _early(op, before)
        if early is not None:
            (x, y), z = early
            first = value("add", x, z)
            first.name = op.result.name
            made = value("add", first, y)
            made.name = op.result.name
            insert_tree(made, op)
            for each in (first, made):
                before[each] = max(before.get(v, 0) for v in (x, y, z) if isinstance(v, Value))
            op.result.replace_all_uses(made)
            decided("rule: early terms")
        else:
            most = max((before.get(x, 0) for x in op.values()), default=0)
            before.update(dict.fromkeys(op.results, most + (op.name in PRODUCTS)))


def _early(op: Op, before: dict[Value, int]) -> tuple[tuple[Value, Value], Value | float] | None:
    """The terms x, y and z of a sum whose second one comes last; `before`: how many products come before each value."""
    if op.name != "add" or op.result.type.dtype is not float32:
        return None
    for inner, z in (op.operands, op.operands[::-1]):
        add = inner.producer if isinstance(inner, Value) else None
        if add is None or add.name != "add" or len(inner.uses) != 1 or inner.type.shape != op.result.type.shape:
            continue
        terms = [x for x in add.operands if isinstance(x, Value) and x.type.shape == inner.type.shape]
        products = [x for x in terms if x.producer is not None and x.producer.name in PRODUCTS]
        if len(products) != 2:
            continue
        x, y = sorted(products, key=lambda each: before[each])
        late = before.get(z, 0) if isinstance(z, Value) else 0
        if late <= before[x] < before[y]:
            return (x, y), z
    return None
