"""Kernels on rows against float64: sizes that fill tiles and sizes that do not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.kernels.near import error, normal

SIZES = [(1, 1), (128, 512), (130, 513), (2, 67, 96)]


@pytest.mark.parametrize("shape", SIZES)
def test_rmsnorm(shape: tuple[int, ...]) -> None:
    x, weight = normal(*shape, scale=3.0), normal(shape[-1], seed=1)
    assert error(tw.kernels.rmsnorm(x, weight), tw.kernels.rmsnorm.exact(x, weight)) < 1e-6
    tiny = np.float32(1e-4) * x
    assert error(tw.kernels.rmsnorm(tiny, weight, eps=1e-3), tw.kernels.rmsnorm.exact(tiny, weight, eps=1e-3)) < 1e-6


@pytest.mark.parametrize("shape", SIZES[1:])
@pytest.mark.parametrize("middle", [0.0, 100.0])
def test_layernorm(shape: tuple[int, ...], middle: float) -> None:
    x = normal(*shape) + np.float32(middle)
    weight, bias = normal(shape[-1], seed=1), normal(shape[-1], seed=2)
    assert error(tw.kernels.layernorm(x, weight, bias), tw.kernels.layernorm.exact(x, weight, bias)) < 1e-5
    made = tw.kernels.layernorm(x, weight, bias, eps=0.5)
    assert error(made, tw.kernels.layernorm.exact(x, weight, bias, eps=0.5)) < 1e-5


@pytest.mark.parametrize("shape", SIZES)
def test_swiglu(shape: tuple[int, ...]) -> None:
    x, gate = normal(*shape), normal(*shape, seed=1, scale=4.0)
    assert error(tw.kernels.swiglu(x, gate), tw.kernels.swiglu.exact(x, gate)) < 1e-6


@pytest.mark.parametrize("shape", [(1, 2), (128, 64), (3, 300, 32), (2, 2, 257, 8)])
def test_rope(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    angles = np.random.default_rng(1).uniform(-3, 3, (shape[-2], shape[-1] // 2))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    assert error(tw.kernels.rope(x, cos, sin), tw.kernels.rope.exact(x, cos, sin)) < 1e-6


@pytest.mark.parametrize(
    ("shape", "k"), [((1, 1), 1), ((5, 3), 3), ((130, 40), 8), ((2, 70, 33), 20), ((4, 24), 24), ((3, 600), 9)]
)
def test_topk(shape: tuple[int, ...], k: int) -> None:
    x = np.round(normal(*shape, scale=4.0))  # many equal numbers
    values, places = tw.kernels.topk(x, k)
    wanted, where = tw.kernels.topk.exact(x, k)
    assert np.array_equal(values, wanted) and np.array_equal(places, where)


@pytest.mark.parametrize(
    ("rows", "columns", "k", "scale"), [(1100, 512, 8, 1.0), (1300, 514, 5, 40.0), (1024, 999, 8, 0.0)]
)
def test_topk_by_groups(rows: int, columns: int, k: int, scale: float) -> None:
    """Equal numbers in a group, in several groups, at the end of what is kept; the last group is not full."""
    x = np.round(normal(rows, columns, scale=scale))
    values, places = tw.kernels.topk(x, k)
    wanted, where = tw.kernels.topk.exact(x, k)
    assert np.array_equal(values, wanted) and np.array_equal(places, where)


@pytest.mark.parametrize("target", ["trn1", "trn3"])
def test_rows_on_other_generations(target: str) -> None:
    x, weight, gate = normal(130, 96), normal(96, seed=1), normal(130, 96, seed=2)
    half = normal(130, 48, seed=3)
    k = tw.kernels
    for kernel, arguments in (
        (k.rmsnorm, (x, weight)),
        (k.layernorm, (x, weight, weight)),
        (k.swiglu, (x, gate)),
        (k.rope, (x, half, half)),
        (k.topk, (x, 9)),
        (k.topk, (normal(1025, 512), 3)),
    ):
        assert error(kernel(*arguments, target=target), kernel.exact(*arguments)) < 1e-5, kernel.__name__


def test_rows_in_bfloat16() -> None:
    x, weight = normal(140, 200).astype(ml_dtypes.bfloat16), normal(200, seed=1).astype(ml_dtypes.bfloat16)
    for kernel, arguments in (
        (tw.kernels.rmsnorm, (x, weight)),
        (tw.kernels.layernorm, (x, weight, weight)),
        (tw.kernels.swiglu, (x, x)),
    ):
        made = kernel(*arguments)
        assert made.dtype == ml_dtypes.bfloat16 and error(made, kernel.exact(*arguments)) < 2**-8
