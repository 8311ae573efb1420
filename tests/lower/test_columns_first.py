"""Work along columns: running sums, norms and sums of what lies the other way in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, fits, floats


def norm(x: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1."""
    return (x - x.mean(0)) / np.sqrt(x.var(0) + np.float32(1e-5))


@pytest.mark.req("S4-65")
@pytest.mark.parametrize(
    ("shape", "axis"), [((130, 260), 0), ((3, 70, 500), 1), ((2, 40, 3, 200), 1), ((5, 20000), 0), ((1200, 40), 0)]
)
def test_running_sums_over_rows(shape: tuple[int, ...], axis: int):
    check(lambda x: np.cumsum(x, axis), floats(*shape), tolerance=1e-5)
    check(lambda x: np.cumprod(1 + x / 100, axis), floats(*shape), targets=("trn2",), tolerance=1e-4)


def test_infinities_stay_in_their_column():
    x = floats(130, 300)
    x[40, 3], x[70, 9], x[90, 11] = np.inf, np.nan, -np.inf
    check(lambda x: np.cumsum(x, 0), x, tolerance=1e-5)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, y: x.T + y, [(200, 260), (260, 200)]),
        (lambda x, y: np.tanh(x.transpose(0, 2, 1)) * y, [(2, 130, 200), (2, 200, 130)]),
        (lambda x, y: norm(x) @ y, [(260, 200), (200, 5)]),
        (lambda x, y: (np.cumsum(x, 0), np.cumsum(x, 0) @ y), [(1200, 40), (40, 3)]),
    ],
)
def test_both_ways(function: Callable[..., Any], shapes: list[tuple[int, ...]]):
    check(function, *(floats(*shape) for shape in shapes), tolerance=3e-5)


@pytest.mark.parametrize(
    ("function", "shapes", "most"),
    [
        (lambda x: np.cumsum(x, 0), [(4096, 16384)], 1.2),
        (lambda x: np.cumsum(x, 1), [(16, 512, 512)], 2),
        (lambda x: np.cumsum(x, 0), [(100000, 64)], 12),
        (lambda x, y: x.T + y, [(4096, 4096)] * 2, 2),
        (norm, [(4096, 1024)], 2),
    ],
)
def test_nothing_moves_element_by_element(function: Callable[..., Any], shapes: list[tuple[int, ...]], most: float):
    report = fits(function, *(tw.spec(shape, "float32") for shape in shapes)).report
    assert report.latency_us <= most * report.roofline_us
