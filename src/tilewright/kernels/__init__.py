"""Kernels for Trainium, written with the public NKI API: `tw.kernels.rmsnorm(x, weight)`.

Each is one call on NumPy or torch arrays, has a reference in NumPy (`.reference`, `.exact`) and tells its predicted
time (`.profile`).
"""

from tilewright.kernels.attention import attention
from tilewright.kernels.attention_backward import attention_backward
from tilewright.kernels.block_attention import block_sparse_attention
from tilewright.kernels.block_attention_backward import block_sparse_attention_backward
from tilewright.kernels.chemistry import ao_to_mo, df_mp2
from tilewright.kernels.deltanet import deltanet, deltanet_chunk
from tilewright.kernels.moe import moe
from tilewright.kernels.products import einsum, matmul
from tilewright.kernels.rows import layernorm, rmsnorm, rope, swiglu, topk
from tilewright.kernels.sparse import bsr_spmm, csr_spmm, screened_spmm

__all__ = [
    "ao_to_mo",
    "attention",
    "attention_backward",
    "block_sparse_attention",
    "block_sparse_attention_backward",
    "bsr_spmm",
    "csr_spmm",
    "deltanet",
    "deltanet_chunk",
    "df_mp2",
    "einsum",
    "layernorm",
    "matmul",
    "moe",
    "rmsnorm",
    "rope",
    "screened_spmm",
    "swiglu",
    "topk",
]
