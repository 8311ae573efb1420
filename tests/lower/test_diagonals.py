"""Diagonals of matrices that are computed: an element of each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats


def own(x: Any) -> Any:
    s = np.tanh(x) * 2
    return np.diag(s), s.sum(1)


def above(x: Any) -> Any:
    s = np.tanh(x) * 2
    return np.diagonal(s, 3), s.sum(1)


def below(x: Any) -> Any:
    s = np.tanh(x) * 2
    return np.diagonal(s, -2), s.sum(1)


def by_index(x: Any) -> Any:
    s, at = np.tanh(x) * 2, np.arange(min(x.shape))
    return s[at, at] - s.max(1)[: len(at)]


def distances(x: Any) -> Any:
    """None of an element from itself, exactly."""
    s = x + x.T
    d = np.diag(s)
    return np.sqrt(np.maximum(d[:, None] + d[None] - 2 * s, 0))


@pytest.mark.parametrize("function", [own, above, below])
@pytest.mark.parametrize("shape", [(12, 12), (130, 130), (9, 20), (140, 9)])
def test_diagonals(function: Any, shape: tuple[int, int]) -> None:
    x = floats(*shape)
    x[5, 5] = np.nan
    check(function, x, tolerance=1e-5)


def test_by_index() -> None:
    check(by_index, floats(20, 20), tolerance=1e-5)
    check(distances, floats(150, 150), tolerance=1e-5)


def test_the_matrix_stays_on_chip() -> None:
    report = tw.compile(distances, tw.spec((512, 512), "float32")).report
    assert report.hbm_bytes < 1.1 * report.compulsory_bytes
