"""Sums of products of shifted slices: a convolution, tap by tap.

    out = sum over i, j of x[:, i : i + H, j : j + W] @ w[i, j]

is written by those who have no convolution at hand. Each product reads all of x again, has few rows of the Tensor
engine's array at work, and adds its result to all the others. As one `conv`, x is read once, offsets share the array,
and sums are made in PSUM.

The order of the sums is another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

from tilewright.dtypes import float32
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import eliminate_dead_code, sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.tuning import TUNING
from tilewright.tensor.build import insert_tree, value
from tilewright.tensor.passes.simplify import EXACT, simplify

Starts = tuple[int, ...]


def sum_taps(graph: Graph) -> None:
    """Find convolutions that are written tap by tap."""
    changed = False
    for op in list(graph.ops):
        if op.name == "add" and op.result.type.dtype is float32 and not _is_inner(op):
            made = _convolved(op)
            if made is not None:
                decided("rule: sum of taps")
                insert_tree(made, op)
                op.result.replace_all_uses(made)
                changed = True
    if changed:
        eliminate_dead_code(graph)
        sort_topologically(graph.body)
        simplify(graph, EXACT)


def _is_inner(op: Op) -> bool:
    """True for a sum that is part of another."""
    uses = op.result.uses
    return len(uses) == 1 and uses[0].name == "add"


def _terms(root: Value) -> tuple[list[Op], list[Value]]:
    """The products that a value is the sum of, elements in the same order, and what else it is."""
    products: list[Op] = []
    others: list[Value] = []
    todo = [root]
    while todo:
        x = todo.pop()
        op = x.producer
        is_part = x is root or (x.type.shape == root.type.shape and len(x.uses) == 1)
        found = _product(x) if is_part else None
        if found is not None:
            products.append(found)
        elif op is not None and op.name == "add" and is_part and _is_sum(op):
            todo += [y for y in reversed(op.operands) if isinstance(y, Value)]
        else:
            others.append(x)
    return products, others


def _is_sum(op: Op) -> bool:
    """True for a sum of arrays, or of an array and 0."""
    return all(isinstance(y, Value) or y == 0 for y in op.operands)


def _product(x: Value) -> Op | None:
    """The product that a value is, perhaps in another shape, and with 0 added."""
    for _ in range(TUNING.looked_ahead):
        op = x.producer
        if op is None or op.name == "matmul":
            return op
        if op.name != "reshape" and not (op.name == "add" and _is_sum(op) and len(op.values()) == 1):
            return None
        (x,) = op.values()
        if len(x.uses) != 1:
            return None
    return None


@dataclass(frozen=True, slots=True)
class _Taps:
    """What all left operands have in common: slices of one array, in one order, the channels last.

    base: the array. sizes, steps: of the slices. perm: their order in the products.
    """

    base: Value
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    perm: tuple[int, ...]

    @staticmethod
    def of(x: Value) -> tuple[_Taps, Starts] | None:
        """Those of an operand, and where its slice starts."""
        views: list[Op] = []
        op = x.producer
        while op is not None and op.name in ("reshape", "transpose"):
            views.insert(0, op)
            op = op.operands[0].producer
        if op is None or op.name != "slice":
            return None
        (base,), rank = op.operands, op.result.type.rank
        turn = views[0] if views and views[0].name == "transpose" else None
        rest = views[1:] if turn is not None else views
        perm = tuple(range(rank)) if turn is None else turn.attrs["perm"]
        sizes = op.attrs["sizes"]
        lines = prod(sizes[d] for d in perm[:-1]), sizes[perm[-1]]
        # Rows alone may be put together.
        if any(v.name != "reshape" for v in rest) or (prod(x.type.shape[:-1]), x.type.shape[-1]) != lines:
            return None
        return _Taps(base, sizes, op.attrs["steps"], perm), op.attrs["starts"]


def _convolved(op: Op) -> Value | None:
    """A sum of products as a convolution."""
    terms, others = _terms(op.result)
    if len(terms) < TUNING.least_taps:
        return None
    found = [_Taps.of(term.operands[0]) for term in terms]
    if any(each is None for each in found) or any(term.operands[1].type.rank != 2 for term in terms):
        return None
    taps = {each[0] for each in found if each is not None}
    places = {each[1]: term.operands[1] for each, term in zip(found, terms, strict=True) if each is not None}
    shapes = {term.operands[1].type.shape for term in terms}
    if len(taps) != 1 or len(places) != len(terms) or len(shapes) != 1:
        return None
    made = _conv(taps.pop(), places)
    if made is None:
        return None
    made = value("reshape", made, shape=op.result.type.shape)
    for other in others:
        made = value("add", made, other)
    return made


def _conv(taps: _Taps, weights: dict[Starts, Value]) -> Value | None:
    """[*rows, out channels], the rows in the order of the products."""
    offsets = [sorted(set(along)) for along in zip(*weights, strict=True)]
    channel = taps.perm[-1]
    spatial = [d for d, along in enumerate(offsets) if len(along) > 1]
    gaps = [{after - before for before, after in pairwise(offsets[d])} for d in spatial]
    is_box = len(weights) == prod(map(len, offsets)) and all(len(gap) == 1 for gap in gaps)
    if not spatial or channel in spatial or not is_box or any(taps.steps[d] < 1 for d in spatial):
        return None
    stride, dilation = tuple(taps.steps[d] for d in spatial), tuple(gap.pop() for gap in gaps)
    kernel = tuple(len(offsets[d]) for d in spatial)
    batch = [d for d in taps.perm[:-1] if d not in spatial]
    x = _seen(taps, offsets, dict(zip(spatial, dilation, strict=True)))
    x = value("transpose", x, perm=(*batch, channel, *spatial))
    x = value("reshape", x, shape=(prod(taps.sizes[d] for d in batch), *x.type.shape[len(batch) :]))
    zeros = (0,) * len(spatial)
    w = _kernel(offsets, spatial, weights, kernel)
    made = value("conv", x, w, stride=stride, low=zeros, high=zeros, dilation=dilation, groups=1)
    outs, counts = made.type.shape[1], made.type.shape[2:]
    made = value("reshape", made, shape=(*(taps.sizes[d] for d in batch), outs, *counts))
    order = [*batch, channel, *spatial]
    return value("transpose", made, perm=tuple(order.index(d) for d in taps.perm))


def _seen(taps: _Taps, offsets: list[list[int]], dilation: dict[int, int]) -> Value:
    """What all slices together are of."""
    sizes, steps = list(taps.sizes), list(taps.steps)
    for d, gap in dilation.items():
        sizes[d] = (sizes[d] - 1) * steps[d] + (len(offsets[d]) - 1) * gap + 1
        steps[d] = 1
    starts = tuple(along[0] for along in offsets)
    return value("slice", taps.base, starts=starts, sizes=tuple(sizes), steps=tuple(steps))


def _kernel(
    offsets: list[list[int]], spatial: list[int], weights: dict[Starts, Value], kernel: tuple[int, ...]
) -> Value:
    """[out channels, channels, *kernel] of a matrix [channels, out channels] for each offset."""
    parts = []
    for place in product(*offsets):
        matrix = value("transpose", weights[place], perm=(1, 0))
        parts.append(value("reshape", matrix, shape=(*matrix.type.shape, *(1 for _ in spatial))))
    # Offsets of the last dim lie side by side first.
    for d in reversed(range(len(kernel))):
        runs = [parts[i : i + kernel[d]] for i in range(0, len(parts), kernel[d])]
        parts = [run[0] if len(run) == 1 else value("concatenate", *run, axis=2 + d) for run in runs]
    (whole,) = parts
    return whole
