"""Fused attention for one head in current NKI: scores and probabilities never leave the chip.

tilewright run --report examples/attention_nki.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def attention_kernel(q, k, v):
    """out[i, :] = sum over j of softmax(q[:, i] . k[:, j] / sqrt(d)) * v[j, :]

    q and k are [d, length] with d on the partitions, v and the result [length, d].
    Queries are taken 128 at a time; all scores of such a tile live in SBUF.
    """
    d, length = q.shape
    part, width = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    assert d <= part and length % part == 0, "the head fits the partitions; the length is whole tiles"
    out = nl.ndarray((length, d), dtype=v.dtype, buffer=nl.shared_hbm)

    keys = nl.ndarray((d, length), dtype=k.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=keys, src=k)
    values = nl.ndarray((part, length // part, d), dtype=v.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=values, src=v.reshape((length // part, part, d)).permute((1, 0, 2)))

    for start in range(0, length, part):
        queries = nl.ndarray((d, part), dtype=q.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=queries, src=q[:, start : start + part])
        scores = nl.ndarray((part, length), dtype=nl.float32, buffer=nl.sbuf)
        for first in range(0, length, width):
            size = min(width, length - first)
            product = nl.ndarray((part, size), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, stationary=queries, moving=keys[:, first : first + size])
            nisa.tensor_scalar(dst=scores[:, first : first + size], data=product, op0=nl.multiply, operand0=d**-0.5)
        softmax_in_place(scores)

        mixed = nl.ndarray((part, d), dtype=nl.float32, buffer=nl.psum)
        for block in range(length // part):
            turned = nl.ndarray((part, part), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=scores[:, block * part : (block + 1) * part])
            weights = nl.ndarray((part, part), dtype=v.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=weights, src=turned)
            nisa.nc_matmul(mixed, stationary=weights, moving=values[:, block])
        result = nl.ndarray((part, d), dtype=v.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=mixed)
        nisa.dma_copy(dst=out[start : start + part], src=result)
    return out


def softmax_in_place(tile):
    """tile[p, :] = softmax(tile[p, :])"""
    peak = nl.ndarray((tile.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((tile.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=tile, axis=1, negate=True)
    nisa.activation_reduce(dst=tile, op=nl.exp, data=tile, bias=peak, reduce_op=nl.add, reduce_res=total)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)


def attention(q, k, v):
    """The same in NumPy."""
    scores = q.T @ k / np.sqrt(q.shape[0])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v


def inputs(length=512, d=64):
    """Random q, k and v."""
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, d, length), dtype=np.float32)
    return q, k, rng.standard_normal((length, d), dtype=np.float32)


if __name__ == "__main__":
    arrays = inputs()
    error = np.abs(attention_kernel(*arrays) - attention(*arrays)).max()
    assert error < 1e-5
    print(f"attention over {arrays[0].shape[1]} keys agrees with NumPy")
