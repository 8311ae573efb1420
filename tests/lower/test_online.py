"""Attention by parts of rows: chunks of columns, panels of them, sums rescaled on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.compiler import Compiled
from tilewright.lower.choose import fit, ways
from tilewright.lower.products.online import Sizes

BF16 = np.dtype(ml_dtypes.bfloat16)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def plain(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ np.swapaxes(k, -1, -2) * 0.2) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    n = q.shape[-2]
    return softmax(q @ np.swapaxes(k, -1, -2) * 0.2 + np.triu(np.full((n, n), -1e9, np.float32), k=1)) @ v


def hidden(q: Any, k: Any, v: Any) -> Any:
    n = q.shape[-2]
    columns, rows = np.arange(n)[None, :], np.arange(n)[:, None]
    return softmax(np.where(columns <= rows, q @ np.swapaxes(k, -1, -2) * 0.2, np.float32(-1e9))) @ v


def hidden_ahead(q: Any, k: Any, v: Any) -> Any:
    n = q.shape[-2]
    return softmax(np.where(np.triu(np.ones((n, n), bool), 1), -np.inf, q @ np.swapaxes(k, -1, -2) * 0.2)) @ v


def soft_band(q: Any, k: Any, v: Any) -> Any:
    n, m = q.shape[-2], k.shape[-2]
    return softmax(q @ np.swapaxes(k, -1, -2) + np.triu(np.full((n, m), -3.0, np.float32), k=-40)) @ v


def looking_ahead(q: Any, k: Any, v: Any) -> Any:
    n, m = q.shape[-2], k.shape[-2]
    return softmax(q @ np.swapaxes(k, -1, -2) + np.tril(np.full((n, m), -3.0, np.float32), k=7)) @ v


def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return softmax(q @ np.swapaxes(k, -1, -2) + mask) @ v


def turned_keys(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k) @ v


def narrow(q: Any, k: Any, v: Any) -> Any:
    scores = (q @ np.swapaxes(k, -1, -2)).astype(np.float32) * 0.1
    return softmax(scores).astype(q.dtype) @ v


def arrays(*shapes: tuple[int, ...], dtype: Any = np.float32) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)


def without_last_keys(given: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """What a row does not see is no number: nothing of it may come through."""
    given[1][-100:] = np.nan
    return given


CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], Sizes]] = {
    "one chunk": (plain, arrays((256, 32), (640, 32), (640, 16)), Sizes(640, 256)),
    "two chunks": (plain, arrays((200, 32), (700, 32), (700, 16)), Sizes(512, 256)),
    "five chunks": (plain, arrays((130, 128), (640, 128), (640, 130)), Sizes(128, 128)),
    "few rows": (plain, arrays((3, 8), (300, 8), (300, 8)), Sizes(256, 128)),
    "batches": (plain, arrays((2, 3, 140, 16), (2, 3, 300, 16), (2, 3, 300, 8)), Sizes(256, 128)),
    "causal": (causal, arrays((1024, 32), (1024, 32), (1024, 32)), Sizes(1024, 256)),
    "causal chunks": (causal, arrays((1536, 32), (1536, 32), (1536, 32)), Sizes(1024, 512)),
    "causal, odd": (causal, arrays((2, 1100, 16), (2, 1100, 16), (2, 1100, 16)), Sizes(1024, 512)),
    "hidden": (hidden, arrays((1024, 32), (1024, 32), (1024, 32)), Sizes(1024, 256)),
    "hidden chunks": (hidden_ahead, arrays((1536, 32), (1536, 32), (1536, 32)), Sizes(1024, 512)),
    "hidden, odd": (hidden_ahead, arrays((2, 1100, 16), (2, 1100, 16), (2, 1100, 16)), Sizes(1024, 512)),
    "hidden from all": (hidden, without_last_keys(arrays((768, 16), (768, 16), (768, 8))), Sizes(512, 256)),
    "a band": (soft_band, arrays((300, 16), (700, 16), (700, 16)), Sizes(384, 128)),
    "the other way": (looking_ahead, arrays((300, 16), (700, 16), (700, 16)), Sizes(384, 128)),
    "a mask": (masked, arrays((300, 16), (700, 16), (700, 16), (300, 700)), Sizes(384, 128)),
    "keys as they are": (turned_keys, arrays((300, 16), (16, 700), (700, 16)), Sizes(384, 128)),
    "narrow": (narrow, arrays((256, 64), (512, 64), (512, 64), dtype=BF16), Sizes(512, 256)),
    "narrow beside wide": (
        plain,
        (*arrays((2, 2, 200, 32)), *arrays((2, 1, 700, 32), (2, 1, 700, 16), dtype=BF16)),
        Sizes(512, 256),
    ),
    "narrow keys as they are": (
        turned_keys,
        (*arrays((2, 2, 140, 16)), *arrays((2, 1, 16, 300), (2, 1, 300, 16), dtype=BF16)),
        Sizes(300, 300),
    ),
    "shared": (plain, arrays((2, 3, 140, 16), (2, 1, 300, 16), (2, 1, 300, 8)), Sizes(300, 300)),
    "shared by all": (causal, arrays((2, 512, 16), (512, 16), (512, 8)), Sizes(512, 256)),
}


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("name", CASES)
def test_parts_of_rows(name: str, target: str, monkeypatch: pytest.MonkeyPatch):
    function, given, sizes = CASES[name]
    every = ways.ways
    only = lambda low, group: ways._online(low, group) if len(group.ops) > 4 else every(low, group)  # noqa: E731
    monkeypatch.setattr(fit, "ways", only)
    monkeypatch.setattr(ways, "sizes_of", lambda columns: [sizes])
    kernel = tw.compile(function, *given, target=target, schedule="form plain")
    assert isinstance(kernel, Compiled)
    assert "factor" in str(kernel.tile_ir), "written another way"
    got = np.asarray(kernel.simulate(*given), np.float64)
    wanted = np.asarray(function(*(a.astype(np.float32) for a in given)), np.float64)
    tolerance = 1e-5 if given[0].dtype == np.float32 else 2e-2
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    assert np.nanmax(np.abs(got - wanted)) <= tolerance * np.nanmax(np.abs(wanted))


def test_the_spelling_of_a_mask_hardly_matters():
    """16,384 positions that a condition hides took four times as long as those to which a mask is added."""
    shapes = [tw.spec((16384, 128), "float32")] * 3
    added, chosen = (tw.compile(each, *shapes, target="trn2").report for each in (causal, hidden))
    assert chosen.latency_us <= 1.06 * added.latency_us
    assert chosen.hbm_bytes == added.hbm_bytes
