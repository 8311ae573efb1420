"""Zeros keep their signs on their way to whatever tells them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check
from tilewright.lower.rewrite.zeros import shown_signs

SHAPE = (140, 200)


def _updated(x: Any, row: Any) -> Any:
    y = x * 2
    y[3] = row
    y[:, 5] = x[:, 6]
    return 1 / y


MOVED: dict[str, Callable[[Any, Any], Any]] = {
    "a row on every partition": lambda x, row: x / row,
    "a computed row on every partition": lambda x, row: x / (row * 2),
    "a column as a row": lambda x, row: x[:, :140] / x[:, 3:4].T,
    "transposed": lambda x, row: 1 / (x * 2).T,
    "turned and divided": lambda x, row: (1 / x).T / x[:, 3],
    "reversed and rolled": lambda x, row: 1 / x[::-1, ::-1] + 2 / np.roll(x, 3, 0),
    "taken": lambda x, row: 1 / np.take(x, [3, 5, 5, 9, 1], axis=1),
    "joined": lambda x, row: 1 / np.concatenate([x, x[:, :5]], 1),
    "updated": _updated,
    "the sign itself": lambda x, row: np.copysign(3, x * row),
    "an angle": lambda x, row: np.arctan2(row * 2, x),
    "an outer product": lambda x, row: 1 / np.multiply.outer(x[:, 3], row),
}


def zeros(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).choice(np.array([0.0, -0.0, 1, -2], np.float32), shape)


@pytest.mark.parametrize("case", MOVED)
def test_signs_of_zeros_are_kept_where_they_show(case: str):
    check(MOVED[case], zeros(*SHAPE), zeros(SHAPE[1]), tolerance=1e-6)


def test_a_row_of_a_large_array():
    x, row = zeros(1024, 2048), zeros(2048)
    check(lambda x, row: x / row, x, row, targets=["trn2"])


@pytest.mark.parametrize(
    ("function", "shows"),
    [
        (lambda x, row: x * row + 1, False),
        (lambda x, row: x / (np.abs(row) + 1), False),
        (lambda x, row: np.exp(x - row), False),
        (lambda x, row: x / np.sqrt((x * x).mean(0) + 1e-5) + row, False),
        (lambda x, row: 1 / (x * row), True),
        (lambda x, row: np.signbit(row) & (x > 0), True),
    ],
)
def test_signs_that_nothing_shows_are_left_open(function: Callable[[Any, Any], Any], shows: bool):
    graph = tw.compile(function, zeros(*SHAPE), zeros(SHAPE[1])).passes.graph
    assert any(x in shown_signs(graph) for x in graph.inputs) == shows
