"""Attention of a few queries with many keys: keys on partitions, each read once."""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.fuzzing.toys import Setting, toys
from tests.lower.kit import TARGETS, check, floats
from tests.lower.test_attention import softmax

Function = Callable[..., np.ndarray]
BF16 = ml_dtypes.bfloat16


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Every query with every key."""
    return softmax(q @ np.swapaxes(k, -1, -2) * np.float32(0.2)) @ v


def repeated(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Heads share keys."""
    return attend(q, *(np.repeat(t, len(q) // len(t), axis=0) for t in (k, v)))


def masked(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """A number for each key is added."""
    return softmax(q @ np.swapaxes(k, -1, -2) + mask) @ v


def up_to(value: float) -> Function:
    """Keys up to a length of each head's own; a number in place of the other scores."""

    def chosen(q: np.ndarray, k: np.ndarray, v: np.ndarray, length: np.ndarray) -> np.ndarray:
        scores = q @ np.swapaxes(k, -1, -2) / np.float32(4)
        valid = np.arange(k.shape[-2])[None, :] < length[:, None]
        return softmax(np.where(valid[:, None, :], scores, np.float32(value))) @ v

    return chosen


def left_out(q: np.ndarray, k: np.ndarray, v: np.ndarray, gone: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Keys that are left out, and a number that is added to the others, for all heads."""
    scores = q @ np.swapaxes(k, -1, -2) * np.float32(0.3) + bias[None, None]
    return softmax(np.where(gone, np.float32(-1e9), scores)) @ v


def far(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A number for each key and head that is computed, less the farther it is."""
    bias = -scale[:, None] * np.arange(k.shape[-2])[::-1].astype(np.float32)
    return softmax(q @ np.swapaxes(k, -1, -2) + bias[:, None, :]) @ v


def turned(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Keys are stored as they are multiplied, and weights are rounded."""
    return softmax(q @ k).astype(v.dtype) @ v


def by_positions(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Positions come before heads."""
    return attend(*(t.transpose(1, 0, 2) for t in (q, k, v))).transpose(1, 0, 2)


def arrays(*shapes: tuple[int, ...], narrow: str = "") -> tuple[np.ndarray, ...]:
    """Arguments; the letters say which are bfloat16."""
    made = (floats(*shape, seed=i) for i, shape in enumerate(shapes))
    return tuple(x.astype(BF16) if "qkvm"[i] in narrow else x for i, x in enumerate(made))


CASES: dict[str, tuple[Function, tuple[np.ndarray, ...], float]] = {
    "one query": (attend, arrays((1, 64), (1024, 64), (1024, 200)), 1e-5),
    "heads, odd": (attend, arrays((3, 1, 64), (3, 1500, 64), (3, 1500, 40)), 1e-5),
    "several chunks": (attend, arrays((2, 3, 32), (2, 8400, 32), (2, 8400, 8)), 1e-5),
    "narrow": (attend, arrays((3, 2, 32), (3, 1100, 32), (3, 1100, 40), narrow="qkv"), 1e-5),
    "narrow keys": (attend, arrays((2, 2, 32), (2, 1100, 32), (2, 1100, 40), narrow="kv"), 1e-5),
    "shared": (repeated, arrays((6, 1, 32), (2, 1100, 32), (2, 1100, 40), narrow="kv"), 1e-5),
    "masked": (masked, arrays((2, 2, 1, 64), (2, 2, 1100, 64), (2, 2, 1100, 64), (2, 1, 1, 1100)), 1e-5),
    "masked, several queries": (masked, arrays((3, 5, 32), (3, 1100, 32), (3, 1100, 16), (3, 1, 1100)), 1e-5),
    "up to a length": (
        up_to(-1e9),
        (*arrays((4, 3, 32), (4, 1100, 32), (4, 1100, 40)), np.array([7, 1100, 300, 0], np.int32)),
        1e-5,
    ),
    "nothing beyond": (
        up_to(-np.inf),
        (*arrays((3, 2, 8), (3, 4200, 8), (3, 4200, 8)), np.array([5, 4200, 4000], np.int32)),
        1e-5,
    ),
    "left out": (
        left_out,
        (*arrays((2, 3, 16), (2, 1200, 16), (2, 1200, 16)), floats(1200, seed=5) > 0.5, floats(1200, seed=6)),
        1e-5,
    ),
    "far": (far, (*arrays((3, 2, 16), (3, 1030, 16), (3, 1030, 16)), np.abs(floats(3, seed=8)) / 100), 1e-5),
    "turned": (turned, arrays((2, 4, 32), (2, 32, 1300), (2, 1300, 16), narrow="qkv"), 1e-2),
    "by positions": (by_positions, arrays((1, 5, 32), (1024, 5, 32), (1024, 5, 32)), 1e-5),
}


@pytest.mark.parametrize("name", CASES)
def test_few_queries(name: str):
    function, args, tolerance = CASES[name]
    kernel = check(function, *args, tolerance=tolerance, targets=TARGETS if len(args) > 3 else ())
    assert "few queries" in str(kernel.plan)
    # Masks that are computed pass through HBM.
    assert kernel.report.hbm_bytes <= (1.1 if len(args) > 3 else 1.01) * kernel.report.compulsory_bytes


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_no_number(value: float):
    """A key that is no number makes no number of its own head alone."""
    q, k, v = arrays((3, 1, 16), (3, 1030, 16), (3, 1030, 16))
    k[1, 7, 3] = value
    check(attend, q, k, v, tolerance=1e-5)


@pytest.mark.parametrize("heads", [1, 3])
def test_heads_that_lie_beside_each_other_come_together(heads: int):
    """As many as are asked for, those that are left by themselves; with others between them each by itself."""
    args = arrays((5, 2, 16), (1100, 5, 16), (1100, 5, 16), narrow="kv")
    wide = arrays((5, 2, 16), (1100, 10, 16), (1100, 10, 16), narrow="kv")

    def by_heads(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        return attend(q, *(t.transpose(1, 0, 2)[:5].astype(np.float32) for t in (k, v)))

    def every_other(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        return attend(q, *(t.transpose(1, 0, 2)[::2].astype(np.float32) for t in (k, v)))

    for function, given in ((by_heads, args), (every_other, wide)):
        found = tw.compile(function, *given, check="off")
        text = re.sub(r"write few queries.*", f"write few queries, heads {heads}", str(found.schedule))
        made = tw.compile(function, *given, check="off", schedule=text)
        assert f"heads {heads}" in str(made.schedule)
        np.testing.assert_allclose(made.simulate(*given), function(*given), atol=1e-5)


def test_short_runs_of_heads_come_together():
    specs = [tw.spec((16, 128), "bfloat16"), *(tw.spec((2048, 16, 128), "bfloat16") for _ in range(2))]

    def decode(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        return attend(q[:, None], *(t.transpose(1, 0, 2) for t in (k, v)))

    kernel = tw.compile(decode, *specs, check="off")
    assert "heads" in str(kernel.schedule)
    assert kernel.report.latency_us < 1.7 * kernel.report.roofline_us


@pytest.mark.parametrize("toy", toys())
def test_on_a_few_partitions(toy: str):
    q, k, v = arrays((3, 2, 4), (3, 40, 4), (3, 40, 4))
    with Setting(toy).in_force():
        check(up_to(-1e9), q, k, v, np.array([7, 40, 30], np.int32), tolerance=1e-5, targets=(toys()[toy],))


def test_many_queries_are_rows():
    kernel = tw.compile(attend, *(tw.spec((2, 512, 32), "float32") for _ in range(3)))
    assert "few queries" not in str(kernel.plan)


@pytest.mark.parametrize("toy", ["toy2", "toy3"])
def test_keys_wider_than_the_partitions(toy: str):
    """Their elements do not fit beside each other on partitions: another way takes them."""
    q, k, v = arrays((2, 2, 20), (2, 40, 20), (2, 40, 4))
    with Setting(toy).in_force():
        check(attend, q, k, v, tolerance=2e-5, targets=(toys()[toy],))
