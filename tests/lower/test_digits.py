"""Reshapes between elementwise work and reductions, operands that rows share, inputs that are read in two shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.kit import check, fits, floats
from tilewright.lower import lowering
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


CASES = {
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
    monkeypatch.setattr(lowering, "_is_sooner", lambda *_: True)
    function, shape, count = CASES[name]
    check(function, floats(*shape), floats(count, seed=1), floats(count, seed=2), tolerance=2e-5)


@pytest.mark.parametrize("function", [group_norm, group_norm_of_five_dims, instance_norm, squeeze_and_excite])
def test_norms_of_channels_move_what_they_must(function: Any):
    x = floats(8, 64, 48, 48)
    kernel = fits(function, x, floats(64), floats(64))
    assert kernel.report.hbm_bytes <= 2.02 * x.nbytes


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
