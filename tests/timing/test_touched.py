"""Bytes of a tensor that transfers touched: against sets of bytes, with few places and with too many."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.timing import touched
from tilewright.timing.touched import Kind, Starts, bytes_of, union

TENSOR = 256


def bytes_touched(kind: Kind, start: int) -> set[int]:
    dims, itemsize = kind
    places = product(*[range(0, size * stride, stride) if stride else [0] * size for size, stride in dims])
    return {start + sum(place) + i for place in places for i in range(itemsize)}


@st.composite
def accesses(draw: st.DrawFn) -> dict[Kind, list[int]]:
    """Accesses of a tensor of 256 bytes, 16 to a row: rows, parts of rows, single elements, now and then odd ones."""
    found: dict[Kind, list[int]] = {}
    for _ in range(draw(st.integers(1, 3))):
        rows, width = draw(st.integers(1, 4)), draw(st.integers(1, 4))
        pitch = draw(st.sampled_from([16, 16, 16, 24]))
        dims = draw(
            st.sampled_from([((rows, pitch), (width, 4)), ((width, 4),), ((2, 0), (width, 4)), ((rows, 16),), ()])
        )
        kind = (dims, 4)
        room = TENSOR - max(bytes_touched(kind, 0)) - 1
        starts = draw(
            st.lists(st.integers(0, room // 4).map(lambda place: 4 * place), min_size=1, max_size=6, unique=True)
        )
        found[kind] = sorted({*found.get(kind, []), *starts})
    return found


@given(accesses())
def test_every_byte_counts_once(found: dict[Kind, list[int]]):
    expected = {byte for kind, starts in found.items() for start in starts for byte in bytes_touched(kind, start)}
    assert union(found, TENSOR) == len(expected)


def test_nothing_is_nothing():
    assert union({}, TENSOR) == 0
    assert bytes_of((((3, 0), (4, 2)), 2)) == 8


def test_places_are_kept_once_and_not_without_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(touched, "_MOST_PLACES", 2000)
    starts = Starts()
    assert all(starts.add(place % 1500) for place in range(6000))
    assert list(starts.places()) == list(range(1500)) and starts.added == 6000
    told = [starts.add(place) for place in range(20_000)]
    assert sum(told) == starts.added - 6000
    kept = len(starts.places())
    assert 2000 <= kept <= 4000 and told[:kept] == [True] * kept and not any(told[kept:])
