"""take, take_along_axis, choose, compress, extract and the functions that write at indices, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.front.kit import BFLOAT16, check, check_error, refused, run, traced
from tilewright.errors import TileError
from tilewright.front.function import trace

untyped: Any = np  # for calls that its signatures do not allow
RNG = np.random.default_rng(7)

X = RNG.standard_normal((5, 3, 4)).astype(np.float32)
INDICES: list[Any] = [
    *(2, -1, np.int32(1), np.uint8(2), [0, 2], [[0, -1], [1, 2]], [], np.zeros((2, 0), int), np.array([True, False])),
    *(np.array([2, 0, 1], np.uint16), np.array([-3, 2, 0], np.int8), (1, 0), range(3), np.array(1)),
]


@pytest.mark.req("S4-78")
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1, -3])
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_take(index: Any, axis: int | None):
    check(lambda x: np.take(x, index, axis=axis), X)
    check(lambda x: x.take(index, axis), X)
    at_run_time = np.asarray(index)
    if at_run_time.size:  # an empty list has no integer type
        check(lambda x, i: np.take(x, i, axis=axis), X, at_run_time)
        check(lambda i: np.take(np.asarray(X, like=i), i, axis=axis), at_run_time)


@pytest.mark.parametrize("mode", ["wrap", "clip"])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint32])
def test_take_with_a_mode(mode: Any, dtype: Any):
    index = np.array([-128, -6, -5, 0, 4, 5, 127] if np.dtype(dtype).kind == "i" else [0, 4, 5, 200]).astype(dtype)
    check(lambda x: np.take(x, index, axis=0, mode=mode), X)
    check(lambda x, i: np.take(x, i, axis=0, mode=mode), X, index)
    check(lambda x, i: np.take(x, i, mode=mode), X, index)


def test_take_of_scalars_empty_arrays_and_types():
    check(lambda x: np.take(x, [0, 0]), np.array(3, np.int8))
    check(lambda x: np.take(x, [], axis=0), np.zeros((0, 3), np.float32))
    check(lambda x: np.take(x, [2], axis=1), np.zeros((0, 3), np.float32))
    check(lambda x, i: np.take(x, i, axis=1), np.zeros((0, 0, 2), np.float32), np.array([[7, 8]]))
    check(lambda x: np.take(x, [[5]], axis=1), np.zeros((0, 0, 2), np.float32))
    for dtype in (np.bool_, np.int16, np.uint64, np.float16, np.float64, BFLOAT16):
        check(lambda x, i: np.take(x, i, axis=1), RNG.integers(0, 9, (3, 5)).astype(dtype), np.array([[4, 0], [1, -1]]))


def test_take_into_an_array():
    def into(x, out):
        return np.take(x, [1, 0], axis=0, out=out)

    check(into, X, np.zeros((2, 3, 4), np.float32))
    check_error(into, X, np.zeros((3, 3, 4), np.float32))
    check_error(into, X, np.zeros((2, 3, 4), np.float64))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.take(x, 5, axis=0),
        lambda x: np.take(x, [0, -6], axis=0),
        lambda x: np.take(x, np.array([0.5]), axis=0),
        lambda x: np.take(x, 0, axis=3),
        lambda x: untyped.take(x, 0, mode="round"),
        lambda x: np.take(x[:0], [0], axis=0),
        lambda x: np.take(x[:0], [0], axis=0, mode="clip"),
        lambda x: untyped.take_along_axis(x, np.zeros((1, 1)), 0),
        lambda x: untyped.take_along_axis(x, np.zeros((1, 1, 1)), 0),
        lambda x: np.take_along_axis(x, np.zeros((1, 1, 1), int), 3),
        lambda x: np.take_along_axis(x, np.zeros((1, 1), int), 0),
        lambda x: np.take_along_axis(x, np.zeros((1, 1), int), None),
        lambda x: np.take_along_axis(x, np.full((1, 1, 1), 5), 0),
        lambda x: np.take_along_axis(x, np.zeros((1, 2, 1), int), 0),
        lambda x: untyped.compress([0, 0, 0, 0, 0, 1], x, axis=0),
        lambda x: np.compress([[True]], x),
        lambda x: np.choose([0, 3], [x[0, 0, 0], 2]),
        lambda x: np.choose(x > 0, [x, np.zeros(7)]),
        lambda x: np.put(x, [60], 1),
        lambda x: np.put_along_axis(x, np.zeros((1, 3, 4), int), np.zeros(3), 0),
        lambda x: np.putmask(x, [True], 1),
        lambda x: np.choose(x > 0, 0),
        lambda x: np.place(x, [True], 1),
        lambda x: np.place(x, np.ones(x.shape), []),
        lambda x: np.fill_diagonal(x, 0),
        lambda x: np.fill_diagonal(x[0, 0], 0),
        lambda x: np.putmask(x, x > 0, np.zeros(3)),
        lambda x: np.add.at(x, 9, 1),
        lambda x: np.add.at(x, [0, 1], np.zeros(7)),
    ],
)
def test_errors(call: Callable[..., Any]):
    check_error(call, X)


@pytest.mark.req("S4-81")
@pytest.mark.parametrize("bad", [-6, 5, 2**31])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: np.take(x, i, axis=0),
        lambda x, i: np.take_along_axis(x, i[:, None, None], 0),
        lambda x, i: x[i],
        lambda x, i: x[i, i],
        lambda x, i: np.put_along_axis(x, i[:, None, None], 0, 0),
        lambda x, i: np.add.at(x, i, 1),
    ],
)
def test_indices_outside_are_an_error_at_run_time(call: Callable[..., Any], bad: int):
    """Never another element: an IndexError with a code."""
    index = np.array([0, bad])
    found = traced(call, X, index)
    with pytest.raises(IndexError) as error:
        run(found, X, index)
    assert isinstance(error.value, TileError) and error.value.diagnostic.code == "E301"
    assert str(bad) in str(error.value)
    location = error.value.diagnostic.location
    assert location is not None and location.line == call.__code__.co_firstlineno


def test_one_bad_index_of_two_is_an_error_although_their_sum_lies_inside():
    """x[0, 4] of a 5 x 3 array is no element, although 0 * 3 + 4 is one of its 15 places."""
    found = traced(lambda x, i, j: x[i, j], X[..., 0], np.array([0]), np.array([0]))
    with pytest.raises(IndexError):
        run(found, X[..., 0], np.array([0]), np.array([4]))


@pytest.mark.req("S4-80")
@pytest.mark.parametrize(
    ("shape", "index", "axis"),
    [
        ((5, 4), (5, 2), 1),
        ((5, 4), (2, 4), 0),
        ((300, 8), (300, 3), -1),
        ((5, 1), (1, 3), 1),
        ((1, 4), (3, 2), 1),
        ((2, 3, 4), (2, 1, 4), -2),
        ((2, 3, 4), (1, 3, 7), 2),
        ((7,), (4,), 0),
        ((2, 3), (4,), None),
        ((2, 3), (2, 0), 1),
    ],
    ids=str,
)
def test_along_an_axis(shape: tuple[int, ...], index: tuple[int, ...], axis: int | None):
    x = RNG.integers(0, 99, shape).astype(np.int32)
    size = x.size if axis is None else shape[axis]
    places = RNG.integers(-size, size, index)
    check(lambda x: np.take_along_axis(x, places, axis), x)
    check(lambda x, i: np.take_along_axis(x, i, axis), x, places)
    check(lambda x, i: np.take_along_axis(x, i, axis), x, (places % size).astype(np.uint32))
    part = RNG.integers(0, 99, places.shape)

    def put(x, i, values):
        np.put_along_axis(x, i, values, axis)
        return x + 1

    check(put, x, places, part)
    check(lambda x: put(x, places, part), x)
    check(lambda x, i: put(x, i, 7), x, places)


@pytest.mark.req("S4-80")
def test_diagonal_by_indices():
    x = RNG.standard_normal((6, 6)).astype(np.float32)
    check(lambda x: x[np.arange(6), np.arange(6)], x)
    check(lambda x, i: np.take_along_axis(x, i[:, None], 1)[:, 0], x, np.arange(6))


@pytest.mark.req("S4-79")
@pytest.mark.parametrize("rows", [300, 525])
def test_rows_of_a_large_table(rows: int):
    """Whole rows are taken, whatever their number: nothing of the size of the table is made beside it."""
    found = trace(np.take, (tw.spec((128256, 2048), "bfloat16"), tw.spec((rows,), "int32"), 0), {})
    assert [op.name for op in found.graph.ops] == ["checked_index", "take"]
    assert found.graph.outputs[0].type.shape == (rows, 2048)
    mask = np.array([True, False, True])
    check(lambda x, m: np.take(x, m, axis=0), X, mask)  # as 0 and 1, as in NumPy
    check_error(lambda x, i: np.take(x, i, axis=0), X, np.array([0.0, 1.0]))


@pytest.mark.req("S4-82")
@pytest.mark.parametrize("rows", [3, 200])
def test_rows_by_run_time_indices(rows: int):
    """Of equal indices the last one wins, as in NumPy."""
    table = RNG.standard_normal((150, 9)).astype(np.float32)
    index = RNG.integers(0, 150, rows)
    part = RNG.standard_normal((rows, 9)).astype(np.float32)

    def scatter(x, i, part):
        x[i] = part
        return x[i]

    check(scatter, table, index, part)
    check(scatter, table, index.astype(np.uint32), part)


@pytest.mark.req("S4-83")
def test_writes_along_axes_and_with_steps():
    def along(x, i, part):
        x[:, i, :] = part
        return x

    def strided(x, part):
        x[::2, ::2] = part
        return x

    check(along, X, np.array([2, 0]), np.ones((5, 2, 4), np.float32))
    check(along, X, np.array(1), np.zeros((5, 4), np.float32))
    check(strided, X, np.ones((3, 2, 4), np.float32))


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_choose(mode: Any):
    index = RNG.integers(0, 3, (4, 5)) if mode == "raise" else RNG.integers(-4, 7, (4, 5))
    choices = [np.arange(5, dtype=np.int16), np.float32(7), RNG.standard_normal((4, 1)).astype(np.float32)]
    check(lambda i: np.choose(i, choices, mode=mode), index)
    check(lambda a, b: np.choose(index, [a, b, 1], mode=mode), choices[0], choices[2])
    check(lambda i: np.choose(i, np.arange(15).reshape(3, 5), mode=mode), index)
    check(lambda x: np.choose(x > 0, [x, 0]), X)
    check(lambda x: (x > 0).choose([x, -x]), X)


def test_compress_and_extract():
    check(lambda x: untyped.compress([1, 0, 1], x, axis=1), X)
    check(lambda x: untyped.compress([0, 1, 1], x), X)
    check(lambda x: x.compress([True, False, True, False], axis=-1), X)
    check(lambda x: np.extract(np.arange(60).reshape(X.shape) % 7 == 0, x), X)
    refused("E804", lambda x: np.compress(x[0, 0] > 0, x[0, 0]), X)
    refused("E804", lambda x: np.extract(x > 0, x), X)


def in_place(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """A function of an array that NumPy changes."""

    def changed(x, *more):
        function(x, *(more or args), **kwargs)
        return x

    return changed


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, BFLOAT16])
def test_put(dtype: Any):
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    check(in_place(np.put, [3, -1, 3], [7, 8, 9]), x)
    check(in_place(np.put, [[0, 1], [2, 5]], [7, 8]), x)
    check(in_place(np.put, [0, 1], [1, 2, 3]), x)
    check(in_place(np.put, [0, 1], []), x)
    check(in_place(np.put, [], [1]), x)
    check(in_place(np.put, [30, -2, 24], 5, mode="clip"), x)
    check(in_place(np.put, [30, -2, 24], [5, 6], mode="wrap"), x)
    check(in_place(np.put), x, np.array([1, 20, 1]), np.array([0.5, 2.5, 3.5]))
    check(in_place(lambda x: x.put([1, 2], 3)), x)
    check(in_place(lambda x: np.put(x[:, ::2], [1, 2, -1], 3)), x)
    check(in_place(lambda x: np.put(x.T, [1, 2, -1], [3, 4, 5])), x)


def test_putmask_and_place():
    mask = RNG.random(X.shape) > 0.5
    refused("E803", lambda x: np.place(x, x > 0, x), np.ones((2, 3), np.float32))
    for function in (np.putmask, np.place):
        check(in_place(function, mask, [1.5, 2, 3]), X)
        check(in_place(function, mask, 7), X)
        check(in_place(function), X, mask, np.arange(7, dtype=np.float32))
        check(in_place(lambda x, f=function: f(x, x > 0, -x)), X)
        check(in_place(function, mask.ravel(), np.arange(60, dtype=np.int16)), X)
        check(in_place(function, np.zeros(X.shape), []), X)
        check(in_place(function, mask, [1.7, 2.2]), X.astype(np.int16))
        check(in_place(function, np.zeros((0, 3)), [1]), np.zeros((0, 3)))


@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 5), (3, 3, 3), (0, 0), (7, 3), (1, 1)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape: tuple[int, ...], wrap: bool):
    x = RNG.standard_normal(shape).astype(np.float32)
    check(in_place(np.fill_diagonal, 2, wrap), x)
    check(in_place(np.fill_diagonal, [1, 2], wrap), x)
    check(in_place(np.fill_diagonal), x, np.array([1.0, 2, 3, 4]))


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.maximum, np.minimum])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float64])
def test_at(ufunc: np.ufunc, dtype: Any):
    x, index = RNG.integers(0, 9, (5, 3)).astype(dtype), np.array([0, 2, 0, -1, 2])
    part = RNG.integers(0, 9, (5, 3)).astype(dtype)
    check(in_place(ufunc.at, index, part), x)
    check(in_place(ufunc.at), x, index, part)
    check(in_place(ufunc.at, (slice(None), [1, 1]), 2), x)
    check(in_place(lambda x, i: ufunc.at(x, (i, [0, 1, 0, 1, 0]), 3)), x, index)


def test_at_refuses_what_rounds_in_another_type():
    refused("E803", lambda x: np.add.at(x, [0], 1.5), np.zeros(3, np.int32))
    refused("E803", lambda x, b: np.maximum.at(x, [0], b), np.zeros(3, np.uint8), np.array([300]))


def test_arrays_that_the_function_makes_and_writes_to():
    """As indices, as tables, as values and as targets, once traced data was written into them."""

    def reads(x):
        places = np.zeros(4, np.int64)
        places[:3] = x
        table = np.arange(10.0)
        return (
            table[places],
            np.take(table, places),
            np.take_along_axis(table, places, 0),
            x[places % 3],
            np.sort(places),
        )

    def writes(x):
        places = np.zeros(3, np.int64)
        places[:] = x
        y, z, t = x * 1, np.zeros((4, 3)), np.arange(10.0)
        y[places * 0] = places
        z[places[0], places[1] - 1] = 5
        z[1] = places
        t[places] += 1
        np.put(t, [1, 2], x[:2])
        np.putmask(t, t > 5, x[0])
        np.place(t, t < 2, x)
        np.add.at(t, [1, 1], x[0])
        np.put_along_axis(t, places, 9, 0)
        np.fill_diagonal(z, x)
        return y, z, t, z[places[1]], tw.topk(t, 3), tw.nonzero(places, size=2), tw.unique(places, size=3)

    check(reads, np.array([1, 2, 3]))
    check(writes, np.array([1, 2, 3]))
