# pyright: reportCallIssue=false, reportArgumentType=false
"""Gradients, integrals, interpolation and polynomials as NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from .kit import check, check_error, refused

RNG = np.random.default_rng(17)
X = RNG.normal(size=(4, 5)).astype(np.float32) * 5
N = RNG.integers(-50, 50, (4, 5))


GRADIENTS = [
    lambda x: np.gradient(x),
    lambda x: np.gradient(x, 0.5),
    lambda x: np.gradient(x, axis=1),
    lambda x: np.gradient(x, 2, 3.5),
    lambda x: np.gradient(x, 2, axis=-1, edge_order=2),
    lambda x: np.gradient(x, np.array([0, 1, 3, 7]), axis=0),
    lambda x: np.gradient(x, [0, 2, 4, 6], axis=0),
    lambda x: np.gradient(x, [0, 1.5, 2, 6], [0, 1, 2, 4, 5], edge_order=2),
]


@pytest.mark.parametrize("case", range(len(GRADIENTS)))
def test_gradient(case: int):
    check(GRADIENTS[case], X)
    check(GRADIENTS[case], X.astype(np.float64))
    check(GRADIENTS[case], N)


INTEGRALS = [
    lambda x: np.trapezoid(x),
    lambda x: np.trapezoid(x, dx=0.5, axis=0),
    lambda x: np.trapezoid(x, [0, 1, 3, 4, 9]),
    lambda x: np.trapezoid(x, x * 2, axis=0),
    lambda x: np.trapezoid(x[0]),
    lambda x: np.unwrap(x),
    lambda x: np.unwrap(x, axis=0, period=4),
    lambda x: np.unwrap(x, discont=5.0, period=3.0),
    lambda x: np.unwrap(x[0], period=5),
]


@pytest.mark.parametrize("case", range(len(INTEGRALS)))
def test_integrals_and_phases(case: int):
    for x in (X, X.astype(np.float64), N):
        check(INTEGRALS[case], x, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "kwargs", [{}, {"left": -9.0}, {"right": 9}, {"left": 0.5, "right": 1.5}, {"period": 3}, {"period": -3.5}], ids=str
)
def test_interp(kwargs: Any):
    places, heights = np.array([-2.0, 0, 1, 4]), np.array([3.0, -1, 5, 5])
    check(lambda x: np.interp(x, places, heights, **kwargs), X)
    check(lambda x, xp, fp: np.interp(x, xp, fp, **kwargs), np.array([-2, 4, 0, np.nan, np.inf, 2.5]), places, heights)
    check(lambda x, xp: np.interp(2.5, xp, x, **kwargs), heights, places)
    check(lambda x: np.interp(x, [1], [2], **kwargs), X.astype(np.float64))


def test_polynomials():
    check(lambda p, x: np.polyval(p, x), np.array([1, -2, 3.5]), X)
    check(lambda p, x: np.polyval(p, x), np.array([1, -2, 3]), N)
    check(lambda x: np.polyval([1.5, 0, 2], x), X)
    check(lambda p: np.polyval(p, 2.0), np.array([1, -2, 3.5]))
    for kwargs in ({}, {"N": 3}, {"N": 0}, {"N": 1}, {"increasing": True}, {"N": 6, "increasing": True}):
        check(lambda x: np.vander(x, **kwargs), N[0])  # noqa: B023
        check(lambda x: np.vander(x, **kwargs), X[0])  # noqa: B023


ERRORS = [
    lambda x: np.gradient(x, 1, 2, 3),
    lambda x: np.gradient(x, edge_order=3),
    lambda x: np.gradient(x[:1], axis=0),
    lambda x: np.gradient(x, [1, 2], axis=0),
    lambda x: np.gradient(x, np.ones((2, 2)), axis=0),
    lambda x: np.gradient(x, axis=5),
    lambda x: np.trapezoid(x, axis=4),
    lambda x: np.trapezoid(x, [1, 2, 3]),
    lambda x: np.interp(x, [1, 2], [1]),
    lambda x: np.interp(x, [[1, 2]], [[1, 2]]),
    lambda x: np.interp(x, [], []),
    lambda x: np.interp(x, [1, 2], [1, 2], period=0),
    lambda x: np.interp(x, [1, 2], [1], period=2),
    lambda x: np.interp(x, [[1, 2]], [[1, 2]], period=2),
    lambda x: np.vander(x),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors_are_numpys(case: int):
    check_error(ERRORS[case], X)


def test_distances_must_be_known():
    refused("E803", lambda x: np.gradient(x, x[0, 0], axis=0), X)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_slopes_of_small_floats_are_float64(dtype: Any):
    x = np.array([1, 3, 2, 8, 5], np.float32).astype(dtype)
    assert np.gradient(x).dtype == np.float64
    check(lambda x: np.gradient(x), x)
