"""Arrays that a function makes itself: NumPy's own until traced data is written into them."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.front.kit import check, ops, refused, traced

X = np.arange(12, dtype=np.float32).reshape(3, 4)
GLOBAL = np.arange(10.0)


def test_a_result_is_filled_row_by_row():
    def rows(x):
        out = np.zeros((3, 4), np.float32)
        for i in range(3):
            out[i] = x[i] * i
        return out

    def elements(x):
        out = np.empty(len(x))
        for i in range(len(x)):
            out[i] = x[i].sum()
        return out, out.mean(), out[::-1] + 1

    check(rows, X)
    check(elements, X)


def test_sums_in_place():
    def sums(x):
        total, count, more = np.zeros(4), np.zeros((), np.int32), np.ones((3, 4))
        again = total
        for row in x:
            total += row
            count += (row > 2).sum().astype(np.int32)
        more[:] -= x
        np.multiply(x, 2, out=more)
        return total, again, count, more

    check(sums, X)


def test_views_made_before_and_after():
    def views(x):
        out = np.zeros((4, 6), np.float32)
        corner, column, flat = out[1:3, ::-2], out.T[2], out.reshape(-1)
        out[0] = 7
        out[1, :4] = x[0]
        corner += 1
        column[:] = x[1]
        flat[-1] = x[2, 2]
        after = out[2:]
        after *= 2
        return out, corner, column, flat, after, out.T, len(out), out.shape, out.dtype, out.size

    check(views, X)


def test_views_made_before_are_slices_where_they_can_be():
    def sums(x):
        out = np.zeros((3, 4, 2), np.float32)
        for i in range(3):
            out[i] += x[i, 0]
        return out

    def views(x):
        made = []
        for key in (1, (..., 1), (slice(None, None, -1), 2), (0, slice(1, 3)), (slice(0, 3, 2), slice(3, 0, -2), 0)):
            out = np.zeros((3, 4, 2), np.float32)
            part = out[key]
            part += x[0, 0] + 1
            made += [out, part]
        return made

    assert "put_rows" not in ops(check(sums, X).graph)
    assert "put_rows" not in ops(check(views, X).graph)


def test_by_columns():
    def fortran(x):
        out = np.zeros((4, 3), order="F")
        part = out[1:]
        out[:, 0] = x[0]
        part[:, 1] = x[1, 1:]
        out.reshape(-1)[5] = 100  # a copy
        return out, part

    check(fortran, X)


def test_methods_and_functions_of_what_was_taken_over():
    def uses(x):
        a = np.ones((3, 4), np.float32)
        a[1] = x[1]
        b = a.sum(axis=0), a.T, a.astype(np.float64), a.reshape(4, 3), a.copy(), a.max(), a @ a.T, a.mean()
        return *b, np.concatenate([a, x]), np.stack([a, a]), x + a, a + x, a - 1, -a, np.exp(a), a[1:], a

    check(uses, X)


def test_functions_that_write():
    def writes(x):
        a, b, c, d = np.zeros((3, 4), np.float32), np.zeros(4), np.zeros((3, 3)), np.zeros(5)
        np.copyto(a, x)
        np.put(b, [0, 2], x[0, :2])
        np.fill_diagonal(c, x[0, :3])
        np.add.at(d, [1, 1, 3], x[0, 1:])
        e = np.zeros((2, 2))
        e.fill(x[1, 1])
        return a, b, c, d, e

    check(writes, X)


def test_arrays_made_of_traced_ones():
    def makes(x):
        return (
            np.array([x[0, 0], x[1, 1], 3.0]),
            np.array([[x[0], x[1]], [x[2], x[0]]]),
            np.asarray(x),
            np.asarray(x, np.float64),
            np.array(x, ndmin=4),
            np.ascontiguousarray(x.T),
            np.full((2, 3), x[0, 1]),
            np.array([1, 2, 3]) + x[0, 0],
            np.asarray(x) is x,
        )

    def copies(x):
        a, b = np.asarray(x), np.array(x)
        a[0] = 1
        b[1] = 2
        return a, b

    check(makes, X)
    check(copies, X)


def test_what_protocols_do_not_reach():
    def uses(x):
        return (
            np.mean([x[0], x[1]], axis=0),
            np.sum([x[0, 0], 2.0]),
            np.take(np.arange(9), x[0, :2].astype(int)),
            np.r_[x[0], 1:3, x[1, 1], [5.0]],
            np.c_[x[0], x[1], np.ones((4, 2))],
            np.r_[1:4],
            [value * sum(place) for place, value in np.ndenumerate(x)],
            np.shares_memory(x, x[1:]),
            np.shares_memory(x[0], x[1]),
            np.may_share_memory(x, x + 1),
            np.apply_along_axis(lambda line: np.sum(line), 0, x),
            round(x[0, 1] / 3, 2),
        )

    check(uses, X, rtol=1e-6)
    refused("E803", lambda x: list(np.nditer(x)), X)
    refused("E803", lambda x: np.r_["0,2", x], X)


def test_tables_indexed_by_traced_arrays():
    def look(i):
        table = np.arange(5) ** 2
        return table[i], table[i[0]], np.eye(5)[i], np.take(GLOBAL, i)

    check(look, np.array([[1, 4], [0, 2]]))
    refused("E802", lambda i: GLOBAL[i], np.array([1, 2]))


def test_constants_stay_numpys():
    def mask(x):
        size = x.shape[1]
        places = np.arange(size)
        keep = places[:, None] >= places
        count = np.zeros(3, int)
        count[1] += 2
        assert type(keep.sum()) is np.int64 and float(np.ones(3).mean()) == 1.0 and bool(np.any(keep))
        assert list(np.arange(3)) == [0, 1, 2] and f"{np.ones(2)}" == "[1. 1.]" and int(count[1]) == 2
        return np.where(keep, x[0], -1e9), count, keep.astype(np.float32)

    found = check(mask, X)
    assert "band" in ops(found.graph)
    assert type(found.result[1]) is np.ndarray


def test_arrays_from_outside_cannot_be_written_to():
    def write(x):
        GLOBAL[:4] = x[0]

    def add(x):
        np.add(x[0], 1, out=GLOBAL[:4])

    def of_asarray(x):
        np.asarray(GLOBAL)[0] = x[0, 0]

    def one(x):
        GLOBAL[3] = x[1, 1]

    def by_name(x):
        np.asarray(a=GLOBAL)[0] = x[0, 0]

    for function in (write, add, of_asarray, one, by_name):
        error = refused("E802", function, X)
        assert "np.array" in (error.diagnostic.hint or "")
    np.testing.assert_array_equal(GLOBAL, np.arange(10.0))

    def copied(x):
        mine = np.array(GLOBAL)
        mine[:4] = x[0]
        return mine

    check(copied, X)


def test_memory_that_was_taken_over_is_not_read():
    def stale(x):
        a = np.zeros(4, np.float32)
        plain = a.view(np.ndarray)
        a[0] = x[0, 0]
        return x + plain

    refused("E802", stale, X)


def test_numpy_is_itself_again():
    zeros, array = np.zeros, np.array
    traced(lambda x: np.zeros(3) + x[0, :3], X)
    assert np.zeros is zeros and np.array is array

    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError):
        traced(broken, X)
    assert np.zeros is zeros
    assert type(np.zeros(3)) is np.ndarray


def test_other_threads_see_no_difference():
    found: list[type] = []

    def program(x):
        thread = threading.Thread(target=lambda: found.append(type(np.zeros(3))))
        thread.start()
        thread.join()
        return x

    traced(program, X)
    assert found == [np.ndarray]


def test_repeated_views_follow_their_array():
    """np.broadcast_to gives arrays of NumPy's own class; what is made of them can be written to all the same."""

    def written_after(x):
        a = np.zeros(4, np.float32)
        b = np.broadcast_to(a, (3, 4))
        a[1:3] = x[0, 0] + 2
        return b * 2, b

    def made_of_it(x):
        signs = np.sign(np.atleast_3d(np.broadcast_to(np.arange(4.0), (1, 4))))
        signs[:, 1:3] = x[0, 1]
        return signs

    def of_a_part(x):
        a = np.arange(6, dtype=np.float32).reshape(2, 3)
        b = np.broadcast_to(a[:, 1:2], (2, 4))
        a += x[1, 1]
        return b + 1, a

    for function in (written_after, made_of_it, of_a_part):
        check(function, X)


TABLE = np.arange(12.0, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.take(np.int64(7), [5, 3, 0], mode="clip"),
        lambda: np.repeat(2.0, 3),
        lambda: np.tile([1, 2], 2)[:3],
        lambda: np.concatenate([[1.0], [2.0, 3.0]]),
        lambda: np.take(TABLE, [0, 2, 1], axis=1)[0],
        lambda: np.sort(TABLE[0])[1:],
    ],
)
def test_what_any_function_makes_can_be_written_to(make):
    """Not only np.zeros: whatever NumPy makes of numbers, lists and arrays from outside belongs to the function."""

    def program(x):
        made = make()
        made[0] = x[0, 0]
        return made, made[::-1] * 2

    before = TABLE.copy()
    check(program, X)
    assert (before == TABLE).all()
