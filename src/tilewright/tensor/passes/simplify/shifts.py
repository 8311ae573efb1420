"""Convolutions that are written as sums: parts of an array, each further on than the one before, times weights."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
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

    At least three terms; x may be padded, and one of them all of what was padded.
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
    if len(places) < len(terms) or len(moving) != 1:
        return None
    (axis,) = moving
    ordered = sorted((term for term in found if term is not None), key=lambda term: term.starts[axis])
    steps = {b.starts[axis] - a.starts[axis] for a, b in pairwise(ordered)}
    shape = op.result.type.shape
    if len(steps) != 1 or 0 in steps or any(not _is_same(term.weights, axis, len(shape)) for term in ordered):
        return None
    (dilation,) = steps
    count = (len(ordered) - 1) * dilation + shape[axis]
    sizes = (*shape[:axis], count, *shape[axis + 1 :])
    part = Box(ordered[0].starts, sizes, (1,) * len(shape)).of(base)
    seen = value("windows", part, axes=(axis,), sizes=(len(ordered),), stride=(1,), dilation=(dilation,))
    wide = tuple(max(n) for n in zip(*(_full(term.weights, len(shape)) for term in ordered), strict=True))
    columns = [
        value("broadcast_to", value("reshape", term.weights, shape=_full(term.weights, len(shape))), shape=wide)
        for term in ordered
    ]
    weights = value("concatenate", *(value("reshape", each, shape=(*wide, 1)) for each in columns), axis=len(shape))
    return value("sum", value("multiply", seen, weights), axes=(len(shape),), keepdims=False)


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


def _is_same(w: Value, axis: int, rank: int) -> bool:
    """Whether weights are the same for all places along an axis, but not for all of the others."""
    shape = _full(w, rank)
    return shape[axis] == 1 and any(n != 1 for n in shape)


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
