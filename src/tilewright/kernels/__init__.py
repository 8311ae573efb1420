"""Kernels for Trainium, written with the public NKI API: `tw.kernels.rmsnorm(x, weight)`.

Each is one call on NumPy or torch arrays, has a reference in NumPy (`.reference`, `.exact`) and tells its predicted
time (`.profile`).
"""

from tilewright.kernels.attention import attention
from tilewright.kernels.attention_backward import attention_backward
from tilewright.kernels.products import einsum, matmul
from tilewright.kernels.rows import layernorm, rmsnorm, rope, swiglu, topk

__all__ = ["attention", "attention_backward", "einsum", "layernorm", "matmul", "rmsnorm", "rope", "swiglu", "topk"]
