"""Programs made of matrix products."""

from __future__ import annotations

import numpy as np

from bench.corpus.program import BF16, F32, SHORT_NAMES, Arrays, Program, normal
from bench.corpus.rowwise import gelu


def matmul(a, b):
    """The plain product."""
    return a @ b


def square(n: int, dtype: np.dtype) -> Arrays:
    """Arguments of `matmul`: two square matrices."""
    return normal(n, n, dtype=dtype), normal(n, n, dtype=dtype, scale=n**-0.5, seed=1)


def matmul_bias_gelu(x, weight, bias):
    """A product whose result goes through an activation."""
    return gelu(x @ weight + bias)


def swiglu(x, w_gate, w_up, w_down):
    """A gated feed-forward layer."""
    gate, up = x @ w_gate, x @ w_up
    return (gate * (1.0 / (1.0 + np.exp(-gate))) * up) @ w_down


def _feed_forward(dtype: np.dtype) -> Arrays:
    return (
        normal(128, 1024, dtype=dtype),
        normal(1024, 3072, dtype=dtype, scale=1 / 32, seed=1),
        normal(1024, 3072, dtype=dtype, scale=1 / 32, seed=2),
        normal(3072, 1024, dtype=dtype, scale=1 / 55, seed=3),
    )


PROGRAMS = [
    *(
        Program(f"matmul_{n}_{SHORT_NAMES[dtype]}", matmul, lambda n=n, dtype=dtype: square(n, dtype))
        for n in (512, 1024, 2048)
        for dtype in (F32, BF16)
    ),
    Program(
        "matmul_bias_gelu_512x1024x4096",
        matmul_bias_gelu,
        lambda: (normal(512, 1024), normal(1024, 4096, scale=1 / 32, seed=1), normal(4096, seed=2)),
    ),
    *(
        Program(f"swiglu_ffn_128_1024_3072_{SHORT_NAMES[dtype]}", swiglu, lambda dtype=dtype: _feed_forward(dtype))
        for dtype in (F32, BF16)
    ),
]
