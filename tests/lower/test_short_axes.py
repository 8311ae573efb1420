"""Short last axes, such as the coordinates of points, whose elements are arrays of their own until they are reduced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tilewright.lower.decisions import noted

EPSILON = np.float32(0.01)


def forces(p: Any, q: Any, m: Any) -> Any:
    d = p[None, :, :] - q[:, None, :]
    r = (d * d).sum(-1) + EPSILON
    return ((m[None, :] / (r * np.sqrt(r)))[:, :, None] * d).sum(1)


def nearest(p: Any, q: Any, m: Any) -> Any:
    d = ((p[:, None, :] - q[None, :, :]) ** 2).sum(-1)
    return d.argmin(-1), np.sqrt(d.min(-1))


def box(p: Any, q: Any, m: Any) -> Any:
    """Not only sums; and dims that stay."""
    d = np.abs(p[:, None] - q[None])
    return np.where(d.max(-1, keepdims=True) < 1, d.min(-1, keepdims=True), d.prod(-1, keepdims=True)).sum(0)


def between(p: Any, q: Any, m: Any) -> Any:
    """Every element of the axis is an operand with a number for all of them."""
    d = (p[:, None] - q[None]) * m[:, None, None]
    return d.max(0), np.maximum(d, 0).sum(-1)


PROGRAMS = (forces, nearest, box, between)


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_every_element_by_itself(function: Any, count: int):
    """The form gives what the program gives, whether it is the one that takes the least time or not."""
    p, q, m = floats(200, count), floats(200, count, seed=1), np.abs(floats(200, seed=2))
    check(lambda p, q, m: function(p, q, m), p, q, m, targets=("trn2",), tolerance=1e-5)
    kernel = tw.compile(function, p, q, m, target="trn2", schedule="form short axes apart\n")
    results = (each if isinstance(each, tuple) else (each,) for each in (kernel(p, q, m), function(p, q, m)))
    for mine, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-4)


def test_it_is_taken_where_it_takes_less_time():
    with noted() as found:
        kernel = tw.compile(forces, *[tw.spec((512, 3), "float32")] * 2, tw.spec((512,), "float32"), target="trn2")
        assert "form short axes apart" in str(kernel.schedule)
    assert "rule: short axes apart" in found


OTHERS = {
    "the axis is returned": lambda p: p[:, None] - p[None],
    "as much comes in": lambda p: (np.exp(p) * 2).sum(-1),
    "it is put in order": lambda p: np.sort(p[:, None] - p[None], -1).sum(-1),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay_as_they_are(name: str):
    with noted() as found:
        tw.compile(OTHERS[name], tw.spec((300, 3), "float32"), target="trn2").tile_ir  # noqa: B018
    assert "rule: short axes apart" not in found
