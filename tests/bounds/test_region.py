"""Regions against sets of elements: exact where they are described, never too great where they are counted."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.bounds.moves import narrowed, placed, sliced, widened
from tilewright.bounds.region import Band, Region, at_least, box, everything, nothing
from tilewright.bounds.reshaping import reshaped

SEEDS = range(60)


def random_region(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Region, np.ndarray]:
    """A region and its elements as truth values."""
    sets = [rng.random(n) < rng.choice([0.4, 1.0]) for n in shape]
    band = None
    if len(shape) >= 2 and rng.random() < 0.5:
        limits = [None if rng.random() < 0.3 else int(rng.integers(-4, 5)) for _ in range(2)]
        band = Band(len(shape) - 2, len(shape) - 1, *limits)
    region = Region(shape, sets, band)
    return region, dense(region)


def dense(region: Region) -> np.ndarray:
    """The elements of a region that is described."""
    assert region.number is None or region.number in (0, region.size)
    if region.number is not None:
        return np.full(region.shape, bool(region.number))
    found = np.ones(region.shape, bool)
    for axis in range(len(region.shape)):
        found &= region.indices(axis).reshape([-1 if a == axis else 1 for a in range(len(region.shape))])
    if region.band is not None:
        index = np.indices(region.shape)
        apart = index[region.band.column] - index[region.band.row]
        low, high = region.band.low, region.band.high
        found &= (apart >= (low if low is not None else apart)) & (apart <= (high if high is not None else apart))
    return found


def is_part(region: Region, truth: np.ndarray, exact: bool = False) -> None:
    """The region has no element that is not there; `exact`: it has all of them."""
    assert region.shape == truth.shape and region.count <= truth.sum()
    if region.number is None:
        assert region.count == dense(region).sum() and not (dense(region) & ~truth).any()
    if exact:
        assert region.count == truth.sum()


def shapes(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, 7, int(rng.integers(1, 4))))


@pytest.mark.parametrize("seed", SEEDS)
def test_sets_of_elements(seed: int):
    rng = np.random.default_rng(seed)
    shape = shapes(rng)
    (a, first), (b, second) = random_region(rng, shape), random_region(rng, shape)
    is_part(a, first, exact=True)
    is_part(a.both(b), first & second)
    is_part(a.either(b), first | second)
    is_part(a.outside(b), first & ~second)
    assert not a.apart(b) or not (first & second).any()
    joint = a.hull(b)
    assert joint is None or not ((first | second) & ~dense(joint)).any()
    for axis in range(len(shape)):
        seen = first.any(axis=tuple(x for x in range(len(shape)) if x != axis))
        found = a.along(axis)
        assert np.array_equal(seen, np.ones(shape[axis], bool) if found is None else found) or not first.any()
    perm = rng.permutation(len(shape)).tolist()
    is_part(a.permuted(perm), first.transpose(perm), exact=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_moves(seed: int):
    rng = np.random.default_rng(seed)
    shape = shapes(rng)
    region, truth = random_region(rng, shape)
    flat = (int(np.prod(shape)),)
    for other in (flat, (1, *shape), (*shape, 1), (shape[0], int(np.prod(shape[1:])))):
        is_part(reshaped(region, other), truth.reshape(other))
    steps = [int(rng.choice([-1, 1, 1, 2])) for _ in shape]
    sizes = [int(rng.integers(1, -(-n // abs(s)) + 1)) for n, s in zip(shape, steps, strict=True)]
    starts = [0 if s > 0 else n - 1 for n, s in zip(shape, steps, strict=True)]
    index = tuple(s + t * np.arange(n) for s, t, n in zip(starts, steps, sizes, strict=True))
    is_part(sliced(region, starts, sizes, steps), truth[np.ix_(*index)])
    part, chosen = random_region(rng, tuple(sizes))
    whole = np.zeros(shape, bool)
    whole[np.ix_(*index)] = chosen
    is_part(placed(part, shape, starts, steps), whole)
    small = tuple(1 if rng.random() < 0.4 else n for n in shape)
    lost = tuple(a for a, n in enumerate(small) if n != shape[a])
    is_part(narrowed(region, small), np.asarray(truth.any(axis=lost, keepdims=True)) if lost else truth)
    few, some = random_region(rng, small)
    is_part(widened(few, shape), np.broadcast_to(some, shape), exact=True)


def test_counted_regions_say_no_more_than_is_certain():
    shape = (4, 6)
    half, most = at_least(shape, 12), at_least(shape, 20)
    assert half.both(most).count == 8 and half.either(most).count == 20 and most.outside(half).count == 8
    assert sliced(most, (0, 0), (2, 6), (1, 1)).count == 8
    assert narrowed(half, (1, 6)).count == 3 and widened(at_least((1, 6), 2), shape).count == 8
    assert at_least(shape, 30) is everything(shape) and not nothing(shape).count
    assert box(shape, (0, 1), (2, 3), (2, 1)).count == 6
