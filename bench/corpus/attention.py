"""Attention and what belongs to it."""

from __future__ import annotations

import numpy as np

from bench.corpus.program import Arrays, Program, normal
from bench.corpus.rowwise import softmax

MASKED = -1e9


def rotary_tables(length: int, width: int, base: float = 1e6) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of every position's angles, float32[length, width / 2] each."""
    pace = base ** (-np.arange(0, width, 2, dtype=np.float64) / width)
    angles = np.outer(np.arange(length, dtype=np.float64), pace)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def causal_mask(length: int) -> np.ndarray:
    """What is added to the scores: a large negative number above the diagonal."""
    return np.triu(np.full((length, length), MASKED, np.float32), k=1)


def attention_causal(q, k, v):
    """One head; the mask is a constant of the program."""
    return attention_masked(q, k, v, causal_mask(q.shape[0]))


def attention_masked(q, k, v, mask):
    """One head; the mask is an argument."""
    scale = 1.0 / np.sqrt(np.float64(q.shape[1]))
    return softmax((q @ np.transpose(k)) * float(scale) + mask) @ v


def one_head(length: int, width: int = 128) -> Arrays:
    """Arguments of `attention_causal`."""
    return normal(length, width), normal(length, width, seed=1), normal(length, width, seed=2)


def multi_head(x, wq, wk, wv, wo):
    """Attention of 8 heads with its four projections."""
    length, heads, width = x.shape[0], 8, 64

    def by_head(weight):
        return np.transpose((x @ weight).reshape(length, heads, width), (1, 0, 2))

    weights = softmax((by_head(wq) @ np.transpose(by_head(wk), (0, 2, 1))) * 0.125)
    mixed = np.transpose(weights @ by_head(wv), (1, 0, 2))
    return mixed.reshape(length, heads * width) @ wo


def rope(x, cos, sin):
    """Rotary embedding of [positions, heads, width]: the two halves of the width are the pairs."""
    half = x.shape[-1] // 2
    c, s = np.expand_dims(cos, 1), np.expand_dims(sin, 1)
    low, high = x[:, :, :half], x[:, :, half:]
    return np.concatenate([low * c - high * s, low * s + high * c], axis=-1)


def rope_of_constants(x):
    """The same with tables that the program makes itself."""
    return rope(x, *rotary_tables(512, 128))


def scores(q, k):
    """Every query with every key, head by head."""
    return np.einsum("hqd,hkd->hqk", q, k)


def _projections() -> Arrays:
    return normal(512, 512), *(normal(512, 512, scale=512**-0.5, seed=i) for i in range(1, 5))


PROGRAMS = [
    *(
        program
        for n in (1024, 4096)
        for program in (
            Program(f"attention_causal_s{n}_d128", attention_causal, lambda n=n: one_head(n)),
            Program(
                f"attention_causal_maskarg_s{n}_d128", attention_masked, lambda n=n: (*one_head(n), causal_mask(n))
            ),
        )
    ),
    Program("mha_h8_s512_d64", multi_head, _projections),
    Program("rope_512x16x128", rope, lambda: (normal(512, 16, 128), *rotary_tables(512, 128))),
    Program("rope_const_tables_512x16x128", rope_of_constants, lambda: (normal(512, 16, 128),)),
    Program("einsum_qk_h8_s512_d64", scores, lambda: (normal(8, 512, 64), normal(8, 512, 64, seed=1))),
]
