"""Reshapes between elementwise work and reductions, operands that rows share, inputs that are read in two shapes."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

from tests.lower.kit import check, fits, floats
from tilewright.lower import forms
from tilewright.lower.decisions import noted


def group_norm(x: Any, g: Any, b: Any) -> Any:
    n, c = x.shape[:2]
    y = x.reshape(n, 4, -1)
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + np.float32(1e-5))
    return y.reshape(x.shape) * g.reshape(c, 1, 1) + b.reshape(c, 1, 1)


def group_norm_of_five_dims(x: Any, g: Any, b: Any) -> Any:
    n, c, h, w = x.shape
    y = x.reshape(n, 4, c // 4, h, w)
    d = y - y.mean((2, 3, 4), keepdims=True)
    y = (d / np.sqrt((d * d).mean((2, 3, 4), keepdims=True) + np.float32(1e-5))).reshape(n, c, h, w)
    return y * g[None, :, None, None] + b[None, :, None, None]


def channels_last(x: Any, g: Any, b: Any) -> Any:
    n, c = x.shape[0], x.shape[-1]
    y = x.reshape(n, -1, 4, c // 4)
    y = (y - y.mean((1, 3), keepdims=True)) / np.sqrt(y.var((1, 3), keepdims=True) + np.float32(1e-5))
    return y.reshape(x.shape) * g + b


def instance_norm(x: Any, g: Any, b: Any) -> Any:
    m, v = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    return (x - m) / np.sqrt(v + np.float32(1e-5)) * g[:, None, None] + b[:, None, None]


def squeeze_and_excite(x: Any, g: Any, b: Any) -> Any:
    return x / (1 + np.exp(-x.mean((2, 3)) * g + b))[:, :, None, None]


def heads(x: Any, g: Any, b: Any) -> Any:
    """A norm of each head, and what all heads together are added to."""
    y = x.reshape(x.shape[0], x.shape[1], -1, 6)
    y = y / np.sqrt((y * y).mean(-1, keepdims=True) + np.float32(1e-6))
    return y.reshape(x.shape) * 2 + x, y.max((2, 3)) * g[0] - b[0]


def tiles(x: Any, g: Any, b: Any) -> Any:
    """Tiles of a picture."""
    y = x.reshape(x.shape[0] // 4, 4, x.shape[1] // 2, -1)
    return (y - y.mean((1, 3), keepdims=True)).reshape(x.shape) * g[0] + x


def uneven(x: Any, g: Any, b: Any) -> Any:
    """Neither shape refines the other, nor is there one that refines both."""
    y = np.exp(x.reshape(4, 9) - g[0])
    z = (y / y.sum(-1, keepdims=True)).reshape(6, 6)
    return (z - z.max(-1, keepdims=True)).reshape(x.shape) + b[0]


def partly(x: Any, g: Any, b: Any) -> Any:
    """Some dims are merged and some are cut, twice."""
    y = np.tanh(x).reshape(6, 4, 15)
    z = (y - y.sum(-1, keepdims=True)).reshape(2, 3, 20, 3)
    w = (z * z.max((1, 3), keepdims=True)).reshape(6, 60)
    return w.sum(-1) * g[0], w.reshape(x.shape) - b[0]


def upsampled(x: Any, g: Any, b: Any) -> Any:
    """Every element twice along both axes, beside what has as many."""
    y = np.repeat(np.repeat(x * g[0], 2, axis=0), 2, axis=1)
    z = np.arange(y.size, dtype=np.float32).reshape(y.shape) * b[0]
    return np.stack([y + z, np.maximum(y, z)], -1)


def demosaic(x: Any, g: Any, b: Any) -> Any:
    """Every other pixel of every other row is a channel."""
    x = x * g[0]
    red, green, blue = x[0::2, 0::2], (x[0::2, 1::2] + x[1::2, 0::2]) * 0.5, x[1::2, 1::2]
    out = np.zeros((*x.shape, 3), x.dtype)
    for i in (0, 1):
        for j in (0, 1):
            out[i::2, j::2, 0], out[i::2, j::2, 1], out[i::2, j::2, 2] = red, green, blue
    out[0::2, 1::2, 1] = x[0::2, 1::2] + b[0]
    return out


def thirds(x: Any, g: Any, b: Any) -> Any:
    """Parts of phases, and rows that no step divides."""
    y = np.tanh(x)
    return y[3::3, 1::2] * g[0] - y[1:-3:3, 0:-1:2], y[:, ::4] + b[0], np.concatenate([y[0::3], y[2::3]], 1)


CASES = {
    "upsampled": (upsampled, (6, 10), 1),
    "demosaic": (demosaic, (12, 10), 1),
    "thirds": (thirds, (12, 10), 1),
    "groups": (group_norm, (3, 8, 5, 7), 8),
    "groups, five dims": (group_norm_of_five_dims, (3, 8, 5, 7), 8),
    "channels last": (channels_last, (3, 5, 7, 8), 8),
    "instances": (instance_norm, (3, 8, 5, 7), 8),
    "squeezed": (squeeze_and_excite, (3, 8, 5, 7), 8),
    "heads": (heads, (2, 5, 18), 3),
    "tiles": (tiles, (12, 10), 1),
    "uneven": (uneven, (6, 6), 2),
    "partly": (partly, (360,), 2),
    "long rows": (group_norm, (2, 8, 40, 40), 8),
    "few long rows": (group_norm_of_five_dims, (1, 8, 48, 48), 8),
}


@pytest.mark.parametrize("name", CASES)
def test_every_form_is_right(name: str, monkeypatch: pytest.MonkeyPatch):
    """Whatever takes less time: the last form is taken."""
    monkeypatch.setattr(forms, "_is_sooner", lambda *_: True)
    monkeypatch.setattr(forms, "_most_ns", lambda *_: inf)
    function, shape, count = CASES[name]
    check(function, floats(*shape), floats(count, seed=1), floats(count, seed=2), tolerance=2e-5)


@pytest.mark.parametrize("function", [group_norm, group_norm_of_five_dims, instance_norm, squeeze_and_excite])
def test_norms_of_channels_move_what_they_must(function: Any):
    x = floats(8, 64, 48, 48)
    kernel = fits(function, x, floats(64), floats(64))
    assert kernel.report.hbm_bytes <= 2.02 * x.nbytes


def joined_with_skip(x: Any, skip: Any) -> Any:
    return np.maximum(np.repeat(np.repeat(x, 2, axis=0), 2, axis=1) + skip, 0)


@pytest.mark.parametrize(
    ("function", "shapes"), [(demosaic, [(512, 256), (1,), (1,)]), (joined_with_skip, [(256, 256), (512, 512)])]
)
def test_phases_and_repeats_stay_on_chip(function: Any, shapes: list[tuple[int, ...]]):
    """Pixels that nothing is made of are read with their neighbours."""
    report = fits(function, *(floats(*shape) for shape in shapes)).report
    assert report.hbm_bytes <= 1.15 * report.compulsory_bytes and report.latency_us <= 2 * report.roofline_us


def test_rows_keep_to_themselves_where_they_lie_across_partitions():
    """What is not finite in a row stays there."""
    x = floats(2, 8, 48, 48)
    x[0, 1, 3, 4], x[1, 5, 0, 0] = np.inf, np.nan
    with np.errstate(all="ignore"):
        check(group_norm, x, floats(8), floats(8), tolerance=2e-5)


def test_an_input_in_two_shapes_is_loaded_once():
    def scaled(x: Any) -> Any:
        y = x.reshape(256, 8, 64)
        return (y / y.sum(-1, keepdims=True)).reshape(256, 512) * x

    x = np.abs(floats(256, 512)) + 1
    with noted() as reached:
        assert check(scaled, x, tolerance=1e-5).report.hbm_bytes <= 2.05 * x.nbytes
    assert "load: once for several shapes" in reached


def test_what_trips_share_is_loaded_once():
    def biased(x: Any, b: Any) -> Any:
        s = x + b[None, :, None, :]
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    x, b = floats(4, 8, 128, 512), floats(8, 512)
    with noted() as reached:
        kernel = fits(biased, x, b)
    assert "load: once for all trips" in reached and kernel.report.hbm_bytes <= 2.05 * x.nbytes
    check(biased, floats(3, 4, 130, 40), floats(4, 40), tolerance=1e-5)
