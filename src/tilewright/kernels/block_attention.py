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
    fill_by_rows,
    filled,
    load_by_rows,
    multiply_wide,
    store_by_rows,
    transposed,
    turned_blocks,
    turned_columns,
)

WORKING = 15_000
"""Bytes of each partition that rows under way take."""
LOADED = 16
"""So many rows of each partition are loaded at once: the first are used while others are under way."""
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
    # One column for each row of blocks; logarithms are taken of all at once, whose table is another than exp's.
    totals, peaks = filled((size, heads, len(rows)), 1.0), filled((size, heads, len(rows)), -NOTHING)
    for head in range(heads):
        queries_t = load_turned(q[head], None if by_dma else load_by_rows(q[head], size), by_dma)
        keys_t = load_turned(k[head], None if by_dma else load_by_rows(k[head], size), by_dma)
        values = load_in_parts(v[head], size)
        waiting = []
        for first, last in groups:
            count = min(size, length - first * size)
            weights = []
            for row in range(first, last):
                here = queries_t[:, :, row * size : row * size + count]
                ends = totals[0:count, head, row : row + 1], peaks[0:count, head, row : row + 1]
                weights.append(softmax_parts(here, keys_t, rows[row], d, (scale, minus), ends))
            place = out[head, first * size : min(last * size, length)]
            waiting.append((place, weights, values, rows[first:last], totals[0:count, head, first:last], size))
            if len(waiting) > 1:
                finish_rows(*waiting.pop(0))
        finish_rows(*waiting.pop(0))
    nisa.activation(dst=totals, op=nl.log, data=totals)
    nisa.tensor_tensor(dst=totals, data1=totals, data2=peaks, op=nl.subtract)
    for head in range(heads):
        store_columns(lse[head], totals[:, head], size)
    return out, lse


def finish_rows(place: Any, weights: list, values: Any, rows: Any, totals: Any, size: int) -> None:
    """Rows of the result: weights . values / totals; rows that see nothing are alone, and zero"""
    count, width = totals.shape[0], values.shape[2]
    made = nl.ndarray((count, len(rows), width), dtype=values.dtype, buffer=nl.sbuf)
    if len(rows[0]) == 0:
        nisa.memset(dst=made, value=0.0)
    else:
        mixed = nl.ndarray((count, len(rows), width), dtype=nl.float32, buffer=nl.psum)
        for row in range(len(rows)):
            mix(mixed[:, row], weights[row], values, rows[row], size)
        rate = nl.ndarray((count, len(rows)), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=rate, data=totals)
        nisa.tensor_tensor(dst=made, data1=mixed, data2=rate.expand_dim(2).broadcast(2, width), op=nl.multiply)
    store_by_rows(place, made, size)


def store_columns(place: Any, tile: Any, size: int) -> None:
    """place[column * size + p] = tile[p, column]; the last column may be lower

    Columns are turned first: transfers of single numbers are slow.
    """
    length, columns = place.shape[0], tile.shape[1]
    for first in range(0, columns, nl.tile_size.pmax):
        last = min(first + nl.tile_size.pmax, columns)
        rows = transposed(tile[:, first:last])
        whole = min(last, length // size) - first
        if whole > 0:
            these = place[first * size : (first + whole) * size]
            nisa.dma_copy(dst=these.reshape((whole, size)), src=rows[0:whole])
        if last * size > length:
            rest = place[(last - 1) * size : length]
            nisa.dma_copy(dst=rest.expand_dim(0), src=rows[last - first - 1 : last - first, 0 : rest.shape[0]])


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


def load_in_parts(source: Any, size: int) -> Any:
    """[size, blocks, f] with `size` rows of a tensor [n, f] in each block, some blocks at a time"""
    rows, columns = source.shape
    tile = nl.ndarray((size, (rows + size - 1) // size, columns), dtype=source.dtype, buffer=nl.sbuf)
    step = LOADED * nl.tile_size.pmax // size * size
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        fill_by_rows(tile[:, start // size : (stop + size - 1) // size], source[start:stop], size)
    return tile


def load_turned(source: Any, tile: Any, by_dma: bool) -> Any:
    """[partitions, blocks of 128 columns, n] of [n, f] in HBM: turned by the transfer, or from blocks of rows"""
    if not by_dma:
        return turned_blocks(tile, source.shape[0])
    rows, columns = source.shape
    part = nl.tile_size.pmax
    turned = nl.ndarray((min(part, columns), (columns + part - 1) // part, rows), dtype=source.dtype, buffer=nl.sbuf)
    for start in range(0, rows, LOADED * part):
        some = slice(start, min(start + LOADED * part, rows))
        for left in range(0, columns, part):
            right = min(left + part, columns)
            place = turned[0 : right - left, left // part, some]
            nisa.dma_transpose(dst=place, src=source[some, left:right], axes=(1, 0))
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
    return seen


def require_room(arrays: Any, turned: Any, block: int, more: int = 0) -> None:
    """Refuse what does not fit the chip: a head of arrays in blocks of rows, and turned, and so many bytes more"""
    part = nl.tile_size.pmax
    needed = more + WORKING
    for each in arrays:
        needed += -(-each.shape[-2] // block) * each.shape[-1] * np.dtype(each.dtype).itemsize
    for each in turned:
        needed += -(-each.shape[-1] // part) * each.shape[-2] * np.dtype(each.dtype).itemsize
    lengths = " and ".join(str(length) for length in sorted({each.shape[-2] for each in turned}))
    require_sbuf(needed, f"a head of {lengths} positions", "split the queries, or give larger blocks")


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
    by_dma = turns_by_dma(q)
    # Scores and weights of a row that is longer than a bank of PSUM are in SBUF.
    longest = block * int(seen.sum(axis=1).max())
    require_room([v] if by_dma else [q, v], [q, k], block, 4 * 4 * longest if longest > nl.tile_size.psum_fmax else 0)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    heads = q.shape[:-2]
    flat = [each.reshape(-1, *each.shape[-2:]) for each in (q, k, v)]
    rows = rows_of(seen, block, k.shape[-2])
    groups = groups_of(rows, q.shape[-2] // block, nl.tile_size.psum_fmax // v.shape[-1])
    out, lse = launch(block_attention_kernel, *flat, rows, groups, block, factor, by_dma)
    return out.reshape(*heads, *out.shape[-2:]), lse.reshape(*heads, lse.shape[-1])
