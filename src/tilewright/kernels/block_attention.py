"""Attention in which a block of queries sees some blocks of keys; heads up to 512 wide.

Which blocks is known when a kernel is made (`block_plan`): a row of blocks has as many as it has, nothing is padded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels import references
from tilewright.kernels.block_plan import groups_of, rows_of
from tilewright.kernels.library import (
    launch,
    library,
    require,
    require_dims,
    require_heads,
    require_sbuf,
    target_of_call,
)
from tilewright.kernels.tiles import (
    copied,
    filled,
    load_by_rows,
    multiply_wide,
    store_by_rows,
    turned_blocks,
    turned_columns,
)

NOTHING = float(np.finfo(np.float32).min)
"""Logarithm of the sum of exponentials of a query that sees no key."""


@nki.jit
def block_attention_kernel(q, k, v, rows, groups, size, scale, by_dma):
    """Softmax over the keys that each row of blocks sees, times values; and the logarithms of the sums of exponentials

    Pseudocode, for each `size` queries:
        scores of all blocks beside each other; weights = exp(scale * scores - maximum), with their sum
        out = (sum over blocks of weights . values) / sum; lse = log(sum) + maximum
    """
    heads, length, d = q.shape
    width = v.shape[2]
    out = nl.ndarray((heads, length, width), dtype=v.dtype, buffer=nl.shared_hbm)
    lse = nl.ndarray((heads, length), dtype=nl.float32, buffer=nl.shared_hbm)
    minus = filled((size, 1), -scale)
    for head in range(heads):
        queries_t = load_turned(q[head], None if by_dma else load_by_rows(q[head], size), by_dma)
        keys_t = load_turned(k[head], None if by_dma else load_by_rows(k[head], size), by_dma)
        values = load_by_rows(v[head], size)
        # One column for each row of blocks; logarithms are taken of all at once, whose table is another than exp's.
        totals, peaks = filled((size, len(rows)), 1.0), filled((size, len(rows)), -NOTHING)
        for first, last in groups:
            count = min(size, length - first * size)
            mixed = nl.ndarray((count, last - first, width), dtype=nl.float32, buffer=nl.psum)
            made = nl.ndarray((count, last - first, width), dtype=v.dtype, buffer=nl.sbuf)
            for row in range(first, last):
                here = queries_t[:, :, row * size : row * size + count]
                ends = totals[0:count, row : row + 1], peaks[0:count, row : row + 1]
                weights = softmax_parts(here, keys_t, rows[row], d, (scale, minus), ends)
                mix(mixed[:, row - first], weights, values, rows[row], size)
            if len(rows[first]) == 0:
                nisa.memset(dst=made, value=0.0)
            else:
                rate = nl.ndarray((count, last - first), dtype=nl.float32, buffer=nl.sbuf)
                nisa.reciprocal(dst=rate, data=totals[0:count, first:last])
                factor = rate.expand_dim(2).broadcast(2, width)
                nisa.tensor_tensor(dst=made, data1=mixed, data2=factor, op=nl.multiply)
            store_by_rows(out[head, first * size : min(last * size, length)], made, size)
        nisa.activation(dst=totals, op=nl.log, data=totals)
        nisa.tensor_tensor(dst=totals, data1=totals, data2=peaks, op=nl.subtract)
        store_columns(lse[head], totals, size)
    return out, lse


def store_columns(place: Any, tile: Any, size: int) -> None:
    """place[column * size + p] = tile[p, column]; the last column may be lower"""
    length = place.shape[0]
    whole = length // size
    if whole > 0:
        nisa.dma_copy(dst=place[0 : whole * size].reshape((whole, size)).permute((1, 0)), src=tile[:, 0:whole])
    if length > whole * size:
        nisa.dma_copy(
            dst=place[whole * size : length].expand_dim(1), src=tile[0 : length - whole * size, whole : whole + 1]
        )


def softmax_parts(queries_t: Any, keys_t: Any, pieces: Any, d: int, scales: Any, ends: Any) -> list:
    """exp(scale * scores - maximum) of each piece of a row; `ends` become the sum over the row and the negative maximum

    Scores stay in PSUM, or go to SBUF where a row is longer than a bank.
    """
    count, (total, peak), (scale, minus) = queries_t.shape[2], ends, scales
    scores, each_peak = [], nl.ndarray((count, max(1, len(pieces))), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(len(pieces)):
        bank = spans_product(queries_t, keys_t, pieces[i][0], d)
        nisa.tensor_reduce(dst=each_peak[:, i : i + 1], op=nl.maximum, data=bank, axis=1)
        scores.append(bank if len(pieces) == 1 else copied(bank, nl.float32))
    if len(pieces) == 0:
        return scores
    if len(pieces) > 1:
        nisa.tensor_reduce(dst=each_peak[:, 0:1], op=nl.maximum, data=each_peak, axis=1)
    nisa.tensor_tensor(
        dst=peak, data1=each_peak[:, 0:1], data2=minus[0:count], op=nl.multiply, engine=nisa.engine.gpsimd
    )
    sums = total if len(pieces) == 1 else nl.ndarray((count, len(pieces)), dtype=nl.float32, buffer=nl.sbuf)
    weights = []
    for i in range(len(pieces)):
        tile = nl.ndarray(scores[i].shape, dtype=queries_t.dtype, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=tile,
            op=nl.exp,
            data=scores[i],
            bias=peak,
            scale=scale,
            reduce_op=nl.add,
            reduce_res=sums[:, i : i + 1],
        )
        weights.append(tile)
    if len(pieces) > 1:
        nisa.tensor_reduce(dst=total, op=nl.add, data=sums, axis=1)
    return weights


def mix(mixed: Any, weights: list, values: Any, pieces: Any, size: int) -> None:
    """mixed = sum over all pieces of a row of weights . values"""
    for piece in range(len(pieces)):
        turned, blocks = turned_columns(weights[piece], size), pieces[piece][1]
        columns = weights[piece].shape[1]
        for i in range(len(blocks)):
            high = min(size, columns - i * size)
            nisa.nc_matmul(dst=mixed, stationary=turned[0:high, i], moving=values[0:high, blocks[i]])


def load_turned(source: Any, tile: Any, by_dma: bool) -> Any:
    """[partitions, blocks of 128 columns, n] of [n, f] in HBM: turned by the transfer, or from blocks of rows"""
    if not by_dma:
        return turned_blocks(tile, source.shape[0])
    rows, columns = source.shape
    part = nl.tile_size.pmax
    turned = nl.ndarray((min(part, columns), (columns + part - 1) // part, rows), dtype=source.dtype, buffer=nl.sbuf)
    for left in range(0, columns, part):
        right = min(left + part, columns)
        nisa.dma_transpose(dst=turned[0 : right - left, left // part], src=source[:, left:right], axes=(1, 0))
    return turned


def spans_product(left_t: Any, right_t: Any, spans: Any, width: int) -> Any:
    """left . right of all spans beside each other, in a bank of PSUM, for sides turned as by `load_turned`"""
    total = 0
    for first, last in spans:
        total = total + last - first
    bank = nl.ndarray((left_t.shape[2], total), dtype=nl.float32, buffer=nl.psum)
    at = 0
    for first, last in spans:
        multiply_wide(bank[:, at : at + last - first], left_t, right_t[:, :, first:last], width)
        at = at + last - first
    return bank


def check_blocks(q: Any, k: Any, v: Any, mask: Any, block: int) -> np.ndarray:
    """The mask of blocks, after everything has been found to fit"""
    widest = nl.tile_size.psum_fmax
    require_heads(q, k, v, widest, f"at most {widest}")
    part = nl.tile_size.pmax
    require(0 < block <= part, f"blocks of {block}", f"give 1 to {part}", code="E108")
    seen = np.asarray(mask)
    require_dims("mask", seen, -(-q.shape[-2] // block), -(-k.shape[-2] // block))
    require(
        seen.dtype.kind == "b", f"mask is of type {seen.dtype}", "give booleans, one for each pair of blocks", "E102"
    )
    size = np.dtype(q.dtype).itemsize
    tiles = -(-q.shape[-1] // part) + -(-v.shape[-1] // part)
    needed = 2 * size * tiles * (q.shape[-2] + k.shape[-2]) + 12 * k.shape[-2]
    require_sbuf(needed, f"{q.shape[-2]} queries and {k.shape[-2]} keys", "split the queries, or the heads")
    return seen


def turns_by_dma(array: Any) -> bool:
    """Transfers can turn arrays of this type on the target of the call"""
    return bool(target_of_call()["features.dma_transpose"]) and np.dtype(array.dtype).itemsize == 2


@library(references.block_sparse_attention)
def block_sparse_attention(q: Any, k: Any, v: Any, mask: Any, block: int = 128, scale: float | None = None) -> Any:
    """Attention of [..., positions, width] in which block i of queries sees block j of keys where mask[i, j] is True.

    The second result holds the logarithms of the sums of exponentials. A query that sees nothing gives zeros, and the
    lowest float32 as its logarithm. Heads are up to 512 wide; the last block may be shorter than `block`.
    """
    seen = check_blocks(q, k, v, mask, block)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    heads = q.shape[:-2]
    flat = [each.reshape(-1, *each.shape[-2:]) for each in (q, k, v)]
    rows = rows_of(seen, block, k.shape[-2])
    groups = groups_of(rows, q.shape[-2] // block, nl.tile_size.psum_fmax // v.shape[-1])
    out, lse = launch(block_attention_kernel, *flat, rows, groups, block, factor, turns_by_dma(q))
    return out.reshape(*heads, *out.shape[-2:]), lse.reshape(*heads, lse.shape[-1])
