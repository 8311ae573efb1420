"""Convolutions that are written as sums: parts of an array, each further on than the one before, times weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import is_number, maker, used_once
from tilewright.tensor.passes.simplify.slices import Box, box_of

_FEWEST = 3
"""Terms from which on a sum may be a convolution."""


@dataclass(frozen=True, slots=True)
class _Term:
    """base[..., start : start + count, ...] * weights"""

    base: Value
    starts: tuple[int, ...]
    weights: Value


@rule("add", exact=False, ulp=4.0)
def sum_of_shifted(op: Op) -> Any:
    """x[0:n] * a + x[1:n + 1] * b + ... -> sum(windows(x) * [a, b, ...])        of weights that are the same for all n

    At least three terms, along one axis or for every place of a box; x may be padded, and one of them all of what was
    padded.
    """
    if any(use.name == "add" for use in op.result.uses) or not op.result.type.dtype.is_float:
        return None
    terms = _terms(op.result, op.result.type.shape)
    if terms is None or len(terms) < _FEWEST:
        return None
    base = max(terms, key=lambda term: term.base.type.size).base
    found = [_within(term, base) for term in terms]
    places = [term.starts for term in found if term is not None]
    moving = [a for a in range(base.type.rank) if len({place[a] for place in places}) > 1]
    if len(places) < len(terms) or not moving:
        return None
    along = [sorted({place[a] for place in places}) for a in moving]
    steps = [{b - a for a, b in pairwise(each)} for each in along]
    shape = op.result.type.shape
    by_place = {tuple(term.starts[a] for a in moving): term for term in found if term is not None}
    is_box = len(by_place) == len(terms) == prod(map(len, along)) and all(len(step) == 1 for step in steps)
    if not is_box or any(not _is_same(term.weights, moving, len(shape)) for term in terms):
        return None
    dilation, counts = tuple(step.pop() for step in steps), tuple(map(len, along))
    ordered = [by_place[place] for place in product(*along)]
    sizes = list(shape)
    for a, count, apart in zip(moving, counts, dilation, strict=True):
        sizes[a] += (count - 1) * apart
    part = Box(ordered[0].starts, tuple(sizes), (1,) * len(shape)).of(base)
    ones = (1,) * len(moving)
    seen = value("windows", part, axes=tuple(moving), sizes=counts, stride=ones, dilation=dilation)
    wide = tuple(max(n) for n in zip(*(_full(term.weights, len(shape)) for term in ordered), strict=True))
    columns = [
        value("broadcast_to", value("reshape", term.weights, shape=_full(term.weights, len(shape))), shape=wide)
        for term in ordered
    ]
    weights = value("concatenate", *(value("reshape", each, shape=(*wide, 1)) for each in columns), axis=len(shape))
    weights = value("reshape", weights, shape=(*wide, *counts))
    over = tuple(range(len(shape), len(shape) + len(moving)))
    return value("sum", value("multiply", seen, weights), axes=over, keepdims=False)


def _terms(x: Value, shape: tuple[int, ...]) -> list[_Term] | None:
    """The products that are added up, or None where there is anything else."""
    found: list[_Term] = []
    left: list[Any] = [x]
    # Not by recursion: programs may add up thousands of terms.
    while left:
        y = left.pop()
        if is_number(y, 0):
            continue
        op = maker(y, "add")
        if op is not None and op.result.type.shape == shape and (y is x or used_once(y)):
            left += reversed(op.operands)
            continue
        term = _term(y, shape) if y is x or (isinstance(y, Value) and used_once(y)) else None
        if term is None:
            return None
        found.append(term)
    return found


def _term(x: Value, shape: tuple[int, ...]) -> _Term | None:
    product = maker(x, "multiply")
    if product is None or product.result.type.shape != shape:
        return None
    for y, w in (product.operands, product.operands[::-1]):
        if isinstance(y, Value) and isinstance(w, Value) and y.type.shape == shape != w.type.shape:
            cut = maker(y, "slice")
            if cut is None or any(step != 1 for step in cut.attrs["steps"]):
                return _Term(y, (0,) * len(shape), w)
            return _Term(cut.operands[0], box_of(cut).starts, w)
    return None


def _within(term: _Term, base: Value) -> _Term | None:
    """A term as a part of the base: of that itself, or of what it is padded from."""
    if term.base is base:
        return term
    padded = maker(base, "pad")
    if padded is None or padded.operands[0] is not term.base:
        return None
    return _Term(base, tuple(a + b for a, b in zip(term.starts, padded.attrs["low"], strict=True)), term.weights)


def _full(w: Value, rank: int) -> tuple[int, ...]:
    return (1,) * (rank - w.type.rank) + w.type.shape


def _is_same(w: Value, axes: Sequence[int], rank: int) -> bool:
    """Whether weights are the same for all places along some axes, but not for all of the others."""
    shape = _full(w, rank)
    return all(shape[a] == 1 for a in axes) and any(n != 1 for n in shape)


@rule("conv")
def conv_of_padded(op: Op) -> Any:
    """conv(pad(x, 0), w) -> conv(x, w) with padding        , also of transpose(pad(x, 0))"""
    x, w = op.operands
    turned = maker(x, "transpose")
    inner = maker(x if turned is None else turned.operands[0], "pad")
    if inner is None or inner.attrs["value"] != 0 or not inner.operands[0].type.size:
        return None
    perm = turned.attrs["perm"] if turned is not None else tuple(range(x.type.rank))
    low, high = (tuple(inner.attrs[side][a] for a in perm) for side in ("low", "high"))
    if any(low[:2]) or any(high[:2]) or min(*low, *high) < 0:
        return None
    source = inner.operands[0]
    source = source if turned is None else value("transpose", source, perm=perm)
    sides = {
        side: tuple(a + b for a, b in zip(op.attrs[side], more[2:], strict=True))
        for side, more in (("low", low), ("high", high))
    }
    return value("conv", source, w, **{**op.attrs, **sides})
