"""How two accesses lie to each other: against lists of bytes on small views, with and without loop indices."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright import dtypes
from tilewright.dtypes import DType
from tilewright.ir.core import Value
from tilewright.tile.access import index, permute, reshape
from tilewright.tile.memory import HBM, PSUM, SBUF, Address, Buffer, MemoryRegion
from tilewright.tile.relation import (
    APART,
    COLUMNS,
    OVER,
    SAME,
    UNKNOWN,
    WITHIN,
    Relation,
    compare,
    relation,
    relation_at,
)
from tilewright.tile.view import Dynamic, View, whole

DTYPES = (dtypes.float32, dtypes.int32, dtypes.bfloat16)
PARTITIONS, ROW = 3, 24
TRIPS = range(3)
I, J = Value(None, name="i"), Value(None, name="j")


def elements(view: View, values: dict[Value, int]) -> list[tuple[int, int]] | None:
    """(partition, first byte) of every element in order; None when the access leaves its rows."""
    size = view.dtype.itemsize
    row = view.buffer.row_bytes
    place = view.buffer.address or Address(0, 0)
    start = view.offset + sum(values[value] * factor for value, factor in view.terms)
    first, begin = divmod(start * size, row)
    found: list[tuple[int, int]] = []
    for where in product(*map(range, view.sizes)):
        inner = where[1:] if view.on_chip else where
        strides = view.strides[1:] if view.on_chip else view.strides
        byte = begin + size * sum(i * s for i, s in zip(inner, strides, strict=True))
        partition = first + (where[0] if view.on_chip else 0)
        if not (0 <= byte < row and 0 <= partition < view.buffer.partitions):
            return None
        found.append((partition + place.partition, byte + place.byte))
    return found


def expected(a: View, b: View, values: dict[Value, int]) -> Relation | None:
    """What the elements say, one by one."""
    first, second = elements(a, values), elements(b, values)
    if first is None or second is None:
        return None
    reach = [
        {(p, x + i) for p, x in each for i in range(view.dtype.itemsize)} for each, view in ((first, a), (second, b))
    ]
    if not reach[0] & reach[1]:
        return APART
    places = [[byte for partition, byte in each if partition == each[0][0]] for each in (first, second)]
    size, other = a.dtype.itemsize, b.dtype.itemsize
    met = {
        (i, x, j, y) for i, x in enumerate(places[0]) for j, y in enumerate(places[1]) if x < y + other and y < x + size
    }
    run, rest = divmod(len(places[1]), len(places[0]))
    in_place = size == other and not rest and all((i, x) == (j // run, y) for i, x, j, y in met)
    alike = len({partition for partition, _ in first} ^ {partition for partition, _ in second}) == 0
    if not in_place or (run > 1 and not alike):
        return OVER
    return WITHIN if run > 1 else SAME if alike else COLUMNS


@st.composite
def views(draw: st.DrawFn, buffer: Buffer, dtype: DType, terms: bool = False) -> View:
    """An access of up to three dims, anywhere in its buffer."""
    dims = draw(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([-2, -1, 0, 1, 2, 3, 4, 6])), max_size=2))
    sizes, strides = [n for n, _ in dims], [s for _, s in dims]
    offset = draw(st.integers(0, ROW * 4 // dtype.itemsize - 1))
    row = buffer.row_bytes // dtype.itemsize
    if buffer.on_chip:
        sizes, strides = [draw(st.integers(1, 2)), *sizes], [row, *strides]
        offset = draw(st.integers(0, 1)) * row + offset % row
    found: list[tuple[Value, int]] = []
    if terms:
        factors = st.sampled_from([0, 1, 2, 4, -1, row, row - 1])
        found = [(value, factor) for value in (I, J) if (factor := draw(factors))]
        offset -= draw(st.sampled_from([0, *[factor for _, factor in found]]))
    return View(buffer, dtype, offset, tuple(sizes), tuple(strides), tuple(found))


@st.composite
def pairs(draw: st.DrawFn, terms: bool = False) -> tuple[View, View]:
    memory: MemoryRegion = draw(st.sampled_from([SBUF, HBM]))
    buffer = Buffer(dtypes.float32, (PARTITIONS, ROW) if memory is SBUF else (ROW,), memory, "x")
    a, b = draw(views(buffer, draw(st.sampled_from(DTYPES)), terms)), draw(views(buffer, draw(st.sampled_from(DTYPES))))
    if draw(st.booleans()):
        b = View(a.buffer, draw(st.sampled_from(DTYPES[:2])), a.offset + draw(st.integers(0, 1)), a.sizes, a.strides)
    if terms and draw(st.booleans()):
        ratio = a.dtype.itemsize, b.dtype.itemsize
        assume(all(factor * ratio[0] % ratio[1] == 0 for _, factor in a.terms))
        b.terms = tuple((value, factor * ratio[0] // ratio[1]) for value, factor in a.terms)
    elif terms:
        b = draw(views(buffer, b.dtype, True))
    return a, b


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_views_of_one_buffer(pair: tuple[View, View]):
    a, b = pair
    known = expected(a, b, {})
    assume(known is not None)
    assert relation(a, b) is relation_at(a, a.offset, b, b.offset) is known
    if WITHIN not in (known, relation(b, a)):
        assert relation(b, a) is known


@settings(max_examples=400, deadline=None)
@given(pairs(terms=True))
def test_views_that_loop_indices_move(pair: tuple[View, View]):
    """In every execution as it says, where it says so; where the indices move both alike, it always does."""
    a, b = pair
    found = {expected(a, b, {I: i, J: j}) for i in TRIPS for j in TRIPS}
    assume(None not in found)
    said = relation(a, b, {I: TRIPS, J: TRIPS})
    assert said is UNKNOWN or found == {said}
    moved = [{v: f * view.dtype.itemsize for v, f in view.terms} for view in pair]
    assert said is not UNKNOWN or moved[0] != moved[1]
    if said is not APART:
        assert relation(a, b) is said


def test_other_dims_of_the_same_elements_are_the_same():
    x = whole(Buffer(dtypes.float32, (8, 4, 6), SBUF, "x"))
    assert relation(x, reshape(x, (8, 24))) is SAME
    assert relation(x, permute(x, (0, 2, 1))) is OVER
    assert relation(x, index(x, (slice(0, 4),))) is COLUMNS
    y = whole(Buffer(dtypes.float32, (8, 16), SBUF, "y"))
    turned = View(y.buffer, y.dtype, 5, (8, 6), (16, -1))
    assert relation(index(y, (slice(0, 8), slice(5, 11))), turned) is SAME
    assert relation(index(y, (slice(0, 8), slice(4, 10))), turned) is OVER
    assert relation(index(x, (slice(0, 4),)), index(x, (slice(4, 8),))) is APART


def test_two_buffers_at_one_address_are_one_storage():
    def at(byte: int, memory: MemoryRegion = SBUF, depth: int = 1) -> View:
        return whole(Buffer(dtypes.float32, (8, 16), memory, "x", Address(0, byte), depth))

    assert relation(at(0), at(0)) is SAME
    assert relation(at(0), at(4)) is OVER
    assert relation(at(0), at(64)) is APART
    assert relation(at(0), at(0, PSUM)) is APART
    assert relation(at(0), at(0, depth=2)) is UNKNOWN
    assert relation(at(0), whole(Buffer(dtypes.float32, (8, 16), SBUF, "y"))) is APART
    moved = index(at(0), (slice(0, 8), slice(4, 8)))
    assert relation_at(moved, 4, at(0), 0, (Address(0, 0), Address(0, 16))) is OVER
    assert relation_at(moved, 4, at(0), 0, (Address(0, 0), Address(0, 32))) is APART


def test_run_time_indices():
    x = Buffer(dtypes.float32, (64, 16), HBM, "x")
    tiles = [whole(Buffer(dtypes.int32, (8, 1), SBUF, "rows")) for _ in range(2)]

    def rows(tile: View) -> View:
        return View(x, dtypes.float32, 0, (8, 16), (16, 1), (), Dynamic("vector", tile, 16, 64))

    assert relation(rows(tiles[0]), rows(tiles[0])) is SAME
    assert relation(rows(tiles[0]), rows(tiles[1])) is UNKNOWN
    assert relation(rows(tiles[0]), tiles[0]) is APART
    register = Value(None, name="r")
    one = View(x, dtypes.float32, 0, (1, 16), (16, 1), (), Dynamic("scalar", register, 16, 64))
    assert relation(one, index(whole(x), (slice(0, 1),))) is UNKNOWN
    assert relation_at(one, 5 * 16, index(whole(x), (slice(5, 6),)), 5 * 16) is SAME
    assert relation_at(one, 5 * 16, index(whole(x), (slice(6, 7),)), 6 * 16) is APART


@pytest.mark.parametrize("size", [6, 1 << 12])
def test_an_access_that_comes_back_is_not_the_same_as_itself(size: int):
    """What it wrote, it reads again."""
    again = (0, 1, 0, ((2, 0), (size, 4)), 4)
    assert compare(again, again) is OVER
    windows = (0, 1, 0, ((size, 4), (3, 4)), 4)
    assert compare(windows, windows) is OVER
    woven = (0, 1, 0, ((2, 4), (size, 8)), 4)
    assert compare(woven, woven) is SAME
