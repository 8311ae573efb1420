"""Products of many short rows: several blocks of rows side by side in PSUM, and one instruction on all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.kit import check, fits, floats
from tilewright.lower.decisions import noted
from tilewright.spec import spec

SIDE_BY_SIDE = "product: blocks of rows side by side"


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def router(x: Any, w: Any, b: Any) -> Any:
    return softmax(x @ w + b)


def two_layers(x: Any, w: Any, b: Any) -> Any:
    h = np.maximum(x @ w + b, 0)
    return np.tanh(h @ w.T) + x


def mixture(x: Any, w: Any, b: Any) -> Any:
    """What goes over all rows is taken in block by block: sums, and products of rows."""
    p = softmax((x * x) @ np.exp(w) - 2 * x @ w + b)
    return p.T @ x, p.sum(0), np.log(p.max(1)).mean()


def read_again(x: Any, w: Any, b: Any) -> Any:
    """The product stays on chip, for who needs all of it."""
    h = np.tanh(x @ w + b)
    return (h - h.mean(0)) / np.sqrt(h.var(0) + 1)


def labels(x: Any, w: Any, b: Any) -> Any:
    d = (x * x).sum(1)[:, None] - 2 * x @ w + b
    return d.argmin(1), d.min(1)


@pytest.mark.parametrize("shape", [(1024, 16, 8), (1000, 40, 33), (391, 130, 20), (257, 3, 100)], ids=str)
@pytest.mark.parametrize("function", [router, two_layers, mixture, read_again, labels])
def test_short_rows(function: Any, shape: tuple[int, int, int]):
    rows, k, n = shape
    check(function, floats(rows, k), floats(k, n, seed=1) * 0.3, floats(n, seed=2), tolerance=2e-5)


def test_a_batch_of_them():
    def heads(x: Any, w: Any) -> Any:
        return softmax(x @ w)

    check(heads, floats(3, 300, 24), floats(3, 24, 40, seed=1), tolerance=1e-5)
    check(heads, floats(3, 300, 24), floats(24, 40, seed=1), tolerance=1e-5)


def test_narrow_types():
    x, w = floats(520, 48).astype("bfloat16"), floats(48, 12, seed=1).astype("bfloat16")
    check(lambda x, w: softmax(x.astype(np.float32) @ w.astype(np.float32)), x, w, tolerance=1e-5)


@pytest.mark.parametrize(("function", "reads"), [(router, 1), (mixture, 2)])
def test_fewer_instructions(function: Any, reads: int):
    """A block of rows at a time, each op would be an instruction for each of 64 blocks."""
    args = (spec((8192, 32), "float32"), spec((32, 64), "float32"), spec((64,), "float32"))
    with noted() as decisions:
        report = fits(function, *args).report
    assert SIDE_BY_SIDE in decisions
    assert report.instructions < 64 * 12
    assert report.hbm_bytes < 1.1 * reads * report.compulsory_bytes
