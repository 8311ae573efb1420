"""Views share their storage: a write through any of them is seen by all, exactly where NumPy shares memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.front.kit import check, check_error, ops, refused

X = np.arange(60, dtype=np.float32).reshape(5, 12)


@pytest.mark.req("S4-85")
def test_a_view_of_a_slice():
    def write(a, b):
        view = a[0:5, :]
        view[1:3, 2:4] = b

    check(write, np.zeros((8, 16), np.float32), np.ones((2, 2), np.float32))


@pytest.mark.req("S4-85")
def test_three_views_deep_with_reads_between():
    def write(a):
        rows = a[::2]
        total = rows.sum()
        corner = rows[:, ::-3].T
        corner[1] = 100
        seen = a + 1
        corner[0, 1:] += seen[0, 0]
        return total, rows, corner, a.sum(axis=0), seen

    check(write, X)


@pytest.mark.req("S4-85")
def test_an_earlier_copy_does_not_see_later_writes():
    def write(a):
        before, kept = a.copy(), a * 1
        view = a.reshape(-1)
        view[3:7] = -1
        return before, kept, view

    check(write, X)


def test_overlapping_assignment():
    def shift(a):
        a[1:] = a[:-1]
        a[:, ::-1] += a
        a[...] = a.T[::-1].T

    check(shift, X)


def test_scalars_are_not_views():
    def write(a):
        s = a[0, 0]
        s += 5
        t = np.sum(a)
        u = t
        u *= 2
        zero = a[1, 1, ...]
        zero += 1000
        return s, t, u, a[0, 0], zero

    check(write, X)


def test_in_place_operators_keep_the_element_type():
    def ints(a):
        a += True
        a -= 3
        a *= 2
        a //= 3
        a %= 5
        a **= 2
        a <<= 1
        a |= 1
        a ^= 6
        a &= 0x7F
        a >>= 1

    def floats(a, b):
        a += b
        a /= 3
        a -= a.mean()
        return a

    check(ints, np.arange(12, dtype=np.int16).reshape(3, 4))
    check(floats, X, X.astype(np.float64))
    check_error(lambda a: a.__iadd__(1.5), np.arange(3))
    check_error(lambda a: a.__itruediv__(2), np.arange(3))
    check_error(lambda a, b: a.__iadd__(b), np.ones(3), np.ones((2, 3)))


@pytest.mark.req("S4-43")
def test_out():
    def write(a, b, c):
        same = np.add(a, b, out=c)
        np.multiply(same, 2, c)
        np.exp(a[1] * 0.01, out=c[0], where=a[0] > 3)
        return same is c

    def partly(a, c):
        np.negative(a[1:3], out=c[::2][:2], where=a[1:3] > 20)
        np.add(a, 1, out=a)
        np.sqrt(a, out=c, dtype=np.float64, casting="unsafe")
        return c

    check(write, X, X + 1, np.zeros_like(X))
    check(partly, X, np.zeros_like(X))
    check_error(lambda a, c: np.add(a, 1, out=c), X, np.zeros((5, 12), np.int32))
    check_error(lambda a, c: np.add(a, 1, out=c), X, np.zeros((4, 12), np.float32))
    check_error(lambda a, c: np.add(a, 1, out=c), X, np.zeros((1, 12), np.float32))


def test_an_argument_that_numpy_could_not_write_to():
    frozen = np.zeros(3)
    frozen.flags.writeable = False

    def write(a):
        a[0] = 1

    with pytest.raises(ValueError, match="read-only"):
        from tilewright.front.function import trace

        trace(write, (frozen,), {})
    check_error(lambda a: np.broadcast_to(a, (2, 3)).__setitem__(0, 1), np.zeros(3))


def test_which_reshapes_are_views():
    def write(a):
        a.reshape(12, 5)[0] = 1
        a.T.reshape(-1)[3:] = 2  # a copy in NumPy
        a[:, :6].reshape(30)[:] = 3  # a copy, too
        a[:, :6].reshape(5, 2, 3)[:, 1] = 4
        a.ravel()[5] = 5
        a.T.ravel("F")[6] = 6
        a.T.ravel(order="K")[7] = 7
        a.flatten()[8] = 8
        a.reshape(3, 20, order="F")[0] = 9
        a.T.reshape(60, order="F")[50] = 10
        np.ravel(a[::2])[0] = 11
        a.swapaxes(0, 1)[0, 0] = 12
        a[None].squeeze()[1, 1] = 13
        a.view()[2, 2] = 14

    check(write, X)
    check(write, np.asfortranarray(X))
    check(write, X.astype(np.int64))


def test_order_in_memory_follows_the_operands():
    """Results keep the order of their operands, which decides whether a reshape of them is a view."""

    def write(a, b):
        y = a.T + 1
        y.reshape(-1)[0] = -1  # y lies by columns: a copy
        y.T.reshape(-1)[1] = -2
        z = a.T + b
        z.reshape(-1)[0] = -3
        w = np.exp(np.transpose(b.reshape(2, 6, 5), (2, 0, 1)))
        w.reshape(5, -1)[0] = 4
        w.transpose(1, 2, 0).reshape(-1)[5] = 5
        u = a.T.copy()
        u.reshape(-1)[0] = 6
        v = np.copy(a.T)
        v.reshape(-1)[0] = 7
        t = a.T.astype(np.float64)
        t.reshape(-1)[0] = 8
        return y, z, w, u, v, t, y.strides, z.strides, w.strides, u.strides, v.strides, t.strides

    check(write, X, np.arange(60, dtype=np.float32).reshape(12, 5))


def test_bits_as_another_type():
    def write(a):
        bits = a.view(np.uint32)
        bits[1:] ^= 0x80000000
        return bits, a.view(np.int32)

    check(write, X[0])


def test_shape_can_be_assigned():
    def write(a):
        view = a[:]
        view.shape = (12, 5)
        view[0] = 1
        whole = a.view()
        whole.shape = -1
        whole[-1] = 2
        return view, whole[0:3]

    check(write, X.copy())
    refused("E806", lambda a: setattr(a, "shape", (60,)), X)
    check_error(lambda a: setattr(a.T, "shape", (60,)), X)


def test_only_what_is_written_is_given_back():
    found = check(lambda a, b: a.__setitem__(0, b[0]), X, X + 1)
    assert [place for place, _ in found.writes] == [0]
    assert check(lambda a, b: a[1:] + b[1:], X, X).writes == ()


def test_a_write_and_its_read_need_no_slice():
    def write(a):
        row = a[1:2]
        row += 1
        return row * 2

    assert ops(check(write, X).graph) == ["slice", "add", "update_slice", "multiply"]


def test_the_same_array_twice():
    def write(a, b):
        a[0] += 1
        b[1] = a[0]
        return a + b

    x = X.copy()
    check(write, x, x)
    assert check(lambda a, b: a + b, x, x).graph.inputs[1:] != []


STEPS: list[Callable[[Any, random.Random], Any]] = [
    lambda a, r: a[r.randrange(max(len(a), 1)) :] if a.ndim else a,
    lambda a, r: a[:: r.choice([1, 2, -1])] if a.ndim else a,
    lambda a, r: a[..., :: r.choice([1, 2, -1, -2])] if a.ndim else a,
    lambda a, r: a.T,
    lambda a, r: a.reshape(-1),
    lambda a, r: a.reshape(a.shape[::-1], order=r.choice("CFA")),
    lambda a, r: a.ravel(r.choice("CFAK")),
    lambda a, r: a.reshape(2, -1) if a.size % 2 == 0 and a.size else a,
    lambda a, r: a.swapaxes(0, -1) if a.ndim > 1 else a,
    lambda a, r: a[None],
    lambda a, r: np.moveaxis(a, 0, -1) if a.ndim > 1 else a,
    lambda a, r: np.expand_dims(a, 1) if a.ndim else a,
    lambda a, r: a.squeeze(),
    lambda a, r: a + 1,
    lambda a, r: a.T * np.ones_like(a).T if a.ndim == 2 else a,
    lambda a, r: a.copy(order=r.choice("CFAK")),
    lambda a, r: a[0] if a.ndim > 1 and len(a) else a,
    lambda a, r: a[..., 0] if a.ndim > 1 and a.shape[-1] else a,
    lambda a, r: a.view(),
    lambda a, r: np.flip(a),
    lambda a, r: np.atleast_2d(a),
]


@pytest.mark.req("S4-85")
@pytest.mark.parametrize("seed", range(100))
def test_random_chains_of_views(seed: int):
    """Arrays are derived from each other in random ways, some are written to, all are compared at the end."""

    def program(*given):
        rng = random.Random(seed)
        arrays = list(given)
        for count in range(12):
            source = rng.choice(arrays)
            made = rng.choice(STEPS)(source, rng)
            if made.ndim < 6:
                arrays.append(made)
            target = rng.choice(arrays)
            if target.ndim and target.size and rng.random() < 0.6:
                if rng.random() < 0.5:
                    target[rng.randrange(len(target))] = 100 * count
                else:
                    target += rng.choice([1, target[0]])
        return tuple(arrays), tuple(a.shape for a in arrays), tuple(a.strides for a in arrays if 1 not in a.shape)

    order = np.asfortranarray if seed % 3 == 0 else np.ascontiguousarray
    check(program, order(np.arange(24.0).reshape(4, 6)), np.arange(12.0).reshape(2, 3, 2))
