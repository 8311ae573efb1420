"""Attention of one head: keys and values stay in SBUF, scores and probabilities never leave the chip.

examples/attention_nki.py is written to be read; this one is measured. It scales inside the exponential, divides last
and transposes four blocks at a time, and stays as it is when the example changes, so that figures can be compared.
"""

from __future__ import annotations

from typing import Any

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl


@nki.jit
def attention(q: Any, k: Any, v: Any) -> Any:
    """out[i, :] = sum over j of softmax over j of (q[:, i] . k[:, j] / sqrt(d)) * v[j, :]

    q and k are [d, length] with d on the partitions, v and the result [length, d]; the length is whole tiles of 512.

    Pseudocode:
        load k as [d, length] and v as [128, length / 128, d]
        for each 128 queries:
            scores = q . k in pieces of 512 columns
            weights = exp((scores - maximum of the row) / sqrt(d)), with their sum
            for each 512 weights: transpose them by 128, add weights . v to the result in PSUM
            store the result divided by the sum
    """
    part, width = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    d, length = q.shape
    out = nl.ndarray((length, d), dtype=v.dtype, buffer=nl.shared_hbm)

    keys = nl.ndarray((d, length), dtype=k.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=keys, src=k)
    values = nl.ndarray((part, length // part, d), dtype=v.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=values, src=v.reshape((length // part, part, d)).permute((1, 0, 2)))

    for start in range(0, length, part):
        queries = nl.ndarray((d, part), dtype=q.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=queries, src=q[:, start : start + part])
        weights, total = softmax_weights(queries, keys, d**-0.5)

        mixed = nl.ndarray((part, d), dtype=nl.float32, buffer=nl.psum)
        for first in range(0, length, width):
            turned = transposed(weights[:, first : first + width])
            for block in range(width // part):
                nisa.nc_matmul(dst=mixed, stationary=turned[:, block], moving=values[:, first // part + block])
        result = nl.ndarray((part, d), dtype=v.dtype, buffer=nl.sbuf)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=result, data=mixed, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[start : start + part], src=result)
    return out


def softmax_weights(queries: Any, keys: Any, scale: float) -> tuple[Any, Any]:
    """exp(scale * (queries . keys - maximum of the row)) and its sum over the row."""
    part, width = queries.shape[1], nl.tile_size.gemm_moving_fmax
    length = keys.shape[1]
    scores = nl.ndarray((part, length), dtype=nl.float32, buffer=nl.sbuf)
    for first in range(0, length, width):
        product = nl.ndarray((part, width), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=queries, moving=keys[:, first : first + width])
        nisa.tensor_copy(dst=scores[:, first : first + width], src=product)
    peak = nl.ndarray((part, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=scores, axis=1, negate=True)
    nisa.tensor_scalar(dst=peak, data=peak, op0=nl.multiply, operand0=scale)
    total = nl.ndarray((part, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(
        dst=scores, op=nl.exp, data=scores, bias=peak, scale=scale, reduce_op=nl.add, reduce_res=total
    )
    return scores, total


def transposed(tile: Any) -> Any:
    """[128, blocks, 128] with every 128 columns of a tile transposed, one PSUM bank at a time."""
    part, width = tile.shape
    bank = nl.ndarray((part, width // part, part), dtype=nl.float32, buffer=nl.psum)
    for block in range(width // part):
        nisa.nc_transpose(dst=bank[:, block], data=tile[:, block * part : (block + 1) * part])
    turned = nl.ndarray((part, width // part, part), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=turned, src=bank)
    return turned
