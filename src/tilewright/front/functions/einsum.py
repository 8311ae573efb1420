"""Sums of products over named dims, as transposes, reshapes and plain (batched) products of matrices.

Every contraction of NumPy is such a sum: `contract` takes two terms at a time. A dim of both terms that the result
keeps is a batch dim, one that it does not keep is summed over, the others are rows and columns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

from tilewright.dtypes import DType, bool_, float32
from tilewright.front.functions.moves import cast, piece, reshaped, transposed
from tilewright.front.trace import emit
from tilewright.ir.core import Value

Labels = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """A value with a name for each of its dims."""

    value: Value
    labels: Labels

    def size(self, label: Hashable) -> int:
        """The size of a named dim."""
        return self.value.type.shape[self.labels.index(label)]

    def ordered(self, labels: Sequence[Hashable]) -> Value:
        """The value with its dims in the order of `labels`; those it lacks get size 1."""
        mine = [label for label in labels if label in self.labels]
        value = transposed(self.value, [self.labels.index(label) for label in mine])
        return reshaped(value, tuple(self.size(label) if label in self.labels else 1 for label in labels))


def sum_of_products(terms: Sequence[Term], out: Labels) -> Value:
    """The sum of the product of all terms over every label that `out` lacks, with dims in the order of `out`.

    Dims of equal labels have equal sizes, or size 1, which is repeated.
    """
    dtype = terms[0].value.type.dtype
    if is_narrow(dtype) and (len(terms) > 2 or _own_sums(terms, out)):
        # NumPy rounds such a sum once, so that nothing between may be rounded.
        terms = [Term(cast(term.value, float32), term.labels) for term in terms]
    sizes: dict[Hashable, int] = {}
    for term in terms:
        for label, size in zip(term.labels, term.value.type.shape, strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    left = [_shrunk(_diagonal(term), sizes) for term in terms]
    left = [_summed(term, _kept(left, [i], out)) for i, term in enumerate(left)]
    while len(left) > 1:
        i, j = min(combinations(range(len(left)), 2), key=lambda pair: _cost(left, pair, sizes))
        rest = [term for at, term in enumerate(left) if at not in (i, j)]
        product = contract(left[i], left[j], _kept(left, [i, j], out), out if not rest else None)
        left = [*rest, product]
    # A dim of size 1 everywhere was no reason to keep it in any term.
    return cast(left[0].ordered(out), dtype)


def is_narrow(dtype: DType) -> bool:
    """True for floats that are summed in float32."""
    return dtype.is_float and dtype.itemsize < float32.itemsize


def _own_sums(terms: Sequence[Term], out: Labels) -> set[Hashable]:
    """Labels of one term alone that are summed over."""
    counts = Counter(label for term in terms for label in set(term.labels))
    return {label for label, count in counts.items() if count == 1 and label not in out and len(terms) > 1}


def _kept(terms: Sequence[Term], own: Sequence[int], out: Labels) -> set[Hashable]:
    """Labels that the result or a term other than `own` needs."""
    others = [term.labels for at, term in enumerate(terms) if at not in own]
    return {*out, *(label for labels in others for label in labels)}


def _cost(terms: Sequence[Term], pair: tuple[int, int], sizes: dict[Hashable, int]) -> tuple[int, int]:
    """Multiplications of contracting a pair, and their distance: neighbours first where all else is equal."""
    labels = {*terms[pair[0]].labels, *terms[pair[1]].labels}
    return math.prod(sizes[label] for label in labels), pair[1] - pair[0]


def _diagonal(term: Term) -> Term:
    """A label that stands for several dims of a term means their diagonal."""
    value, labels = term.value, list(term.labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            n = value.type.shape[first]
            others = [a for a in range(len(labels)) if a not in (first, second)]
            shape = tuple(value.type.shape[a] for a in others)
            flat = reshaped(transposed(value, [*others, first, second]), (*shape, n * n))
            value = piece(flat, len(shape), 0, n, n + 1)
            labels = [*(labels[a] for a in others), label]
    return Term(value, tuple(labels))


def _shrunk(term: Term, sizes: dict[Hashable, int]) -> Term:
    """Without dims of size 1 that other terms have in full."""
    labels = tuple(label for label in term.labels if term.size(label) == sizes[label])
    return Term(reshaped(term.value, tuple(sizes[label] for label in labels)), labels)


def _summed(term: Term, kept: set[Hashable]) -> Term:
    """Summed over what nobody else needs."""
    axes = tuple(a for a, label in enumerate(term.labels) if label not in kept)
    if not axes:
        return term
    return Term(_sum(term.value, axes), tuple(label for label in term.labels if label in kept))


def _sum(value: Value, axes: tuple[int, ...]) -> Value:
    """A sum in the element type, which of truths is whether any is true."""
    return emit("any" if value.type.dtype == bool_ else "sum", value, axes=axes, keepdims=False)


def contract(x: Term, y: Term, kept: set[Hashable], out: Labels | None = None) -> Term:
    """The sum of x * y over the labels that are not kept; `out` is the order that the result should have."""
    both = [label for label in x.labels if label in y.labels]
    summed = [label for label in both if label not in kept]
    batch = _as_in(out, [label for label in both if label in kept])
    rows = _as_in(out, [label for label in x.labels if label not in both])
    columns = _as_in(out, [label for label in y.labels if label not in both])
    if not summed:
        labels = _as_in(out, [*batch, *rows, *columns])
        return Term(emit("multiply", x.ordered(labels), y.ordered(labels)), tuple(labels))
    if batch and not rows and not columns:
        return _products(x, y, batch, summed)
    if out is not None and list(out) == [*batch, *columns, *rows] and rows and columns:
        return _matmul(y, x, batch, columns, rows, summed)
    return _matmul(x, y, batch, rows, columns, summed)


def _as_in(out: Labels | None, labels: list[Hashable]) -> list[Hashable]:
    return labels if out is None else sorted(labels, key=out.index)


def _products(x: Term, y: Term, batch: list[Hashable], summed: list[Hashable]) -> Term:
    """Products of vectors, each with its own: a multiplication and a sum."""
    labels = [*batch, *summed]
    dtype = x.value.type.dtype
    wide = float32 if is_narrow(dtype) else dtype
    product = emit("multiply", cast(x.ordered(labels), wide), cast(y.ordered(labels), wide))
    axes = tuple(range(len(batch), len(labels)))
    return Term(cast(_sum(product, axes), dtype), tuple(batch))


def _matmul(
    x: Term, y: Term, batch: list[Hashable], rows: list[Hashable], columns: list[Hashable], summed: list[Hashable]
) -> Term:
    """x as [*batch, rows, summed] times y as [*batch, summed, columns]."""
    # The order of what is summed over is free: take the one of y where that saves a transpose.
    of_y = [label for label in y.labels if label in summed]
    if list(y.labels) == [*batch, *of_y, *columns]:
        summed = of_y
    sizes = {label: term.size(label) for term in (x, y) for label in term.labels}

    def merged(term: Term, *groups: list[Hashable]) -> Value:
        value = term.ordered([*batch, *(label for group in groups for label in group)])
        shape = [sizes[label] for label in batch] + [math.prod(sizes[label] for label in group) for group in groups]
        return reshaped(value, tuple(shape))

    product = emit("matmul", merged(x, rows, summed), merged(y, summed, columns))
    labels = (*batch, *rows, *columns)
    return Term(reshaped(product, tuple(sizes[label] for label in labels)), labels)
