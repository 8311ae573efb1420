"""Many short rows that are sorted: their columns are compared, all rows at once."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tilewright.lower.decisions import noted
from tilewright.lower.rewrite.short_sorts import pairs

WINDOWS = np.lib.stride_tricks.sliding_window_view


@pytest.mark.parametrize("count", range(2, 17))
def test_pairs_sort(count: int):
    """Every order of zeros and ones: what sorts those sorts anything."""
    rows = np.array(list(permutations(range(count)))) if count < 7 else np.arange(2**count)[:, None] >> np.arange(count)
    rows = rows if count < 7 else rows & 1
    wanted = np.sort(rows, axis=1)
    for i, j in pairs(count):
        rows[:, i], rows[:, j] = np.minimum(rows[:, i], rows[:, j]), np.maximum(rows[:, i], rows[:, j])
    np.testing.assert_array_equal(rows, wanted)


def with_holes(rows: int, count: int) -> np.ndarray:
    x = floats(rows, count)
    x[::7, 1], x[::11], x[3, 0], x[4, 0], x[7, 0] = np.nan, np.nan, np.inf, -np.inf, np.inf
    x[20:40] = np.round(x[20:40])
    return x


PROGRAMS: dict[str, tuple[Any, np.ndarray]] = {
    "sort": (lambda x: np.sort(x, -1), with_holes(3000, 3)),
    "median": (lambda x: np.median(x, -1), with_holes(4000, 5)),
    "greatest": (lambda x: np.sort(x, -1)[:, ::-1][:, :2] * 2, with_holes(6000, 4)),
    "columns": (lambda x: np.sort(x, axis=0), np.ascontiguousarray(with_holes(4000, 3).T)),
    "rolling": (lambda x: np.median(WINDOWS(x, 3, axis=0), axis=-1), floats(70, 64)),
    "joined": (lambda x: np.sort(np.stack([x, x[::-1], x * x]), axis=0)[1], floats(70, 64)),
    "bytes": (lambda x: np.sort(x, -1)[..., 1], np.abs(floats(5000, 4) * 50).astype(np.uint8)),
    "integers": (lambda x: np.sort(x, -1), (np.tanh(floats(5000, 3)) * 2e9).astype(np.int32)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_short_rows_are_sorted(name: str):
    function, x = PROGRAMS[name]
    with noted() as decisions:
        check(function, x)
    assert "rule: short sorts" in decisions


def test_few_rows_and_long_ones_are_searched():
    with noted() as decisions:
        check(lambda x: np.sort(x, -1), with_holes(50, 5))
        check(lambda x: np.sort(x, -1)[:, :3], floats(300, 40))
        check(lambda x: np.argsort(x, -1), floats(3000, 3))
    assert "rule: short sorts" not in decisions


def test_the_median_of_pixels_is_elementwise_work():
    k = tw.compile(
        lambda x: np.median(WINDOWS(x, (3, 3)).reshape(510, 510, 9), axis=-1), tw.spec((512, 512), np.float32)
    )
    assert k.report.latency_us < 400 < 4 * k.report.latency_us


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("search", [np.argmax, np.argmin])
def test_the_greatest_along_a_short_axis_is_found_by_comparing(axis: int, search: Any) -> None:
    shape = [60, 50, 70]
    shape[axis] = 6
    x = np.round(floats(*shape) * 2)
    x.flat[::97] = np.nan
    x.flat[5::89] = np.inf
    x.flat[7::83] = -np.inf
    with noted() as decisions:
        check(lambda x: search(x, axis=axis), x)
    assert "rule: short searches" in decisions
