"""Products whose operand would have to be put in another order first: a batch of products that take it as it lies.

`np.einsum("oc,nchw->nohw", w, x)` is one product of [o, c] by [c, n * h * w]; but in memory the images come first, and
all of x would be copied. As a product for each image it is read as it is, with c on partitions. Where an image has few
columns, one product of all of them is worth the copy.
"""

from __future__ import annotations

from math import prod

from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.rewrite import rewrite, rule
from tilewright.lower.decisions import decided
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.tuning import TUNING
from tilewright.tensor.build import value
from tilewright.tensor.passes.simplify import EXACT, simplify


@rule(*PRODUCTS)
def multiply_right_by_batch(op: Op) -> Value | None:
    """matmul(x, y as [k, batch * n]) -> matmul(x, y[b]) for each b            in memory, y is [batch, k, n]"""
    x, y = op.operands
    z = _as_it_lies(y, k_first=True) if x.type.rank == 2 else None
    if z is None:
        return None
    made = value("transpose", value(op.name, x, z), perm=(1, 0, 2))
    return value("reshape", made, shape=op.result.type.shape)


@rule(*PRODUCTS)
def multiply_left_by_batch(op: Op) -> Value | None:
    """matmul(x as [batch * m, k], y) -> matmul(x[b], y) for each b            in memory, x is [batch, k, m]"""
    x, y = op.operands
    z = _as_it_lies(x, k_first=False) if y.type.rank == 2 else None
    if z is None:
        return None
    if op.name == "matmul" and _is_turned(op.result, z.type.shape[0]):
        # The columns of the result come before the rows: x is the right operand.
        made = value("transpose", value(op.name, value("transpose", y, perm=(1, 0)), z), perm=(0, 2, 1))
    else:
        made = value(op.name, value("transpose", z, perm=(0, 2, 1)), y)
    return value("reshape", made, shape=op.result.type.shape)


def multiply_by_batch(graph: Graph) -> None:
    """Let products read large operands as they lie."""
    found = rewrite(graph, (multiply_right_by_batch, multiply_left_by_batch))
    for name in found.elements():
        decided(f"rule: {name}")
    if found:
        simplify(graph, EXACT)


def _as_it_lies(x: Value, k_first: bool) -> Value | None:
    """[batch, k, n] of an operand that is [k, batch * n], or [batch * n, k], of an array in this order in memory."""
    merge = x.producer
    turn = merge.operands[0].producer if merge is not None and merge.name == "reshape" and x.type.rank == 2 else None
    if turn is None or turn.name != "transpose":
        return None
    (z,) = turn.operands
    if is_part(z):
        return None
    k = x.type.shape[0 if k_first else 1]
    for lead, last in _places(z.type.shape, k):
        before, summed, after = range(lead), range(lead, last), range(last, z.type.rank)
        perm = (*summed, *before, *after) if k_first else (*before, *after, *summed)
        shape = prod(z.type.shape[:lead]), k, prod(z.type.shape[last:])
        if turn.attrs["perm"] == perm and shape[0] > 1 and shape[2] >= TUNING.batch_columns:
            return value("reshape", z, shape=shape)
    return None


def is_part(x: Value) -> bool:
    """True for a view of another array whose dims need not lie together."""
    op = x.producer
    while op is not None and op.name in ("cast", "reshape"):
        op = op.operands[0].producer
    return op is not None and op.name in ("transpose", "slice", "broadcast_to")


def _places(shape: tuple[int, ...], k: int) -> list[tuple[int, int]]:
    """Ranges of inner dims that have k elements."""
    ranges = [(i, j) for i in range(1, len(shape)) for j in range(i + 1, len(shape))]
    return [(i, j) for i, j in ranges if prod(shape[i:j]) == k]


def _is_turned(x: Value, batch: int) -> bool:
    """True where all that is read of [batch * m, n] is [batch, n, m]."""
    if len(x.uses) != 1 or x.uses[0].name != "reshape":
        return False
    split = x.uses[0].result
    if len(split.uses) != 1 or split.uses[0].name != "transpose":
        return False
    shape, perm = split.type.shape, split.uses[0].attrs["perm"]
    n, rank = x.type.shape[1], len(shape)
    for lead in range(1, rank):
        for last in range(lead + 1, rank):
            turned = (*range(lead), *range(last, rank), *range(lead, last))
            if prod(shape[:lead]) == batch and prod(shape[last:]) == n and perm == turned:
                return True
    return False
