"""What of its operands an op needs, for a region of its result: one rule per op or family, never too much."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from tilewright.bounds.facts import Analysis, record_of
from tilewright.bounds.moves import BACK, narrowed
from tilewright.bounds.region import Band, Indices, Region, at_least, everything, nothing
from tilewright.ir.core import Op

ROWS = frozenset({"take", "take_along_axis", "put_rows", "combine_rows", "put_along_axis"})
"""Ops that transfers by index do, once the indices are on chip."""


def needed(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    """What of an operand a region of a result needs."""
    operand = op.operands[position]
    if op.name in BACK:
        return BACK[op.name](op, region, position)
    if op.name in ROWS and position == 1 and analysis[operand].constant:
        # Which rows they are is known, and written into the transfers.
        return nothing(operand.type.shape)
    rule = _RULES.get(op.name) or _FAMILIES.get(record_of(op).family)
    return at_least(operand.type.shape, 0) if rule is None else rule(analysis, op, region, position)


def _elementwise(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    operand = op.operands[position]
    return narrowed(region.both(analysis.masks.visible(op, operand)), operand.type.shape)


def _reduced(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    x = op.operands[0].type
    axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
    if region.is_all:
        return everything(x.shape)
    if region.number is not None:
        return at_least(x.shape, region.number * prod(x.shape[a] for a in axes))
    kept = [a for a in range(x.rank) if a not in axes]
    places = {(a if op.attrs["keepdims"] else kept.index(a)): a for a in kept}
    sets: list[Indices] = [None] * x.rank
    for place, axis in places.items():
        sets[axis] = region.sets[place]
    band = region.band
    if band is not None:
        band = Band(places[band.row], places[band.column], band.low, band.high)
    return Region(x.shape, sets, band)


def _whole_lines(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    """Sorting and searching along an axis look at all of it."""
    x = op.operands[0].type
    axis = op.attrs["axis"] % max(x.rank, 1)
    if region.is_all:
        return everything(x.shape)
    return Region(x.shape, [None if a == axis else region.along(a) for a in range(x.rank)])


def _product(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    """Rows of the left and columns of the right operand, without what the other one multiplies by zero."""
    operand, other = op.operands[position], op.operands[1 - position]
    rank, shape = operand.type.rank, operand.type.shape
    lead = len(region.shape) - rank
    whole = region.is_all
    sets: list[Indices] = []
    for axis in range(rank - 2):
        same = shape[axis] == region.shape[axis + lead]
        sets.append(None if whole or not same else region.along(axis + lead))
    own = None if whole else region.along(len(region.shape) - 2 + position)
    support = analysis[other].support
    if not support.is_all and not whole:
        # Which elements meet is not followed.
        return nothing(shape)
    if not whole and region.number is not None:
        # So many elements lie in at least that share of the rows, or of the columns.
        return at_least(shape, int(prod(shape) * region.share))
    if support.number is not None and not support.is_all:
        return at_least(shape, int(prod(shape) * support.share))
    contracted = support.along(other.type.rank - 2 + position)
    sets += [own, contracted] if position == 0 else [contracted, own]
    return Region(shape, sets)


def _convolved(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    x, w = (v.type for v in op.operands)
    if region.number is not None or region.band is not None:
        return at_least((x, w)[position].shape, 1)
    if position == 1:
        return Region(w.shape, [region.sets[1], *[None] * (w.rank - 1)])
    sets: list[Indices] = [region.sets[0], None]
    for axis, (n, k) in enumerate(zip(x.shape[2:], w.shape[2:], strict=True)):
        first = np.flatnonzero(region.indices(axis + 2)) * op.attrs["stride"][axis] - op.attrs["low"][axis]
        places = np.add.outer(first, np.arange(k) * op.attrs["dilation"][axis]).ravel()
        chosen = np.zeros(n, bool)
        chosen[places[(places >= 0) & (places < n)]] = True
        sets.append(chosen)
    return Region(x.shape, sets)


def _taken(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    x, index = (v.type for v in op.operands)
    axis = op.attrs["axis"]
    axes = range(axis, axis + index.rank)
    if position == 1:
        whole = region.is_all
        return Region(index.shape, [None if whole else region.along(a) for a in axes])
    made = op.operands[1].producer
    chosen: Indices = None
    if made is not None and made.name == "constant":
        rows = np.zeros(x.shape[axis], bool)
        rows[made.attrs["value"].array.astype(np.intp).ravel()] = True
        chosen = rows
    elif made is not None and made.name in ("full", "iota", "band"):
        return at_least(x.shape, 1)
    if chosen is not None and region.is_all:
        return Region(x.shape, [chosen if a == axis else None for a in range(x.rank)])
    rows = x.shape[axis] if chosen is None else int(chosen.sum())
    # The indices may all be different.
    share = region.count / max(index.size, rows)
    return at_least(x.shape, int(share * rows) if index.size else 0)


def _taken_along(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    x, index, axis = op.operands[0].type, op.operands[1].type, op.attrs["axis"]
    if position == 1:
        return region
    here, there = index.shape[axis], x.shape[axis]
    others = [a for a in range(x.rank) if a != axis]
    each = region.number is None and region.count and all(region.along(a) is None for a in others)
    # Whatever the indices are, every line has its own.
    lines = axis if each and all(index.shape[a] == x.shape[a] for a in others) else None
    return at_least(x.shape, region.count if here <= there else region.count * there // here, lines)


def _overwritten(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    """Of what was there, what certainly stays; all indices, and of what is written as much as may be needed."""
    shape = op.operands[position].type.shape
    if position == 1:
        return everything(shape)
    return at_least(shape, region.count - (op.operands[2].type.size if position == 0 else 0))


def _combined(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    """Whatever is combined may belong to a row that is needed."""
    return region if position == 0 else everything(op.operands[position].type.shape)


def _searched(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    """A search in sorted numbers looks at few of them, and instructions can have known ones in them."""
    if position:
        return region
    numbers = op.operands[0]
    known = numbers.producer is not None and numbers.producer.name == "constant"
    return nothing(numbers.type.shape) if known else at_least(numbers.type.shape, 1)


def _matrices(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    """Linear algebra: all of each matrix, or a triangle where the definition says so."""
    shape = op.operands[position].type.shape
    rank = len(shape)
    if not region.is_all or op.name in ("gauss", "cholesky_columns"):
        return nothing(shape)
    if op.name == "cholesky":
        return Region(shape, band=Band(rank - 2, rank - 1, None, 0))
    if op.name == "solve_triangular" and position == 0:
        least = 1 if op.attrs["unit_diagonal"] else 0
        limits = (None, -least) if op.attrs["lower"] else (least, None)
        return Region(shape, band=Band(rank - 2, rank - 1, *limits))
    return everything(shape)


def _same(analysis: Analysis, op: Op, region: Region, position: int) -> Region:
    return region


Rule = Callable[[Analysis, Op, Region, int], Region]

_FAMILIES: dict[str, Rule] = {
    "elementwise": _elementwise,
    "reduction": _reduced,
    "scan": _same,
    "contraction": _product,
    "linalg": _matrices,
}

_RULES: dict[str, Rule] = {
    "conv": _convolved,
    "take": _taken,
    "take_along_axis": _taken_along,
    "put_rows": _overwritten,
    "put_along_axis": _overwritten,
    "combine_rows": _combined,
    "checked_index": _same,
    "bounded_index": _same,
    "sort": _whole_lines,
    "argsort": _whole_lines,
    "topk": _whole_lines,
    "searchsorted": _searched,
    "count_before": _searched,
    "nonzero": lambda analysis, op, region, position: everything(op.operands[0].type.shape),
}
"""What is known of ops beyond moves and whole families; of any other op nothing is said to be needed."""
