"""Regions of an array whose axes are merged and split."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np

from tilewright.bounds.region import Band, Indices, Region, everything

_MOST_INDICES = 1 << 22
"""Axes that are merged or split are followed element by element up to this size."""


def reshaped(region: Region, shape: tuple[int, ...]) -> Region:
    """The same elements in another shape."""
    if region.is_all:
        return everything(shape)
    if region.number is not None:
        return Region(shape, number=region.number)
    sets: list[Indices] = [None] * len(shape)
    places: dict[int, int] = {}
    for old, new in _groups(region.shape, shape):
        if len(old) == len(new) == 1:
            sets[new[0]] = region.sets[old[0]]
            places[old[0]] = new[0]
        elif any(region.sets[a] is not None for a in old):
            found = _regrouped([region.indices(a) for a in old], [shape[a] for a in new])
            if found is None:
                return Region(shape, number=region.count)
            for axis, each in zip(new, found, strict=True):
                sets[axis] = each
    band = region.band
    if band is not None:
        if band.row not in places or band.column not in places:
            return Region(shape, number=region.count)
        band = Band(places[band.row], places[band.column], band.low, band.high)
    return Region(shape, sets, band)


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Runs of axes of two shapes with as many elements, the shortest ones, in order."""
    made: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + len(left), j + len(right)
        a, b = prod(old[x] for x in left), prod(new[x] for x in right)
        while a != b:
            if (a < b and i < len(old)) or j >= len(new):
                left.append(i)
                a, i = a * old[i], i + 1
            else:
                right.append(j)
                b, j = b * new[j], j + 1
        made.append((left, right))
    return made


def _regrouped(sets: list[np.ndarray], sizes: list[int]) -> list[np.ndarray] | None:
    """Index sets of merged axes as index sets of the axes that they are split into; None where they are no product."""
    if prod(len(s) for s in sets) > _MOST_INDICES or not sizes:
        return None
    chosen = reduce(np.logical_and.outer, sets).reshape(sizes)
    axes = range(len(sizes))
    made = [np.asarray(chosen.any(axis=tuple(b for b in axes if b != a))) for a in axes]
    return made if prod(int(s.sum()) for s in made) == int(chosen.sum()) else None
