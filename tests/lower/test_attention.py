"""Attention as people write it: masks by choice or by addition, ragged lengths, heads that share keys."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats

Function = Callable[..., np.ndarray]


def softmax(x: np.ndarray) -> np.ndarray:
    """Weights along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Scaled products of queries and keys."""
    return q @ np.swapaxes(k, -1, -2) / np.float32(np.sqrt(q.shape[-1]))


def chosen(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Scores of later keys are replaced by -inf."""
    n = q.shape[-2]
    return softmax(np.where(np.tril(np.ones((n, n), bool)), scores(q, k), -np.inf)) @ v


def compared(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The mask compares positions."""
    rows, columns = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])
    return softmax(np.where(columns <= rows + (k.shape[-2] - q.shape[-2]), scores(q, k), np.float32(-1e9))) @ v


def inverted(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The mask says what is hidden."""
    n = q.shape[-2]
    return softmax(np.where(np.triu(np.ones((n, n), bool), 1), -np.inf, scores(q, k))) @ v


def added(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A large negative number is added to scores that nothing scales."""
    n = q.shape[-2]
    return softmax(q @ np.swapaxes(k, -1, -2) + np.triu(np.full((n, n), -1e9, np.float32), 1)) @ v


def biased(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Something with a number per key is added before the mask."""
    n = q.shape[-2]
    return softmax(np.where(np.tri(n, dtype=bool), scores(q, k) + k[:, 0], -np.inf)) @ v


def sloped(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A bias for every pair of positions, before the mask."""
    rows, columns = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])
    bias = (0.25 * (columns - rows)).astype(np.float32)
    return softmax(np.where(columns <= rows, scores(q, k) + bias, np.float32(-1e9))) @ v


def capped(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Scores are limited before they are masked, and scaled after it."""
    return softmax(np.where(np.tri(len(q), dtype=bool), np.tanh(q @ k.T / 9) * 9, -np.inf) * np.float32(0.5)) @ v


@pytest.mark.parametrize("function", [chosen, compared, inverted, added, biased, sloped, capped])
@pytest.mark.parametrize("rows", [128, 300])
def test_causal_attention(function: Function, rows: int):
    check(function, *(floats(rows, 16) for _ in range(3)), tolerance=1e-5)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (compared, [(200, 16), (300, 16), (300, 16)]),
        (chosen, [(2, 2, 260, 8)] * 3),
        (compared, [(2, 260, 8)] * 3),
    ],
)
def test_causal_attention_of_other_shapes(function: Function, shapes: list[tuple[int, ...]]):
    check(function, *(floats(*shape) for shape in shapes), tolerance=1e-5)


@pytest.mark.parametrize("function", [chosen, inverted, added, sloped, capped])
def test_later_keys_are_not_read(function: Function):
    whole = tw.compile(lambda q, k, v: softmax(scores(q, k)) @ v, *[tw.spec((2048, 64), "float32")] * 3)
    causal = tw.compile(function, *[tw.spec((2048, 64), "float32")] * 3)
    assert causal.report.flops < 0.65 * whole.report.flops


@pytest.mark.req("S4-40")
def test_what_a_mask_hides_may_be_anything():
    k = floats(300, 16)
    k[250, 3], k[280] = np.nan, np.inf
    check(chosen, floats(300, 16), k, floats(300, 16), tolerance=1e-5)


def test_masked_scores_that_are_no_softmax():
    def function(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
        s = np.where(np.tri(len(q), dtype=bool), q @ k.T, np.float32(-1e9))
        return s.sum(-1), s.max(-1), s @ v, np.exp(s * np.float32(-1e-9)) @ v

    check(function, *(floats(260, 16) for _ in range(3)), tolerance=1e-4)


def test_narrow_operands_are_read_as_they_are():
    arrays = [floats(260, 64).astype(ml_dtypes.bfloat16) for _ in range(3)]
    kernel = check(chosen, *arrays, tolerance=1e-2)
    assert kernel.report.hbm_bytes == kernel.report.compulsory_bytes


def test_heads_share_keys():
    def function(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        return chosen(q, np.repeat(k, 2, 0), np.repeat(v, 2, 0))

    check(function, floats(4, 130, 8), floats(2, 130, 8), floats(2, 130, 8), targets=("trn2",), tolerance=1e-5)


@pytest.mark.parametrize("window", [None, 130])
def test_rows_read_what_they_see_of_a_bias(window: int | None):
    i = np.arange(300)
    ok = (i[:, None] >= i) & (i[:, None] - i < (window or 300))

    def function(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return softmax(np.where(ok, scores(q, k) * scale + bias, np.float32(-1e9))) @ v

    heads = (floats(2, 3, 300, 32, seed=s) for s in range(3))
    check(function, *heads, floats(3, 300, 300, seed=3), floats(300, 300, seed=4), tolerance=1e-5)
