"""Attention that looks back a little: what no row of a block sees is neither computed nor read."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tests.lower.test_attention import softmax

FAR = np.float32(-1e9)


def near(n: int, back: int, ahead: int = 0) -> np.ndarray:
    """Which columns each row sees."""
    rows, columns = np.arange(n)[:, None], np.arange(n)[None, :]
    return (columns <= rows + ahead) & (rows - columns < back)


def chosen(back: int, ahead: int = 0, far: float | np.floating = FAR):
    """Scores out of sight are replaced."""

    def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        scores = q @ np.swapaxes(k, -1, -2) * np.float32(0.25)
        return softmax(np.where(near(q.shape[-2], back, ahead), scores, np.float32(far))) @ v

    return attend


def so_far(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """There are more keys than any row sees."""
    rows, columns = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])[None, :]
    return softmax(np.where(columns <= rows, q @ np.swapaxes(k, -1, -2), FAR)) @ v


def added(back: int, far: float | np.floating = FAR):
    """A large negative number is added to them."""

    def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        mask = np.where(near(q.shape[-2], back), np.float32(0), np.float32(far))
        return softmax(q @ np.swapaxes(k, -1, -2) * np.float32(0.25) + mask) @ v

    return attend


def heads(*shape: int, dtype: type = np.float32) -> tuple[np.ndarray, ...]:
    return tuple(floats(*shape, seed=i).astype(dtype) for i in range(3))


CASES = {
    "chosen": (chosen(100), heads(2, 512, 16)),
    "infinitely far": (chosen(64, far=-np.inf), heads(640, 16)),
    "odd, a little ahead": (chosen(130, ahead=3), heads(2, 700, 16)),
    "narrow": (chosen(300), heads(768, 16, dtype=ml_dtypes.bfloat16)),
    "itself alone": (chosen(1), heads(384, 16)),
    "far back": (chosen(700), heads(900, 16)),
    "more keys": (so_far, (floats(1, 128, 64), floats(1, 300, 64, seed=1), floats(1, 300, 64, seed=2))),
    "added": (added(100), heads(2, 640, 16)),
    "added infinity": (added(200, -np.inf), heads(512, 16)),
}


@pytest.mark.parametrize("name", CASES)
def test_windows(name: str):
    function, args = CASES[name]
    check(function, *args, tolerance=1e-5)


def test_what_is_hidden_counts_for_nothing():
    q, k, v = heads(512, 16)
    k[3] = np.inf
    q[200] = np.nan
    check(chosen(100), q, k, v, tolerance=1e-5)


def test_time_grows_with_what_is_seen():
    latency = [
        tw.compile(chosen(back), *(tw.spec((2048, 64), "float32") for _ in range(3)), target="trn2").report.latency_us
        for back in (128, 1024)
    ]
    assert 1.2 * latency[0] < latency[1]
