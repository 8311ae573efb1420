"""Views against NumPy on the same storage: every chain of view operations names the elements NumPy names."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import nisa, nl, run
from tilewright import dtypes
from tilewright.errors import TileError
from tilewright.sim.storage import Storage
from tilewright.tile import access
from tilewright.tile.access import Slice
from tilewright.tile.memory import HBM, PSUM, SBUF, Buffer, MemoryRegion
from tilewright.tile.view import View, row_major, whole

MEMORIES = st.sampled_from([HBM, SBUF, PSUM])


@st.composite
def bases(draw: st.DrawFn, memory: st.SearchStrategy[MemoryRegion] = MEMORIES) -> tuple[View, np.ndarray]:
    """A whole buffer and a NumPy array whose elements are their own positions in it."""
    place = draw(memory)
    sizes = tuple(draw(st.lists(st.integers(1, 6), min_size=1 if place is HBM else 2, max_size=4)))
    return whole(Buffer(dtypes.float32, sizes, place, "x")), np.arange(prod(sizes)).reshape(sizes)


def positions(view: View) -> np.ndarray:
    """The element of the buffer that each element of a view names."""
    found = np.full(view.sizes, view.offset)
    for dim, (size, stride) in enumerate(zip(view.sizes, view.strides, strict=True)):
        found += (np.arange(size) * stride).reshape([-1 if d == dim else 1 for d in range(view.ndim)])
    return found


def same(view: View, array: np.ndarray) -> None:
    assert view.sizes == array.shape
    np.testing.assert_array_equal(positions(view), array)


# One strategy per operation: draws legal arguments and returns the view and NumPy's idea of it.

Pair = tuple[View, np.ndarray]


def keep_rank(view: View, array: np.ndarray, dropped: list[int]) -> np.ndarray:
    """Integer indices by NKI's rule: partitions stay, the innermost indexed dim stays where the rank needs it."""
    removable = [d for d in dropped if d or not view.on_chip]
    while removable and array.ndim - len(removable) < (2 if view.on_chip else 1):
        removable.pop()
    return array.squeeze(tuple(removable))


def draw_index(draw: st.DrawFn, view: View, array: np.ndarray) -> Pair:
    key: list[Any] = []
    plain: list[slice] = []
    dropped: list[int] = []
    for dim, size in enumerate(view.sizes[: draw(st.integers(0, view.ndim))]):
        kind = draw(st.sampled_from(["int", "slice", "ds", "all", "end"]))
        if kind == "int":
            at = draw(st.integers(-size, size - 1))
            key.append(draw(st.sampled_from([at, np.int64(at)])))
            plain.append(slice(at % size, at % size + 1))
            dropped.append(dim)
            continue
        start = draw(st.integers(0, size - 1))
        stop = draw(st.integers(start + 1, size))
        step = 1 if view.on_chip and dim == 0 else draw(st.integers(1, 3))
        if kind == "ds":
            key.append(Slice(start, stop - start))
            plain.append(slice(start, stop))
        elif kind == "slice":
            key.append(slice(start, stop, step))
            plain.append(key[-1])
        elif kind == "end":
            key.append(slice(start - size, None))
            plain.append(slice(start, None))
        else:
            key.append(slice(None))
            plain.append(slice(None))
    if len(key) < view.ndim and draw(st.booleans()):
        key.append(Ellipsis)
    made = access.index(view, tuple(key) if len(key) != 1 else key[0])
    return made, keep_rank(view, array[tuple(plain)], dropped)


def draw_leading_ellipsis(draw: st.DrawFn, view: View, array: np.ndarray) -> Pair:
    size = view.sizes[-1]
    stop = draw(st.integers(1, size))
    return access.index(view, (..., slice(0, stop))), array[..., :stop]


def draw_slice(draw: st.DrawFn, view: View, array: np.ndarray) -> Pair:
    dim = draw(st.integers(0, view.ndim - 1))
    start = draw(st.integers(0, view.sizes[dim] - 1))
    stop = draw(st.integers(start + 1, view.sizes[dim]))
    step = 1 if view.on_chip and dim == 0 else draw(st.integers(1, 3))
    key = [slice(None)] * dim + [slice(start, stop, step)]
    return access.slice_dim(view, dim, start, stop, step), array[tuple(key)]


def draw_select(draw: st.DrawFn, view: View, array: np.ndarray) -> Pair:
    dim = draw(st.integers(0, view.ndim - 1))
    at = draw(st.integers(0, view.sizes[dim] - 1))
    kept = array[tuple([slice(None)] * dim + [slice(at, at + 1)])]
    return access.select(view, dim, at), keep_rank(view, kept, [dim])


def draw_permute(draw: st.DrawFn, view: View, array: np.ndarray) -> Pair:
    first = [0] if view.on_chip else []
    order = first + draw(st.permutations(range(len(first), view.ndim)))
    return access.permute(view, order), array.transpose(order)


def draw_broadcast(draw: st.DrawFn, view: View, array: np.ndarray) -> Pair:
    dims = [d for d, size in enumerate(view.sizes) if size == 1 and (d or not view.on_chip)]
    if not dims:
        return view, array
    dim, size = draw(st.sampled_from(dims)), draw(st.integers(1, 4))
    shape = [size if d == dim else each for d, each in enumerate(array.shape)]
    return access.broadcast(view, dim, size), np.broadcast_to(array, shape)


def draw_expand(draw: st.DrawFn, view: View, array: np.ndarray) -> Pair:
    dim = draw(st.integers(1 if view.on_chip else 0, view.ndim))
    return access.expand_dim(view, dim), np.expand_dims(array, dim)


def draw_squeeze(draw: st.DrawFn, view: View, array: np.ndarray) -> Pair:
    dims = [d for d, size in enumerate(view.sizes) if size == 1 and (d or not view.on_chip)]
    if not dims or view.ndim == (2 if view.on_chip else 1):
        return view, array
    dim = draw(st.sampled_from(dims))
    return access.squeeze_dim(view, dim), array.squeeze(dim)


def splits(size: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Ways to write a size as a product of up to three sizes."""
    return st.sampled_from(
        [(size,)]
        + [(a, size // a) for a in range(1, size + 1) if size % a == 0]
        + [(a, b, size // (a * b)) for a in range(1, size + 1) for b in range(1, size + 1) if size % (a * b) == 0]
    )


def draw_reshape_dim(draw: st.DrawFn, view: View, array: np.ndarray) -> Pair:
    dim = draw(st.integers(1 if view.on_chip else 0, view.ndim - 1))
    shape = draw(splits(view.sizes[dim]))
    new = array.shape[:dim] + shape + array.shape[dim + 1 :]
    asked = list(shape)
    if draw(st.booleans()):
        asked[draw(st.integers(0, len(shape) - 1))] = -1
    return access.reshape_dim(view, dim, asked), array.reshape(new)


def needs_copy(view: View, shape: tuple[int, ...]) -> bool:
    """Whether NumPy could not reshape an array of these strides in place (on chip: within each partition)."""
    first = 1 if view.on_chip else 0
    laid_out = np.lib.stride_tricks.as_strided(np.zeros(1), view.sizes[first:], [8 * s for s in view.strides[first:]])
    try:
        laid_out.shape = shape[first:]
    except AttributeError:
        return True
    return False


def draw_reshape(draw: st.DrawFn, view: View, array: np.ndarray) -> Pair:
    first = (view.sizes[0],) if view.on_chip else ()
    rest = prod(view.sizes[len(first) :])
    shape = first + draw(splits(rest))
    if needs_copy(view, shape):
        with pytest.raises(TileError) as caught:
            access.reshape(view, shape)
        assert caught.value.diagnostic.rule == "R-tensor.reshape-03"
        return view, array
    return access.reshape(view, shape), array.reshape(shape)


def draw_flatten(draw: st.DrawFn, view: View, array: np.ndarray) -> Pair:
    start = draw(st.integers(1 if view.on_chip else 0, view.ndim - 1))
    end = draw(st.integers(start, view.ndim - 1))
    shape = (*array.shape[:start], prod(array.shape[start : end + 1]), *array.shape[end + 1 :])
    try:
        return access.flatten_dims(view, start, end), array.reshape(shape)
    except TileError as error:
        assert error.diagnostic.rule == "R-tensor.flatten_dims-01"
        assert needs_copy(view, shape)
        return view, array


def draw_rearrange(draw: st.DrawFn, view: View, array: np.ndarray) -> Pair:
    dim = draw(st.integers(1 if view.on_chip else 0, view.ndim - 1))
    shape = draw(splits(view.sizes[dim]))
    names = [f"d{i}" for i in range(view.ndim)]
    inner = [f"s{i}" for i in range(len(shape))]
    source: list[Any] = [tuple(inner) if d == dim else name for d, name in enumerate(names)]
    flat = [*names[:dim], *inner, *names[dim + 1 :]]
    split = array.reshape(array.shape[:dim] + shape + array.shape[dim + 1 :])
    first = flat[:1] if view.on_chip else []
    order = first + draw(st.permutations(flat[len(first) :]))
    made = access.rearrange(view, source, order, dict(zip(inner, shape, strict=True)))
    return made, split.transpose([flat.index(name) for name in order])


OPERATIONS: list[Callable[..., Pair]] = [
    draw_index,
    draw_leading_ellipsis,
    draw_slice,
    draw_select,
    draw_permute,
    draw_broadcast,
    draw_expand,
    draw_squeeze,
    draw_reshape_dim,
    draw_reshape,
    draw_flatten,
    draw_rearrange,
]


@pytest.mark.filterwarnings("ignore:Setting the shape")
@settings(max_examples=400, deadline=None)
@given(st.data())
def test_chains_of_view_operations_name_the_elements_numpy_names(data: st.DataObject) -> None:
    view, array = data.draw(bases())
    for operation in data.draw(st.lists(st.sampled_from(OPERATIONS), max_size=5)):
        if view.ndim > 5:
            break
        view, array = operation(data.draw, view, array)
        same(view, array)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_ap_is_as_strided(data: st.DataObject) -> None:
    view, array = data.draw(bases())
    row = view.row
    offset = data.draw(st.integers(0, array.size - 1))
    partition, first = divmod(offset, row)
    pairs: list[list[int]] = []
    room = row - 1 - first if view.on_chip else array.size - 1 - offset
    if view.on_chip:
        pairs.append([row, data.draw(st.integers(1, view.buffer.partitions - partition))])
    for _ in range(data.draw(st.integers(1, 3))):
        step = data.draw(st.integers(0, max(room, 1)))
        count = data.draw(st.integers(1, 4 if step == 0 else 1 + min(room // step, 5)))
        room -= step * (count - 1)
        pairs.append([step, count])
    made = access.access_pattern(view, pairs, offset)
    flat = np.ascontiguousarray(array).reshape(-1)
    strides = [8 * step for step, _ in pairs]
    same(made, np.lib.stride_tricks.as_strided(flat[offset:], [count for _, count in pairs], strides))
    assert made.offset == offset


TYPES = [dtypes.uint8, dtypes.bfloat16, dtypes.float16, dtypes.int32, dtypes.float32]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_view_of_another_type_is_numpys(data: st.DataObject) -> None:
    old, new = data.draw(st.sampled_from(TYPES)), data.draw(st.sampled_from(TYPES))
    place = data.draw(MEMORIES)
    sizes = (*data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)), data.draw(st.integers(1, 8)))
    buffer = Buffer(old, sizes, place, "x")
    content = np.random.default_rng(0).integers(0, 255, prod(sizes) * old.itemsize, np.uint8)
    array = content.copy().view(old.np).reshape(sizes)
    view = whole(buffer)
    start = data.draw(st.integers(0, sizes[-1] - 1))
    view, array = access.index(view, (..., slice(start, None))), array[..., start:]
    try:
        expected = array.view(new.np)
    except ValueError:
        with pytest.raises(TileError) as caught:
            access.reinterpret(view, new)
        assert caught.value.diagnostic.rule == "R-tensor.view-02"
        return
    if (start * old.itemsize) % new.itemsize or (sizes[-1] * old.itemsize) % new.itemsize:
        return
    made = access.reinterpret(view, new)
    assert made.sizes == expected.shape
    storage = Storage(buffer, content)
    got = storage.array(made, made.offset)
    assert got.dtype == new.np
    assert got.tobytes() == expected.tobytes()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_ap_with_a_type_counts_in_that_type(data: st.DataObject) -> None:
    """R-tensor.ap-10."""
    place = data.draw(MEMORIES)
    buffer = Buffer(dtypes.int32, (4, 6), place, "x")
    content = np.random.default_rng(1).integers(0, 255, 96, np.uint8)
    offset = data.draw(st.integers(0, 3))
    made = access.access_pattern(whole(buffer), [[12, 4], [2, 4]], offset, dtype=dtypes.bfloat16)
    halves = content.view(np.uint16).reshape(4, 12)[:, offset : offset + 7 : 2]
    got = Storage(buffer, content).array(made, made.offset)
    np.testing.assert_array_equal(got.view(np.uint16), halves)


# Reading and writing through the machine.


@pytest.mark.rule("R-tensor-13", "holds")
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.hbm, nl.shared_hbm])
def test_a_write_through_one_view_is_seen_through_all(buffer: Any) -> None:
    def kernel(x: Any) -> Any:
        t = nl.ndarray((32, 24), nl.float32, buffer)
        nisa.dma_copy(t, x)
        folded = t.reshape((32, 4, 6))
        turned = folded.permute((0, 2, 1))
        nisa.dma_copy(turned[:, 1, :], x[:, 0:4])
        nisa.dma_copy(t.view(nl.int32)[:, 23:24], x.view(nl.int32)[:, 0:1])
        nisa.dma_copy(t.ap([[24, 32], [12, 2]], offset=2), x[:, 5:7])
        out = nl.ndarray((32, 24), nl.float32, nl.shared_hbm)
        nisa.dma_copy(out.rearrange(("p", ("a", "b")), ("p", "b", "a"), {"a": 4}), turned)
        return out

    x = np.random.default_rng(0).standard_normal((32, 24)).astype(np.float32)
    expected = x.copy()
    expected.reshape(32, 4, 6).transpose(0, 2, 1)[:, 1, :] = x[:, 0:4]
    expected[:, 23] = x[:, 0]
    expected[:, [2, 14]] = x[:, 5:7]
    np.testing.assert_array_equal(run(kernel, x), expected)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_copy_between_random_views_moves_what_numpy_moves(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=2, max_size=3)))
    array = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    key = tuple(slice(data.draw(st.integers(0, size - 1)), size) for size in shape)
    order = (0, *data.draw(st.permutations(range(1, len(shape)))))

    def kernel(x: Any) -> Any:
        tile = nl.ndarray(shape, nl.float32, nl.sbuf)
        nisa.dma_copy(tile, x)
        chosen = tile[key].permute(order)
        out = nl.ndarray(chosen.shape, nl.float32, nl.shared_hbm)
        nisa.dma_copy(out, chosen)
        return out

    np.testing.assert_array_equal(run(kernel, array), array[key].transpose(order))


def test_whole_views_are_row_major() -> None:
    assert row_major((2, 3, 4)) == (12, 4, 1)
    view = whole(Buffer(dtypes.float32, (2, 3, 4), SBUF, "x"))
    assert view.covers_buffer() and view.is_contiguous()
    assert access.reshape(view, (2, 12)).covers_buffer()
    assert not access.permute(view, (0, 2, 1)).covers_buffer()
    assert not access.index(view, (slice(0, 1),)).covers_buffer()


@pytest.mark.parametrize(
    ("make", "contiguous"),
    [
        (lambda t: t, True),
        (lambda t: t[:, 0:2], True),
        (lambda t: t[:, 1], True),
        (lambda t: t[1:3], True),
        (lambda t: t.reshape((4, 12)), True),
        (lambda t: t[:, :, 0:2], False),
        (lambda t: t[:, ::2], False),
        (lambda t: t.permute((0, 2, 1)), False),
        (lambda t: t[:, 0:1].broadcast(1, 2), False),
    ],
)
def test_contiguity_on_chip_is_per_partition(make: Callable[[Any], Any], contiguous: bool) -> None:
    def kernel(x: Any) -> None:
        assert make(nl.ndarray((4, 4, 3), nl.float32, nl.sbuf)).is_contiguous() == contiguous

    run(kernel)


def test_the_guides_examples() -> None:
    """Shapes, strides and offsets that the language guide states."""

    def kernel(x: Any) -> None:
        t = nl.ndarray((128, 64), nl.float32, nl.sbuf)
        assert (t.shape, t.strides, t.offset, t.ndim, t.size) == ((128, 64), (64, 1), 0, 2, 128 * 64)
        assert t.dtype == nl.float32 and t.buffer == nl.sbuf
        u = t.slice(dim=1, start=8, end=24)
        assert u.get_pattern() == [[64, 128], [1, 16]] and u.offset == 8
        v = t.ap(pattern=[[64, 128], [1, 16]], offset=8)
        assert v.get_pattern() == u.get_pattern() and v.offset == u.offset
        assert t.view(nl.uint8).shape == (128, 256)
        assert t.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4}).shape == (128, 16, 4)
        w = nl.ndarray((64, 64, 64), nl.float32, nl.sbuf)
        assert w[0, 0, 10].shape == (1, 1)
        assert w[:, 0].shape == (64, 64)
        assert w[:, 0, 10].shape == (64, 1)
        assert w[:, :, ::2].shape == (64, 64, 32)
        pattern = t.get_pattern()
        pattern[0][1] = 64
        assert t.ap(pattern=pattern).shape == (64, 64)
        assert not t.is_indirect()

    run(kernel)
