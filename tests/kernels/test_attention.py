"""Flash attention and its gradients against dense attention in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.kernels.near import error, normal


def heads(batch: int, queries: int, keys: int, d: int, width: int, scale: float = 1.0) -> list[np.ndarray]:
    shapes = (batch, queries, d), (batch, keys, d), (batch, keys, width)
    return [normal(*shape, seed=i, scale=scale) for i, shape in enumerate(shapes)]


CASES = [(1, 1, 1, 1, 1), (1, 130, 700, 64, 32), (2, 129, 130, 128, 128), (1, 530, 200, 16, 16)]


@pytest.mark.parametrize("case", CASES)
def test_forward(case: tuple[int, ...]) -> None:
    q, k, v = heads(*case)
    assert error(tw.kernels.attention(q, k, v), tw.kernels.attention.exact(q, k, v)) < 3e-6


def test_large_scores() -> None:
    """Greatest scores differ by hundreds between queries: each has its own taken off."""
    q, k, v = heads(1, 140, 300, 64, 64, scale=6.0)
    assert error(tw.kernels.attention(q, k, v, scale=1.0), tw.kernels.attention.exact(q, k, v, scale=1.0)) < 2e-4


@pytest.mark.parametrize("lengths", [(1, 1), (200, 200), (129, 300), (600, 600)])
def test_causal(lengths: tuple[int, int]) -> None:
    q, k, v = heads(1, *lengths, 32, 32)
    made = tw.kernels.attention(q, k, v, causal=True)
    assert error(made, tw.kernels.attention.exact(q, k, v, causal=True)) < 3e-6


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("case", [(1, 1, 1, 1, 1), (1, 130, 600, 64, 32), (2, 130, 130, 128, 128)])
def test_backward(case: tuple[int, ...], causal: bool) -> None:
    q, k, v = heads(*case)
    exact = tw.kernels.attention.exact(q, k, v, causal=causal)
    out, lse = (each.astype(np.float32) for each in exact)
    dout = normal(*out.shape, seed=7)
    made = tw.kernels.attention_backward(q, k, v, out, lse, dout, causal=causal)
    wanted = tw.kernels.attention_backward.exact(q, k, v, out, lse, dout, causal=causal)
    assert error(made, wanted) < 5e-6 or (case[1] == 1 and max(np.abs(made[0]).max(), np.abs(made[1]).max()) < 1e-6)


@pytest.mark.parametrize("target", ["trn1", "trn3"])
def test_other_generations(target: str) -> None:
    q, k, v = heads(1, 140, 140, 32, 32)
    out, lse = tw.kernels.attention(q, k, v, causal=True, target=target)
    assert error((out, lse), tw.kernels.attention.exact(q, k, v, causal=True)) < 3e-6
    dout = normal(*out.shape, seed=7)
    made = tw.kernels.attention_backward(q, k, v, out, lse, dout, causal=True, target=target)
    assert error(made, tw.kernels.attention_backward.exact(q, k, v, out, lse, dout, causal=True)) < 5e-6


def test_bfloat16() -> None:
    q, k, v = (each.astype(ml_dtypes.bfloat16) for each in heads(1, 140, 260, 64, 64))
    out, lse = tw.kernels.attention(q, k, v)
    assert out.dtype == ml_dtypes.bfloat16 and lse.dtype == np.float32
    assert error((out, lse), tw.kernels.attention.exact(q, k, v)) < 2**-6
