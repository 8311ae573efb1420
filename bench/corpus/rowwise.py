"""Programs that work row by row: activations, softmax, norms."""

from __future__ import annotations

import numpy as np

from bench.corpus.program import BF16, F32, SHORT_NAMES, Program, normal


def gelu(x):
    """The tanh form of GELU."""
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + np.tanh(inner))


def softmax(x):
    """Along the last axis."""
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


def rmsnorm(x, weight):
    """Computed in float32, whatever comes in and goes out."""
    wide = x.astype(np.float32)
    power = np.mean(wide * wide, axis=-1, keepdims=True)
    scaled = wide / np.sqrt(power + 1e-6) * weight.astype(np.float32)
    return scaled.astype(x.dtype)


def layernorm(x, weight, bias):
    """With weight and bias."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    spread = np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
    return centred / spread * weight + bias


PROGRAMS = [
    Program("gelu_tanh_1024x4096", gelu, lambda: (normal(1024, 4096),)),
    Program("softmax_256x1024", softmax, lambda: (normal(256, 1024),)),
    Program("softmax_4096x2048", softmax, lambda: (normal(4096, 2048),)),
    *(
        Program(
            f"rmsnorm_2048x4096_{SHORT_NAMES[dtype]}",
            rmsnorm,
            lambda dtype=dtype: (normal(2048, 4096, dtype=dtype), normal(4096, dtype=dtype, seed=1)),
        )
        for dtype in (F32, BF16)
    ),
    Program("layernorm_2048x4096", layernorm, lambda: (normal(2048, 4096), normal(4096, seed=1), normal(4096, seed=2))),
]
