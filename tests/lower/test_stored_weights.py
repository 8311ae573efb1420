"""Products with weights that are stored in 8 bits, with a scale for each out channel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.kit import check, fits, floats
from tilewright.spec import spec


def scaled_rows(q: Any, s: Any, x: Any) -> Any:
    return x @ (q.astype(np.float32) * s).T


def scaled_columns(q: Any, s: Any, x: Any) -> Any:
    return np.maximum(x @ (s[:, 0] * q.astype(np.float32)) + 1, 0)


def of_the_sum(q: Any, s: Any, x: Any) -> Any:
    """A scale for each number that is summed over stays where it is."""
    return x @ (q.astype(np.float32) * s)


def not_alone(q: Any, s: Any, x: Any) -> Any:
    """What was scaled is returned too."""
    w = q.astype(np.float32) * s
    return x @ w.T, w


def weights(dtype: Any) -> np.ndarray:
    return np.random.default_rng(3).integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, (96, 96)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("function", [scaled_rows, scaled_columns, of_the_sum, not_alone])
def test_scales(function: Any, dtype: Any) -> None:
    q, s, x = weights(dtype), floats(96, 1, seed=1), floats(40, 96, seed=2)
    assert check(function, q, s, x, tolerance=1e-5).report.bound_error == 0
    s[3], s[5], s[7] = np.inf, np.nan, 0
    check(function, q, s, x, tolerance=1e-5, targets=["trn2"])


def test_weights_are_read_once() -> None:
    specs = spec((2048, 2048), np.int8), spec((2048, 1), np.float32), spec((128, 2048), np.float32)
    report = fits(scaled_columns, *specs).report
    assert report.hbm_bytes < 1.1 * report.compulsory_bytes
    assert report.bound_error == 0


def test_scales_of_narrow_floats_stay() -> None:
    """Sums of numbers up to 127 leave float16 long before scaled ones do."""
    q, s = weights(np.int8), (floats(96, 1, seed=1) / 100).astype(np.float16)
    x = np.full((8, 96), 60, np.float16)
    q[:] = 127
    check(lambda q, s, x: x @ (q.astype(np.float16) * s).T, q, s, x, tolerance=2**-6, targets=["trn2"])
