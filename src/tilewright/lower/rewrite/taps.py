"""Sums of products of shifted slices: a convolution, tap by tap.

    out = sum over i, j of x[:, i : i + H, j : j + W] @ w[i, j]
    out = sum over i, j of w[i, j] @ x[:, i : i + H, j : j + W].reshape(C, -1)

is written by those who have no convolution at hand. A slice may be one of x with zeros around it, and the one that has
none of them is x itself. Each product reads all of x again, has few rows of the Tensor
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


Views = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Term:
    """A product, and the views of it that are summed, by name with their shape or order."""

    op: Op
    views: Views = ()

    @staticmethod
    def of(x: Value) -> _Term | None:
        """The product that a value is a view of, perhaps with 0 added."""
        views: Views = ()
        for _ in range(TUNING.looked_ahead):
            op = x.producer
            if op is None:
                return None
            if op.name == "matmul":
                return _Term(op, views)
            if op.name in ("reshape", "transpose"):
                views = (_view(op), *views)
            elif not (op.name == "add" and _is_sum(op) and len(op.values()) == 1):
                return None
            (x,) = op.values()
            if len(x.uses) != 1:
                return None
        return None


def _view(op: Op) -> tuple[str, tuple[int, ...]]:
    return op.name, op.attrs["shape" if op.name == "reshape" else "perm"]


def _terms(root: Value) -> tuple[list[_Term], list[Value]]:
    """The products that a value is the sum of, elements in the same order, and what else it is."""
    products: list[_Term] = []
    others: list[Value] = []
    todo = [root]
    while todo:
        x = todo.pop()
        op = x.producer
        is_part = x is root or (x.type.shape == root.type.shape and len(x.uses) == 1)
        found = _Term.of(x) if is_part else None
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


@dataclass(frozen=True, slots=True)
class _Taps:
    """What the data of all products have in common: boxes of one array, in one order.

    base: the array, which has zeros around it. sizes, steps: of the boxes. perm: their order in the products.
    channel: the dim of the array that products sum over.
    """

    base: Value
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    perm: tuple[int, ...]
    channel: int

    @staticmethod
    def of(x: Value, axis: int, base: Value | None) -> tuple[_Taps, Starts] | None:
        """Those of an operand that is summed over an axis, and where its box starts. base: the array, where known."""
        views: list[Op] = []
        while x is not base and x.producer is not None and x.producer.name in ("reshape", "transpose"):
            views.insert(0, x.producer)
            (x,) = x.producer.values()
        op = x.producer
        if op is not None and op.name == "slice" and x is not base:
            box = op.attrs["starts"], op.attrs["sizes"], op.attrs["steps"]
            (x,) = op.values()
        elif x is base or base is None or _unpadded(x)[0] is base:
            box = (0,) * x.type.rank, x.type.shape, (1,) * x.type.rank
        else:
            return None
        (starts, sizes, steps), (origin, low) = box, (x, None) if x is base else _unpadded(x)
        if low is not None:
            starts = tuple(start - before for start, before in zip(starts, low, strict=True))
        perm, rest = tuple(range(len(sizes))), views
        if views and views[0].name == "transpose":
            perm, rest = views[0].attrs["perm"], views[1:]
        if any(view.name != "reshape" for view in rest):
            return None
        shape = views[-1].result.type.shape if views else sizes
        channel = _channel([sizes[d] for d in perm], shape, axis)
        return None if channel is None else (_Taps(origin, sizes, steps, perm, perm[channel]), starts)


def _unpadded(x: Value) -> tuple[Value, tuple[int, ...] | None]:
    """An array without the zeros around it, and how many are before it."""
    op = x.producer
    if op is None or op.name != "pad" or op.attrs["value"] != 0 or min(*op.attrs["low"], *op.attrs["high"]) < 0:
        return x, None
    return op.values()[0], op.attrs["low"]


def _channel(sizes: list[int], shape: tuple[int, ...], axis: int) -> int | None:
    """The dim that is an axis of another shape, where the others are put together on either side of it alone."""
    wanted = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    return next((d for d, n in enumerate(sizes) if (prod(sizes[:d]), n, prod(sizes[d + 1 :])) == wanted), None)


def _convolved(op: Op) -> Value | None:
    """A sum of products as a convolution: rows times weights, or weights times columns."""
    terms, others = _terms(op.result)
    if len(terms) < TUNING.least_taps or len({term.views for term in terms}) != 1:
        return None
    products = [term.op for term in terms]
    made = _of_products(products, data=0) or _of_products(products, data=1)
    if made is None:
        return None
    made = value("reshape", made, shape=terms[0].op.result.type.shape)
    for name, attr in terms[0].views:
        made = value("reshape", made, shape=attr) if name == "reshape" else value("transpose", made, perm=attr)
    for other in others:
        made = value("add", made, other)
    return made


def _of_products(products: list[Op], data: int) -> Value | None:
    """The sum of products as a convolution. data: the operand that is read in boxes; the other has the weights."""
    weights = [op.operands[1 - data] for op in products]
    boxes = [op.operands[data] for op in products]
    if any(w.type.rank != 2 or w.type.shape != weights[0].type.shape for w in weights):
        return None
    if any(x.type.rank < 2 for x in boxes):
        return None
    axes = [x.type.rank - 1 - data for x in boxes]
    bases = {_base(x) for x in boxes} - {None}
    if len(bases) != 1:
        return None
    (base,) = bases
    found = [_Taps.of(x, axis, base) for x, axis in zip(boxes, axes, strict=True)]
    known = [each for each in found if each is not None]
    places = dict(zip((starts for _, starts in known), weights, strict=False))
    if len(known) != len(products) or len({taps for taps, _ in known}) != 1 or len(places) != len(products):
        return None
    matrices = {at: w if data else value("transpose", w, perm=(1, 0)) for at, w in places.items()}
    return _conv(known[0][0], matrices)


def _base(x: Value) -> Value | None:
    """The array that an operand is a slice of, without the zeros around it."""
    op = x.producer
    while op is not None and op.name in ("reshape", "transpose"):
        op = op.operands[0].producer
    return _unpadded(op.values()[0])[0] if op is not None and op.name == "slice" else None


def _conv(taps: _Taps, weights: dict[Starts, Value]) -> Value | None:
    """The sum, dims in the order of the products, with out channels in the place of channels.

    weights: a matrix [out channels, channels] for each place.
    """
    offsets = [sorted(set(along)) for along in zip(*weights, strict=True)]
    channel = taps.channel
    spatial = [d for d, along in enumerate(offsets) if len(along) > 1]
    gaps = [{after - before for before, after in pairwise(offsets[d])} for d in spatial]
    is_box = len(weights) == prod(map(len, offsets)) and all(len(gap) == 1 for gap in gaps)
    if not spatial or channel in spatial or not is_box or any(taps.steps[d] < 1 for d in spatial):
        return None
    stride, dilation = tuple(taps.steps[d] for d in spatial), tuple(gap.pop() for gap in gaps)
    # Weights may be slices of one array too, but theirs lie apart.
    if any((taps.sizes[d] - 1) * taps.steps[d] < gap for d, gap in zip(spatial, dilation, strict=True)):
        return None
    kernel = tuple(len(offsets[d]) for d in spatial)
    batch = [d for d in taps.perm if d != channel and d not in spatial]
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
    """What all boxes together are of, with the zeros around the array that they need."""
    sizes, steps = list(taps.sizes), list(taps.steps)
    for d, gap in dilation.items():
        sizes[d] = (sizes[d] - 1) * steps[d] + (len(offsets[d]) - 1) * gap + 1
        steps[d] = 1
    starts = [along[0] for along in offsets]
    ends = [start + (n - 1) * step + 1 for start, n, step in zip(starts, sizes, steps, strict=True)]
    low = tuple(max(-start, 0) for start in starts)
    high = tuple(max(end - n, 0) for end, n in zip(ends, taps.base.type.shape, strict=True))
    base = value("pad", taps.base, low=low, high=high, value=0.0) if any(low + high) else taps.base
    moved = tuple(start + before for start, before in zip(starts, low, strict=True))
    return value("slice", base, starts=moved, sizes=tuple(sizes), steps=tuple(steps))


def _kernel(
    offsets: list[list[int]], spatial: list[int], weights: dict[Starts, Value], kernel: tuple[int, ...]
) -> Value:
    """[out channels, channels, *kernel] of a matrix [out channels, channels] for each offset."""
    parts = []
    for place in product(*offsets):
        matrix = weights[place]
        parts.append(value("reshape", matrix, shape=(*matrix.type.shape, *(1 for _ in spatial))))
    # Offsets of the last dim lie side by side first.
    for d in reversed(range(len(kernel))):
        runs = [parts[i : i + kernel[d]] for i in range(0, len(parts), kernel[d])]
        parts = [run[0] if len(run) == 1 else value("concatenate", *run, axis=2 + d) for run in runs]
    (whole,) = parts
    return whole
