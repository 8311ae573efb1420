"""Products of few rows in parts of the Tensor engine's array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.kit import check, fits, floats
from tilewright.ir.walk import walk
from tilewright.lower.tuning import tuned


def positions(kernel: Any) -> set[tuple[int, ...]]:
    return {op.attrs["tile_position"] for op in walk(kernel.tile_ir) if op.name == "nc_matmul"}


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("k", [3, 32, 33, 64, 65, 128])
def test_operands_on_few_partitions(k: int):
    """Right wherever parts are taken, also where that gains nothing."""
    with tuned(parts_gain=-9.0):
        kernel = check(lambda a, b: np.tanh(a @ b), 0.2 * floats(300, k), 0.2 * floats(k, 520), tolerance=1e-5)
    count = {3: 4, 32: 4, 33: 2, 64: 2}.get(k, 0)
    assert len(positions(kernel) - {()}) == count


def test_heads_of_attention():
    q, k, v = (floats(2, 256, 64) for _ in range(3))
    with tuned(parts_gain=-9.0):
        kernel = check(lambda q, k, v: softmax(q @ k.swapaxes(-1, -2) / 8) @ v, q, k, v, tolerance=1e-5)
    assert {(0, 0), (64, 0)} <= positions(kernel)


def test_only_what_gains_is_changed():
    """A kernel whose parts are taken back is the one without them."""
    a, b = floats(300, 64), floats(64, 520)
    texts = set()
    for numbers in ({"parts_gain": 0.99}, {"part_columns": 1 << 20, "parts_gain": 0.99}):
        with tuned(**numbers):
            texts.add(str(fits(lambda a, b: np.tanh(a @ b), a, b).tile_ir))
    assert len(texts) == 1


def test_many_columns_of_few_rows_take_less_time():
    a, b = floats(1024, 32), floats(32, 2048)

    def distances(a: Any, b: Any) -> Any:
        return np.exp(a @ b).sum(0)

    with tuned(part_columns=1 << 20):
        before = fits(distances, a, b).report.latency_us
    assert fits(distances, a, b).report.latency_us < 0.8 * before
