"""The kernels of the library in NumPy, written by themselves: what results are compared with, in float64.

They are programs too: `tw.compile` takes them, and their roofline is what a kernel's time is compared with.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def rmsnorm(x: Any, weight: Any, eps: float = 1e-6) -> Any:
    """x over its root mean square"""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def layernorm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    """x less its mean, over its standard deviation"""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps) * weight + bias


def swiglu(x: Any, gate: Any) -> Any:
    """x times gate times sigmoid of gate"""
    return x * (gate / (1 + np.exp(-gate)))


def rope(x: Any, cos: Any, sin: Any) -> Any:
    """Halves of the last axis turned by the angle of their position"""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def topk(x: Any, k: int) -> Any:
    """Values and positions of the k largest, the first of equal ones first"""
    places = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, places, axis=-1), places


def matmul(left: Any, right: Any) -> Any:
    """Products of matrices"""
    return left @ right


def einsum(formula: str, left: Any, right: Any) -> Any:
    """Einstein's sum over two arrays"""
    return np.einsum(formula, left, right)


def attention(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None) -> Any:
    """Softmax of scaled scores, times values; and the logarithm of the sum of exponentials of each row"""
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = np.where(np.tri(q.shape[-2], k.shape[-2], dtype=bool), scores, -1e30)
    peak = np.max(scores, axis=-1, keepdims=True)
    weights = np.exp(scores - peak)
    total = np.sum(weights, axis=-1, keepdims=True)
    return weights / total @ v, (np.log(total) + peak)[..., 0]


def attention_backward(
    q: Any, k: Any, v: Any, out: Any, lse: Any, dout: Any, causal: bool = False, scale: float | None = None
) -> Any:
    """Gradients of q, k and v; what the forward pass made is computed anew"""
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    out, lse = attention(q, k, v, causal, scale)
    scores = q @ np.swapaxes(k, -1, -2) * factor
    weights = np.exp(scores - np.expand_dims(lse, -1))
    if causal:
        weights = np.where(np.tri(q.shape[-2], k.shape[-2], dtype=bool), weights, 0.0)
    inner = dout @ np.swapaxes(v, -1, -2) - np.sum(dout * out, axis=-1, keepdims=True)
    dscores = weights * inner * factor
    return dscores @ k, np.swapaxes(dscores, -1, -2) @ q, np.swapaxes(weights, -1, -2) @ dout
