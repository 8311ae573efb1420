"""Convolutions against NumPy's windows: strides, padding, dilation, groups, one to three dims, images of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import tilewright as tw
from tests.lower.kit import check, compare, floats

CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 8, 9, 10), (6, 8, 3, 3), {"padding": 1}),
    ((2, 16, 15, 15), (32, 16, 5, 5), {"stride": 2}),
    ((3, 5, 15, 17), (7, 5, 3, 2), {"stride": 2, "padding": 2, "dilation": 2}),
    ((2, 130, 7, 7), (140, 130, 1, 1), {}),
    ((1, 200, 6, 6), (150, 200, 3, 3), {"padding": 1}),
    ((1, 3, 4, 16, 16), (20, 3, 2, 4, 4), {"stride": (2, 4, 4)}),
    ((2, 4, 5, 6, 7), (9, 4, 2, 3, 3), {"padding": (1, 0, 2), "stride": (1, 2, 1)}),
    ((2, 2, 4, 6, 5), (3, 2, 2, 3, 3), {}),
    ((2, 4, 30), (5, 4, 7), {"padding": 3}),
    ((5, 3, 2, 8, 8), (40, 3, 2, 8, 8), {}),
    ((1, 3, 2, 5), (2, 3, 3, 3), {"padding": (4, 0)}),
    ((1, 2, 5, 700), (3, 2, 2, 3), {}),
    ((2, 8, 6, 6), (10, 4, 3, 3), {"padding": 1, "groups": 2}),
    ((2, 8, 6, 7), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
    ((2, 8, 6, 7), (24, 1, 3, 3), {"padding": 1, "groups": 8, "stride": 2}),
    ((1, 150, 5, 5), (150, 1, 3, 3), {"padding": 1, "groups": 150}),
]


def direct(x: np.ndarray, w: np.ndarray, padding: Any = 0, stride: Any = 1, dilation: Any = 1, groups: int = 1):
    """Window by window, in float64."""
    dims = w.ndim - 2
    padding, stride, dilation = (v if isinstance(v, tuple) else (v,) * dims for v in (padding, stride, dilation))
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *((p, p) for p in padding)])
    extents = tuple(d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilation, strict=True))
    seen = sliding_window_view(x, extents, axis=tuple(range(2, 2 + dims)))
    seen = seen[(..., *[slice(None, None, s) for s in stride], *[slice(None, None, d) for d in dilation])]
    parts = []
    for part, weights in zip(np.split(seen, groups, 1), np.split(w.astype(np.float64), groups, 0), strict=True):
        axes = [1, *range(2 + dims, 2 + 2 * dims)]
        out = np.tensordot(part, weights, (axes, [1, *range(2, 2 + dims)]))
        parts.append(np.moveaxis(out, -1, 1))
    return np.concatenate(parts, 1)


@pytest.mark.req("S4-74")
@pytest.mark.parametrize(("x", "w", "options"), CASES)
def test_convolutions(x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any]):
    arrays = floats(*x), floats(*w, seed=1)
    kernel = check(lambda x, w: tw.conv(x, w, **options), *arrays, tolerance=1e-5)
    compare(kernel.simulate(*arrays), direct(*arrays, **options), 1e-5)


@pytest.mark.req("S4-74")
def test_a_bias_and_what_follows():
    def layer(x: Any, w: Any, b: Any) -> Any:
        return np.maximum(tw.conv(x, w, b, padding=1), 0)

    kernel = check(layer, floats(2, 8, 9, 10), floats(6, 8, 3, 3, seed=1), floats(6, seed=2), tolerance=1e-5)
    assert kernel.report.hbm_bytes <= kernel.report.compulsory_bytes * 1.01


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((1, 4, 90, 300), (4, 4, 3, 3), {"padding": 1}),
        ((2, 3, 70, 210), (4, 3, 3, 3), {"padding": 2, "stride": 2}),
        ((1, 150, 40, 40), (150, 1, 3, 3), {"padding": 1, "groups": 150}),
    ],
)
def test_images_larger_than_a_partition(x: Any, w: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    """Cut along their first dim, and along others where that is not enough."""
    import tilewright.lower.products.windows as windows

    create = windows.Input.__init__

    def small(self: Any, *args: Any, **kwargs: Any) -> None:
        create(self, *args, **kwargs)
        self.budget = 20000

    monkeypatch.setattr(windows.Input, "__init__", small)
    arrays = floats(*x), floats(*w, seed=1)
    check(lambda x, w: tw.conv(x, w, **options), *arrays, targets=("trn2",), tolerance=1e-5)


def test_bfloat16():
    arrays = (floats(1, 8, 9, 10).astype(ml_dtypes.bfloat16), floats(6, 8, 3, 3, seed=1).astype(ml_dtypes.bfloat16))
    check(lambda x, w: tw.conv(x, w, padding=1), *arrays, tolerance=1e-2)
    alone = floats(8, 1, 3, 3, seed=1).astype(ml_dtypes.bfloat16)
    check(lambda x, w: tw.conv(x, w, padding=1, groups=8), arrays[0], alone, targets=("trn2",), tolerance=1e-2)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "uint32"])
def test_integers_are_exact_and_wrap_around(dtype: str):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    rng = np.random.default_rng(0)
    x, v = (rng.integers(low, high, n, endpoint=True).astype(dtype) for n in (40, 5))
    check(lambda x, v: (np.convolve(x, v), np.correlate(x[:3], v, "same")), x, v, targets=("trn2",), tolerance=0)
    y, w = rng.integers(0, 9, (2, 4, 7, 6)).astype(dtype), rng.integers(0, 9, (6, 2, 3, 2)).astype(dtype)
    options = {"stride": (2, 1), "padding": 1, "dilation": (1, 2), "groups": 2}
    check(lambda x, w: tw.conv(x, w, **options), y, w, targets=("trn1",), tolerance=0)


@pytest.mark.req("S4-75")
@pytest.mark.req("S4-76")
@pytest.mark.parametrize(
    ("x", "w", "options", "most"),
    [
        ((8, 16, 64, 64), (32, 16, 5, 5), {"stride": 2}, 1000),
        ((1, 3, 2, 224, 224), (1152, 3, 2, 16, 16), {"stride": (2, 16, 16)}, 1000),
        ((1024, 3, 2, 16, 16), (1152, 3, 2, 16, 16), {"stride": (2, 16, 16)}, 1000),
        ((1, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}, 100),
    ],
)
def test_instructions(x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], most: int):
    arrays = tw.spec(x, np.float32), tw.spec(w, np.float32)
    kernel = tw.compile(lambda x, w: tw.conv(x, w, **options), *arrays, target="trn2")
    assert kernel.report.instructions <= most
    assert kernel.report.hbm_bytes <= 1.3 * kernel.report.compulsory_bytes
    assert str(kernel.tile_ir).count("\n") < 250


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((1, 1, 20000), (1, 1, 9), {"padding": 4}),
        ((2, 3, 40000), (3, 1, 5), {"stride": 2, "dilation": 3, "groups": 3}),
        ((1, 1, 16500), (1, 1, 117), {}),
        ((1, 2, 50000), (2, 1, 70), {"stride": 3, "padding": 40, "dilation": 2, "groups": 2}),
        ((1, 20, 9, 9), (40, 1, 8, 8), {"groups": 20}),
    ],
)
def test_signals_and_large_kernels(x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any]):
    check(lambda x, w: tw.conv(x, w, **options), floats(*x), floats(*w, seed=1), tolerance=1e-5)


def test_signals_with_kernels_of_any_length_lie_across_partitions():
    """Products of one row with a matrix would take eight times as long; what is not finite stays where it is."""
    x, h = floats(1 << 15), floats(101, seed=1)
    x[70], x[20000] = np.inf, np.nan
    kernel = check(lambda x, h: np.convolve(x, h, "valid"), x, h, tolerance=1e-5)
    assert kernel.report.engine_busy_us.get("tensor", 0) == 0
    assert kernel.report.instructions < 4 * len(h)


def test_channels_do_not_reach_each_other():
    x = floats(2, 5, 6, 7)
    x[0, 1, 2, 2], x[0, 3, 1, 1], x[1, 0, 5, 6] = np.inf, np.nan, -np.inf
    check(lambda x, w: tw.conv(x, w, padding=1, groups=5), x, floats(5, 1, 3, 3, seed=1), tolerance=1e-5)


def unfolded(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Patches as rows of a matrix, images with their channels last."""
    seen = sliding_window_view(x, w.shape[:2], axis=(1, 2))[:, ::2, ::2]
    batch, height, width = seen.shape[:3]
    rows = seen.transpose(0, 1, 2, 4, 5, 3).reshape(batch * height * width, -1)
    return (rows @ w.reshape(-1, w.shape[3])).reshape(batch, height, width, -1)


SLIDING: list[tuple[Callable[..., Any], list[tuple[int, ...]]]] = [
    (lambda x: sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max((-1, -2)), [(2, 130, 9, 8)]),
    (lambda x: sliding_window_view(x, (2, 5), axis=(2, 3)).min(axis=(1, 4, 5)), [(2, 3, 9, 8)]),
    (lambda x: sliding_window_view(x, 13, axis=1).mean(-1), [(140, 40)]),
    (lambda x: np.abs(sliding_window_view(x, 4) - 1.0).sum(-1), [(300,)]),
    (lambda x: sliding_window_view(x, (3, 3))[::2] * 2, [(9, 8)]),
    (lambda x: sliding_window_view(x, 20, axis=0).std(-1), [(40, 5)]),
    (
        lambda x, w: (sliding_window_view(x, (3, 3), axis=(2, 3)) * w[:, None, None]).sum((-1, -2)),
        [(2, 5, 6, 7), (5, 3, 3)],
    ),
    (
        lambda x, w: np.einsum("nchwij,ocij->nohw", sliding_window_view(x, (3, 3), axis=(2, 3)), w),
        [(2, 5, 6, 7), (4, 5, 3, 3)],
    ),
    (
        lambda x, w: np.tensordot(sliding_window_view(x, (2, 2), axis=(2, 3)), w, axes=([1, 4, 5], [1, 2, 3])),
        [(2, 5, 6, 7), (4, 5, 2, 2)],
    ),
    (lambda x, w: w @ sliding_window_view(x, 3, axis=1).transpose(0, 2, 1).reshape(2 * 3, -1), [(2, 9), (4, 6)]),
    (unfolded, [(2, 9, 8, 3), (3, 3, 3, 4)]),
]


def causal(x: np.ndarray, w: np.ndarray) -> Any:
    """A convolution along the second dim that is written as a sum."""
    size, count = len(w), x.shape[1]
    padded = np.pad(x, ((0, 0), (size - 1, 0), (0, 0)))
    return sum(padded[:, k : k + count] * w[k] for k in range(size))


SLIDING.append((causal, [(2, 40, 20), (4, 20)]))


@pytest.mark.req("S4-74")
@pytest.mark.parametrize(("function", "shapes"), SLIDING)
def test_what_is_computed_of_sliding_windows(function: Callable[..., Any], shapes: list[tuple[int, ...]]):
    check(function, *(floats(*shape) for shape in shapes), tolerance=1e-5)
