"""tw.nn against formulas in float64, on NumPy arrays and on traced arrays alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.front.arrays import FLOATS, every
from tests.front.kit import BFLOAT16, check, refused, same

nn: Any = tw.nn
EPS = {np.dtype("f2"): 2.0**-10, np.dtype("f4"): 2.0**-23, np.dtype("f8"): 2.0**-52, BFLOAT16: 2.0**-7}


def near(found: Any, wanted: np.ndarray, dtype: np.dtype, ulps: float) -> None:
    """The result has the type, and is within some units of the last place (of 1 at least)."""
    assert found.dtype == dtype and found.shape == wanted.shape
    off = np.abs(found.astype(np.float64) - wanted)
    assert np.all((off <= ulps * EPS[dtype] * np.maximum(np.abs(wanted), 1)) | (found.astype(np.float64) == wanted))


def erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: list[tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray]]] = [
    (nn.relu, lambda x: np.maximum(x, 0)),
    (nn.sigmoid, sigmoid),
    (nn.silu, lambda x: x * sigmoid(x)),
    (nn.erf, erf),
    (nn.gelu, lambda x: x * (1 + erf(x / math.sqrt(2))) / 2),
    (
        lambda x: nn.gelu(x, approximate="tanh"),
        lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    ),
]


@pytest.mark.req("S4-25")
@pytest.mark.parametrize("place", range(len(ACTIVATIONS)))
def test_activations(place: int):
    function, formula = ACTIVATIONS[place]
    for dtype in FLOATS:
        x = np.linspace(-12, 12, 301).astype(dtype)
        near(function(x), formula(x.astype(np.float64)), dtype, 4)
        check(function, x)
        check(function, np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 6e4, -6e4]).astype(dtype))
        check(function, x.reshape(7, 43)[:0])
        check(lambda x: function(x[0]), x)


@pytest.mark.req("S4-25")
def test_limits_and_other_types():
    infinite = np.array([np.inf, -np.inf], np.float32)
    for function, wanted in ((nn.sigmoid, (1, 0)), (nn.erf, (1, -1)), (nn.relu, (np.inf, 0))):
        np.testing.assert_array_equal(function(infinite), np.array(wanted, np.float32))
    x = np.arange(-3, 4, dtype=np.int8)
    same(nn.relu(x), np.array([0, 0, 0, 0, 1, 2, 3], np.int8))
    check(lambda x: (nn.relu(x), nn.sigmoid(x), nn.gelu(x), nn.softmax(x)), x)
    check(lambda x: nn.silu(x.astype(np.int64)) + nn.relu(x > 0), x)
    assert isinstance(nn.gelu(1.0), np.float64) and nn.sigmoid([0.0, 0.0]).tolist() == [0.5, 0.5]
    check(nn.gelu, every(BFLOAT16))
    refused("E108", lambda x: nn.gelu(x, approximate="sigmoid"), infinite)


@pytest.mark.req("S4-41")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("axis", [-1, 0, 1, (0, 2), None], ids=str)
def test_softmax(dtype: np.dtype, axis: Any):
    x = (np.random.default_rng(1).standard_normal((3, 4, 5)) * 20).astype(dtype)
    wide = x.astype(np.float64)
    power = np.exp(wide - wide.max(axis=axis, keepdims=True))
    share = power / power.sum(axis=axis, keepdims=True)
    near(nn.softmax(x, axis), share, dtype, 4)
    near(nn.log_softmax(x, axis), np.log(share), dtype, 8)
    check(lambda x: (nn.softmax(x, axis=axis), nn.log_softmax(x, axis=axis)), x)


def test_softmax_with_masked_scores():
    x = np.array([[0.0, -np.inf, 1.0], [-np.inf, -np.inf, 2.0]], np.float32)
    found = nn.softmax(x)
    assert found[1].tolist() == [0, 0, 1] and found[0, 1] == 0
    check(nn.softmax, x)
    with pytest.raises(tw.TileError):
        nn.softmax(x, axis=2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("axis", [-1, 1, (1, 2)], ids=str)
def test_norms(dtype: np.dtype, axis: Any):
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((3, 4, 5)) * 2 + 1).astype(dtype)
    axes = tuple(a % 3 for a in (axis if isinstance(axis, tuple) else (axis,)))
    weight, bias = ((1 + rng.standard_normal([x.shape[a] for a in axes]) / 4).astype(dtype) for _ in range(2))
    wide = x.astype(np.float64)
    w, b = (
        each.astype(np.float64).reshape([n if a in axes else 1 for a, n in enumerate(x.shape)])
        for each in (weight, bias)
    )
    layer = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)
    root = wide / np.sqrt((wide * wide).mean(axes, keepdims=True) + 1e-6)
    near(nn.layer_norm(x, weight, bias, axis), layer * w + b, dtype, 8)
    near(nn.layer_norm(x, axis=axis), layer, dtype, 8)
    near(nn.rms_norm(x, weight, axis), root * w, dtype, 8)
    check(lambda x, w, b: (nn.layer_norm(x, w, b, axis), nn.rms_norm(x, w, axis, eps=1e-3)), x, weight, bias)
    check(lambda x: (nn.layer_norm(x, weight.tolist(), axis=axis), nn.rms_norm(x, axis=axis)), x)
    with pytest.raises(tw.TileError):
        nn.rms_norm(x, weight[:1], axis)


def tables(positions: int, half: int) -> tuple[np.ndarray, np.ndarray]:
    angle = np.arange(positions)[:, None] * 1e4 ** (-np.arange(half) / half)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


@pytest.mark.req("S4-86")
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", [np.dtype("f4"), BFLOAT16], ids=str)
def test_rope(dtype: np.dtype, interleaved: bool):
    x = np.random.default_rng(3).standard_normal((2, 6, 3, 8)).astype(dtype)
    cos, sin = tables(6, 4)
    turned = np.zeros(x.shape)
    for i in range(4):
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + 4)
        c, s = cos[:, None, i].astype(np.float64), sin[:, None, i].astype(np.float64)
        turned[..., a] = x[..., a] * c - x[..., b] * s
        turned[..., b] = x[..., a] * s + x[..., b] * c
    near(nn.rope(x, cos, sin, interleaved=interleaved), turned, dtype, 2)
    check(lambda x, c, s: nn.rope(x, c, s, interleaved=interleaved), x, cos, sin)
    swapped = x.swapaxes(1, 2)
    near(nn.rope(swapped, cos, sin, axis=-2, interleaved=interleaved), turned.swapaxes(1, 2), dtype, 2)
    check(lambda x: nn.rope(x, cos[None, :, None], sin[None, :, None], interleaved=interleaved), x)
    check(lambda x: nn.rope(x[0, :, 0], cos, sin, interleaved=interleaved), x)
    refused("E108", lambda x: nn.rope(x, cos[:5], sin[:5]), x)
    refused("E108", lambda x: nn.rope(x[..., :7], cos, sin), x)


@pytest.mark.req("S4-86")
def test_rope_far_from_the_start():
    x = np.random.default_rng(4).standard_normal((512, 2, 16)).astype(np.float32)
    cos, sin = tables(512, 8)
    found = nn.rope(x, cos, sin)
    # A rotation keeps the length of every pair.
    np.testing.assert_allclose(np.hypot(found[..., :8], found[..., 8:]), np.hypot(x[..., :8], x[..., 8:]), rtol=1e-5)
    check(nn.rope, x, cos, sin)
