"""Convolutions of every channel by itself as sums of shifted parts times weights, which patches compute as they lie.

A convolution has its channels on partitions. Where they come last in memory, as in sequences of vectors, that costs a
transpose before and one after it; the sum of a few shifted parts reads them as they are. The order of the sums is
another one.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from tilewright.dtypes import float32
from tilewright.ir.core import OUTPUTS, Graph, Op, Value
from tilewright.ir.walk import eliminate_dead_code, sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.tuning import TUNING
from tilewright.tensor.build import insert_tree, value
from tilewright.tensor.passes.simplify import EXACT, simplify


def spread_taps(graph: Graph) -> bool:
    """Write out the convolutions that can be; says whether there are any."""
    changed = False
    for op in list(graph.ops):
        found = _summed(op) if op.name == "conv" else None
        if found is not None:
            decided("rule: taps of a convolution")
            for old, new in found.items():
                assert old.producer is not None
                insert_tree(new, old.producer)
                old.replace_all_uses(new)
            changed = True
    if changed:
        eliminate_dead_code(graph)
        sort_topologically(graph.body)
        simplify(graph, EXACT)
    return changed


def _summed(op: Op) -> dict[Value, Value] | None:
    """What stands in the place of which values, where a convolution becomes a sum."""
    x, w = op.operands
    outs, each, *kernel = w.type.shape
    few = prod(kernel) <= TUNING.most_taps
    if each != 1 or op.attrs["groups"] != outs or any(s != 1 for s in op.attrs["stride"]) or not few:
        return None
    if not op.result.type.size or x.type.dtype is not float32 or w.type.dtype is not float32:
        return None
    source, dims = _source(x)
    made = _taps(op, source, dims, w)
    return _in_order(op, made, dims) or {op.result: _turned(made, dims, op.result.type.shape)}


def _source(x: Value) -> tuple[Value, list[int]]:
    """What [batch, channels, *places] is a transpose of, and which of its dims each of the source's is.

    A batch of one may have been added.
    """
    op, added = x.producer, False
    if op is not None and op.name == "reshape" and x.type.shape == (1, *op.operands[0].type.shape):
        x, added = op.operands[0], True
        op = x.producer
    perm = tuple(range(x.type.rank))
    if op is not None and op.name == "transpose":
        perm, x = op.attrs["perm"], op.operands[0]
    return x, [perm.index(d) + added for d in range(x.type.rank)]


def _taps(op: Op, x: Value, dims: list[int], w: Value) -> Value:
    """The sum, in the order of the source.    dims: the dims of the convolution that the source's are"""
    attrs = op.attrs
    low, high = ([0 if d < 2 else attrs[side][d - 2] for d in dims] for side in ("low", "high"))
    if any(low) or any(high):
        x = value("pad", x, low=tuple(low), high=tuple(high), value=0.0)
    sizes = tuple(op.result.type.shape[d] for d in dims)
    rank, channels = len(dims), w.type.shape[0]
    total: Value | None = None
    for place in product(*(range(n) for n in w.type.shape[2:])):
        starts = tuple(0 if d < 2 else place[d - 2] * attrs["dilation"][d - 2] for d in dims)
        part = value("slice", x, starts=starts, sizes=sizes, steps=(1,) * rank)
        weight = value("reshape", _weight(w, place), shape=tuple(channels if d == 1 else 1 for d in dims))
        term = value("multiply", part, weight)
        total = term if total is None else value("add", total, term)
    assert total is not None
    return total


def _weight(w: Value, place: tuple[int, ...]) -> Value:
    """The weights of all channels for one offset; where they were put together, what they were put together of."""
    sizes = (w.type.shape[0], *(1 for _ in w.type.shape[1:]))
    shaped = w.producer
    joined = shaped.operands[0].producer if shaped is not None and shaped.name == "reshape" else None
    if joined is not None and joined.name == "concatenate":
        parts, kernel = joined.operands, w.type.shape[2:]
        single = all(part.type.shape[-1] == 1 for part in parts) and len(parts) == prod(kernel)
        if joined.attrs["axis"] == joined.result.type.rank - 1 and single:
            return value("reshape", parts[int(np.ravel_multi_index(place, kernel))], shape=sizes)
    return value("slice", w, starts=(0, 0, *place), sizes=sizes, steps=(1,) * w.type.rank)


def _in_order(op: Op, made: Value, dims: list[int]) -> dict[Value, Value] | None:
    """What elementwise ops make of it, back in the order of the source; None where something needs another order."""
    known: dict[Value, tuple[Value, list[int]]] = {op.result: (made, list(range(op.result.type.rank)))}
    work = [op.result]
    done: dict[Value, Value] = {}
    while work:
        x = work.pop(0)
        if known[x][1] == dims:
            done[x] = known[x][0]
            continue
        for use in x.uses:
            if use.definition is OUTPUTS or len(use.results) != 1:
                return None
            if use.result in known:
                continue
            found = _carried(use, known)
            if found is None:
                if not all(y in known for y in use.values()) and use.definition.family == "elementwise":
                    # Another operand may come yet.
                    continue
                return None
            known[use.result] = found
            work.append(use.result)
    reached = all(use.result in known for x in known if x not in done for use in x.uses)
    return done if done and reached else None


def _carried(op: Op, known: dict[Value, tuple[Value, list[int]]]) -> tuple[Value, list[int]] | None:
    """An op in the order of the source, and which dims of the convolution those of its result are."""
    values = op.values()
    if any(x not in known for x in values):
        return None
    x, now = known[values[0]]
    if op.name == "transpose":
        return x, [now[d] for d in op.attrs["perm"]]
    shape, before = op.result.type.shape, values[0].type.shape
    if op.name == "reshape":
        if before == (1, *shape) and now[0] == 0:
            return x, now[1:]
        return (x, [0, *now]) if shape == (1, *before) and 0 not in now else None
    alike = all(known[y][1] == now and y.type.shape == shape for y in values)
    if op.definition.family != "elementwise" or not alike:
        return None
    operands = [known[each][0] if isinstance(each, Value) else each for each in op.operands]
    return value(op.name, *operands, **op.attrs), now


def _turned(x: Value, dims: list[int], shape: tuple[int, ...]) -> Value:
    """In the order of the convolution."""
    turned = value("transpose", x, perm=tuple(dims.index(d) for d in range(len(shape)) if d in dims))
    return value("reshape", turned, shape=shape)
