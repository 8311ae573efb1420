"""Attention in which a block of queries sees some blocks of keys, and its gradients; heads up to 512 wide.

Which blocks is known when a kernel is made. Kernels are given spans of keys (or of queries) for every block of rows:
neighbouring blocks are one span, a row of blocks has as many as it has, and nothing is padded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels import references
from tilewright.kernels.attention_backward import row_terms
from tilewright.kernels.library import (
    launch,
    library,
    require,
    require_dims,
    require_floats,
    require_heads,
    require_sbuf,
)
from tilewright.kernels.tiles import filled, load_by_rows, multiply_wide, turned_blocks, turned_columns

NOTHING = float(np.finfo(np.float32).min)
"""Logarithm of the sum of exponentials of a query that sees no key."""


@nki.jit
def block_attention_kernel(q, k, v, spans, size, scale):
    """Softmax over the keys of each row's spans, times values; and the logarithms of the sums of exponentials

    Pseudocode, for each `size` queries:
        scores of all its spans beside each other; weights = exp(scale * scores - maximum), with their sum
        out = (sum over spans of weights . values) / sum; lse = log(sum) + maximum
    """
    heads, length, d = q.shape
    width = v.shape[2]
    out = nl.ndarray((heads, length, width), dtype=v.dtype, buffer=nl.shared_hbm)
    lse = nl.ndarray((heads, length), dtype=nl.float32, buffer=nl.shared_hbm)
    for head in range(heads):
        queries_t = turned_blocks(load_by_rows(q[head], size), length)
        keys_t, values = turned_blocks(load_by_rows(k[head], size), k.shape[1]), load_by_rows(v[head], size)
        # One column for each block of queries; logarithms are taken of all at once, whose table is another than exp's.
        totals, peaks = filled((size, len(spans)), 1.0), filled((size, len(spans)), -NOTHING)
        for row in range(len(spans)):
            start, stop = row * size, min((row + 1) * size, length)
            count = stop - start
            if len(spans[row]) == 0:
                nisa.dma_copy(dst=out[head, start:stop], src=filled((count, width), 0.0, v.dtype))
            else:
                scores = scores_of(queries_t[:, :, start:stop], keys_t, spans[row], d)
                total, peak = totals[0:count, row : row + 1], peaks[0:count, row : row + 1]
                turned = turned_columns(softmax_parts(scores, scale, total, peak, q.dtype), size)
                mixed = nl.ndarray((count, width), dtype=nl.float32, buffer=nl.psum)
                blocks = blocks_of(spans[row], size)
                for i in range(len(blocks)):
                    block, high = blocks[i]
                    nisa.nc_matmul(dst=mixed, stationary=turned[0:high, i], moving=values[0:high, block])
                rate = nl.ndarray((count, 1), dtype=nl.float32, buffer=nl.sbuf)
                nisa.reciprocal(dst=rate, data=total)
                made = nl.ndarray((count, width), dtype=v.dtype, buffer=nl.sbuf)
                nisa.tensor_scalar(dst=made, data=mixed, op0=nl.multiply, operand0=rate)
                nisa.dma_copy(dst=out[head, start:stop], src=made)
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


def scores_of(queries_t: Any, keys_t: Any, row: Any, d: int) -> Any:
    """queries . keys of all spans of a row, beside each other in SBUF"""
    count, total = queries_t.shape[2], 0
    for first, last in row:
        total = total + last - first
    scores = nl.ndarray((count, total), dtype=nl.float32, buffer=nl.sbuf)
    at = 0
    for first, last in row:
        product = nl.ndarray((count, last - first), dtype=nl.float32, buffer=nl.psum)
        multiply_wide(product, queries_t, keys_t[:, :, first:last], d)
        nisa.tensor_copy(dst=scores[:, at : at + last - first], src=product)
        at = at + last - first
    return scores


def softmax_parts(scores: Any, scale: float, total: Any, peak: Any, dtype: Any) -> Any:
    """exp(scale * scores + peak), with its sum over the row, and `peak`, the negative maximum of scale * scores"""
    weights = nl.ndarray(scores.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=scores, axis=1, negate=True)
    nisa.tensor_scalar(dst=peak, data=peak, op0=nl.multiply, operand0=scale)
    nisa.activation_reduce(
        dst=weights, op=nl.exp, data=scores, bias=peak, scale=scale, reduce_op=nl.add, reduce_res=total
    )
    return weights


def blocks_of(row: Any, size: int) -> list:
    """(number of the block, its height) of all blocks in the spans of a row"""
    blocks = []
    for first, last in row:
        for at in range(first, last, size):
            blocks.append((at // size, min(size, last - at)))  # noqa: PERF401
    return blocks


@nki.jit
def block_attention_dq_kernel(q, k, v, out, lse, dout, spans, size, scale):
    """dq[i] = scale * sum over its keys j of p * (dout . v - sum of dout * out) * k[j], p = exp(scale * q . k - lse)"""
    heads, length, d = q.shape
    dq = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm)
    for head in range(heads):
        douts, keys = load_by_rows(dout[head], size), load_by_rows(k[head], size)
        queries_t, douts_t = turned_blocks(load_by_rows(q[head], size), length), turned_blocks(douts, length)
        keys_t = turned_blocks(keys, k.shape[1])
        values_t = turned_blocks(load_by_rows(v[head], size), k.shape[1])
        below, inner = row_terms(out[head], lse[head], douts)
        for row in range(len(spans)):
            start, stop = row * size, min((row + 1) * size, length)
            count = stop - start
            made = nl.ndarray((count, d), dtype=q.dtype, buffer=nl.sbuf)
            if len(spans[row]) == 0:
                nisa.memset(dst=made, value=0.0)
                nisa.dma_copy(dst=dq[head, start:stop], src=made)
                continue
            total = nl.ndarray((count, d), dtype=nl.float32, buffer=nl.psum)
            for first, last in spans[row]:
                sides = queries_t[:, :, start:stop], douts_t[:, :, start:stop]
                others = keys_t[:, :, first:last], values_t[:, :, first:last]
                _, ds = block_gradients(
                    sides, others, (d, v.shape[2]), (below[0:count, row], inner[0:count, row]), scale
                )
                turned = turned_columns(ds, size)
                blocks = blocks_of(((first, last),), size)
                for i in range(len(blocks)):
                    block, high = blocks[i]
                    nisa.nc_matmul(dst=total, stationary=turned[0:high, i], moving=keys[0:high, block])
            nisa.tensor_scalar(dst=made, data=total, op0=nl.multiply, operand0=scale)
            nisa.dma_copy(dst=dq[head, start:stop], src=made)
    return dq


def block_gradients(sides: Any, others: Any, summed: Any, terms: Any, scale: float) -> tuple[Any, Any]:
    """p = exp(scale * queries . keys + below) and p * (douts . values - inner), queries on the partitions"""
    shape = (sides[0].shape[2], others[0].shape[2])
    scores = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    products = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    multiply_wide(scores, sides[0], others[0], summed[0])
    multiply_wide(products, sides[1], others[1], summed[1])
    p = nl.ndarray(shape, dtype=sides[0].dtype, buffer=nl.sbuf)
    nisa.activation(dst=p, op=nl.exp, data=scores, bias=terms[0], scale=scale)
    ds = nl.ndarray(shape, dtype=sides[0].dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(dst=ds, data=products, op0=nl.subtract, operand0=terms[1], op1=nl.multiply, operand1=p)
    return p, ds


@nki.jit
def block_attention_dkdv_kernel(q, k, v, out, lse, dout, seen_by, size, scale):
    """dv[j] = sum over its queries i of p * dout[i]; dk[j] = scale * sum of p * (dout . v - sum of dout * out) * q[i]

    seen_by: for each block of keys, the blocks of queries that see it.
    """
    heads, length, d = q.shape
    keys, width = v.shape[1], v.shape[2]
    dk = nl.ndarray(k.shape, dtype=k.dtype, buffer=nl.shared_hbm)
    dv = nl.ndarray(v.shape, dtype=v.dtype, buffer=nl.shared_hbm)
    for head in range(heads):
        queries, douts = load_by_rows(q[head], size), load_by_rows(dout[head], size)
        queries_t, douts_t = turned_blocks(queries, length), turned_blocks(douts, length)
        keys_t = turned_blocks(load_by_rows(k[head], size), keys)
        values_t = turned_blocks(load_by_rows(v[head], size), keys)
        below, inner = row_terms(out[head], lse[head], douts)
        for column in range(len(seen_by)):
            first, last = column * size, min((column + 1) * size, keys)
            dk_made = nl.ndarray((last - first, d), dtype=k.dtype, buffer=nl.sbuf)
            dv_made = nl.ndarray((last - first, width), dtype=v.dtype, buffer=nl.sbuf)
            if len(seen_by[column]) == 0:
                nisa.memset(dst=dk_made, value=0.0)
                nisa.memset(dst=dv_made, value=0.0)
            else:
                dk_sum = nl.ndarray((last - first, d), dtype=nl.float32, buffer=nl.psum)
                dv_sum = nl.ndarray((last - first, width), dtype=nl.float32, buffer=nl.psum)
                for row in seen_by[column]:
                    start, stop = row * size, min((row + 1) * size, length)
                    count = stop - start
                    sides = queries_t[:, :, start:stop], douts_t[:, :, start:stop]
                    others = keys_t[:, :, first:last], values_t[:, :, first:last]
                    terms = below[0:count, row], inner[0:count, row]
                    p, ds = block_gradients(sides, others, (d, width), terms, scale)
                    nisa.nc_matmul(dst=dv_sum, stationary=p, moving=douts[0:count, row])
                    nisa.nc_matmul(dst=dk_sum, stationary=ds, moving=queries[0:count, row])
                nisa.tensor_scalar(dst=dk_made, data=dk_sum, op0=nl.multiply, operand0=scale)
                nisa.tensor_copy(dst=dv_made, src=dv_sum)
            nisa.dma_copy(dst=dk[head, first:last], src=dk_made)
            nisa.dma_copy(dst=dv[head, first:last], src=dv_made)
    return dk, dv


def _check(q: Any, k: Any, v: Any, mask: Any, block: int) -> np.ndarray:
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


def _spans(seen: np.ndarray, block: int, length: int) -> tuple:
    """For every row of blocks the spans of elements that it sees, none longer than a product takes"""
    most = nl.tile_size.gemm_moving_fmax // block * block
    rows = []
    for row in seen:
        spans: list[tuple[int, int]] = []
        for column in np.flatnonzero(row).tolist():
            first, last = column * block, min((column + 1) * block, length)
            if spans and spans[-1][1] == first and last - spans[-1][0] <= most:
                spans[-1] = spans[-1][0], last
            else:
                spans.append((first, last))
        rows.append(tuple(spans))
    return tuple(rows)


@library(references.block_sparse_attention)
def block_sparse_attention(q: Any, k: Any, v: Any, mask: Any, block: int = 128, scale: float | None = None) -> Any:
    """Attention of [..., positions, width] in which block i of queries sees block j of keys where mask[i, j] is True.

    The second result holds the logarithms of the sums of exponentials. A query that sees nothing gives zeros, and the
    lowest float32 as its logarithm. Heads are up to 512 wide; the last block may be shorter than `block`.
    """
    seen = _check(q, k, v, mask, block)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    heads = q.shape[:-2]
    flat = [each.reshape(-1, *each.shape[-2:]) for each in (q, k, v)]
    out, lse = launch(block_attention_kernel, *flat, _spans(seen, block, k.shape[-2]), block, factor)
    return out.reshape(*heads, *out.shape[-2:]), lse.reshape(*heads, lse.shape[-1])


@library(references.block_sparse_attention_backward)
def block_sparse_attention_backward(
    q: Any, k: Any, v: Any, out: Any, lse: Any, dout: Any, mask: Any, block: int = 128, scale: float | None = None
) -> Any:
    """Gradients of q, k and v from that of `block_sparse_attention`, whose results are `out` and `lse`.

    Two kernels: dq by rows of blocks; dk and dv by columns of blocks.
    """
    seen = _check(q, k, v, mask, block)
    require_dims("out", out, *q.shape[:-1], v.shape[-1])
    require_dims("dout", dout, *out.shape)
    require_dims("lse", lse, *q.shape[:-1])
    require_floats(q=q, out=out, dout=dout)
    require_floats(lse=lse)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    flat = [each.reshape(-1, *each.shape[-2:]) for each in (q, k, v, out)]
    flat += [lse.reshape(-1, lse.shape[-1]), dout.reshape(-1, *dout.shape[-2:])]
    seen_by = tuple(tuple(np.flatnonzero(column).tolist()) for column in seen.T)
    dq = launch(block_attention_dq_kernel, *flat, _spans(seen, block, k.shape[-2]), block, factor)
    dk, dv = launch(block_attention_dkdv_kernel, *flat, seen_by, block, factor)
    return dq.reshape(q.shape), dk.reshape(k.shape), dv.reshape(v.shape)
