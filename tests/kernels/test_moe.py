"""A mixture of experts against every token by itself, in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.kernels.near import error, normal
from tilewright.kernels.moe import blocks_of_tokens

MOE = tw.kernels.moe


def layer(tokens: int, d: int, experts: int, hidden: int) -> tuple[np.ndarray, ...]:
    shapes = (tokens, d), (d, experts), (experts, d, hidden), (experts, d, hidden), (experts, hidden, d)
    scales = 1.0, 0.2, 0.1, 0.1, 0.1
    return tuple(
        normal(*shape, seed=i, scale=scale) for i, (shape, scale) in enumerate(zip(shapes, scales, strict=True))
    )


@pytest.mark.parametrize(("tokens", "experts", "k"), [(1, 1, 1), (150, 5, 2), (20, 12, 8)])
def test_experts(tokens: int, experts: int, k: int) -> None:
    arguments = layer(tokens, 128, experts, 256)
    assert error(MOE(*arguments, k=k), MOE.exact(*arguments, k=k)) < 3e-6


def test_an_expert_with_more_than_a_block() -> None:
    """All tokens choose the same expert, whose tokens take more than one block."""
    x, router, gate, up, down = layer(530, 128, 3, 128)
    router[:] = 0
    router[:, 1] = np.sign(x.mean(0)) * 5
    x = np.abs(x) * np.sign(x.mean(0))
    assert error(MOE(x, router, gate, up, down, k=1), MOE.exact(x, router, gate, up, down, k=1)) < 3e-6


def test_bfloat16() -> None:
    arguments = [each.astype(ml_dtypes.bfloat16) for each in layer(40, 128, 3, 128)]
    made = MOE(*arguments, target="trn3")
    assert made.dtype == ml_dtypes.bfloat16 and error(made, MOE.exact(*arguments)) < 2**-5


def test_every_pair_has_its_place() -> None:
    chosen = np.random.default_rng(0).permuted(np.tile(np.arange(6), (50, 1)), axis=1)[:, :3]
    tokens, owners, places = blocks_of_tokens(chosen, 6, 8)
    flat = tokens.reshape(-1)
    assert len(set(places.reshape(-1).tolist())) == 150
    for token in range(50):
        assert (flat[places[token]] == token).all() and (owners[places[token] // 8] == chosen[token]).all()


@pytest.mark.parametrize(
    ("change", "options", "code"),
    [
        (lambda a: (a[0][:, :100], a[1][:100], *a[2:]), {}, "E103"),
        (lambda a: a, {"k": 9}, "E108"),
        (lambda a: a, {"target": "trn1"}, "E106"),
        (lambda a: (*a[:4], a[4][:, :10]), {}, "E103"),
    ],
)
def test_refusals(change: Any, options: dict, code: str) -> None:
    with pytest.raises(tw.TileError) as caught:
        MOE(*change(layer(8, 128, 3, 128)), **options)
    assert caught.value.diagnostic.code == code
