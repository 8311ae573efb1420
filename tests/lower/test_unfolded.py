"""Windows that a program puts together itself (im2col), in the ways in which people do: convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.kit import check, floats


def padded(x: Any, axes: tuple[int, int]) -> Any:
    return np.pad(x, [(1, 1) if d in axes else (0, 0) for d in range(4)])


def stacked(x: Any, w: Any) -> Any:
    _, c, h, wide = x.shape
    xp = padded(x, (2, 3))
    cols = np.stack([xp[:, :, i : i + h, j : j + wide] for i in range(3) for j in range(3)], axis=2)
    return np.einsum("ncthw,oct->nohw", cols, w.reshape(w.shape[0], c, 9))


def columns_first(x: Any, w: Any) -> Any:
    """The last axis of a window is the slowest."""
    _, c, h, wide = x.shape
    xp = padded(x, (2, 3))
    cols = np.stack([xp[:, :, i : i + h, j : j + wide] for j in range(3) for i in range(3)], axis=1)
    return np.einsum("ntchw,oct->nohw", cols, w.swapaxes(2, 3).reshape(w.shape[0], c, 9))


def beside_channels(x: Any, w: Any) -> Any:
    n, h, wide, c = x.shape
    xp = padded(x, (1, 2))
    cols = np.concatenate([xp[:, i : i + h, j : j + wide] for i in range(3) for j in range(3)], axis=-1)
    return (cols.reshape(-1, 9 * c) @ w.transpose(2, 3, 1, 0).reshape(9 * c, -1)).reshape(n, h, wide, -1)


def written(x: Any, w: Any) -> Any:
    n, c, h, wide = x.shape
    xp = padded(x, (2, 3))
    cols = np.zeros((n, c, 3, 3, h // 2, wide // 2), np.float32)
    for i in range(3):
        for j in range(3):
            cols[:, :, i, j] = xp[:, :, i : i + h : 2, j : j + wide : 2]
    rows = cols.transpose(0, 4, 5, 1, 2, 3).reshape(n * (h // 2) * (wide // 2), -1)
    return (rows @ w.reshape(w.shape[0], -1).T).reshape(n, h // 2, wide // 2, -1).transpose(0, 3, 1, 2)


def apart(x: Any, w: Any) -> Any:
    """Dilated, without padding."""
    h, wide = x.shape[2] - 4, x.shape[3] - 4
    cols = np.stack([x[:, :, i : i + h, j : j + wide] for i in (0, 2, 4) for j in (0, 2, 4)], axis=2)
    return np.einsum("ncthw,oct->nohw", cols, w.reshape(*w.shape[:2], 9))


FOUND = [stacked, columns_first, beside_channels, written, apart]


@pytest.mark.parametrize("function", FOUND)
def test_windows_are_found(function: Any) -> None:
    shape = (2, 8, 10, 32) if function is beside_channels else (2, 32, 8, 10)
    kernel = check(function, floats(*shape), floats(40, 32, 3, 3, seed=1), tolerance=1e-5)
    assert kernel.passes.fired["product_of_windows"] == 1


def uneven(x: Any, w: Any) -> Any:
    places = [(0, 0), (0, 1), (1, 0), (2, 2)]
    cols = np.stack([x[:, :, i : i + 6, j : j + 8] for i, j in places], axis=2)
    return np.einsum("ncthw,oct->nohw", cols, w[:, :, 0, :1] * np.arange(4, dtype=np.float32))


def out_of_order(x: Any, w: Any) -> Any:
    places = [(0, 0), (1, 1), (0, 1), (1, 0)]
    cols = np.stack([x[:, :, i : i + 6, j : j + 8] for i, j in places], axis=2)
    return np.einsum("ncthw,oct->nohw", cols, w[:, :, 0, :1] * np.arange(4, dtype=np.float32))


def of_two(x: Any, w: Any) -> Any:
    y = np.tanh(x)
    cols = np.stack([v[:, :, :, j : j + 8] for v in (x, y) for j in range(3)], axis=2)
    return np.einsum("ncthw,oct->nohw", cols, w[:, :, :2].reshape(*w.shape[:2], 6))


@pytest.mark.parametrize("function", [uneven, out_of_order, of_two])
def test_what_is_no_box_of_windows(function: Any) -> None:
    kernel = check(function, floats(2, 32, 8, 10), floats(40, 32, 3, 3, seed=1), tolerance=1e-5)
    assert not kernel.passes.fired["product_of_windows"]


def test_few_channels_are_one_product() -> None:
    kernel = check(stacked, floats(2, 3, 8, 10), floats(8, 3, 3, 3, seed=1), tolerance=1e-5)
    assert not kernel.passes.fired["product_of_windows"]
