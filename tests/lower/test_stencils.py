"""Neighbours of each element: slices of the same rows are loaded once, rows evenly apart in runs run by run."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tilewright.lower.decisions import noted
from tilewright.lower.tuning import tuned


def edges(u: Any) -> Any:
    across = u[:-2, 2:] - u[:-2, :-2] + 2 * (u[1:-1, 2:] - u[1:-1, :-2]) + u[2:, 2:] - u[2:, :-2]
    down = u[2:, :-2] - u[:-2, :-2] + 2 * (u[2:, 1:-1] - u[:-2, 1:-1]) + u[2:, 2:] - u[:-2, 2:]
    return np.sqrt(across * across + down * down)


def spread(u: Any) -> Any:
    for _ in range(2):
        near = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        v = u.copy()
        v[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * near
        u = v
    return u


def by_channel(x: Any, w: Any) -> Any:
    p, out = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), 0
    for i in range(3):
        for j in range(3):
            out = out + p[:, i : i + x.shape[1], j : j + x.shape[2]] * w[i, j]
    return out


def in_space(u: Any) -> Any:
    p = np.pad(u, 1)
    return p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] - p[1:-1, 1:-1, 2:] * u


def strided(x: Any) -> Any:
    return x[1:-1:2, :5] * x[1:-1:2, 2:7] - x[::2, 1:6][: x[1:-1:2].shape[0]]


PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (edges, (floats(150, 70),)),
    (edges, (floats(9, 300),)),
    (spread, (floats(140, 65),)),
    (by_channel, (floats(3, 64, 9, 5), floats(3, 3, 5, seed=1))),
    (by_channel, (floats(2, 11, 7, 33), floats(3, 3, 33, seed=1))),
    (by_channel, (floats(40, 4, 6, 8), floats(3, 3, 8, seed=1))),
    (in_space, (floats(32, 16, 10),)),
    (in_space, (floats(7, 32, 24),)),
    (strided, (floats(131, 9),)),
]


@pytest.mark.parametrize(("function", "arguments"), PROGRAMS)
def test_neighbours(function: Any, arguments: tuple[Any, ...]):
    check(function, *arguments, tolerance=1e-5)


@pytest.mark.parametrize("runs", [1, 8])
def test_runs_of_any_length(runs: int):
    with tuned(row_runs=runs):
        for batch, height in ((5, 32), (3, 100)):
            check(by_channel, floats(batch, height, 6, 4), floats(3, 3, 4, seed=1), tolerance=1e-5)


def test_rows_are_loaded_once_for_all_columns():
    u = tw.spec((2048, 1024), np.float32)
    with noted() as notes:
        kernel = tw.compile(edges, u, check="off")
        # Three times for the rows above and below, and what is written.
        assert kernel.report.hbm_bytes <= 4.05 * 2048 * 1024 * 4
    assert "rule: slices of the same rows" in notes


def highest(x: Any) -> Any:
    p = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = [p[:, i : i + x.shape[1], j : j + x.shape[2]] for i in range(3) for j in range(3)]
    return reduce(np.maximum, parts)


def test_runs_of_rows_are_loaded_as_they_lie():
    with noted() as notes:
        kernel = tw.compile(highest, tw.spec((8, 64, 32, 64), np.float32), check="off")
        # What is put beside the edges is written and read three times; x is read twice, the result written.
        assert kernel.report.hbm_bytes <= 8 * 8 * 64 * 32 * 64 * 4
    assert "load: runs of rows" in notes


def average(x: Any) -> Any:
    p = np.pad(x, ((2, 2), (0, 0)), mode="edge")
    return (p[:-4] + p[1:-3] + p[2:-2] + p[3:-1] + p[4:]) / 5


def test_what_is_put_beside_the_edges_is_put_there_once():
    check(average, floats(200, 30), tolerance=1e-6)
    kernel = tw.compile(average, tw.spec((4096, 512), np.float32), check="off")
    # It is copied, read five times, and the result is written.
    assert kernel.report.hbm_bytes <= 8.05 * 4096 * 512 * 4
