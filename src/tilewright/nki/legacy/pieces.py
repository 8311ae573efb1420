"""Instructions on tiles of more dims than an access pattern has, piece by piece, as the old compiler made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from tilewright.tile.record import Record
from tilewright.tile.view import View

# Instructions that compute each element from those at its place alone: no scans, patterns or positions.
POINTWISE = frozenset(
    {
        *("activation", "dma_copy", "memset", "reciprocal", "scalar_tensor_tensor"),
        *("tensor_copy", "tensor_scalar", "tensor_tensor"),
    }
)


def pieces(record: Record, operands: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    """The operands themselves, or those of instructions that each work on one place of the first free dims.

    Only what goes element by element can be cut; anything else is left to the rule about dims.
    """
    first = operands[0]
    if first.__class__ is not View or len(first.sizes) <= most or not _goes_by_elements(record, operands):
        yield operands
        return
    rank = len(first.sizes)
    # Values per partition have two dims and stay as they are.
    cut = [each.__class__ is View and len(each.sizes) == rank for each in operands]
    for place in product(*[range(size) for size in first.sizes[1 : rank - most + 1]]):
        yield [_at(each, place) if inside else each for each, inside in zip(operands, cut, strict=True)]


def _goes_by_elements(record: Record, operands: Sequence[Any]) -> bool:
    rank = len(operands[0].sizes)
    views = [each for each in operands if each.__class__ is View]
    results = [operands[position] for position in record.written if operands[position].__class__ is View]
    return (
        record.name in POINTWISE
        and len(results) == 1
        and all(len(each.sizes) in (2, rank) and each.dynamic is None for each in views)
    )


def _at(view: View, place: tuple[int, ...]) -> View:
    """A view without the free dims that a place has; those of one element repeat it."""
    steps = [step * min(at, size - 1) for at, step, size in zip(place, view.strides[1:], view.sizes[1:], strict=False)]
    sizes = (view.sizes[0], *view.sizes[len(place) + 1 :])
    strides = (view.strides[0], *view.strides[len(place) + 1 :])
    return View(view.buffer, view.dtype, view.offset + sum(steps), sizes, strides, view.terms, view.dynamic)
