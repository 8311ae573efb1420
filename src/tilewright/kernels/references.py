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


def bsr_spmm(blocks: Any, indices: Any, indptr: Any, dense: Any) -> Any:
    """A matrix of blocks, filled in, times a dense one"""
    size = blocks.shape[1]
    filled = np.zeros(((len(indptr) - 1) * size, dense.shape[0]), blocks.dtype)
    for row in range(len(indptr) - 1):
        for at in range(indptr[row], indptr[row + 1]):
            column = indices[at] * size
            filled[row * size : (row + 1) * size, column : column + size] += blocks[at]
    return filled @ dense


def csr_spmm(data: Any, indices: Any, indptr: Any, dense: Any) -> Any:
    """A matrix in compressed rows, filled in, times a dense one"""
    filled = np.zeros((len(indptr) - 1, dense.shape[0]), data.dtype)
    for row in range(len(indptr) - 1):
        for at in range(indptr[row], indptr[row + 1]):
            filled[row, indices[at]] += data[at]
    return filled @ dense


def screened_spmm(a: Any, bound: Any, dense: Any, threshold: float) -> Any:
    """Elements whose bounds' product, in float32, is above the threshold, times a dense matrix"""
    narrow = bound.astype(np.float32)
    return (a * (np.expand_dims(narrow, 1) * np.expand_dims(narrow, 0) > np.float32(threshold))) @ dense


def block_sparse_attention(q: Any, k: Any, v: Any, mask: Any, block: int = 128, scale: float | None = None) -> Any:
    """Dense attention under the mask of blocks, element for element"""
    seen = np.repeat(np.repeat(mask, block, 0), block, 1)[: q.shape[-2], : k.shape[-2]]
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = np.where(seen, scores, -np.inf)
    lowest = np.finfo(np.float32).min
    peak = np.maximum(np.max(scores, axis=-1, keepdims=True), lowest)
    weights = np.exp(scores - peak)
    total = np.sum(weights, axis=-1, keepdims=True)
    lse = np.where(total > 0, np.log(np.where(total > 0, total, 1)) + peak, lowest)
    return weights / np.where(total > 0, total, 1) @ v, lse[..., 0]


def block_sparse_attention_backward(
    q: Any, k: Any, v: Any, out: Any, lse: Any, dout: Any, mask: Any, block: int = 128, scale: float | None = None
) -> Any:
    """Gradients of dense attention under the mask; what the forward pass made is computed anew"""
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    out, lse = block_sparse_attention(q, k, v, mask, block, scale)
    seen = np.repeat(np.repeat(mask, block, 0), block, 1)[: q.shape[-2], : k.shape[-2]]
    scores = q @ np.swapaxes(k, -1, -2) * factor
    weights = np.exp(np.where(seen, scores - np.expand_dims(lse, -1), -np.inf))
    inner = dout @ np.swapaxes(v, -1, -2) - np.sum(dout * out, axis=-1, keepdims=True)
    dscores = weights * inner * factor
    return dscores @ k, np.swapaxes(dscores, -1, -2) @ q, np.swapaxes(weights, -1, -2) @ dout


def deltanet(q: Any, k: Any, v: Any, beta: Any, g: Any, state: Any = None) -> Any:
    """The recurrence, one position after the other"""
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]), v.dtype) if state is None else state
    outs = []
    for t in range(q.shape[-2]):
        key, value = k[..., t : t + 1, :], v[..., t : t + 1, :]
        state = state * np.exp(g[..., t])[..., None, None]
        state = state + np.swapaxes(key, -1, -2) @ ((value - key @ state) * beta[..., t, None, None])
        outs.append(q[..., t : t + 1, :] @ state)
    return np.concatenate(outs, axis=-2), state


def deltanet_chunked(q: Any, k: Any, v: Any, beta: Any, g: Any, state: Any = None, chunk: int = 64) -> Any:
    """The same in chunks, each by forward substitution: what code without a kernel falls back to"""
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]), v.dtype) if state is None else state
    outs = []
    for start in range(0, q.shape[-2], chunk):
        part = slice(start, start + chunk)
        qs, ks, vs = q[..., part, :], k[..., part, :], v[..., part, :]
        rate, sums = beta[..., part, None], np.cumsum(g[..., part], axis=-1)
        rows = qs.shape[-2]
        between = np.where(np.tri(rows, dtype=bool), sums[..., :, None] - sums[..., None, :], -np.inf)
        decay, grown = np.exp(between), np.exp(sums)[..., None]
        system = np.tril((ks @ np.swapaxes(ks, -1, -2)) * decay * rate, -1)
        new = (vs - grown * (ks @ state)) * rate
        for i in range(1, rows):
            new[..., i : i + 1, :] -= system[..., i : i + 1, :i] @ new[..., :i, :]
        outs.append(grown * (qs @ state) + ((qs @ np.swapaxes(ks, -1, -2)) * decay) @ new)
        last = sums[..., -1:, None]
        left = ks * np.exp(last - sums[..., None])
        state = state * np.exp(last) + np.swapaxes(left, -1, -2) @ new
    return np.concatenate(outs, axis=-2), state


def ao_to_mo(integrals: Any, occupied: Any, virtual: Any) -> Any:
    """Both indices of the integrals in molecular orbitals"""
    return np.transpose(occupied) @ integrals @ virtual


def df_mp2(integrals: Any, occupied: Any, virtual: Any, e_occupied: Any, e_virtual: Any) -> Any:
    """The energy over all pairs of occupied and of virtual orbitals"""
    b = ao_to_mo(integrals, occupied, virtual)
    naux, nocc, nvir = b.shape
    rows = b.reshape(naux, nocc * nvir)
    t = (np.transpose(rows) @ rows).reshape(nocc, nvir, nocc, nvir)
    gap = e_occupied[:, None] - e_virtual
    gaps = gap[:, :, None, None] + gap
    return np.sum(t * (2 * t - np.transpose(t, (0, 3, 2, 1))) / gaps).reshape(1)


def moe(x: Any, router: Any, gate: Any, up: Any, down: Any, k: int = 2) -> Any:
    """Every token through its own experts, one after the other"""
    scores = x @ router
    out = np.zeros_like(x)
    for token in range(len(x)):
        chosen = np.argsort(-scores[token], kind="stable")[:k]
        shares = np.exp(scores[token, chosen] - scores[token, chosen].max())
        for expert, share in zip(chosen, shares / shares.sum(), strict=True):
            opened = x[token] @ gate[expert]
            out[token] += share * ((opened / (1 + np.exp(-opened)) * (x[token] @ up[expert])) @ down[expert])
    return out
