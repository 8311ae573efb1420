"""Rows longer than a partition holds, and a few long rows: they lie across partitions and are read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import TARGETS, check, compare, fits, floats, small


def softmax(x: np.ndarray) -> np.ndarray:
    """Weights along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Two reductions, one of them of what the other gave."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(1e-5)) * scale + shift


def rms_norm(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """One reduction."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6)) * scale


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    """A number per row."""
    most = x.max(-1, keepdims=True)
    return np.log(np.exp(x - most).sum(-1)) + most[..., 0]


def running(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Running sums and products."""
    return np.cumsum(x, -1), np.cumprod(1 + x * np.float32(0.001), -1)


def extremes(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Several reductions of the same rows."""
    return x.max(-1), x.min(-1, keepdims=True), x.sum(-1), x * 2 + x.max(-1, keepdims=True)


CASES: list[tuple[Callable[..., Any], int]] = [
    *((softmax, 1), (layer_norm, 3), (rms_norm, 2), (log_sum_exp, 1), (running, 1), (extremes, 1)),
]


def arrays(count: int, *shape: int) -> tuple[np.ndarray, ...]:
    """Rows, and what is the same for all of them."""
    return (floats(*shape), floats(shape[-1]), floats(shape[-1]))[:count]


@pytest.mark.parametrize(("function", "count"), CASES)
def test_a_few_long_rows(function: Callable[..., Any], count: int):
    check(function, *arrays(count, 3, 5000), tolerance=3e-5)


@pytest.mark.parametrize(("function", "count"), CASES)
@pytest.mark.parametrize("shape", [(1, 4096), (40, 4096), (70, 4100)])
def test_rows_that_do_not_fit(function: Callable[..., Any], count: int, shape: tuple[int, int]):
    check(function, *arrays(count, *shape), targets=(small("trn2", 24576),), tolerance=3e-5)


@pytest.mark.parametrize("shape", [(6000,), (2, 2, 4096), (1, 1, 5000)])
def test_other_shapes(shape: tuple[int, ...]):
    check(softmax, floats(*shape), tolerance=1e-5)
    check(log_sum_exp, floats(*shape), targets=("trn2",), tolerance=1e-5)


def test_infinities_stay_in_their_row():
    x = floats(3, 5000)
    x[0, 3], x[1], x[2, 7] = np.inf, -np.inf, np.nan
    check(lambda x: (x.max(-1), x.sum(-1), x.min(-1), np.exp(x).sum(-1)), x, tolerance=1e-5)


@pytest.mark.parametrize(("function", "count"), CASES[:3])
@pytest.mark.parametrize("target", TARGETS)
def test_narrow_floats_are_near_the_float32_result(function: Callable[..., Any], count: int, target: str):
    given = [array.astype(ml_dtypes.bfloat16) for array in arrays(count, 3, 5000)]
    wide = function(*(array.astype(np.float32) for array in given))
    kernel = fits(function, *given, target=target)
    compare(np.asarray(kernel.simulate(*given)).astype(np.float32), wide, 2**-7)


def test_a_column_from_outside():
    check(lambda x, y: ((x - y) * y).sum(-1), floats(3, 5000), floats(3, 1), tolerance=1e-5)


@pytest.mark.parametrize(("function", "count"), CASES[:4])
@pytest.mark.parametrize("shape", [(128, 65536), (4, 1000000), (1, 1000000), (1024, 16384)])
def test_rows_are_read_once(function: Callable[..., Any], count: int, shape: tuple[int, int]):
    specs = (tw.spec(shape, "float32"), *[tw.spec(shape[-1:], "float32")] * 2)[:count]
    report = fits(function, *specs).report
    assert report.hbm_bytes <= 1.01 * report.compulsory_bytes
    assert report.latency_us <= 2.2 * report.roofline_us


@pytest.mark.parametrize(("function", "most"), [(lambda x: x.sum(-1), 1.5), (lambda x: np.cumsum(x, -1), 4)])
def test_rows_longer_than_all_partitions_hold(function: Callable[..., Any], most: float):
    report = fits(function, tw.spec((2, 10**7), "float32")).report
    assert report.latency_us <= most * report.roofline_us


def test_parts_are_reduced_first():
    x = floats(1, (1 << 20) + 128)
    check(lambda x: (x.sum(-1), x.max(-1)), x, targets=("trn2",), tolerance=1e-4)
    check(lambda x: np.cumsum(x, -1), x, targets=("trn2",), tolerance=1e-4)
    check(lambda x: np.cumprod(1 + x * np.float32(1e-4), -1), x, targets=("trn2",), tolerance=3e-3)
