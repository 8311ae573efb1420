"""Which dims lie on partitions: what takes least time, not what holds the most ops; long axes in lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tilewright.lower.tuning import tuned


def sum_of_rows(x: Any) -> Any:
    return np.exp(x).sum(1).mean()


def gated(x: Any, g: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g * np.tanh(g)


def symmetric(x: Any) -> Any:
    return 0.5 * (x + x.transpose(0, 2, 1))


def chain(u: Any, v: Any) -> Any:
    z = np.sqrt(np.abs(u) + 1) * np.tanh(v)
    w = np.exp(0.1 * z) + u * v
    return np.maximum(w - 1, 0).mean(), w.max()


def returned(u: Any, v: Any) -> Any:
    """What leads to the reduction is returned too, and read by something else."""
    c = u + 0.1 * v
    return c, (c * c).sum(), c[:7]


def centred(u: Any, v: Any) -> Any:
    """The second reduction needs the first."""
    d = u - u.mean()
    return (d * d).sum(), (d * v).min()


def rows_of_lines(u: Any, v: Any) -> Any:
    return np.abs(u.reshape(4, -1) - v[0]).max(-1), (u.reshape(4, -1) * v.reshape(4, -1)).sum(-1, keepdims=True)


def test_much_work_is_not_left_to_one_partition() -> None:
    report = tw.compile(sum_of_rows, tw.spec((2048, 512), np.float32)).report
    assert report.latency_us < 3 * report.roofline_us


def test_the_clock_decides_between_layouts() -> None:
    """Rows of 64 numbers: many of them lie together in memory, where one dim of rows alone gives short transfers."""
    shape = tw.spec((64, 1024, 64), np.float32)
    k = tw.compile(gated, shape, shape)
    assert k.report.latency_us < 1.2 * k.report.roofline_us
    assert "65536 rows instead of 1024" in str(k.plan)
    check(gated, floats(3, 256, 16), floats(3, 256, 16, seed=1), tolerance=1e-5)
    check(symmetric, floats(3, 256, 256))


def test_long_axes_are_reduced_in_lines() -> None:
    k = tw.compile(chain, *(tw.spec((1 << 21,), np.float32),) * 2)
    assert k.report.hbm_bytes < 1.1 * k.report.compulsory_bytes
    with tuned(line=64):
        args = floats(60000), floats(60000, seed=1)
        for fn in (chain, returned, centred, rows_of_lines):
            check(fn, *args, tolerance=1e-5)


@pytest.mark.parametrize("size", [1, 127, 8192, 8193, 9 * 1024])
def test_axes_of_any_length(size: int) -> None:
    with tuned(line=16):
        check(chain, floats(size), floats(size, seed=1), tolerance=1e-5)
        check(returned, floats(size), floats(size, seed=1), tolerance=1e-5)


def divergence(a: Any, b: Any) -> Any:
    p, q = np.exp(a - a.max(-1, keepdims=True)), b - b.max(1)[:, None]
    return (p / p.sum(-1, keepdims=True) * (a - q)).sum(-1) + np.log(np.exp(q).sum(-1))


def test_rows_of_two_arrays_that_meet_are_reduced_in_one_group() -> None:
    check(divergence, floats(150, 300), floats(150, 300, seed=1), tolerance=1e-5)
    a = tw.spec((1024, 2048), np.float32)
    kernel = tw.compile(divergence, a, a, check="off")
    assert kernel.report.hbm_bytes <= 1.01 * (2 * 1024 * 2048 + 1024) * 4


def enlarged(x: Any) -> Any:
    size = x.shape[-1]
    place = (np.arange(2 * size) + 0.5) / 2 - 0.5
    low = np.clip(np.floor(place).astype(int), 0, size - 1)
    high, t = np.clip(low + 1, 0, size - 1), np.clip(place - low, 0, 1).astype(np.float32)
    rows = x[:, low] * (1 - t)[:, None] + x[:, high] * t[:, None]
    return rows[..., low] * (1 - t) + rows[..., high] * t


def test_what_does_not_fit_is_two_groups() -> None:
    """On trn1 a partition has no room for a whole picture and all that is made of it."""
    x = floats(128, 72, 72)
    kernel = tw.compile(enlarged, x, target="trn1", check="off")
    assert kernel.report.hbm_bytes < 76e6
    assert "two groups" in str(kernel.plan)
    np.testing.assert_allclose(kernel(x), enlarged(x), rtol=1e-5, atol=1e-6)


def per_head(q: Any, k: Any) -> Any:
    """What all heads' rows are made of at once is the left operand of a product for each head."""
    made = np.where(q > 0, q + 1, np.exp(np.minimum(q, 0)))
    return made @ np.tanh(k).sum(1)[..., None]


def all_heads(q: Any, k: Any, w: Any) -> Any:
    """The products of each head are the rows of one product."""
    scores = q @ k
    z = scores * np.tanh(scores.mean())
    return z.reshape(-1, z.shape[-1]) @ w


@pytest.mark.parametrize(
    ("function", "shapes"),
    [(per_head, [(4, 256, 32), (4, 256, 32)]), (all_heads, [(4, 256, 32), (4, 32, 64), (64, 16)])],
)
def test_blocks_of_rows_are_numbered_anew_where_they_lie(function: Any, shapes: list[tuple[int, ...]]) -> None:
    k = check(function, *[floats(*shape, seed=i) for i, shape in enumerate(shapes)], tolerance=1e-4)
    assert k.report.hbm_bytes <= 1.01 * k.report.compulsory_bytes


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("begin", [0, 1])
def test_columns_with_others_between_them_are_turned(begin: int, step: int) -> None:
    with tuned(turned_ns=0):
        check(lambda x: np.exp(x[:, begin::step].T), floats(96, 256))
        check(lambda x: np.tanh(x.reshape(96, 32, 8)[:, :, begin::step].transpose(1, 2, 0)), floats(96, 256))
