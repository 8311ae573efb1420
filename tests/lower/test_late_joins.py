"""Joins of parts that are computed with: part by part, and written to where the join has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tilewright.lower.decisions import noted


def grown(size: int, factor: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neighbours of each line of an image that is so many times as large, and the share of the second."""
    at = (np.arange(factor * size) + 0.5) / factor - 0.5
    low = np.clip(np.floor(at), 0, size - 1).astype(int)
    return low, np.minimum(low + 1, size - 1), np.clip(at - low, 0, 1).astype(np.float32)


def channels_first(x: Any, factor: int = 2) -> Any:
    low, high, t = grown(x.shape[-2], factor)
    lines = x[:, :, low] * (1 - t)[:, None] + x[:, :, high] * t[:, None]
    low, high, t = grown(x.shape[-1], factor)
    return lines[..., low] * (1 - t) + lines[..., high] * t


def channels_last(x: Any, factor: int = 2) -> Any:
    low, high, t = grown(x.shape[1], factor)
    t = t[:, None, None]
    lines = x[:, low] * (1 - t) + x[:, high] * t
    low, high, t = grown(x.shape[2], factor)
    t = t[:, None]
    return lines[:, :, low] * (1 - t) + lines[:, :, high] * t


def corners(x: Any) -> Any:
    """With the corners of the image where they were: an odd number of lines."""
    at = np.linspace(0, x.shape[-1] - 1, 2 * x.shape[-1] - 1)
    low = np.floor(at).astype(int)
    t = (at - low).astype(np.float32)
    return x[..., low] * (1 - t) + x[..., np.minimum(low + 1, x.shape[-1] - 1)] * t


def in_thirds(x: Any) -> Any:
    return channels_first(x, 3)


def beside_another(x: Any, y: Any) -> Any:
    return np.maximum(np.stack([x, -x], -1).reshape(x.shape[0], -1) * 2, y) + np.arange(2, dtype=np.float32)[:1]


PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (channels_first, (floats(2, 3, 17, 8),)),
    (channels_first, (floats(4, 32, 8, 8),)),
    (channels_last, (floats(2, 16, 9, 5),)),
    (channels_last, (floats(1, 40, 20, 16),)),
    (in_thirds, (floats(3, 16, 6, 7),)),
    (corners, (floats(130, 33),)),
    (corners, (floats(3, 5, 12),)),
    (beside_another, (floats(70, 24), floats(70, 48, seed=1))),
]


@pytest.mark.parametrize(("function", "arguments"), PROGRAMS)
def test_what_grows(function: Any, arguments: tuple[Any, ...]):
    check(function, *arguments, tolerance=1e-6)


def test_parts_are_computed_before_they_are_joined():
    with noted() as notes:
        kernel = tw.compile(channels_first, tw.spec((4, 32, 64, 64), np.float32), check="off")
        report = kernel.report
    assert {"rule: joined late, in turn", "rule: joined late, one after the other"} <= set(notes)
    assert str(kernel.schedule).splitlines()[1] == "form late joins"
    # x is read once, the result written once; each of its elements is a product and a product added to that.
    assert report.hbm_bytes <= 1.01 * report.compulsory_bytes
    elements = 4 * 32 * (128 * 64 + 128 * 128) / 128
    assert sum(report.engine_busy_us[each] for each in ("vector", "gpsimd", "scalar")) * 0.96e3 <= 3 * elements


def test_the_rest_behind_the_last_turn():
    report = tw.compile(corners, tw.spec((512, 257), np.float32), check="off").report
    assert report.hbm_bytes <= 1.01 * report.compulsory_bytes


def test_a_form_is_found_again_by_its_name():
    x = floats(4, 32, 8, 8)
    found = tw.compile(channels_first, x, check="off")
    text = str(found.schedule)
    assert "form late joins" in text
    again = tw.compile(channels_first, x, schedule=text, check="off")
    assert again.report.latency_us == found.report.latency_us
    np.testing.assert_allclose(again(x), channels_first(x), rtol=1e-5, atol=1e-6)


def apart(x: Any, y: Any) -> Any:
    """Parts that differ in their rows, of a join whose rows no group has."""
    return np.concatenate([np.exp(x), np.tanh(y)], 0)


def test_parts_of_a_join_are_written_to_their_place():
    check(apart, floats(130, 160), floats(257, 160, seed=1), tolerance=1e-5)
    specs = tw.spec((1024, 512), np.float32), tw.spec((2048, 512), np.float32)
    report = tw.compile(apart, *specs, check="off").report
    assert report.hbm_bytes == report.compulsory_bytes


def read_besides(x: Any, y: Any) -> Any:
    a, b = np.exp(x), np.tanh(y)
    return np.concatenate([a, b], 0), a.sum(1), np.concatenate([b * 2, a], 0).T


def test_parts_that_others_read_too():
    check(read_besides, floats(130, 200), floats(60, 200, seed=1), tolerance=1e-5)
