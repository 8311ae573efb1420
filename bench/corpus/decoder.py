"""A decoder layer with the sizes of Qwen3-Embedding-0.6B.

Norm, grouped-query attention (heads normed and rotated), sum; norm, gated feed-forward, sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.corpus.attention import rotary_tables
from bench.corpus.program import BF16, F32, SHORT_NAMES, Arrays, Program, normal


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is fixed in a layer; `length` is the number of positions."""

    length: int = 128
    hidden: int = 1024
    heads: int = 16
    shared_heads: int = 8
    width: int = 128
    inner: int = 3072
    epsilon: float = 1e-6
    masked: float = -1e4


def decoder_layer(sizes: Sizes):
    """The layer as a function of x and its weights."""

    def norm(x, weight):
        wide = x.astype(np.float32)
        factor = 1.0 / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + sizes.epsilon)
        return (wide * factor).astype(x.dtype) * weight

    def rotate(x, cos, sin):
        half = x.shape[-1] // 2
        c, s = cos[None, :, None, :], sin[None, :, None, :]
        low, high = x[..., :half].astype(np.float32), x[..., half:].astype(np.float32)
        return np.concatenate([low * c - high * s, high * c + low * s], axis=-1).astype(x.dtype)

    def attention(x, w_qkv, w_out, q_norm, k_norm, cos, sin):
        batch, length, _ = x.shape
        heads, shared, width = sizes.heads, sizes.shared_heads, sizes.width
        q, k, v = np.split(x @ w_qkv, [heads * width, (heads + shared) * width], axis=-1)
        q = rotate(norm(q.reshape(batch, length, heads, width), q_norm), cos, sin)
        k = rotate(norm(k.reshape(batch, length, shared, width), k_norm), cos, sin)
        v = v.reshape(batch, length, shared, width)
        k, v = (np.repeat(t, heads // shared, axis=2) for t in (k, v))
        q, k, v = (t.transpose(0, 2, 1, 3) for t in (q, k, v))
        scores = (q @ k.transpose(0, 1, 3, 2)).astype(np.float32) * (1.0 / width**0.5)
        scores = scores + np.triu(np.full((length, length), sizes.masked, np.float32), k=1)
        weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        weights = (weights / np.sum(weights, axis=-1, keepdims=True)).astype(x.dtype)
        return (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, heads * width) @ w_out

    def layer(x, norm_in, w_qkv, w_out, q_norm, k_norm, cos, sin, norm_ffn, w_gate_up, w_down):
        x = x + attention(norm(x, norm_in), w_qkv, w_out, q_norm, k_norm, cos, sin)
        gate, up = np.split(norm(x, norm_ffn) @ w_gate_up, 2, axis=-1)
        return x + (gate / (1.0 + np.exp(-gate)) * up) @ w_down

    return layer


def layer_arguments(sizes: Sizes, dtype: np.dtype) -> Arrays:
    """x and weights; those of norms are near one."""
    hidden, width, inner = sizes.hidden, sizes.width, sizes.inner
    columns = (sizes.heads + 2 * sizes.shared_heads) * width

    def near_one(n: int, seed: int) -> np.ndarray:
        return normal(n, dtype=dtype, scale=0.1, seed=seed) + dtype.type(1)

    def weight(rows: int, cols: int, seed: int) -> np.ndarray:
        return normal(rows, cols, dtype=dtype, scale=rows**-0.5, seed=seed)

    return (
        normal(1, sizes.length, hidden, dtype=dtype),
        near_one(hidden, 1),
        weight(hidden, columns, 2),
        weight(sizes.heads * width, hidden, 3),
        near_one(width, 4),
        near_one(width, 5),
        *rotary_tables(sizes.length, width),
        near_one(hidden, 6),
        weight(hidden, 2 * inner, 7),
        weight(inner, hidden, 8),
    )


def layer_shapes(sizes: Sizes, dtype: str) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and element types of the same, for programs that are compiled and not run."""
    hidden, width, inner, length = sizes.hidden, sizes.width, sizes.inner, sizes.length
    columns = (sizes.heads + 2 * sizes.shared_heads) * width
    tables = [((length, width // 2), "float32")] * 2
    before = [(1, length, hidden), (hidden,), (hidden, columns), (sizes.heads * width, hidden), (width,), (width,)]
    after = [(hidden,), (hidden, 2 * inner), (inner, hidden)]
    return [*((shape, dtype) for shape in before), *tables, *((shape, dtype) for shape in after)]


PROGRAMS = [
    Program(
        f"qwen3_0.6b_layer_s128_{SHORT_NAMES[dtype]}",
        decoder_layer(Sizes()),
        lambda dtype=dtype: layer_arguments(Sizes(), dtype),
    )
    for dtype in (BF16, F32)
]
