"""Overlap of accesses: against sets of bytes on small patterns, never missed on large ones."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tilewright.tile import overlap
from tilewright.tile.overlap import Pattern, extent, overlaps, search


def touched(pattern: Pattern) -> set[tuple[int, int]]:
    """Every (partition, byte) of an access."""
    first, partitions, start, dims, itemsize = pattern
    found: set[tuple[int, int]] = set()
    for where in product(*[range(size) for size, _ in dims]):
        at = start + sum(index * stride for index, (_, stride) in zip(where, dims, strict=True))
        found.update((p, at + i) for p in range(first, first + partitions) for i in range(itemsize))
    return found


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """Small accesses: strides are multiples of the element, as they are in a tensor."""
    itemsize = draw(st.sampled_from([1, 2, 4]))
    dims = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), max_size=2))
    start = draw(st.integers(0, 20))
    scaled = tuple((size, stride * itemsize) for size, stride in dims)
    return draw(st.integers(0, 2)), draw(st.integers(1, 2)), start * itemsize, scaled, itemsize


@settings(max_examples=300, deadline=None)
@given(patterns(), patterns())
@example((0, 1, 0, ((4, 8),), 4), (0, 1, 4, ((4, 8),), 4))
@example((0, 1, 0, ((2, 0), (3, 4)), 4), (0, 1, 8, (), 4))
@example((0, 1, 0, ((2, 0), (2, 12)), 4), (0, 1, 4, (), 4))
@example((0, 1, 0, ((2, 4), (2, 4), (2, 20)), 4), (0, 1, 12, (), 4))
def test_overlap_is_exact_on_small_patterns(a: Pattern, b: Pattern):
    assert overlaps(a, b) == overlaps(b, a) == bool(touched(a) & touched(b))
    if a[:2] == b[:2]:
        assert search(a, b) == search(b, a) == overlaps(a, b)
    assert extent(a).meets(extent(b)) == overlaps(a, b)


@settings(max_examples=300, deadline=None)
@given(patterns(), patterns())
@example((0, 1, 0, ((2, 0), (2, 12)), 4), (0, 1, 4, (), 4))
@example((0, 1, 0, ((2, 4), (2, 4), (2, 20)), 4), (0, 1, 12, (), 4))
def test_what_covers_has_every_byte(a: Pattern, b: Pattern):
    if extent(a).covers(extent(b)):
        assert touched(a) >= touched(b)
    assert extent(a).covers(extent(a))


@settings(max_examples=150, deadline=None)
@given(patterns(), patterns())
def test_the_test_for_large_patterns_misses_nothing(a: Pattern, b: Pattern):
    assume(touched(a) & touched(b))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_EXACT_UP_TO", 0)
        assert overlaps(a, b)


def test_large_patterns_are_told_apart_by_their_strides():
    even = (0, 128, 0, ((1 << 15, 8),), 4)
    odd = (0, 128, 4, ((1 << 15, 8),), 4)
    assert not overlaps(even, odd)
    assert overlaps(even, (0, 128, 8, ((1 << 15, 8),), 4))
    assert not overlaps(even, (0, 64, 1 << 20, ((1 << 15, 8),), 4))
    assert not overlaps((0, 64, 0, ((1 << 15, 4),), 4), (64, 64, 0, ((1 << 15, 4),), 4))


def test_tiles_of_a_matrix_side_by_side_share_nothing():
    """However large they are: rows of one lie between rows of the other."""

    def tile(row: int, column: int, width: int = 512) -> Pattern:
        return 0, 1, (row * 8192 + column) * 4, ((128, 8192 * 4), (width, 4)), 4

    assert not overlaps(tile(0, 0), tile(0, 512))
    assert not overlaps(tile(0, 0), tile(128, 0))
    assert overlaps(tile(0, 0), tile(127, 511))
    assert not overlaps(tile(0, 0), tile(127, 512))
    # A whole row, and one that ends where a row of the tile begins.
    assert overlaps(tile(0, 512), (0, 1, 8192 * 4 * 5, ((8192, 4),), 4))
    assert not overlaps(tile(0, 512), (0, 1, 8192 * 4 * 5, ((512, 4),), 4))


def test_large_patterns_of_different_strides_are_searched():
    """Rows of one length between rows of another, of millions of elements."""
    rows = (0, 1, 0, ((3000, 4 * 1024), (500, 4)), 4)
    assert overlaps(rows, (0, 1, 4 * 512, ((1500, 8 * 1024), (500, 4)), 4))
    assert search(rows, (0, 1, 4 * 512, ((1500, 8 * 1024), (500, 4)), 4)) is False
    assert search(rows, (0, 1, 4 * 512, ((1500, 8 * 1024), (513, 4)), 4)) is True
    assert search(rows, (0, 1, 4 * 512, ((1500, 4 * 1023), (2, 4)), 4)) is True
