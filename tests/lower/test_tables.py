"""Tables that are filled cell by cell, each from its neighbours: rows of them are scans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.kit import check, floats
from tilewright.ir.walk import walk
from tilewright.lower.decisions import noted


def warping(x: Any, y: Any) -> Any:
    """Dynamic time warping of two sequences."""
    n, m = len(x), len(y)
    d = np.full((n + 1, m + 1), np.inf, np.float32)
    d[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = np.abs(x[i - 1] - y[j - 1])
            d[i, j] = cost + np.minimum(np.minimum(d[i - 1, j], d[i, j - 1]), d[i - 1, j - 1])
    return d[n, m]


def warping_of_many(cost: Any) -> Any:
    """The same for many pairs, row by row in lists."""
    prev = np.cumsum(cost[:, 0], axis=1)
    for i in range(1, cost.shape[1]):
        row = [prev[:, 0] + cost[:, i, 0]]
        for j in range(1, cost.shape[2]):
            row.append(cost[:, i, j] + np.minimum(np.minimum(prev[:, j], prev[:, j - 1]), row[-1]))
        prev = np.stack(row, axis=1)
    return prev


def edits(a: Any, b: Any) -> Any:
    """The least edits between two words, the whole table of integers."""
    n, m = len(a), len(b)
    d = np.zeros((n + 1, m + 1), np.int32)
    d[:, 0] = np.arange(n + 1)
    d[0, :] = np.arange(m + 1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            other = d[i - 1, j - 1] + np.where(a[i - 1] == b[j - 1], 0, 1)
            d[i, j] = np.minimum(other, np.minimum(d[i - 1, j] + 1, d[i, j - 1] + 1))
    return d


def local_alignment(s: Any) -> Any:
    n, m = s.shape
    h = np.zeros((n + 1, m + 1), np.float32)
    for j in range(1, m + 1):
        for i in range(1, n + 1):
            best = np.maximum(h[i - 1, j] - 2, h[i, j - 1] - 2)
            h[i, j] = np.maximum(0, np.maximum(h[i - 1, j - 1] + s[i - 1, j - 1], best))
    return h.max(), h


def peaks(x: Any) -> Any:
    """The greatest until each step, and how far below it a step is."""
    peak, down = x[0], []
    for t in range(1, len(x)):
        peak = np.maximum(x[t], peak)
        down.append(peak - x[t])
    return np.stack(down)


def limited_sums(x: Any) -> Any:
    total, found = np.zeros(x.shape[1], np.float32), []
    for t in range(len(x)):
        total = np.maximum(total + x[t], 0)
        found.append(total)
    return np.stack(found)


def paths(cost: Any) -> Any:
    """The cheapest way to each cell by steps to the right and down."""
    rows = [[cost[0, 0]]]
    for j in range(1, cost.shape[1]):
        rows[0].append(rows[0][-1] + cost[0, j])
    for i in range(1, cost.shape[0]):
        row = [rows[-1][0] + cost[i, 0]]
        for j in range(1, cost.shape[1]):
            row.append(np.minimum(row[-1], rows[-1][j]) + cost[i, j])
        rows.append(row)
    return np.stack([np.stack(row) for row in rows])


WORDS = [np.random.default_rng(seed).integers(0, 3, n, np.int32) for seed, n in ((0, 7), (1, 9))]

TABLES = [
    (warping, (floats(7), floats(9))),
    (warping_of_many, (np.abs(floats(5, 6, 7)),)),
    (warping_of_many, (np.abs(floats(130, 5, 5)),)),
    (edits, tuple(WORDS)),
    (local_alignment, (floats(6, 8),)),
    (peaks, (floats(9, 40),)),
    (limited_sums, (floats(9, 40),)),
    (paths, (np.abs(floats(6, 7)),)),
]


@pytest.mark.parametrize(("function", "args"), TABLES, ids=lambda each: getattr(each, "__name__", ""))
def test_rows_of_tables_are_scans(function: Any, args: Any) -> None:
    with noted() as decisions:
        kernel = check(function, *args, tolerance=0)
    assert "rule: recurrence" in decisions
    assert [op for op in walk(kernel.tile_ir) if op.name == "tensor_tensor_scan"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
def test_special_values_go_through_tables(value: float) -> None:
    s = floats(6, 7)
    s[2, 3] = value
    check(local_alignment, s, tolerance=0)
    check(warping_of_many, s[None], tolerance=0)


def test_integers_beyond_float32_stay_integers() -> None:
    def function(x: Any) -> Any:
        total, found = x[0], []
        for t in range(1, len(x)):
            total = np.minimum(total + 1, x[t])
            found.append(total)
        return np.stack(found)

    x = np.random.default_rng(0).integers(2**30, 2**30 + 9, (9, 20), np.int32)
    check(function, x, tolerance=0)


def test_a_sum_of_which_the_last_is_read_is_no_scan() -> None:
    def function(x: Any) -> Any:
        total = x[0]
        for t in range(1, len(x)):
            total = total + x[t]
        return total

    with noted() as decisions:
        check(function, floats(9, 40), tolerance=1e-6)
    assert "rule: recurrence" not in decisions


def table(seed: int) -> tuple[Any, tuple[np.ndarray, ...]]:
    """A table whose borders, cells, order and results are drawn."""
    rng = np.random.default_rng(seed)
    n, m = (int(x) for x in rng.integers(4, 8, 2))
    batch = [(), (3,), (130,)][int(rng.integers(3))]
    integers, border, kind, order, read = (int(rng.integers(k)) for k in (2, 3, 5, 2, 3))
    dtype = np.int32 if integers else np.float32
    pick, other = [(np.minimum, np.maximum), (np.maximum, np.minimum)][int(rng.integers(2))]
    made = rng.integers(-9, 9, (*batch, n, m)) if integers else rng.standard_normal((*batch, n, m))

    def cell(up: Any, left: Any, both: Any, here: Any) -> Any:
        if kind == 0:
            return pick(pick(up, left), both) + here
        if kind == 1:
            return pick(both + here, pick(up, left) - 1)
        if kind == 2:
            return pick(both + here, pick(up - 1, left + here))
        return other(pick(up, left + here), here) if kind == 3 else pick(pick(up, left), here)

    def function(x: Any) -> Any:
        d = np.zeros((*batch, n + 1, m + 1), dtype)
        if border:
            d[..., 0] = np.arange(n + 1) * border
            d[..., 0, :] = 5
        cells = [(i, j) for i in range(1, n + 1) for j in range(1, m + 1)]
        for i, j in cells if order else sorted(cells, key=lambda cell: cell[::-1]):
            near = d[..., i - 1, j], d[..., i, j - 1], d[..., i - 1, j - 1], x[..., i - 1, j - 1]
            d[..., i, j] = cell(*near)
        return [lambda: d, lambda: d[..., n, m], lambda: (d[..., 1:, 1:] * 2, d.max())][read]()

    return function, (made.astype(dtype),)


@pytest.mark.parametrize("seed", range(12))
def test_any_table_gives_what_it_should(seed: int) -> None:
    function, args = table(seed)
    check(function, *args, tolerance=0)
