"""Sorting, topk, searching, counting, positions and quantiles, against NumPy."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.front.kit import BFLOAT16, check, check_error, refused, run, same, traced

untyped: Any = np  # for calls that its signatures do not allow
RNG = np.random.default_rng(11)
DTYPES = [np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64, BFLOAT16]


def data(shape: tuple[int, ...], dtype: Any, high: int = 9) -> np.ndarray:
    """Few distinct numbers, so that many are equal."""
    return RNG.integers(0, high, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axis"), [((7,), -1), ((3, 5), 0), ((3, 5), None), ((2, 0, 3), 1), ((2, 1, 3), -2)], ids=str
)
def test_sort(dtype: Any, shape: tuple[int, ...], axis: int | None):
    x = data(shape, dtype)
    check(lambda x: np.sort(x, axis, kind="stable"), x)
    check(lambda x: np.sort(x, axis=axis), x)
    check(lambda x: np.argsort(x, axis=axis, stable=True), x)
    if axis is not None:
        check(lambda x: (x.sort(axis), x)[1], x)
        check(lambda x: x.argsort(axis, kind="mergesort"), x)


def test_sort_of_what_is_not_a_number_and_of_scalars():
    x = np.array([np.nan, 1, -np.inf, np.inf, np.nan, -2], np.float32)
    check(np.sort, x)
    check(lambda x: np.argsort(x, kind="stable"), x)
    check(np.argsort, np.array(3.0))
    check(lambda x: np.sort(x, axis=None), np.array(3.0))
    check(lambda x: np.sort(x.T, axis=0).ravel("K"), data((3, 4), np.int32))
    check_error(np.sort, np.array(3.0))
    check_error(lambda x: np.sort(x, axis=1), x)
    check_error(lambda x: untyped.sort(x, kind="bubble"), x)
    check_error(lambda x: np.sort(x, order="f"), x)
    check_error(lambda x: np.argsort(x, kind="stable", stable=True), x)


@pytest.mark.parametrize("kth", [0, 3, -1, (1, 4)])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_partition(kth: Any, axis: int | None):
    """NumPy promises the kth element and which elements stand before it, in no order."""
    x = RNG.permutation(35).reshape(5, 7)
    found = traced(lambda x: (np.partition(x, kth, axis), np.argpartition(x, kth, axis)), x)
    values, order = run(found, x)
    row, where = (x.ravel(), 0) if axis is None else (x, axis)
    same(np.take(values, np.atleast_1d(kth), where), np.take(np.partition(row, kth, where), np.atleast_1d(kth), where))
    same(np.take_along_axis(row, order, where), values)
    same(values, np.sort(row, where))
    check_error(lambda x: np.partition(x, 99, axis), x)
    check_error(lambda x: untyped.partition(x, 0.5, axis), x)


def test_lexsort():
    first, second = data((4, 9), np.int8, 3), data((4, 9), np.float32, 3)
    check(lambda a, b: np.lexsort((a, b)), first, second)
    check(lambda a, b: np.lexsort((b, a), axis=0), first, second)
    check(np.lexsort, first)
    check_error(lambda a: np.lexsort((a, a[0])), first)
    check_error(np.lexsort, np.array(1))


def best(x: np.ndarray, k: int, axis: int, ascending: bool) -> tuple[np.ndarray, np.ndarray]:
    """topk by NumPy's stable sort; numbers without NaN."""
    order = np.argsort(x if ascending else -x.astype(np.float64), axis=axis, kind="stable")
    index = np.take(order, range(k), axis=axis)
    return np.take_along_axis(x, index, axis), index.astype(np.uint32)


@pytest.mark.req("S4-67")
@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "k"),
    [((4, 30), -1, k) for k in (0, 1, 3, 8, 10, 12, 16, 20, 30)]
    + [((5,), 0, 5), ((2, 17000), 1, 20), ((130, 2), 0, 3), ((2, 3, 4), 1, 2)],
    ids=str,
)
def test_topk(shape: tuple[int, ...], axis: int, k: int, ascending: bool):
    for x in (RNG.standard_normal(shape).astype(np.float32), data(shape, np.int32)):
        wanted = best(x, k, axis, ascending)
        at_once = tw.topk(x, k, axis=axis, ascending=ascending)
        found = run(traced(lambda x: tw.topk(x, k, axis, ascending), x), x)
        for actual in (at_once, found):
            for one, other in zip(actual, wanted, strict=True):
                same(one, other)


@pytest.mark.req("S4-69")
def test_topk_of_special_numbers():
    """NaN is the greatest, equal elements come in their order, -inf is an element like others, no index twice."""
    x = np.array([[1, np.nan, -np.inf, 3, 3, -np.inf, np.nan, np.inf], [-np.inf] * 8], np.float32)
    for k in range(9):
        values, index = tw.topk(x, k)
        assert index.dtype == np.uint32
        assert all(len(set(row)) == k for row in index.tolist())
        same(np.take_along_axis(x, index.astype(int), 1), values)
        assert index[0].tolist() == [1, 6, 7, 3, 4, 0, 2, 5][:k] and index[1].tolist() == list(range(k))
        least = tw.topk(x, k, ascending=True)[1]
        assert least[0].tolist() == [2, 5, 0, 3, 4, 7, 1, 6][:k]


def test_topk_refuses():
    x = data((3, 4), np.float32)
    for call in (lambda x: tw.topk(x, 5), lambda x: tw.topk(x, -1)):
        refused("E108", call, x)
    with pytest.raises(np.exceptions.AxisError):
        tw.topk(x, 1, axis=2)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("left", "right"), [(np.int32, np.int32), (np.float32, np.int8), (np.int16, np.float64)])
def test_searchsorted(side: Any, left: Any, right: Any):
    x, v = np.sort(data((13,), left)), data((3, 4), right, 12)
    check(lambda x, v: np.searchsorted(x, v, side), x, v)
    check(lambda v: np.searchsorted(x, v, side=side), v)
    check(lambda x: x.searchsorted(v, side), x)
    check(lambda x: np.searchsorted(x, 3.5, side), x)
    check(lambda x: np.searchsorted(x, [], side), x)
    check(lambda x: np.searchsorted(x[:0], 3, side), x)
    mixed = RNG.permutation(x)
    check(lambda x, v, order: np.searchsorted(x, v, side, sorter=order), mixed, v, np.argsort(mixed))
    check(lambda x, v: np.searchsorted(x, v, side, sorter=np.argsort(x)), mixed, v)
    nans = np.array([1, np.inf, np.nan, np.nan])
    check(lambda x: np.searchsorted(x, x, side), nans)


def test_searchsorted_errors():
    x = np.arange(4.0)
    check_error(lambda x: np.searchsorted(x[None], 1), x)
    check_error(lambda x: np.searchsorted(x[0], 1), x)
    check_error(lambda x: untyped.searchsorted(x, 1, side="middle"), x)
    check_error(lambda x: untyped.searchsorted(x, 1, sorter=np.zeros(4)), x)
    check_error(lambda x: np.searchsorted(x, 1, sorter=np.zeros(3, int)), x)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bins", [[0, 2, 5], [5.5, 2, 1], [], [3], np.arange(4)], ids=str)
def test_digitize(right: bool, bins: Any):
    check(lambda x: np.digitize(x, bins, right), data((3, 4), np.float32))
    check(lambda x: np.digitize(x, bins, right=right), data((), np.int32))
    check_error(lambda x: np.digitize(x, [0, 2, 1]), np.zeros(3))
    refused("E803", lambda x: np.digitize(x, x), np.zeros(3))


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("tests", [[1, 5, 7], [[2, 3], [3, 2]], [], [2.5], 4], ids=str)
def test_isin(invert: bool, tests: Any):
    for dtype in (np.int32, np.float32, np.uint8):
        x = data((3, 4), dtype)
        check(lambda x: np.isin(x, tests, invert=invert), x)
        check(lambda t: np.isin(np.arange(6), t, invert=invert, kind="sort"), x)
    check(lambda x: np.isin(x, np.array([np.nan, 1.0]), invert=invert), np.array([np.nan, 1, 2]))
    check(lambda x: np.isin(x, 3), np.array(3))


def test_bincount():
    x = data((20,), np.int64)
    check(lambda x: np.bincount(x, minlength=9), x)
    check(lambda x: np.bincount(x[:0], x[:0] * 0.5, minlength=3), x)
    check(lambda x: np.bincount(x, minlength=30), x.astype(np.uint8))
    check(lambda x: np.bincount(x, minlength=9), x[:0])
    check(lambda x, w: np.bincount(x, w, 9), x, RNG.integers(0, 9, 20).astype(np.float32))
    check(lambda x: np.bincount(x, np.arange(20), 9), x)
    refused("E804", lambda x: np.bincount(x), x)
    check_error(lambda x: np.bincount(x, minlength=-1), x)
    check_error(lambda x: np.bincount(x[None], minlength=3), x)
    check_error(lambda x: np.bincount(x / 2, minlength=3), x)
    check_error(lambda x: np.bincount(x, [1, 2], minlength=9), x)
    found = traced(lambda x: np.bincount(x, minlength=3), x)
    for bad in (-1, 3):
        with pytest.raises(IndexError):
            run(found, np.full(20, bad))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_histogram(dtype: Any):
    x = data((5, 9), dtype)
    check(lambda x: np.histogram(x, 4, (0, 8)), x)
    check(lambda x: np.histogram(x, bins=[1, 2, 4, 4.5]), x)
    check(lambda x: np.histogram(x, bins=[0, 3, 9], density=True), x, rtol=1e-12)
    check(lambda x, w: np.histogram(x, 5, (1, 6), weights=w), x, RNG.integers(0, 5, x.shape).astype(np.float32))
    check_error(lambda x: np.histogram(x, 4, (3, 1)), x)
    check_error(lambda x: np.histogram(x, [3, 1]), x)
    refused("E803", lambda x: np.histogram(x), x)
    refused("E803", lambda x: np.histogram(x, "auto"), x)


@pytest.mark.parametrize("call", [np.nonzero, np.flatnonzero, np.argwhere, np.unique, lambda x: x.nonzero()])
def test_shapes_that_depend_on_data(call: Any):
    error = refused("E804", call, np.zeros(3))
    assert isinstance(error, NotImplementedError) and "tw." in (error.diagnostic.hint or "")


@pytest.mark.parametrize("shape", [(9,), (3, 4), (2, 3, 2), (0, 3), ()], ids=str)
@pytest.mark.parametrize("size", [0, 3, 40])
def test_nonzero_with_a_size(shape: tuple[int, ...], size: int):
    x = data(shape, np.int32, 3)
    row = [each[:size] for each in np.nonzero(np.atleast_1d(x))][: len(shape)]
    wanted = [np.concatenate([each, np.full(size - each.size, -7)]) for each in row]
    made = [tw.nonzero(x, size, -7)]
    if shape:  # of a number there are no positions, and a function that returns nothing is refused
        made.append(run(traced(lambda x: tw.nonzero(x, size, -7), x), x))
    for found in made:
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    refused("E108", lambda x: tw.nonzero(x, size=-1), x)


@pytest.mark.parametrize(
    "x",
    [
        data((20,), np.int32),
        data((4, 5), np.float32),
        np.array([np.nan, 1, np.nan, 0]),
        data((3,), np.bool_),
        data((), np.int8),
    ],
    ids=str,
)
def test_unique_with_a_size(x: np.ndarray):
    values, index, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    size, n = values.size + 2, values.size
    wanted = (
        np.concatenate([values, values[:1], values[:1]]),
        np.concatenate([index, index[:1], index[:1]]),
        inverse.reshape(x.shape),
        np.concatenate([counts, [0, 0]]),
    )

    def call(x):
        return tw.unique(x, size, return_index=True, return_inverse=True, return_counts=True)

    for found in (call(x), run(traced(call, x), x)):
        for one, other in zip(found, wanted, strict=True):
            same(np.asarray(one), np.asarray(other))
    few = run(traced(lambda x: tw.unique(x, n - 1, return_counts=True), x), x)
    same(few[0], values[:-1])
    same(few[1], counts[:-1])
    same(tw.unique(x, n + 1, fill_value=1), np.concatenate([values, np.ones(1, x.dtype)]))
    same(tw.unique(np.zeros(0, np.int32), 2, fill_value=4), np.array([4, 4], np.int32))


def test_flat_and_several_indices():
    x = RNG.integers(0, 24, (3, 2))
    for order in ("C", "F"):
        check(lambda x, order=order: untyped.unravel_index(x, (2, 3, 4), order), x)
        check(lambda x, order=order: untyped.unravel_index(x[0, 0], (4, 6), order), x)
        check(lambda x, order=order: untyped.unravel_index(x, 24, order), x)
        for mode in ("wrap", "clip", ("clip", "wrap")):
            check(lambda x, order=order, mode=mode: untyped.ravel_multi_index((x, 9 - x), (4, 5), mode, order), x)
        check(lambda x, order=order: untyped.ravel_multi_index((x % 4, [0, 4]), (4, 5), order=order), x)
        check(lambda x, order=order: untyped.ravel_multi_index(x[:2] % 3, (3, 3), order=order), x)
    check_error(lambda x: np.unravel_index(x * 1.0, (2, 3)), x)
    check_error(lambda x: np.ravel_multi_index((x * 1.0, x), (2, 3)), x)
    check_error(lambda x: np.ravel_multi_index((x, x), (2, 3, 4)), x)
    for call in (lambda x: np.unravel_index(x, (2, 3)), lambda x: np.ravel_multi_index((x, x), (5, 99))):
        with pytest.raises(IndexError):
            run(traced(call, x), np.full((3, 2), 6))
        with pytest.raises(IndexError):
            run(traced(call, x), np.full((3, 2), -1))


def test_indices_of_shapes():
    x = data((4, 4), np.float32)
    check(lambda x: x[np.diag_indices_from(x)], x)
    check(lambda x: x[np.tril_indices_from(x, -1)], x)
    check(lambda x: x[np.triu_indices_from(x, k=1)], x)
    check(lambda x: x[np.tril_indices(4)] + np.sum(x[np.diag_indices(4)]), x)
    check(lambda x, i: x[np.ix_(i, [0, 3])], x, np.array([2, 2, 0]))
    check(lambda x: x[np.ix_([True, False, True, False], [1])], x)
    check(lambda i: np.ix_(i, [0, 1, 2], i), np.array([2, 2]))
    check_error(lambda x: np.diag_indices_from(x[:2]), x)
    check_error(lambda x: np.tril_indices_from(x[0]), x)
    check_error(lambda x: np.ix_(x), x)
    refused("E804", lambda x: np.ix_(x[0] > 0), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.bool_])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1,)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_median(dtype: Any, axis: Any, keepdims: bool):
    for shape in ((3, 4, 5), (2, 1, 6)):
        check(lambda x: np.median(x, axis=axis, keepdims=keepdims), data(shape, dtype))
    check(lambda x: np.median(x, axis=0), np.array([[1, np.nan], [2, 3], [np.inf, 4]]))


METHODS = [
    *("inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull"),
    *("linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest"),
]


@pytest.mark.parametrize("method", METHODS)
def test_quantile(method: Any):
    x = RNG.standard_normal((5, 7))
    for q in (0.3, 1, [0.1, 0.9], np.array([[0.25], [1.0]])):
        check(lambda x, q=q: np.quantile(x, q, axis=0, method=method, keepdims=True), x, rtol=1e-12)
        check(lambda x, q=q: np.quantile(x, q, method=method), x.astype(np.float32), rtol=1e-6, atol=1e-6)
    check(lambda x: np.percentile(x, [25.0, 80], axis=(1,), method=method), (x * 10).astype(np.int32), rtol=1e-12)
    for special in (np.nan, np.inf):
        for q in (0, 0.4, [0.0, 1.0]):
            rows = np.array([[1, special, 2], [4, 3, 5]])
            check(lambda x, q=q: np.quantile(x, q, axis=1, method=method), rows, rtol=1e-12)


def test_quantile_refuses():
    x = np.arange(4.0)
    check_error(lambda x: np.quantile(x, 2), x)
    check_error(lambda x: np.percentile(x, 101), x)
    check_error(lambda x: untyped.quantile(x, 0.5, method="best"), x)
    check_error(lambda x: np.median(x, axis=1), x)
    refused("E803", lambda x: np.quantile(x, x), x)
    refused("E803", lambda x: np.quantile(x, 0.5, method="inverted_cdf", weights=np.ones(4)), x)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_without_nans(axis: Any, keepdims: bool):
    x = RNG.standard_normal((4, 5))
    x[RNG.random(x.shape) < 0.4] = np.nan
    x[:, 2] = np.nan
    x[:, 3] = [1, 2, 3, 4]
    # NumPy's type is that of its first line, which is another where nothing is left of that.
    x[0, 0] = 0.5
    for a in (x, x.astype(np.float32), np.nan_to_num(x * 9).astype(np.int32)):
        tolerance = 1e-5 if a.dtype == np.float32 else 1e-12
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            check(lambda x: np.nanmedian(x, axis=axis, keepdims=keepdims), a)
            for q in (0.3, [[0.0], [1.0]]):
                check(lambda x, q=q: np.nanquantile(x, q, axis, keepdims=keepdims), a, rtol=tolerance, atol=1e-6)
                check(lambda x, q=q: np.nanpercentile(x, np.multiply(q, 100), axis), a, rtol=tolerance, atol=1e-6)
    few_digits = np.nan_to_num(x).astype(BFLOAT16)
    check(lambda x: np.nanpercentile(x, 40, axis, keepdims=keepdims), few_digits, rtol=2e-2, atol=2e-2)
    refused("E803", lambda x: np.nanquantile(x, 0.5, method="lower"), x)
    check_error(lambda x: np.nanquantile(x, 2), x)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_quantiles_of_nothing_but_nan(axis: Any):
    for shape, kind in itertools.product(((0, 3), (2, 0)), (np.float32, np.int32)):
        check(lambda x: (np.nanpercentile(x, 40, axis), np.nanquantile(x, [0.2, 0.3], axis)), np.zeros(shape, kind))


@pytest.mark.parametrize("shape", [(3, 8), (3, 700), (700,), (8,), (2, 3, 4)])
def test_median_without_nans_of_few_bits_has_the_type_that_numpy_gives_it(shape: tuple[int, ...]):
    """float64 for rows that NumPy masks, else that of the elements."""
    x = (np.arange(np.prod(shape)) % 7).reshape(shape).astype(BFLOAT16)
    for axis in (None, 0, -1):
        check(lambda x, axis=axis: np.nanmedian(x, axis=axis), x)
