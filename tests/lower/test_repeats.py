"""Heads that share keys: what is repeated is read as it is, and results that are views are written at once."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tests.lower.test_attention import softmax

Function = Callable[..., np.ndarray]


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Attention of every head, looking back only."""
    scores = q @ np.swapaxes(k, -1, -2) * np.float32(0.25)
    mask = np.triu(np.full(scores.shape[-2:], -1e9, np.float32), 1)
    return softmax(scores + mask) @ v


def repeated(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Keys and values are repeated."""
    return attend(q, *(np.repeat(t, len(q) // len(t), axis=0) for t in (k, v)))


def tiled(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Neighbouring heads have different keys: nothing is repeated in a row."""
    return attend(q, *(np.tile(t, (len(q) // len(t), 1, 1)) for t in (k, v)))


def spread(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The same by a broadcast and a reshape."""
    n = len(q) // len(k)
    wide = (np.broadcast_to(t[:, None], (len(t), n, *t.shape[1:])).reshape(len(q), *t.shape[1:]) for t in (k, v))
    return attend(q, *wide)


def grouped(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Queries of a key's heads together."""
    by_key = q.reshape(len(k), -1, *q.shape[1:])
    return attend(by_key, k[:, None], v[:, None]).reshape(q.shape)


def positions_first(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Heads stand between positions and width, here and in the result."""
    n = q.shape[1] // k.shape[1]
    k, v = (np.repeat(t, n, axis=1) for t in (k, v))
    return attend(*(t.transpose(1, 0, 2) for t in (q, k, v))).transpose(1, 0, 2)


def biased(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """A number for every head and pair."""
    k, v = (np.repeat(t, len(q) // len(t), axis=0) for t in (k, v))
    return softmax(q @ k.transpose(0, 2, 1) + bias) @ v


def weighed(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Something else is added to every score, which leaves no group that could write the result in its order."""
    q, k, v = (t.transpose(1, 0, 2) for t in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2)
    waves = np.cos(np.arange(scores[0].size, dtype=np.float32).reshape(scores.shape[1:]))
    return (softmax(scores + waves) @ v).transpose(1, 0, 2)


def one_key(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """All heads share them."""
    return attend(q, k, v)


def without_mask(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A single query for each head, joined at the end."""
    k, v = (np.repeat(t, q.shape[1] // t.shape[1], axis=1) for t in (k, v))
    out = softmax(q @ np.swapaxes(k, -1, -2)) @ v
    return out.transpose(0, 2, 1, 3).reshape(len(q), q.shape[2], -1)


def heads(*shape: int) -> np.ndarray:
    """The operand of a head."""
    return floats(*shape, seed=len(shape) + shape[0])


CASES: dict[str, tuple[Function, tuple[np.ndarray, ...]]] = {
    "repeated": (repeated, (heads(6, 140, 16), heads(2, 140, 16), heads(2, 140, 24))),
    "tiled": (tiled, (heads(4, 40, 16), heads(2, 40, 16), heads(2, 40, 24))),
    "spread": (spread, (heads(4, 130, 16), heads(2, 130, 16), heads(2, 130, 16))),
    "grouped": (grouped, (heads(4, 130, 16), heads(2, 130, 16), heads(2, 130, 16))),
    "positions first": (positions_first, (heads(256, 4, 16), heads(256, 2, 16), heads(256, 2, 16))),
    "weighed": (weighed, (heads(200, 2, 16), heads(200, 2, 16), heads(200, 2, 16))),
    "one head of a batch": (one_key, (heads(1, 384, 40), heads(1, 384, 40), heads(1, 384, 40))),
    "biased": (biased, (heads(4, 30, 16), heads(2, 70, 16), heads(2, 70, 16), heads(4, 30, 70))),
    "one key": (one_key, (heads(3, 130, 16), heads(130, 16), heads(130, 16))),
    "one query": (without_mask, (heads(2, 6, 1, 16), heads(2, 3, 150, 16), heads(2, 3, 150, 16))),
    "narrow": (repeated, tuple(heads(n, 130, 16).astype(ml_dtypes.bfloat16) for n in (4, 2, 2))),
}


@pytest.mark.parametrize("name", CASES)
def test_heads_that_share(name: str):
    function, args = CASES[name]
    check(function, *args, tolerance=2e-5)


@pytest.mark.parametrize("name", ["repeated", "spread", "grouped", "positions first", "one key", "narrow"])
def test_nothing_is_copied(name: str):
    """Few positions are done sooner with scores in HBM; these are not."""
    function, args = CASES[name]
    long = [np.repeat(x, 2, axis=-2) if x.shape[-2] in (130, 140) else x for x in args]
    report = tw.compile(function, *long, target="trn2").report
    assert report.hbm_bytes == report.compulsory_bytes


@pytest.mark.parametrize("shape", [(2, 4, 3, 4), (3, 4, 128, 5)], ids=str)
def test_right_operands_of_fewer_dims(shape: tuple[int, ...]):
    """Dims are counted from the last: the heads of the one are the second dim of the other."""
    x, k = floats(*shape), floats(2, shape[-1], 5, seed=1)
    check(lambda x, k: x @ np.repeat(k, 2, axis=0), x, k, tolerance=1e-5)
