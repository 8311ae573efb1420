"""Causal attention in plain NumPy, of which tilewright makes a kernel.

tilewright compile examples/attention.py:attention --arg 1024x128 --arg 1024x128 --arg 1024x128 -o build/attention
"""

import numpy as np


def softmax(x):
    """Numbers of each row that are positive and add up to 1."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def attention(q, k, v):
    """out[i] = the mean of v[0] to v[i], weighted by how well their keys fit query i"""
    length, d = q.shape
    scores = q @ k.T * np.float32(1 / np.sqrt(d))
    scores = scores + np.triu(np.full((length, length), -1e9, np.float32), k=1)
    return softmax(scores) @ v


def inputs(length=1024, d=128):
    """Random queries, keys and values."""
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((3, length, d), dtype=np.float32))


if __name__ == "__main__":
    print(attention(*inputs()))
