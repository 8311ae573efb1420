"""The NumPy programs whose kernels stand here as tile IR and as NKI source."""

import numpy as np


def softmax(x):
    m = x.max(axis=-1, keepdims=True)
    e = np.exp(x - m)
    return e / e.sum(axis=-1, keepdims=True)


def rmsnorm(x, w):
    square = np.mean(x * x, axis=-1, keepdims=True)
    return x / np.sqrt(square + np.float32(1e-6)) * w


def matmul(a, b):
    return a @ b


def attention(q, k, v):
    scores = q @ k.T * np.float32(0.125)
    return softmax(scores) @ v


def layernorm(x, w, b):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + np.float32(1e-5)) * w + b


def swiglu(x, gate, up):
    g = x @ gate
    return g / (1 + np.exp(-g)) * (x @ up)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    low, high = x[:, :half], x[:, half:]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)


def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def momentum(weights, moment, gradient):
    moment = np.float32(0.9) * moment + gradient
    return weights - np.float32(0.01) * moment


def dense(x, w, b):
    hidden = x @ w + b
    return np.maximum(hidden, 0)
