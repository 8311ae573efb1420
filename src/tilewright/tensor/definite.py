"""Which matrices are symmetric and positive semidefinite by the way they are made.

Products of a matrix and its transpose are, with weights of the summed rows that are not negative and with such a matrix
between them; so are diagonals that are not negative, and sums and multiples of all of these.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.tensor.ranges import range_of


def is_semidefinite(a: Any) -> bool:
    """True for a value whose matrices, in the last two dims, are known to be; False where nothing is known."""
    op = a.producer if isinstance(a, Value) else None
    if op is None or a.type.rank < 2 or a.type.shape[-1] != a.type.shape[-2]:
        return False
    rule = _RULES.get(op.name)
    return rule is not None and rule(op)


def _sum_of_two(op: Op) -> bool:
    return all(is_semidefinite(x) for x in op.operands)


def _scaled(op: Op) -> bool:
    """A matrix times one number that is not negative, or over one; a diagonal times anything that is not negative."""
    x, y = op.operands
    pairs = [(x, y)] if op.name == "divide" else [(x, y), (y, x)]
    return any((is_semidefinite(a) and _is_number(b)) or (_is_diagonal(a) and _is_positive(b)) for a, b in pairs)


def _is_number(x: Any) -> bool:
    """True for one number for each matrix that is not negative."""
    return (not isinstance(x, Value) or all(n == 1 for n in x.type.shape[-2:])) and _is_positive(x)


def _is_positive(x: Any) -> bool:
    return range_of(x).low >= 0


def _is_diagonal(x: Any) -> bool:
    op = x.producer if isinstance(x, Value) else None
    if op is None or op.name != "band":
        return False
    return op.attrs["low"] == op.attrs["high"] == 0 and op.attrs["inside"] >= 0 and op.attrs["outside"] == 0


def _summed(op: Op) -> bool:
    """A sum of matrices: of the dims before them."""
    (x,) = op.operands
    return all(axis < x.type.rank - 2 for axis in op.attrs["axes"]) and is_semidefinite(x)


def _transposed(op: Op) -> bool:
    (x,) = op.operands
    last = {x.type.rank - 2, x.type.rank - 1}
    return set(op.attrs["perm"][-2:]) == last and is_semidefinite(x)


def _multiplied(op: Op) -> bool:
    """x @ y where y is x transposed, with weights along the contracted dim, or a semidefinite matrix between them."""
    x, y = op.operands
    rank = x.type.rank
    if rank != y.type.rank or x.type.shape[:-2] != y.type.shape[:-2]:
        return False
    left, right = _unweighted(x, rank - 1), _unweighted(y, rank - 2)
    if _are_swapped(left[0], right[0]):
        # What weighs both sides is squared.
        weights = Counter(left[1]) + Counter(right[1])
        return all(count % 2 == 0 or _is_positive(weight) for weight, count in weights.items())
    return _has_between(x, y)


def _has_between(x: Value, y: Value) -> bool:
    """(a @ m) @ a transposed, or a @ (m @ a transposed), with a semidefinite m."""
    inner = x.producer
    if inner is not None and inner.name == "matmul":
        a, m = inner.operands
        if is_semidefinite(m) and _are_swapped((a, False), (y, False)):
            return True
    inner = y.producer
    if inner is not None and inner.name == "matmul":
        m, a = inner.operands
        return is_semidefinite(m) and _are_swapped((x, False), (a, False))
    return False


Oriented = tuple[Value, bool]
"""A value, and whether its last two dims are swapped."""


def _unweighted(x: Value, axis: int) -> tuple[Oriented, list[Any]]:
    """A factor without its weights along a dim, and the weights."""
    weights: list[Any] = []
    swapped, rank = False, x.type.rank
    while (op := x.producer) is not None:
        if op.name == "transpose" and _swaps(op):
            (x,), swapped, axis = op.operands, not swapped, 2 * rank - 3 - axis
        elif op.name in ("multiply", "divide") and (found := _weighed(op, axis)) is not None:
            x, weight = found
            weights.append(weight)
        else:
            break
    return (x, swapped), weights


def _weighed(op: Op, axis: int) -> tuple[Value, Any] | None:
    """The matrix and the weight of a product, where the weight is the same along the dim that is not contracted."""
    rank = op.result.type.rank
    other = 2 * rank - 3 - axis
    x, y = op.operands
    for a, weight in [(x, y)] if op.name == "divide" else [(x, y), (y, x)]:
        if not isinstance(a, Value) or a.type.shape != op.result.type.shape:
            continue
        if not isinstance(weight, Value):
            return a, weight
        at = other - (rank - weight.type.rank)
        if at < 0 or weight.type.shape[at] == 1:
            return a, weight
    return None


def _swaps(op: Op) -> bool:
    rank = op.result.type.rank
    return op.attrs["perm"] == (*range(rank - 2), rank - 1, rank - 2)


def _are_swapped(x: Oriented, y: Oriented) -> bool:
    """True where one matrix is the transpose of the other."""
    return _plain(x) == _plain((y[0], not y[1]))


def _plain(x: Oriented) -> Oriented:
    value, swapped = x
    while (op := value.producer) is not None and op.name == "transpose" and _swaps(op):
        (value,), swapped = op.operands, not swapped
    return value, swapped


_RULES = {
    "add": _sum_of_two,
    "multiply": _scaled,
    "divide": _scaled,
    "sum": _summed,
    "transpose": _transposed,
    "matmul": _multiplied,
    "band": lambda op: _is_diagonal(op.result),
}
