"""Trips of a loop that load and store together: many small matrices, many blocks of short rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tests.lower.test_attention import softmax

Function = Callable[..., Any]
BF16 = ml_dtypes.bfloat16


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x @ y


def turned_right(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x @ np.swapaxes(y, -1, -2)


def turned_left(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2) @ y


def biased(x: np.ndarray, y: np.ndarray, z: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What has rows, what has none, and what differs from matrix to matrix."""
    return np.tanh(x @ y + b) * z + x[..., :1]


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return softmax(q @ np.swapaxes(k, -1, -2)) @ v


def two_results(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    made = x @ y
    return made, made.sum(axis=-1)


def order_changed(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The result has the batch between rows and columns."""
    return (x @ y).transpose(1, 0, 2)


def arrays(*shapes: tuple[int, ...], dtype: type = np.float32) -> tuple[np.ndarray, ...]:
    return tuple(floats(*shape, seed=i).astype(dtype) for i, shape in enumerate(shapes))


CASES: dict[str, tuple[Function, tuple[np.ndarray, ...]]] = {
    "matrices": (product, arrays((24, 20, 30), (24, 30, 10))),
    "narrow matrices": (product, arrays((16, 64, 32), (16, 32, 64), dtype=BF16)),
    "one matrix for all": (product, arrays((24, 20, 30), (30, 10))),
    "turned right": (turned_right, arrays((16, 20, 30), (16, 12, 30))),
    "long right": (turned_right, arrays((16, 20, 30), (16, 140, 30))),
    "turned left": (turned_left, arrays((16, 30, 20), (16, 30, 12))),
    "long k": (product, arrays((16, 20, 200), (16, 200, 12))),
    "two dims of matrices": (product, arrays((3, 16, 20, 30), (3, 16, 30, 8))),
    "shared along one": (product, arrays((3, 16, 20, 30), (3, 1, 30, 8))),
    "biased": (biased, arrays((16, 20, 30), (16, 30, 10), (16, 20, 10), (16, 1, 10))),
    "attention": (attend, arrays((32, 20, 16), (32, 40, 16), (32, 40, 24))),
    "two results": (two_results, arrays((24, 20, 30), (24, 30, 10))),
    "another order": (order_changed, arrays((16, 20, 30), (16, 30, 10))),
    "prime": (product, arrays((13, 20, 30), (13, 30, 10))),
    "tall": (product, arrays((2000, 30), (30, 10))),
    "tall and narrow": (product, arrays((2048, 64), (64, 16), dtype=BF16)),
    "tall, biased": (biased, arrays((2100, 30), (30, 10), (2100, 10), (10,))),
    "tall, two results": (two_results, arrays((2100, 30), (30, 10))),
    "tall, some left": (product, arrays((4992, 64), (64, 16))),
    "tall, two products": (attend, arrays((2100, 20), (40, 20), (40, 12))),
}


@pytest.mark.parametrize("name", CASES)
def test_together(name: str):
    function, args = CASES[name]
    check(function, *args, tolerance=2e-5)


def test_on_chip_meanwhile():
    """What stays on chip keeps its order."""
    x, y, z = arrays((2048, 32), (32, 16), (2048, 16))

    def use_again(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        made = x @ y + z
        return made - np.sort(made[:, :4], axis=0)[-1, 0]

    check(use_again, x, y, z, tolerance=2e-5)


@pytest.mark.parametrize(("shapes", "most"), [([(256, 64, 64)] * 2, 200), ([(16384, 64), (64, 64)], 70)])
def test_transfers_are_few(shapes: list[tuple[int, ...]], most: float):
    report = tw.compile(product, *(tw.spec(shape, "float32") for shape in shapes), target="trn2").report
    assert report.latency_us <= most and report.hbm_bytes == report.compulsory_bytes
