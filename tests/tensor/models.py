"""NumPy functions that passes are tried on: what models are made of, in forms that people write."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]


def random(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> np.ndarray:
    """Normally distributed float32 numbers."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def softmax(x: Any) -> Any:
    """e / sum(e) with e = exp(x - max)"""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def rms_norm(x: Any, weight: Any) -> Any:
    """x / sqrt(mean(x**2)) * weight"""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * weight


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    """(x - mean) / std * weight + bias"""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.var(x, axis=-1, keepdims=True) + 1e-5) * weight + bias


def causal_attention(q: Any, k: Any, v: Any) -> Any:
    """softmax(q k^T / sqrt(d) + mask) v"""
    s, d = q.shape[-2:]
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(d)
    return softmax(scores + np.triu(np.full((s, s), -1e9, np.float32), k=1)) @ v


def masked_attention(q: Any, k: Any, v: Any) -> Any:
    """The same with where, and the scores scaled first."""
    s, d = q.shape[-2:]
    scores = (q * (1 / math.sqrt(d))) @ np.swapaxes(k, -1, -2)
    return softmax(np.where(np.tril(np.ones((s, s), bool)), scores, -np.inf)) @ v


def rope(x: Any) -> Any:
    """Halves of the last dim rotated by angles that grow with the position, up to 512."""
    s, d = x.shape[-2:]
    angle = np.arange(s, dtype=np.float32)[:, None] * np.float32(512 / s) * np.ones(d // 2, np.float32)
    cos, sin = np.cos(angle), np.sin(angle)
    low, high = x[..., : d // 2], x[..., d // 2 :]
    return np.concatenate([low * cos - high * sin, low * sin + high * cos], axis=-1)


def swiglu(x: Any, gate: Any, up: Any, down: Any) -> Any:
    """(silu(x gate) * (x up)) down"""
    g = x @ gate
    return (g / (1 + np.exp(-g)) * (x @ up)) @ down


def heads(x: Any, wq: Any, wk: Any, wv: Any) -> Any:
    """Attention of 4 heads with their projections."""
    s, h = x.shape
    q, k, v = (np.transpose((x @ w).reshape(s, 4, h // 4), (1, 0, 2)) for w in (wq, wk, wv))
    out = softmax((q @ np.transpose(k, (0, 2, 1))) * 0.5) @ v
    return np.transpose(out, (1, 0, 2)).reshape(s, h)


def rows(x: Any) -> Any:
    """Row after row made from the rows before."""
    y = np.array(x)
    for i in range(1, x.shape[0]):
        y[i] = y[i] + 0.5 * y[i - 1]
    return y


def mixture(x: Any) -> Any:
    """Functions that have to be taken apart."""
    return np.floor(x) + np.mod(x, 0.75) + np.sin(x * 30) - np.arctan(x) + np.log1p(np.abs(x)) + x**3 + x // 0.5


W = [random((16, 16), 10 + i, 0.25) for i in range(3)]
MODELS: dict[str, tuple[Function, tuple[np.ndarray, ...]]] = {
    "softmax": (softmax, (random((8, 16), 0),)),
    "rms_norm": (rms_norm, (random((8, 16), 0), random((16,), 1))),
    "layer_norm": (layer_norm, (random((8, 16), 0), random((16,), 1), random((16,), 2))),
    "causal_attention": (causal_attention, tuple(random((2, 8, 4), i) for i in range(3))),
    "masked_attention": (masked_attention, tuple(random((8, 4), i) for i in range(3))),
    "rope": (rope, (random((16, 8), 0),)),
    "swiglu": (swiglu, (random((8, 16), 0), *W)),
    "heads": (heads, (random((8, 16), 0), *W)),
    "rows": (rows, (random((6, 4), 0),)),
    "mixture": (mixture, (random((8, 16), 0, 2.0),)),
}
