# pyright: reportCallIssue=false, reportArgumentType=false
"""Shapes, orders, joining, splitting, repeating, padding, diagonals: bit for bit as NumPy, errors included."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from .kit import check, check_error, ops, refused, traced

RNG = np.random.default_rng(11)
DTYPES = [np.bool_, np.int8, np.uint16, np.int32, np.int64, np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


def data(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Numbers that every type can hold."""
    return np.asarray(RNG.integers(0, 100, shape)).astype(dtype)


SHAPES = [
    ((2, 3, 4), 24), ((2, 3, 4), -1), ((2, 3, 4), (4, -1)), ((2, 3, 4), (2, 2, 3, 2)), ((2, 3, 4), [6, 4]),
    ((), ()), ((), (1, 1)), ((1,), ()), ((0, 3), (3, 0)), ((0, 3), (3, -1)), ((5,), (5, 1)),
    ((2, 3, 4, 1, 5), (-1, 5)),
]  # fmt: skip


@pytest.mark.req("S4-49")
@pytest.mark.parametrize("order", ["C", "F", "A", None])
@pytest.mark.parametrize(("shape", "wanted"), SHAPES, ids=str)
def test_reshape(shape: tuple[int, ...], wanted: Any, order: Any):
    for array in (data(*shape), np.asfortranarray(data(*shape)), data(*shape[::-1]).T):
        check(lambda x: np.reshape(x, wanted, order=order), array)
        check(lambda x: np.reshape(x, wanted, order=order, copy=True), array)
        check(lambda x: np.ravel(np.reshape(x, wanted, order=order), order="K"), array)


@pytest.mark.req("S4-49")
def test_reshape_of_every_type():
    for dtype in DTYPES:
        found = check(lambda x: np.reshape(x, (3, -1)), data(6, dtype=dtype))
        assert ops(found.graph) == ["reshape"]


RESHAPE_ERRORS = [(5,), (4, -1), (-1, -1), (2, 3.0), "ab"]


@pytest.mark.req("S4-49")
@pytest.mark.parametrize("wanted", RESHAPE_ERRORS, ids=str)
def test_reshape_errors(wanted: Any):
    check_error(lambda x: np.reshape(x, wanted), data(2, 3))
    check_error(lambda x: np.reshape(x, wanted, order="F"), data(2, 3))


def test_orders_that_numpy_refuses():
    for order in ("K", "X", 1, ""):
        check_error(lambda x: np.reshape(x, 6, order=order), data(2, 3))  # noqa: B023
    for order in ("X", 1, ""):
        check_error(lambda x: np.ravel(x, order=order), data(2, 3))  # noqa: B023
    check_error(lambda x: np.reshape(x.T, 6, copy=False), data(2, 3))
    check(lambda x: np.reshape(x, 6, copy=False), data(2, 3))


LAYOUTS = [
    lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::2], lambda a: np.swapaxes(a, 0, 2),
    lambda a: np.asfortranarray(a), lambda a: a[:, :1], lambda a: np.moveaxis(a, 0, 1), lambda a: a[0:0],
]  # fmt: skip


@pytest.mark.req("S4-49")
@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
@pytest.mark.parametrize("layout", range(len(LAYOUTS)))
def test_ravel_and_its_writes(layout: int, order: Any):
    """Whether ravel gives a view shows in what a write through it changes."""

    def program(x: Any) -> Any:
        flat = np.ravel(LAYOUTS[layout](x) if layout != 5 else x, order=order)
        flat[:1] = 7
        return flat

    array = data(2, 3, 4)
    check(program, np.asfortranarray(array) if layout == 5 else array)


@pytest.mark.parametrize("layout", range(len(LAYOUTS)))
def test_reshape_and_its_writes(layout: int):
    def program(x: Any) -> Any:
        given = LAYOUTS[layout](x) if layout != 5 else x
        other = np.reshape(given, (given.shape[0], -1) if given.size else (0,))
        other[:1] = 7
        other += 1
        return other, given

    array = data(2, 3, 4)
    check(program, np.asfortranarray(array) if layout == 5 else array)


VIEWS = [
    lambda x: np.transpose(x),
    lambda x: np.transpose(x, (2, 0, 1)),
    lambda x: np.transpose(x, (-1, 0, -2)),
    lambda x: np.permute_dims(x, [0, 2, 1]),
    lambda x: np.matrix_transpose(x),
    lambda x: np.linalg.matrix_transpose(x),
    lambda x: np.swapaxes(x, 0, -1),
    lambda x: np.moveaxis(x, 0, -1),
    lambda x: np.moveaxis(x, [0, 1], [-1, -2]),
    lambda x: np.rollaxis(x, 2),
    lambda x: np.rollaxis(x, 0, 3),
    lambda x: np.expand_dims(x, 1),
    lambda x: np.expand_dims(x, (0, -1)),
    lambda x: np.squeeze(np.expand_dims(x, (0, 2, 4))),
    lambda x: np.squeeze(np.expand_dims(x, (0, 2)), 0),
    lambda x: np.squeeze(np.expand_dims(x, (0, 2)), (0, -3)),
    lambda x: np.flip(x),
    lambda x: np.flip(x, 1),
    lambda x: np.flip(x, (0, -1)),
    lambda x: np.fliplr(x),
    lambda x: np.flipud(x),
    lambda x: np.rot90(x),
    lambda x: np.rot90(x, 2, (1, 2)),
    lambda x: np.rot90(x, -1, (0, 2)),
    lambda x: np.rot90(x, 4),
    lambda x: np.atleast_3d(x),
    lambda x: np.atleast_2d(x),
    lambda x: np.split(x, 3, axis=1)[1],
    lambda x: np.array_split(x, 3, axis=2)[0],
    lambda x: np.split(x, [1, 2], axis=-1)[1],
    lambda x: np.unstack(x, axis=1)[2],
    lambda x: np.hsplit(x, 3)[2],
    lambda x: np.vsplit(x, [1])[0],
    lambda x: np.dsplit(x, 2)[1],
    lambda x: np.rot90(np.flip(np.swapaxes(x, 1, 2), 0)),
]


@pytest.mark.req("S4-49")
@pytest.mark.parametrize("view", range(len(VIEWS)))
def test_views_are_read_and_written_through(view: int):
    """The view, the array after a write through the view, and the view after a write to the array."""

    def program(x: Any) -> Any:
        found = VIEWS[view](x)
        first = found + 0
        found[:1] = 50
        x[0] += 1
        return first, found

    for array in (data(2, 3, 4), data(4, 3, 2).T, data(2, 1, 4)[:, [0, 0, 0]]):
        check(VIEWS[view], array)
        check(program, array)


@pytest.mark.req("S4-49")
@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 1), (1, 0, 2)], ids=str)
def test_small_ranks(shape: tuple[int, ...]):
    array = data(*shape)
    check(lambda x: (np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)), array)
    check(lambda x: np.atleast_2d(x, x), array)
    check(lambda x: (np.transpose(x), np.squeeze(x), np.flip(x), np.expand_dims(x, 0), np.ravel(x)), array)
    check(lambda x: np.reshape(x[()], (1,) * x.ndim) if x.size == 1 else x, array)


SCALARS = [
    np.squeeze, np.transpose, np.flip, np.ravel, np.atleast_1d, np.diagflat, lambda x: np.reshape(x, ()),
    lambda x: np.reshape(x, (1, 1)), lambda x: np.expand_dims(x, 0), lambda x: np.moveaxis(x, (), ()),
    lambda x: np.roll(x, 1), lambda x: np.broadcast_to(x, ()), lambda x: np.broadcast_to(x, (2, 2)),
    lambda x: np.tile(x, ()), lambda x: np.resize(x, ()), lambda x: np.append(x, 2), lambda x: np.pad(x, 1),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(SCALARS)))
def test_scalars_and_arrays_of_rank_0(case: int):
    check(lambda x: SCALARS[case](x[1]), data(3))
    check(SCALARS[case], data())


ERRORS = [
    lambda x: np.transpose(x, (0, 1)),
    lambda x: np.transpose(x, (0, 0, 1)),
    lambda x: np.transpose(x, (0, 1, 3)),
    lambda x: np.swapaxes(x, 0, 3),
    lambda x: np.moveaxis(x, 0, 5),
    lambda x: np.moveaxis(x, [0, 0], [1, 2]),
    lambda x: np.moveaxis(x, [0, 1], [1]),
    lambda x: np.rollaxis(x, 4),
    lambda x: np.expand_dims(x, 5),
    lambda x: np.expand_dims(x, (0, 0)),
    lambda x: np.expand_dims(x, (0, -5)),
    lambda x: np.squeeze(x, 1),
    lambda x: np.squeeze(x, 7),
    lambda x: np.flip(x, 3),
    lambda x: np.flip(x, (0, 0)),
    lambda x: np.fliplr(x[0, 0]),
    lambda x: np.flipud(np.sum(x)),
    lambda x: np.rot90(x, 1, (0, 0)),
    lambda x: np.rot90(x, 1, (0, 5)),
    lambda x: np.matrix_transpose(x[0, 0]),
    lambda x: np.broadcast_to(x, (2, 2)),
    lambda x: np.broadcast_to(x, (5, 2, 3, 3)),
    lambda x: np.broadcast_arrays(x, np.ones(3)),
    lambda x: np.concatenate([x, x], axis=3),
    lambda x: np.concatenate([x, x[0]]),
    lambda x: np.concatenate([x, x[:, :2]]),
    lambda x: np.concatenate([x, np.sum(x)]),
    lambda x: np.concatenate([x, x], axis=0.5),
    lambda x: np.concatenate([x, x], dtype=np.int32),
    lambda x: np.concatenate([x, x], out=x),
    lambda x: np.concatenate([x, x], axis=None, out=x),
    lambda x: np.concatenate([x, x], out=x, dtype=np.float32),
    lambda x: np.stack([x, x[0]]),
    lambda x: np.stack([x, x], axis=5),
    lambda x: np.vstack([x, x[:, :1]]),
    lambda x: np.split(x, 2, axis=1),
    lambda x: np.split(x, 2, axis=5),
    lambda x: np.split(x, [1.5]),
    lambda x: np.array_split(x, 0),
    lambda x: np.array_split(x, -1),
    lambda x: np.hsplit(np.sum(x), 1),
    lambda x: np.dsplit(x[0], 1),
    lambda x: np.unstack(np.sum(x)),
    lambda x: np.repeat(x, -1),
    lambda x: np.repeat(x, [1, 2], axis=1),
    lambda x: np.repeat(x, 2, axis=3),
    lambda x: np.tile(x, -1),
    lambda x: np.tile(x, 1.5),
    lambda x: np.roll(x, 1, axis=3),
    lambda x: np.roll(x, [1, 2, 3], axis=(0, 1)),
    lambda x: np.roll(x, [[1], [2]], axis=(0, 1)),
    lambda x: np.resize(x, -1),
    lambda x: np.diff(x, -1),
    lambda x: np.diff(x, axis=3),
    lambda x: np.diff(np.sum(x)),
    lambda x: np.diff(x, prepend=np.ones((3, 3))),
    lambda x: np.pad(x, -1),
    lambda x: np.pad(x, 1.5),
    lambda x: np.pad(x, ((1, 2), (3, 4))),
    lambda x: np.pad(x, 1, mode="other"),
    lambda x: np.pad(x, 1, mode="edge", constant_values=3),
    lambda x: np.pad(x[:0], 1, mode="edge"),
    lambda x: np.pad(x, 1, mode="maximum", stat_length=0),
    lambda x: np.diag(x),
    lambda x: np.diagonal(x, 0, 1, 1),
    lambda x: np.diagonal(x, 0, 0, 3),
    lambda x: np.diagonal(x[0, 0]),
    lambda x: np.trace(x[0, 0]),
    lambda x: np.delete(x, 5, axis=0),
    lambda x: np.delete(x, [0, 9], axis=0),
    lambda x: np.delete(x, 0, axis=4),
    lambda x: np.delete(x, [True, False, True], axis=0),
    lambda x: np.insert(x, 9, 0, axis=0),
    lambda x: np.insert(x, [[0]], 0, axis=0),
    lambda x: np.insert(x, 0, np.ones((2, 2)), axis=0),
    lambda x: np.append(x, np.ones((2, 2)), axis=0),
    lambda x: np.ediff1d(x.astype(np.int32), to_end=1.5),
    lambda x: np.block([[x], x]),
    lambda x: np.lib.stride_tricks.sliding_window_view(x, 9, 0),
]


@pytest.mark.req("S4-57")
@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors_are_numpys(case: int):
    check_error(ERRORS[case], data(2, 3, 4))


# Broadcasting


BROADCASTS = [
    ((1,), (300, 7)),
    ((), (4, 5)),
    ((1, 1), (128, 512)),
    ((3,), (3,)),
    ((2, 1, 4), (2, 3, 4)),
    ((0, 1), (0, 5)),
    ((1,), 3),
]


@pytest.mark.req("S4-56")
@pytest.mark.parametrize(("shape", "wanted"), BROADCASTS, ids=str)
def test_broadcast_to(shape: tuple[int, ...], wanted: Any):
    check(lambda x: np.broadcast_to(x, wanted), data(*shape))
    check(lambda x: np.broadcast_to(x, wanted, subok=True), data(*shape, dtype=np.int8))


def test_broadcast_views_follow_the_array_and_are_read_only():
    def program(x: Any) -> Any:
        wide = np.broadcast_to(x, (2, 3))
        x += 1
        return wide

    check(program, data(3))

    def write(x: Any) -> Any:
        np.broadcast_to(x, (2, 3))[0] = 1

    check_error(write, data(3))


def test_broadcast_arrays():
    check(lambda x, y: np.broadcast_arrays(x, y, 3.0), data(2, 1), data(3))
    check(lambda x: np.broadcast_arrays(x), data(2, 1))


# Joining


JOINS = [
    lambda x, y: np.concatenate([x]),
    lambda x, y: np.concatenate([x, x, x], axis=-1),
    lambda x, y: np.concatenate((x, y), axis=1),
    lambda x, y: np.concatenate([x, y], axis=None),
    lambda x, y: np.concatenate([x, 2.5], axis=None),
    lambda x, y: np.concatenate([x, np.float64(2.5)], axis=None),
    lambda x, y: np.concatenate([x, [[1.5], [2.5]]], axis=1),
    lambda x, y: np.concatenate([x, y], axis=1, dtype=np.float64),
    lambda x, y: np.concatenate([x, y], axis=1, dtype=np.int16, casting="unsafe"),
    lambda x, y: np.concatenate([x, y[:, :0]], axis=1),
    lambda x, y: np.concatenate([y[:, :0], y[:, :0]], axis=1),
    lambda x, y: np.concatenate(x),
    lambda x, y: np.stack([x, x]),
    lambda x, y: np.stack([x, x], axis=1),
    lambda x, y: np.stack([x, x], axis=-1, dtype=np.float64),
    lambda x, y: np.stack(y),
    lambda x, y: np.stack([np.sum(x), np.sum(y), 1]),
    lambda x, y: np.vstack([x, x[0], y[:, :1].T[:, [0, 0, 1]]]),
    lambda x, y: np.vstack([x[0], x[1]]),
    lambda x, y: np.hstack([x, y]),
    lambda x, y: np.hstack([x[0], y[0]]),
    lambda x, y: np.hstack([np.sum(x), 2]),
    lambda x, y: np.dstack([x, x]),
    lambda x, y: np.dstack([x[0], x[1]]),
    lambda x, y: np.column_stack([x[:, 0], y, x[:, 1]]),
    lambda x, y: np.column_stack([x[:, 0], y[:, 1]]),
    lambda x, y: np.append(x, y),
    lambda x, y: np.append(x, 5),
    lambda x, y: np.append(x, y, axis=1),
    lambda x, y: np.block([[x, y], [y, x]]),
    lambda x, y: np.block([x, y]),
    lambda x, y: np.block([[x[0], 1.0], [2.0, x[1]]]),
    lambda x, y: np.block(x),
    lambda x, y: np.concatenate([x.T, x.T]),
    lambda x, y: np.ravel(np.concatenate([x.T, x.T]), order="K"),
]


@pytest.mark.req("S4-57")
@pytest.mark.parametrize("case", range(len(JOINS)))
@pytest.mark.parametrize("dtypes", [(np.float32, np.float32), (np.int8, np.float16), (np.bool_, np.uint8)], ids=str)
def test_joins(case: int, dtypes: Any):
    x, y = data(2, 3, dtype=dtypes[0]), data(2, 4, dtype=dtypes[1])
    check(JOINS[case], x, y)


@pytest.mark.req("S4-57")
def test_parts_of_what_they_are_written_to():
    """NumPy writes one after the other: later ones are read when earlier ones are there."""

    def turned(x, y, z):
        np.concatenate([x[1:], x[:1]], out=x)
        np.stack([y[1], y[0] * 2, y[0]], axis=1, out=y)
        np.concatenate([z[2:], z[:2]], axis=None, out=z.reshape(-1))

    check(turned, *(np.arange(9, dtype=np.float32).reshape(3, 3) for _ in range(3)))


def test_concatenate_into_an_array():
    def program(x: Any, y: Any, out: Any) -> Any:
        found = np.concatenate([x, y], out=out)
        np.stack([x, x], out=out[:4].reshape(2, 2), casting="unsafe")
        return found

    check(program, data(2), data(3), np.zeros(5, np.float64))
    check(
        lambda x, out: np.concatenate([x, x], axis=1, out=out, casting="unsafe"), data(2, 2), np.zeros((2, 4), np.int8)
    )


def test_a_fresh_array_keeps_the_order_of_its_parts():
    """np.concatenate of columns gives columns: a flat view of it is then a copy."""

    def program(x: Any) -> Any:
        both = np.concatenate([x.T, x.T], axis=1)
        np.ravel(both)[:2] = 99
        np.ravel(both, order="F")[2:4] = 77
        return both

    check(program, data(2, 3))


SPLITS = [2, 3, [1, 3], [1, 3, 3, 9], [3, 1], [-2], (), [0], np.array([2, 4]), np.int64(6), 1, 6]


@pytest.mark.req("S4-57")
@pytest.mark.parametrize("sections", SPLITS, ids=str)
def test_splits(sections: Any):
    check(lambda x: np.split(x, sections), data(6, 2))
    check(lambda x: np.split(x, sections, axis=-1), data(2, 6))
    check(lambda x: np.array_split(x, sections, 1), data(2, 7))
    check(lambda x: np.array_split(x, sections), data(1))


def test_where_to_split_must_be_known():
    refused("E804", lambda x, i: np.split(x, i), data(4), np.array([1, 2]))


# Repeating and moving


REPEATS = [
    lambda x: np.repeat(x, 3),
    lambda x: np.repeat(x, 2, axis=1),
    lambda x: np.repeat(x, [2], axis=-1),
    lambda x: np.repeat(x, 0, axis=0),
    lambda x: np.repeat(x, [1, 0, 3], axis=1),
    lambda x: np.repeat(x, np.arange(24) % 3),
    lambda x: np.repeat(x[0, 0, 0], 4),
    lambda x: np.tile(x, 2),
    lambda x: np.tile(x, (2, 1)),
    lambda x: np.tile(x, (2, 3, 1, 2)),
    lambda x: np.tile(x, (1, 0, 2)),
    lambda x: np.tile(x, 1),
    lambda x: np.tile(x, (1, 1, 1, 1)),
    lambda x: np.tile(x, ()),
    lambda x: np.tile(x[0, 0, 0], (2, 2)),
    lambda x: np.roll(x, 1),
    lambda x: np.roll(x, -25),
    lambda x: np.roll(x, 2, axis=1),
    lambda x: np.roll(x, -1, axis=-1),
    lambda x: np.roll(x, (1, 2), axis=(0, 2)),
    lambda x: np.roll(x, (1, 1), axis=(0, 0)),
    lambda x: np.roll(x, 3, axis=(1, 2)),
    lambda x: np.roll(x, (1, 2, -1), axis=1),
    lambda x: np.roll(x[:0], 1, axis=0),
    lambda x: np.roll(x.T, 1, axis=0),
    lambda x: np.resize(x, 30),
    lambda x: np.resize(x, (2, 5)),
    lambda x: np.resize(x, (0, 5)),
    lambda x: np.resize(x[:0], (2, 2)),
    lambda x: np.delete(x, 1),
    lambda x: np.delete(x, 1, axis=1),
    lambda x: np.delete(x, [0, -1, 0], axis=2),
    lambda x: np.delete(x, slice(None, None, -2), axis=2),
    lambda x: np.delete(x, slice(1, 1), axis=0),
    lambda x: np.delete(x, [], axis=0),
    lambda x: np.delete(x, [True, False, True], axis=1),
    lambda x: np.delete(x.T, [1], axis=0),
    lambda x: np.insert(x, 1, 5),
    lambda x: np.insert(x, 1, 5, axis=1),
    lambda x: np.insert(x, -1, [1, 2, 3, 4], axis=1),
    lambda x: np.insert(x, [1], [[1], [2], [3]], axis=2),
    lambda x: np.insert(x, 0, np.ones((2, 3)), axis=2),
    lambda x: np.insert(x, [0, 2, 2], 9, axis=2),
    lambda x: np.insert(x, [2, 0], [[8, 9]], axis=2),
    lambda x: np.insert(x, slice(0, 4, 2), 7, axis=2),
    lambda x: np.insert(x, [], 7, axis=2),
    lambda x: np.insert(x, np.array([True, False, True]), 1, axis=1),
    lambda x: np.insert(x.T, 0, x[0, 0, 0], axis=0),
]


@pytest.mark.req("S4-58")
@pytest.mark.parametrize("case", range(len(REPEATS)))
@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.bool_, ml_dtypes.bfloat16], ids=str)
def test_repeats_and_moves(case: int, dtype: Any):
    check(REPEATS[case], data(2, 3, 4, dtype=dtype))


@pytest.mark.req("S4-58")
def test_a_shift_that_is_known_at_run_time():
    check(lambda x, s: np.roll(x, s[0]), data(5), np.array([2]))
    check(lambda x, s: np.roll(x, s[0], axis=1), data(2, 5), np.array([-7], np.int8))
    check(lambda x, s: np.roll(x, s, axis=(0, 1)), data(2, 5), np.array([1, 3]))
    refused("E804", lambda x, n: np.repeat(x, n), data(5), np.array(2))
    refused("E804", lambda x, n: np.tile(x, n), data(5), np.array([2]))


DIFFS = [
    lambda x: np.diff(x),
    lambda x: np.diff(x, 2),
    lambda x: np.diff(x, 0),
    lambda x: np.diff(x, axis=0),
    lambda x: np.diff(x, 3, axis=1),
    lambda x: np.diff(x, 9),
    lambda x: np.diff(x, prepend=1),
    lambda x: np.diff(x, prepend=1.5, append=x[:, :, :2]),
    lambda x: np.diff(x, axis=1, append=x[:, :1]),
    lambda x: np.ediff1d(x),
    lambda x: np.ediff1d(x, to_begin=x[0, 0, 0], to_end=x[0]),
    lambda x: np.ediff1d(x[:0]),
]


@pytest.mark.req("S4-58")
@pytest.mark.parametrize("case", range(len(DIFFS)))
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int32, np.bool_], ids=str)
def test_differences(case: int, dtype: Any):
    if dtype is np.bool_ and case >= 9:
        check_error(DIFFS[9], data(2, 3, dtype=bool))
        return
    check(DIFFS[case], data(2, 3, 4, dtype=dtype))


# Padding

WIDTHS = [
    0,
    2,
    (1, 3),
    ((1, 2), (0, 3)),
    [[1], [2]],
    ((7, 11), (9, 0)),
    np.array([[0, 1], [1, 0]]),
    {1: 2},
    {0: (1, 4), -1: 3},
]
MODES = ["constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "minimum"]


@pytest.mark.req("S4-58")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", WIDTHS, ids=str)
def test_pad_modes(width: Any, mode: Any):
    for array in (data(3, 4), data(1, 5, dtype=np.int8), data(2, 2, dtype=np.float64)):
        check(lambda x: np.pad(x, width, mode=mode), array)


@pytest.mark.req("S4-58")
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("shape", [(), (5,), (1,), (2, 1, 3), (3, 0), (2, 3, 1, 2)], ids=str)
def test_pad_ranks(shape: tuple[int, ...], mode: Any):
    for width in (1, 0, (0, 4)):
        if 0 in shape and width and mode != "constant":
            check_error(lambda x: np.pad(x, width, mode=mode), data(*shape))  # noqa: B023
        else:
            check(lambda x: np.pad(x, width, mode=mode), data(*shape))  # noqa: B023


PADS = [
    lambda x: np.pad(x, 1),
    lambda x: np.pad(x, 2, constant_values=7),
    lambda x: np.pad(x, 2, constant_values=(7, 1)),
    lambda x: np.pad(x, 2, constant_values=((1, 2), (3, 4))),
    lambda x: np.pad(x, ((0, 2), (1, 0)), constant_values=((1, 2), (3, 4))),
    lambda x: np.pad(x, 1, constant_values=1.75),
    lambda x: np.pad(x, 1, constant_values=x[0, 0]),
    lambda x: np.pad(x, 3, mode="reflect", reflect_type="odd"),
    lambda x: np.pad(x, 9, mode="reflect", reflect_type="odd"),
    lambda x: np.pad(x, (13, 4), mode="symmetric", reflect_type="odd"),
    lambda x: np.pad(x, 3, mode="symmetric", reflect_type="even"),
    lambda x: np.pad(x, 3, mode="linear_ramp", end_values=5),
    lambda x: np.pad(x, (2, 3), mode="linear_ramp", end_values=((1, 2.5), (-3, 4))),
    lambda x: np.pad(x, 2, mode="maximum", stat_length=2),
    lambda x: np.pad(x, 2, mode="minimum", stat_length=((1, 2), (3, 9))),
    lambda x: np.pad(x, 2, mode="mean"),
    lambda x: np.pad(x, (1, 2), mode="mean", stat_length=2),
    lambda x: np.pad(x, (1, 2), mode="median"),
    lambda x: np.ravel(np.pad(x.T, 1), order="K"),
]


@pytest.mark.req("S4-58")
@pytest.mark.parametrize("case", range(len(PADS)))
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16], ids=str)
def test_pad_arguments(case: int, dtype: Any):
    check(PADS[case], data(3, 4, dtype=dtype))


def test_padding_copies_in_few_slices():
    found = traced(lambda x: np.pad(x, ((0, 0), (2, 3)), mode="reflect"), data(4, 9))
    assert ops(found.graph) == ["slice", "slice", "concatenate"]
    assert ops(traced(lambda x: np.pad(x, 1), data(4, 9)).graph) == ["pad"]
    refused("E803", lambda x: np.pad(x, 1, mode=lambda *_: None), data(3))
    refused("E804", lambda x, n: np.pad(x, n), data(3), np.array(1))


# Diagonals and triangles


@pytest.mark.req("S4-66")
@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (5, 2), (2, 3, 4), (4,), (0, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("k", [0, 1, -1, 2, -2, 7, -7, np.int64(1), 0.5])
def test_triangles(shape: tuple[int, ...], k: Any):
    for dtype in (np.float32, np.int8, np.bool_):
        check(lambda x: (np.tril(x, k), np.triu(x, k)), data(*shape, dtype=dtype))
    check(lambda x: np.tril(x, k), np.full(shape, np.inf, np.float32))


@pytest.mark.req("S4-66")
@pytest.mark.parametrize("k", [0, 1, -1, 3, -4])
def test_diagonals(k: int):
    for shape in ((4,), (1,), (0,), (3, 5), (5, 3), (0, 3)):
        check(lambda x: np.diag(x, k), data(*shape))
        check(lambda x: np.diagflat(x, k), data(*shape))
    check(lambda x: np.diag(x, k), np.array([np.nan, np.inf, -0.0], np.float32))
    for shape in ((3, 5), (2, 3, 4), (2, 3, 4, 5), (0, 2)):
        check(lambda x: np.diagonal(x, k), data(*shape))
        check(lambda x: np.diagonal(x, k, -1, 0), data(*shape))
        check(lambda x: np.linalg.diagonal(x, offset=k), data(*shape))
        check(lambda x: np.trace(x, k), data(*shape, dtype=np.int8))
        check(lambda x: np.trace(x, k, 1, 0, dtype=np.float64), data(*shape))
        check(lambda x: np.linalg.trace(x, offset=k), data(*shape, dtype=np.int16))


@pytest.mark.req("S4-66")
def test_a_diagonal_is_a_view_that_cannot_be_written_to():
    def program(x: Any) -> Any:
        line = np.diagonal(x, 1)
        x[0] = 5
        return line, np.diag(x)

    check(program, data(3, 4))

    def write(x: Any) -> None:
        np.diagonal(x)[0] = 1

    check_error(write, data(3, 3))
    check_error(lambda x: np.diag(x).__setitem__(0, 1), data(3, 3))
    assert ops(traced(lambda x: np.trace(x), data(300, 300)).graph) == ["reshape", "slice", "sum"]


COPIES = [
    lambda x: np.copyto(x, 3),
    lambda x: np.copyto(x, x[1], where=x > 50),
    lambda x: np.copyto(x[:, 1], [1, 2, 3, 4], casting="unsafe"),
    lambda x: np.copyto(x, 1, where=np.array([True, False, True, True])),
    lambda x: np.copyto(x[0], x[1:, :1], casting="no"),
    lambda x: np.copyto(np.flip(x, 1)[0], np.float64(2.5), casting="unsafe"),
]


@pytest.mark.parametrize("case", range(len(COPIES)))
@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8], ids=str)
def test_copyto(case: int, dtype: Any):
    check(COPIES[case], data(2, 3, 4, dtype=dtype))


COPY_ERRORS = [
    lambda x: np.copyto(x, np.ones((5, 5), np.int8)),
    lambda x: np.copyto(x, 1.5),
    lambda x: np.copyto(x, x.astype(np.float32)),
    lambda x: np.copyto(x, x, casting="other"),
    lambda x: np.copyto(x, x.astype(np.int16), casting="no"),
    lambda x: np.copyto(x, 1, where=np.ones(3, bool)),
    lambda x: np.copyto(x, 1, where=np.ones(4)),
    lambda x: np.copyto(np.broadcast_to(x, (2, 2, 3, 4)), 1),
]


@pytest.mark.parametrize("case", range(len(COPY_ERRORS)))
def test_copyto_errors(case: int):
    check_error(COPY_ERRORS[case], data(2, 3, 4, dtype=np.int32))


ALONG = [
    lambda x: np.apply_along_axis(np.sum, 1, x),
    lambda x: np.apply_along_axis(lambda row: row[::-1] * 2, 0, x),
    lambda x: np.apply_along_axis(lambda row: np.outer(row, row), -1, x),
    lambda x: np.apply_along_axis(lambda row, k: row.max() + k, 2, x, 3),
    lambda x: np.apply_over_axes(np.sum, x, [0, -1]),
    lambda x: np.apply_over_axes(np.max, x, 1),
    lambda x: np.fft.fftshift(x),
    lambda x: np.fft.fftshift(x, 1),
    lambda x: np.fft.ifftshift(x, axes=(0, -1)),
    lambda x: np.fft.ifftshift(x),
]


@pytest.mark.parametrize("case", range(len(ALONG)))
def test_functions_along_axes(case: int):
    check(ALONG[case], data(2, 3, 4))
    check(ALONG[case], data(5, 1, 3, dtype=np.int16))


def test_functions_along_axes_that_do_not_fit():
    check_error(lambda x: np.apply_along_axis(np.sum, 3, x), data(2, 3))
    check_error(lambda x: np.apply_along_axis(np.sum, 1, x), data(0, 3))
    check_error(lambda x: np.fft.fftshift(x, 2), data(2, 3))
