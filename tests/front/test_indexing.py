"""x[key] and x[key] = value against NumPy: basic keys, index arrays known now and at run time, masks."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.front.kit import check, check_error, ops, refused

X = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
V = np.arange(7, dtype=np.int32)
E = np.zeros((3, 0, 2), np.float32)

BASIC: list[tuple[np.ndarray, Any]] = [
    (X, 0),
    (X, -1),
    (X, np.int8(1)),
    (X, (1, 2, 3, 4)),
    (X, (1, -3, np.int64(-1), 0)),
    (X, ()),
    (X, ...),
    (X, None),
    (X, (..., 0)),
    (X, (0, ..., 0)),
    (X, (1, 2, 3, 4, ...)),
    (X, (None, 0, None, ..., None)),
    (X, slice(None, None, -1)),
    (X, (slice(1, None), slice(None, None, 2), slice(3, 0, -2), slice(-2, None))),
    (X, (slice(5, 9), 0)),
    (X, (slice(None), slice(2, 1))),
    (X, (slice(-100, 100), slice(100, -100, -1))),
    (X, (0, slice(None), None, slice(0, 1))),
    (V, slice(None, None, 3)),
    (V, slice(10, None, -4)),
    (V, 3),
    (V[0:1], slice(None, None, -1)),
    (E, (0, slice(None), 1)),
    (E, slice(1, 3)),
    (np.array(3.0, np.float32), ()),
    (np.array(3.0, np.float32), ...),
    (np.array(3.0, np.float32), None),
]


@pytest.mark.req("S4-77")
@pytest.mark.parametrize(("x", "key"), BASIC)
def test_basic_keys(x: np.ndarray, key: Any):
    check(lambda x: x[key], x)


@pytest.mark.req("S4-84")
@pytest.mark.parametrize(("x", "key"), BASIC)
def test_assignment_by_basic_keys(x: np.ndarray, key: Any):
    part = np.asarray(x[key])

    def numbers(x):
        x[key] = 7.9

    def arrays(x, part):
        x[key] = part

    def constants(x):
        x[key] = np.arange(part.size).reshape(part.shape)

    def adds(x):
        x[key] += 1

    for function in (numbers, constants, adds):
        check(function, x)
    check(arrays, x, -part)
    if isinstance(x[key], np.ndarray):
        check(arrays, x, part.astype(np.float64)[None, None] * 1.7)
    else:
        check_error(arrays, x, part[None])


def test_a_whole_array_is_replaced_without_a_slice():
    def replace(x, y):
        x[...] = y

    assert ops(check(replace, X, X + 1).graph) == []


ADVANCED: list[tuple[np.ndarray, Any]] = [
    (V, [1, 2, -1]),
    (V, []),
    (V, np.array([[0, 1], [5, 5]])),
    (V, np.array(3)),
    (V, np.array([True, False] * 3 + [True])),
    (V, True),
    (V, False),
    (V, np.array([], np.int8)),
    (X, [1]),
    (X, ([0, 1], [2, 0])),
    (X, ([0, 1], slice(None), [2, 0])),
    (X, (slice(None), [0, 1], [2, 0])),
    (X, (slice(None), [0, 1], slice(1, 3), [2, 0])),
    (X, (0, slice(None), [1, 2])),
    (X, (slice(None), 0, [1, 2])),
    (X, ([[0], [1]], [0, 1, 2])),
    (X, (slice(None, None, -1), np.array([[0], [1]]), [0, 1, 2], slice(None, None, 2))),
    (X, (..., [0, 4, -1])),
    (X, (slice(None), slice(None), [0, 1], ..., [2, 0])),
    (X, (None, [0, 1], None, [2, 2])),
    (X, (1, np.array([[True, False, True, False]] * 3))),
    (X, (slice(None), np.array([True, False, True]))),
    (X, (slice(None), np.array([True, False, True]), slice(None), [0, 3])),
    (X, X > 50),
    (X, (np.array(1), slice(None), np.array([0, 2]))),
    (X, (True, [0, 1])),
    (X, (slice(None), True)),
    (X, np.zeros((2, 3), bool)),
    (E, (slice(None), [])),
    (E, [2, 0]),
    (E, np.ones((3, 0), bool)),
]


@pytest.mark.req("S4-77")
@pytest.mark.parametrize(("x", "key"), ADVANCED)
def test_index_arrays(x: np.ndarray, key: Any):
    part = x[key]

    def numbers(x):
        x[key] = 7.9

    def arrays(x, part):
        x[key] = part

    def adds(x):
        x[key] += 1

    check(lambda x: x[key], x)
    check(numbers, x)
    check(adds, x)
    check(arrays, x, -np.asarray(part))


@pytest.mark.req("S4-79")
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint32])
def test_index_arrays_known_at_run_time(dtype: type):
    i, j = np.array([1, 0, 1], dtype), np.array([[2], [0]], dtype)

    def reads(x, i, j):
        return x[i], x[:, j], x[i, j], x[i, :, j], x[0, :, i], x[..., i, j], x[i, [0, 1, 2]], x[[0, 1, 1], None, i]

    def writes(x, i, j, y):
        x[i, 1] = 0
        x[:, :, j] = y
        x[i, :, :, j] += 1

    check(reads, X, i, j)
    check(writes, X, i, j, np.arange(5, dtype=np.float32))


def test_negative_indices_at_run_time():
    check(lambda x, i: (x[i], x[:, i], x[i, i]), X, np.array([-1, 0, -2]))


@pytest.mark.req("S4-81")
@pytest.mark.parametrize("bad", [-3, 2, 2**31, -(2**31)])
def test_an_index_out_of_range_at_run_time(bad: int):
    from tests.front.kit import run, traced

    i = np.array([0, bad])
    for function in (lambda x, i: x[i], lambda x, i: x[i, i], lambda x, i: x[i, :, i % 4]):
        found = traced(function, X, np.array([0, 0]))
        with pytest.raises(IndexError) as error:
            run(found, X, i)
        assert error.value.diagnostic.code == "E301"  # type: ignore[attr-defined]


def test_a_traced_scalar_names_a_row():
    def reads(x, i):
        return x[i[0]], x[i[1], :, i[0]], x[i[0], 1, 2, i[1]], x[None, i[0], ..., 1:]

    def writes(x, i):
        row = x[i[0]]
        row[1:] = 5
        x[:, i[1]] -= 1
        row[0] += 100
        return row

    check(reads, X, np.array([1, -1]))
    check(writes, X, np.array([1, -1]))


def test_masks_that_are_traced():
    def writes(x, y):
        x[x > 60] = 0
        x[y > 1] = 2.5
        x[:, y[0] > 0, 1] = [1, 2, 3, 4, 5]
        x[y.sum(axis=1) > 2] = np.arange(5, dtype=np.float32)
        return x

    check(writes, X, np.array([[0, 1, 2], [2, 1, 0]]))


def test_masks_next_to_integers_and_slices():
    def writes(x, m, n, row):
        x[1, :, m] = row
        x[:, :, m, 2] = 8
        x[0, ..., n] = 1
        x[m[1]] = 3
        x[..., m, None, 1:3] = [4, 5]
        x[m[2], 0] = 9

    row = np.arange(5, dtype=np.float32)
    check(writes, X, np.array([True, False, True, True]), row > 2, row + 0.5)


def test_elements_that_a_mask_selects():
    def writes(x, y, m):
        x[x > 90] += 1000
        x[x < 30] = -x[x < 30] * 2 + y[x < 30]
        x[m] *= y[0, 0]
        x[1][x[1] > 100] //= 7
        x[m, 1:] = np.minimum(x[m, 1:], 40) - y[0, 0, 0, 1]
        x[:, m[0]] **= 2
        local = np.arange(3.0)
        local[m[0]] -= 5
        local[m[0]] = 1 + local[m[0]].astype(np.float32)
        return local, x[m].dtype

    def sums(x, m):
        part = x[m]
        return part.sum(), np.sum(x[x > 3]), part.mean(), (part > 4).any(), np.all(x[m] >= 0), np.count_nonzero(part)

    m = np.array([[True, False, True], [False, False, True]])
    check(writes, X, X + 1, m)
    check(sums, X, m, rtol=1e-6)


def test_reductions_of_what_a_mask_selects():
    def extremes(x, m):
        part = x[m]
        numbers = np.max(part), part.min(), np.amax(x[x > 3]), np.ptp(x[x > 3]), (-x[x > 3]).max()
        return *numbers, part.var(), np.std(part, ddof=1), part.max(axis=0), (x > 9)[m].max()

    def along(x, m):
        rows, columns = x[m[:, 0]], x[:, m[0]]
        return rows.sum(0), rows.mean(axis=(0, 2)), columns.max(1), np.min(columns, -3)

    def products(x, k, m):
        y, z = x[x > 50], k[k > 50]
        return y @ y, np.dot(z, z), np.linalg.norm(y), np.linalg.norm(z), np.extract(x > 40, x).sum()

    m = np.array([[True, False, True], [False, False, True]])
    check(extremes, X, m, rtol=1e-6)
    check(along, X, m, rtol=1e-6)
    check(products, X, X.astype(np.int32), m, rtol=1e-6)
    check(lambda x, m: np.compress(m, x, axis=1).sum(axis=1), X, m[0])
    check(lambda x, m: (x[1, :, m].sum(axis=0), x[:, :, m, 1].min(-1)), X, np.array([True, False, True, True]))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_medians_of_what_a_mask_selects(kind: Any):
    """Those of all NaNs are NaN, in one that the mask leaves out is nothing."""

    def middles(x, m):
        part = x[m]
        spread = np.median(np.abs(part - np.median(part)))
        return (
            np.median(part),
            spread,
            np.percentile(part, [25, 60]),
            np.quantile(x[x > 3], 0.3),
            np.median(x[1][m[0]]),
        )

    def passing_over(x, m):
        part = x[m]
        return np.nanmean(part), np.nanmax(part), np.nanmedian(part), np.nanpercentile(part, 40), np.nansum(part)

    x = np.arange(24).reshape(4, 6)[:, ::-1].astype(kind)
    m = np.array([[True, False, True, True, False, True]] * 3 + [[False] * 6])
    check(middles, x, m, rtol=1e-6)
    check(lambda x, m: np.median(x[m]), x, np.zeros_like(m))
    if kind is not np.int32:
        for place in ((0, 0), (0, 1)):
            x[place] = np.nan
            check(middles, x, m, rtol=1e-6)
            check(passing_over, x, m, rtol=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.uint8, bool])
def test_places_in_what_a_mask_selects(kind: Any):
    x = np.array([[3, 0, 5, 1], [5, 0, 2, 5]]).astype(kind)

    def places(x, m):
        return (x[m].argmax(), np.argmin(x[m]), x[x > 0].argmin(axis=0), x[m].max(), x[m].min())

    for m in (x > 1, x < 3, x == x, np.array([[False, True, True, False]] * 2)):
        if m.any() and (x > 0).any():
            check(places, x, m)
    if kind is np.float32:
        for numbers in ([-np.inf, -np.inf, 1, 2], [np.nan, 7, np.nan, 8], [np.inf, 7, np.inf, np.inf]):
            x[0] = numbers
            for row in ([True, True, False, False], [False, True, True, True]):
                check(places, x[:1], np.array([row]))


def test_int64_that_a_mask_selects_becomes_a_kernel():
    """What stands for no elements is the least number of 32 bits (was E805)."""
    x = np.array([4, -7, 9, 0])

    def extremes(x):
        return (x[x < 5].max(), x[x > -3].min(), np.ptp(x[x < 9]), x[x < 9].argmax(), np.bitwise_count(x))

    for mine, theirs in zip(tw.compile(extremes, x)(x), extremes(x), strict=True):
        assert np.array_equal(mine, theirs)


def test_what_masks_cannot_do():
    for function in (
        lambda x: x[x > 0] @ x[0, 0, 0],
        lambda x: len(x[x > 0]),
        lambda x: x[x > 0].shape,
        lambda x: x[x > 0] + x,
        lambda x: x[x > 0] + x[x > 1],
        lambda x: np.sort(x[x > 0]),
        lambda x: x[x > 0][1:],
        lambda x: x[x > 0].argmax(keepdims=True),
        lambda x: x[x[:, 0, 0, 0] > 0].argmax(),
        lambda x: x[x > 0].sum(keepdims=True),
        lambda x: x[x[:, 0, 0, 0] > 0].sum(axis=1),
        lambda x: [*x[x > 0]],
        lambda x: np.add(x[x > 0], 1, out=x),
        lambda x: x.__setitem__(x > 3, x[x > 2]),
        lambda x: np.concatenate([x[x > 0], x[0, 0, 0]]),
        lambda x: x[x > 0],
    ):
        refused("E804", function, X)
    refused("E804", lambda x, y: x.__setitem__(x > 60, y), X, np.ones(59, np.float32))
    refused("E804", lambda x: x.__setitem__(([0, 1], x[0, :, 0, 0] > 0), 1), X)


ERRORS: list[tuple[np.ndarray, Any]] = [
    (X, 2),
    (X, (0, -4)),
    (X, (0, 0, 0, 0, 0)),
    (X, (..., ...)),
    (X, 1.5),
    (X, "a"),
    (X, slice(1.5, None)),
    (X, slice(None, None, 0)),
    (X, [2]),
    (X, ([0, 1], [0, 1, 2])),
    (X, [0.5]),
    (X, np.ones(3, bool)),
    (X, np.ones((2, 4), bool)),
    (V, ([0], [0])),
    (np.array(1.0), 0),
]


@pytest.mark.req("S4-77")
@pytest.mark.parametrize(("x", "key"), ERRORS)
def test_keys_that_numpy_refuses(x: np.ndarray, key: Any):
    check_error(lambda x: x[key], x)
    check_error(lambda x: x.__setitem__(key, 0), x)


VALUES: list[Any] = [np.ones(3), np.ones((2, 4)), [1, 2, 3], "a", None, float("nan"), 2**40, np.ones((2, 5))]


@pytest.mark.req("S4-84")
@pytest.mark.parametrize("value", VALUES)
def test_values_that_do_not_fit(value: Any):
    check_error(lambda x: x.__setitem__(slice(0, 4), value), np.zeros(5, np.int16))


def random_key(rng: random.Random, shape: tuple[int, ...]) -> Any:
    items: list[Any] = []
    lengths = rng.choice([1, 2, 3])
    left = list(shape)
    while left and rng.random() < 0.9:
        kind = rng.choice(["int", "slice", "slice", "array", "array", "mask", "none", "two"])
        size = left.pop(0)
        if kind == "int" and size:
            items.append(rng.randrange(-size, size))
        elif kind == "array" and size:
            places = np.array([rng.randrange(-size, size) for _ in range(lengths)])
            items.append(rng.choice([places, places.astype(np.int32), (places % size).astype(np.uint8)]))
        elif kind == "two" and size:
            items.append(np.array([[rng.randrange(size)] for _ in range(2)]))
        elif kind == "mask":
            mask = np.zeros(size, bool)
            mask[rng.sample(range(size), min(size, lengths))] = True
            items.append(mask)
        else:
            start, stop = (rng.choice([None, rng.randrange(-size - 2, size + 3)]) for _ in range(2))
            items.append(slice(start, stop, rng.choice([None, 1, 2, -1, -3])))
        if kind == "none":
            items.append(None)
    if rng.random() < 0.4:
        cut = rng.randrange(len(items) + 1)
        items = [*items[:cut], ..., *items[cut:]] if not left else items
    return tuple(items)


@pytest.mark.req("S4-77")
@pytest.mark.parametrize("seed", range(150))
def test_random_keys(seed: int):
    rng = random.Random(seed)
    shape = tuple(rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.randrange(1, 5)))
    x = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    key = random_key(rng, shape)

    def writes(x):
        x[key] = -1

    def of_traced(x, *indices):
        rest = iter(indices)
        return x[tuple(next(rest) if isinstance(k, np.ndarray) and k.dtype != bool else k for k in key)]

    try:
        x[key]
    except IndexError:
        check_error(lambda x: x[key], x)
        return
    check(lambda x: x[key], x)
    check(writes, x)
    check(of_traced, x, *(k for k in key if isinstance(k, np.ndarray) and k.dtype != bool))
