"""Reductions, running reductions, means and norms against NumPy: every axis, element type and argument."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.front.arrays import BOOL, DTYPES, FLOATS, INTEGERS, agreement, every, sample
from tests.front.kit import BFLOAT16, check, check_error, ops, refused

SHAPES = [(), (1,), (5,), (2, 3), (1, 4), (2, 3, 4), (2, 1, 3, 2)]
EMPTY = [(0,), (3, 0), (0, 2, 1)]


def axes_of(rank: int) -> Iterator[Any]:
    """None, every axis in both spellings, every set of axes, and axes that are wrong."""
    yield None
    yield from range(-rank, rank)
    for count in range(rank + 1):
        yield from itertools.combinations(range(rank), count)
    yield from (rank, -rank - 1, (0, 0), (-1, 0, 1)) if rank else (0, 1)


def plain(dtype: Any, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Small numbers, whose sums and products no type overflows."""
    kind = np.dtype(dtype)
    if kind.kind in "biu":
        return np.asarray(rng.integers(0 if kind.kind != "i" else -2, 2 if kind.kind == "b" else 3, shape), kind)
    return np.asarray(rng.standard_normal(shape)).astype(kind)


def tolerance(dtype: Any) -> dict[str, float]:
    """How far a sum may be off: NumPy's own order of additions depends on the memory layout, and it rounds sums of
    bfloat16 after every element."""
    kind = np.dtype(dtype)
    if kind.kind in "biu":
        return {"rtol": 1e-13, "atol": 1e-13}
    eps = {2: 1e-2 if kind == BFLOAT16 else 2e-3, 4: 2e-6, 8: 4e-15}[kind.itemsize]
    return {"rtol": 4 * eps, "atol": 8 * eps}


@pytest.mark.req("S4-60")
@pytest.mark.parametrize("name", ["sum", "prod", "nansum", "nanprod", "mean", "nanmean", "var", "std"])
def test_every_axis(name: str):
    function = getattr(np, name)
    rng = np.random.default_rng(1)
    with agreement(**tolerance("f4")) as agree:
        for shape in SHAPES + EMPTY:
            x = plain("f4", shape, rng)
            for place, axis in enumerate(axes_of(len(shape))):
                agree(lambda x, a=axis, k=place % 2 > 0: function(x, axis=a, keepdims=k), x)


@pytest.mark.req("S4-60")
@pytest.mark.parametrize("name", ["max", "min", "amax", "nanmax", "nanmin", "any", "all", "ptp"])
def test_every_axis_of_what_is_exact(name: str):
    function = getattr(np, name)
    rng = np.random.default_rng(2)
    # Which zero is the greater one is left open.
    with agreement(rtol=0) as agree:
        for shape in SHAPES + EMPTY:
            x = sample("f4", shape, rng, special=name != "ptp")
            for place, axis in enumerate(axes_of(len(shape))):
                agree(lambda x, a=axis, k=place % 2 == 0: function(x, axis=a, keepdims=k), x)


TOTALS = [np.sum, np.prod, np.nansum, np.nanprod]
EXTREMES = [np.max, np.min, np.nanmax, np.nanmin]


@pytest.mark.req("S4-60", "S4-43")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arguments_of_reductions(dtype: np.dtype):
    rng = np.random.default_rng(3)
    shape = (3, 4, 5)
    mask = rng.random(shape) < 0.5
    # Sums of integers are exact: anything else would be off by one at least.
    with agreement(**tolerance(dtype)) as agree:
        for function in TOTALS:
            x = plain(dtype, shape, rng)
            agree(lambda x, f=function: f(x), x)
            agree(lambda x, f=function: f(x, axis=(0, -1), initial=2, keepdims=True), x)
            agree(lambda x, f=function: f(x, axis=1, initial=1.5), x)
            agree(lambda x, m, f=function: f(x, 1, where=m), x, mask)
            agree(lambda x, m, f=function: f(x, axis=0, where=m[0], initial=3), x, mask)
            agree(lambda x, f=function: f(x, 0, np.int16), np.abs(np.round(x)))
            agree(lambda x, f=function: f(x, -1, None, x[..., 0]), x)
            agree(lambda x, f=function: f(x, -1, out=np.zeros((3, 4), np.float64)), x)
            agree(lambda x, f=function: f(x, axis=1, out=np.zeros((3, 4))), x)
        for function in EXTREMES:
            x = sample(dtype, shape, rng)
            agree(lambda x, f=function: f(x, 1), x)
            agree(lambda x, m, f=function: f(x, axis=(0, 2), initial=1, where=m), x, mask)
            agree(lambda x, m, f=function: f(x, where=m), x, mask)
            agree(lambda x, f=function: f(x[:0], axis=0, initial=3), x)
            agree(lambda x, f=function: f(x, axis=0, out=x[1]), x)
        for function in (np.any, np.all):
            x = sample(dtype, shape, rng)
            agree(lambda x, m, f=function: f(x, 1, where=m, keepdims=True), x, mask)
            agree(lambda x, f=function: f(x, axis=(1, 2), out=np.zeros(3, np.float32)), x)


@pytest.mark.req("S4-60", "S4-41")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_means_and_variances(dtype: np.dtype):
    rng = np.random.default_rng(4)
    x, mask = plain(dtype, (3, 4, 5), rng), rng.random((3, 4, 5)) < 0.7
    with agreement(**tolerance(dtype)) as agree:
        for function in (np.mean, np.nanmean):
            agree(lambda x, f=function: (f(x), f(x, axis=(0, 2), keepdims=True), f(x, 1, np.float64)), x)
            agree(lambda x, m, f=function: (f(x, 1, where=m), f(x, where=m[0])), x, mask)
            agree(lambda x, f=function: f(x, 0, np.int32), x)
            agree(lambda x, f=function: f(x, 0, out=x[0]), x)
        for function in (np.var, np.std, np.nanvar, np.nanstd):
            agree(lambda x, f=function: (f(x), f(x, axis=(0, 2), keepdims=True, ddof=1)), x)
            agree(lambda x, f=function: (f(x, 1, np.float64), f(x, axis=2, ddof=9), f(x, correction=1)), x)
            agree(lambda x, m, f=function: f(x, 1, where=m, ddof=1.5), x, mask)
            agree(lambda x, f=function: f(x, axis=1, mean=np.mean(x, axis=1, keepdims=True)), x)
            agree(lambda x, f=function: f(x, ddof=1, correction=1), x)
        weights = rng.random((3, 4, 5)) + 0.1
        agree(lambda x: (np.average(x), np.average(x, axis=1, returned=True), np.average(x, 0, keepdims=True)), x)
        agree(lambda x, w: np.average(x, weights=w, axis=(0, 2), returned=True), x, weights)
        agree(lambda x, w: (np.average(x, 1, w[0, :, 0]), np.average(x, (2, 0), w[:, 0].T)), x, weights)
        agree(lambda x, w: np.average(x, weights=w[0]), x, weights)
        agree(lambda x, w: np.average(x, 1, weights=w[0]), x, weights)


def test_nan_is_left_out():
    rng = np.random.default_rng(5)
    for dtype in FLOATS:
        x = rng.standard_normal((6, 7)).astype(dtype)
        x[rng.random((6, 7)) < 0.4] = np.nan
        x[2] = np.nan
        with agreement(**tolerance(dtype)) as agree:
            for function in (*TOTALS, *EXTREMES, np.nanmean, np.nanvar, np.nanstd, np.nancumsum, np.nancumprod):
                agree(lambda x, f=function: (f(x), f(x, axis=1), f(x, axis=0)), x)
            agree(lambda x: (np.nanargmax(x), np.nanargmin(x), np.nanargmax(x, axis=0, keepdims=True)), x)
    check_error(lambda x: np.nanmean(x, dtype=np.int32), np.ones(3))


@pytest.mark.req("S4-60")
def test_sums_of_small_integers_are_wide_and_means_are_floats():
    for dtype in (BOOL, *INTEGERS):
        x = np.full((300,), -1).astype(dtype)
        check(lambda x: (np.sum(x), np.prod(x), np.mean(x), np.cumsum(x), np.cumprod(x), np.max(x) + x.sum()), x)
    check(lambda x: np.mean(x), np.full(100, 60000, np.float16))  # a float16 sum would be infinite
    assert ops(check(np.mean, np.ones(7, np.float32)).graph) == ["sum", "divide"]


@pytest.mark.req("S4-63")
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(name: str):
    function = getattr(np, name)
    rng = np.random.default_rng(6)
    with agreement() as agree:
        for dtype in DTYPES:
            x = sample(dtype, (3, 5), rng)
            agree(lambda x: (function(x), function(x, axis=-1), function(x, axis=0, keepdims=True)), x)
        for shape in SHAPES + EMPTY:
            x = sample("f4", shape, rng)
            for axis in (None, *range(-len(shape), len(shape)), 0, 4):
                agree(lambda x, a=axis: function(x, axis=a), x)
                agree(lambda x, a=axis: function(x, axis=a, keepdims=True), x)
    ties = np.array([[3, 7, 7, 0, 0], [2**24, 2**24 + 1, 2**24 + 1, 5, 5]], np.int32)
    check(lambda x: (function(x), function(x, 1), function(x, 0, keepdims=True), x.argmax(-1)), ties)
    check(lambda x: function(x, axis=1, out=np.zeros(2, np.int64)), ties)
    check_error(lambda x: function(x, axis=1, out=np.zeros(3, np.int64)), ties)
    check(function, np.array([1, np.nan, 3, np.nan], np.float32))


@pytest.mark.req("S4-41")
def test_count_nonzero_and_logic():
    rng = np.random.default_rng(7)
    for dtype in DTYPES:
        x = sample(dtype, (3, 4, 5), rng)
        check(lambda x: (np.count_nonzero(x) + np.int64(0), np.count_nonzero(x, axis=(0, 2)), np.any(x), np.all(x)), x)
        check(lambda x: (np.count_nonzero(x, axis=-1, keepdims=True), x.any(1), x.all(axis=0, keepdims=True)), x)
    check(lambda x: (np.any(x, axis=1), np.all(x, axis=1)), np.array([[np.nan, 0], [0, -0.0]]))
    check(lambda x: (np.any(x), np.all(x), np.sum(x), np.prod(x)), np.zeros((0, 3)))


@pytest.mark.req("S4-65")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_running_sums(dtype: np.dtype):
    rng = np.random.default_rng(8)
    with agreement() as agree:
        for shape in ((), (5,), (2, 3, 4), (3, 0)):
            x = plain(dtype, shape, rng)
            for function, axis in itertools.product(
                (np.cumsum, np.cumprod), (None, *range(-len(shape), len(shape)), 5)
            ):
                agree(lambda x, f=function, a=axis: (f(x, axis=a), f(x, a, np.float32), f(x, axis=a, dtype=np.int8)), x)
        x = plain(dtype, (3, 4), rng)
        agree(lambda x: np.cumsum(x, 1, None, x), x)
        agree(lambda x: np.cumulative_sum(x, axis=1, include_initial=True), x)
        agree(lambda x: (np.cumulative_prod(x, axis=0, dtype=np.float64), x.cumsum(), x.cumprod(0)), x)
        agree(lambda x: np.cumulative_sum(x), x)


@pytest.mark.req("S4-65")
def test_a_long_running_sum_holds_no_constants():
    x = np.random.default_rng(9).standard_normal((2, 4096)).astype(np.float32)
    found = check(lambda x: np.cumsum(x, axis=-1), x)
    assert ops(found.graph) == ["cumsum"]


REDUCING = [np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or]
REDUCING += [np.logical_xor, np.bitwise_and, np.bitwise_or, np.bitwise_xor]


@pytest.mark.parametrize("ufunc", REDUCING, ids=lambda u: u.__name__)
def test_methods_of_ufuncs(ufunc: np.ufunc):
    rng = np.random.default_rng(10)
    with agreement(rtol=0) as agree:
        for dtype in DTYPES[::3]:
            exact = dtype.kind in "biu" or ufunc not in (np.add, np.multiply)
            x = sample(dtype, (3, 7), rng) if exact else plain(dtype, (1, 1), rng)
            y = sample(dtype, (2,), rng)
            agree(lambda x: (ufunc.reduce(x), ufunc.reduce(x, axis=None), ufunc.reduce(x, (0, 1), keepdims=True)), x)
            agree(lambda x: ufunc.reduce(x, axis=1, initial=1, where=x > 0), x)
            agree(lambda x: (ufunc.reduce(x[:0]), ufunc.reduce(x[:, :1], axis=1)), x)
            agree(lambda x: (ufunc.accumulate(x), ufunc.accumulate(x, axis=-1), ufunc.accumulate(x[:, :0], 1)), x)
            agree(lambda x: ufunc.accumulate(x, out=x), x)
            agree(lambda x, y: (ufunc.outer(x, y), ufunc.outer(y, x[0]), ufunc.outer(x[0, 0], y)), x, y)
    check_error(lambda x: ufunc.accumulate(x[0]), np.ones(3, np.int32))
    check_error(lambda x: ufunc.reduce(x, axis=2), np.ones((2, 3), np.int32))


norm: Any = np.linalg.norm
ORDERS = [None, 0, 1, 2, 3, -1, -2, 0.5, np.inf, -np.inf, "fro", "nuc", "bad", 7]


@pytest.mark.req("S4-41")
@pytest.mark.parametrize("ord", ORDERS, ids=str)
def test_norms(ord: Any):
    rng = np.random.default_rng(11)
    with agreement(rtol=1e-5, atol=1e-5) as agree:
        for shape, dtype in itertools.product([(5,), (3, 4), (2, 3, 4), (2, 0)], ("f4", "i4")):
            x = rng.integers(1, 9, shape).astype(dtype)
            for place, axis in enumerate((None, None, 0, -1, (0,), (0, 1), (0, 1), (-1, 0), (1, 1), (0, 1, 2), 5)):
                matrix = len(axis) == 2 if isinstance(axis, tuple) else axis is None and len(shape) == 2
                if not (matrix and ord in (2, -2, "nuc")):
                    agree(lambda x, a=axis, k=place % 2 > 0: norm(x, ord, a, k), x)
            if not isinstance(ord, str) and ord is not None:
                agree(lambda x: np.linalg.vector_norm(x, ord=ord), x)
                agree(lambda x: np.linalg.vector_norm(x, ord=ord, axis=0, keepdims=True), x)
                if len(shape) > 1:
                    agree(lambda x: np.linalg.vector_norm(x, ord=ord, axis=(0, -1), keepdims=True), x)
    if ord in (2, -2, "nuc"):
        error = refused("E803", lambda x: norm(x, ord), np.ones((3, 3)))
        assert "np.linalg.norm" in str(error) and "ord" in str(error)
    if ord in (1, np.inf, "fro"):
        check(lambda x: np.linalg.matrix_norm(x, ord=ord), rng.random((2, 3, 4)), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", BFLOAT16], ids=str)
def test_covariance(dtype: Any):
    rng = np.random.default_rng(12)
    x, y = plain(dtype, (3, 6), rng), plain(dtype, (2, 6), rng)
    with agreement(rtol=1e-12, atol=1e-12) as agree:
        agree(lambda x: (np.cov(x), np.cov(x, rowvar=False), np.cov(x[0]), np.cov(x, bias=True)), x)
        agree(lambda x, y: (np.cov(x, y), np.cov(x, y, ddof=0), np.cov(x[0], y[1], rowvar=False)), x, y)
        agree(lambda x, y: (np.corrcoef(x[:, :4] + np.arange(4), y[:, :4] - np.arange(4)), np.corrcoef(x[0])), x, y)
        agree(lambda x: np.cov(x[None]), x)
    check(lambda x: np.cov(x, dtype=np.float32), x, rtol=1e-4, atol=1e-5)
    refused("E803", lambda x: np.cov(x, fweights=[1, 2, 3, 4, 5, 6]), x)


def test_extremes_of_every_narrow_float():
    for dtype in (BFLOAT16, np.dtype("f2")):
        x = every(dtype).reshape(256, 256)
        check(lambda x: (np.max(x, 1), np.min(x, 0), np.nanmax(x), np.argmax(x, 1), np.any(x, 0)), x, rtol=0)


def test_scalars_come_back_as_scalars():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    check(lambda x: (x.sum(), x.mean(), x.max(), x.argmin(), x.std(), x.sum(axis=()), np.sum(x[0, 0]), x.prod(0)), x)
    check(lambda x: x / x.sum() + x.max(axis=1, keepdims=True) * np.float64(2), x)
