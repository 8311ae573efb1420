"""Convolutions written tap by tap, as those write them who have no convolution at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats


def images_first(x: Any, w: Any) -> Any:
    h = x.shape[2] - 2
    out = np.zeros((x.shape[0], w.shape[0], h, h), np.float32)
    for i in range(3):
        for j in range(3):
            out += np.einsum("nchw,oc->nohw", x[:, :, i : i + h, j : j + h], w[:, :, i, j])
    return out


def channels_last(x: Any, w: Any, b: Any) -> Any:
    out = b
    for j in range(2):
        for i in range(3):
            out = out + x[:, i : i + 6, j : j + 7, :] @ w[i, j]
    return np.maximum(out, 0)


def without_bias(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(sum(x[:, i : i + 6, j : j + 7, :] @ w[i, j] for i in range(3) for j in range(2)) + b, 0)


def signal(x: Any, w: Any) -> Any:
    return sum(x[:, i : i + 20] @ w[i] for i in range(5))


def apart(x: Any, w: Any) -> Any:
    """Every third sample, taps two apart, from the second sample on."""
    return x[:, 1:20:3] @ w[0] + x[:, 3:22:3] @ w[1] + x[:, 5:24:3] @ w[2]


def uneven(x: Any, w: Any) -> Any:
    """No convolution: offsets 0, 1, 3."""
    return x[:, 0:20] @ w[0] + x[:, 1:21] @ w[1] + x[:, 3:23] @ w[2]


def with_hole(x: Any, w: Any) -> Any:
    """No convolution: a corner is missing."""
    return x[:, 0:5, 0:5] @ w[0, 0] + x[:, 0:5, 1:6] @ w[0, 1] + x[:, 1:6, 0:5] @ w[1, 0]


def of_two(x: Any, y: Any, w: Any) -> Any:
    """No convolution: of two arrays."""
    return x[:, 0:20] @ w[0] + y[:, 1:21] @ w[1] + x[:, 2:22] @ w[2]


def twice(x: Any, w: Any) -> Any:
    """A part of the sum is needed by itself."""
    part = x[:, 0:20] @ w[0] + x[:, 1:21] @ w[1]
    return part + x[:, 2:22] @ w[2], part * 2


def test_taps() -> None:
    x = floats(2, 5, 8, 8)
    x[0, 1, 3, 3] = np.inf
    check(images_first, x, floats(6, 5, 3, 3, seed=1), tolerance=1e-5)
    check(channels_last, floats(2, 8, 8, 5), floats(3, 2, 5, 6, seed=1), floats(6, seed=2), tolerance=1e-5)
    check(without_bias, floats(2, 8, 8, 5), floats(3, 2, 5, 6, seed=1), floats(6, seed=2), tolerance=1e-5)
    check(signal, floats(3, 24, 5), floats(5, 5, 4, seed=1), tolerance=1e-5)
    check(apart, floats(3, 24, 5), floats(3, 5, 4, seed=1), tolerance=1e-5)


@pytest.mark.parametrize("function", [uneven, twice])
def test_what_is_none(function: Any) -> None:
    check(function, floats(3, 24, 5), floats(3, 5, 4, seed=1), tolerance=1e-5)


def test_other_sums() -> None:
    check(with_hole, floats(2, 6, 6, 5), floats(2, 2, 5, 4, seed=1), tolerance=1e-5)
    check(of_two, floats(3, 24, 5), floats(3, 24, 5, seed=2), floats(3, 5, 4, seed=1), tolerance=1e-5)


def test_images_are_read_once() -> None:
    report = tw.compile(images_first, tw.spec((8, 64, 34, 34), "float32"), tw.spec((64, 64, 3, 3), "float32")).report
    assert report.hbm_bytes < 1.1 * report.compulsory_bytes
    assert report.instructions < 200


def test_a_bias_may_come_first() -> None:
    args = tw.spec((2, 8, 8, 5), "float32"), tw.spec((3, 2, 5, 6), "float32"), tw.spec((6,), "float32")
    assert "conv" in str(tw.compile(channels_last, *args).plan)


def test_a_product_of_one_row_is_no_tap() -> None:
    """It is added to all rows."""

    def function(x: Any, w: Any) -> Any:
        return x[:, 0:1] @ w[0] + x[:, 1:21] @ w[1] + x[:, 2:22] @ w[2] + x[:, 3:23] @ w[0]

    check(function, floats(3, 24, 5), floats(3, 5, 4, seed=1), tolerance=1e-5)


def padded(x: Any, w: Any) -> Any:
    """The slice in the middle is x itself."""
    around = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return np.maximum(sum(around[:, i : i + 8, j : j + 8] @ w[i, j] for i in range(3) for j in range(3)), 0)


def padded_images(x: Any, w: Any) -> Any:
    around = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    parts = [around[:, :, i : i + 8, j : j + 8] for i in range(3) for j in range(3)]
    return sum(np.einsum("nchw,oc->nohw", part, w[:, :, i // 3, i % 3]) for i, part in enumerate(parts))


def one_side(x: Any, w: Any) -> Any:
    """Causal: zeros before the first sample alone."""
    late = np.pad(x, ((0, 0), (2, 0), (0, 0)))
    return late[:, 0:24] @ w[0] + late[:, 1:25] @ w[1] + x @ w[2]


def weights_first(x: Any, w: Any) -> Any:
    return sum(w[:, :, i] @ x[:, :, i : i + 20] for i in range(5))


def image_of_weights(x: Any, w: Any) -> Any:
    out: Any = 0
    for i in range(3):
        for j in range(3):
            out = out + np.tensordot(w[:, :, i, j], x[:, i : i + 6, j : j + 7], axes=1)
    return out


def other_padding(x: Any, w: Any) -> Any:
    """No convolution of zeros: ones stand around x."""
    around = np.pad(x, ((0, 0), (1, 1), (0, 0)), constant_values=1)
    return around[:, 0:24] @ w[0] + x @ w[1] + around[:, 2:26] @ w[2]


def of_itself(x: Any) -> Any:
    return x[0:8] @ x[0:8] + x[1:9] @ x[1:9] + x[2:10] @ x[2:10]


def test_zeros_around() -> None:
    x = floats(2, 8, 8, 5)
    x[1, 0, 7, 2] = np.nan
    check(padded, x, floats(3, 3, 5, 6, seed=1), tolerance=1e-5)
    check(padded_images, floats(2, 5, 8, 8), floats(6, 5, 3, 3, seed=1), tolerance=1e-5)
    check(one_side, floats(3, 24, 5), floats(3, 5, 4, seed=1), tolerance=1e-5)
    check(other_padding, floats(3, 24, 5), floats(3, 5, 4, seed=1), tolerance=1e-5)


def test_weights_first() -> None:
    check(weights_first, floats(3, 5, 24), floats(4, 5, 5, seed=1), tolerance=1e-5)
    check(image_of_weights, floats(5, 8, 9), floats(4, 5, 3, 3, seed=1), tolerance=1e-5)
    check(of_itself, floats(10, 8), tolerance=1e-5)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (padded, ((2, 8, 8, 64), (3, 3, 64, 64))),
        (padded_images, ((2, 64, 8, 8), (64, 64, 3, 3))),
        (one_side, ((3, 24, 64), (3, 64, 64))),
        (weights_first, ((3, 64, 24), (64, 64, 5))),
        (image_of_weights, ((64, 8, 9), (64, 64, 3, 3))),
    ],
)
def test_taps_are_found(function: Any, shapes: Any) -> None:
    plan = str(tw.compile(function, *(tw.spec(shape, "float32") for shape in shapes)).plan)
    assert "conv" in plan
    assert "matmul" not in plan
