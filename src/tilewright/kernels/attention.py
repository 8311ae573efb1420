"""Flash attention: scores and probabilities never leave the chip."""

from __future__ import annotations

from typing import Any

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels import references
from tilewright.kernels.library import launch, library, require, require_heads, require_sbuf
from tilewright.kernels.tiles import copied, fill_by_rows, filled, turned_rows

HIDDEN = -1e30
"""Score of a key that a query does not see: its exponential is zero beside that of any other."""


@nki.jit
def attention_kernel(q, k, v, causal, scale):
    """out[i] = sum over j of softmax over j of (q[i] . k[j] * scale) * v[j]; lse[i] = log of the sum of exponentials

    Products run twice over the keys. The first time a query's greatest score is found. The second time keys lie on the
    partitions, so that weights come out as the next product needs them and nothing is transposed; the greatest score is
    taken off in the product itself, as one more row of it. A column of ones beside the values gives the sum of weights.
    """
    heads, length = q.shape[0:2]
    keys, width = v.shape[1:3]
    part = nl.tile_size.pmax
    together = min(nl.tile_size.gemm_moving_fmax // part, nl.tile_size.psum_fmax // (width + 1))
    group = together * part
    out = nl.ndarray((heads, length, width), dtype=v.dtype, buffer=nl.shared_hbm)
    lse = nl.ndarray((heads, length), dtype=nl.float32, buffer=nl.shared_hbm)
    ones = filled((part, part), 1.0, q.dtype)
    for head in range(heads):
        queries_t, keys_t, values = turned_rows(q[head]), turned_rows(k[head]), values_and_ones(v[head])
        bests = look(queries_t, keys_t, 0, min(group, length), causal)
        for first in range(0, length, group):
            last = min(first + group, length)
            peaks, below = peaks_of(bests, last - first, q.dtype)
            ahead = pieces_of(last, min(last + group, length), keys, causal)
            bests, done = new_bests(last, min(last + group, length), keys), 0
            sums = nl.ndarray((part, together, width + 1), dtype=nl.float32, buffer=nl.psum)
            seen = min(keys, last) if causal else keys
            for at in range(0, seen, part):
                high = min(part, keys - at)
                weights = weigh(keys_t[:, at : at + high], queries_t[:, first:last], ones, below, scale)
                if causal and at + high > first:
                    keep_where(weights, first - at, 1, -1, 0.0)
                for start in range(0, last - first, part):
                    stop = min(start + part, last - first)
                    nisa.nc_matmul(
                        dst=sums[0 : stop - start, start // part],
                        stationary=weights[:, start:stop],
                        moving=values[0:high, at // part],
                    )
                # Meanwhile the Vector engine looks for the peaks of the next queries, a piece of the keys at a time.
                due = len(ahead) * (at + high) // seen
                while done < due:
                    look_at(ahead[done], bests, queries_t, keys_t, causal)
                    done = done + 1
            for i in range(len(peaks)):
                rows = slice(first + i * part, min(first + (i + 1) * part, last))
                finish(out[head, rows], lse[head, rows], sums[0 : peaks[i].shape[0], i], peaks[i], scale)
    return out, lse


def weigh(keys_t: Any, queries_t: Any, ones: Any, below: Any, scale: float) -> Any:
    """exp(scale * (keys . queries + below)) with keys on the partitions"""
    count, columns = keys_t.shape[1], queries_t.shape[1]
    scores = nl.ndarray((count, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=keys_t, moving=queries_t)
    nisa.nc_matmul(dst=scores, stationary=ones[:, 0:count], moving=below)
    weights = nl.ndarray((count, columns), dtype=queries_t.dtype, buffer=nl.sbuf)
    nisa.activation(dst=weights, op=nl.exp, data=scores, scale=scale)
    return weights


def values_and_ones(v: Any) -> Any:
    """[partitions, blocks, width + 1] of values [n, width], each with a one after it"""
    rows, width = v.shape
    part = nl.tile_size.pmax
    tile = filled((min(part, rows), (rows + part - 1) // part, width + 1), 1.0, v.dtype)
    fill_by_rows(tile[:, :, 0:width], v, part)
    return tile


def pieces_of(first: int, last: int, keys: int, causal: bool) -> list:
    """What looking for peaks of these queries consists of: (queries from, to; keys from, to; place in a row)"""
    part, width = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    pieces = []
    for start in range(first, last, part):
        stop = min(start + part, last)
        seen = min(keys, stop) if causal else keys
        for at in range(0, seen, width):
            pieces.append((start, stop, at, min(at + width, seen), (start - first) // part))  # noqa: PERF401
    return pieces


def new_bests(first: int, last: int, keys: int) -> list:
    """For each 128 queries a tile with a column per piece of the keys"""
    part, width = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    tiles = []
    for start in range(first, last, part):
        count = min(part, last - start)
        tiles.append(filled((count, (keys + width - 1) // width), HIDDEN))
    return tiles


def look(queries_t: Any, keys_t: Any, first: int, last: int, causal: bool) -> list:
    """All pieces of some queries"""
    bests = new_bests(first, last, keys_t.shape[1])
    for piece in pieces_of(first, last, keys_t.shape[1], causal):
        look_at(piece, bests, queries_t, keys_t, causal)
    return bests


def look_at(piece: tuple, bests: list, queries_t: Any, keys_t: Any, causal: bool) -> None:
    """The greatest score of 128 queries with some keys"""
    start, stop, at, end, place = piece
    column = at // nl.tile_size.gemm_moving_fmax
    scores = nl.ndarray((stop - start, end - at), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=queries_t[:, start:stop], moving=keys_t[:, at:end])
    if causal and end > start:
        scores = copied(scores, nl.float32)
        keep_where(scores, start - at, -1, 1, HIDDEN)
    nisa.tensor_reduce(dst=bests[place][:, column : column + 1], op=nl.maximum, data=scores, axis=1)


def peaks_of(bests: list, columns: int, dtype: Any) -> tuple[list, Any]:
    """The greatest score of each query, 128 a column, and all of them negative in a row

    They are rounded to the type of the queries: what is taken off is what the result accounts for. Below the row are
    zeros: a product that drives one row of the Tensor engine would slow its clock.
    """
    part = nl.tile_size.pmax
    peaks = []
    below = filled((part, columns), 0.0, dtype)
    for i in range(len(bests)):
        count = bests[i].shape[0]
        peak = nl.ndarray((count, 1), dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=peak, op=nl.maximum, data=bests[i], axis=1)
        row = nl.ndarray((1, count), dtype=dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=row, data=peak)
        nisa.tensor_scalar(dst=below[0:1, i * part : i * part + count], data=row, op0=nl.multiply, operand0=-1.0)
        peaks.append(peak)
    return peaks, below


def keep_where(tile: Any, offset: int, column: int, row: int, other: float) -> None:
    """tile[p, f] stays where offset + p * row + f * column >= 0, else it becomes `other`"""
    nisa.affine_select(
        dst=tile,
        pattern=[[column, tile.shape[1]]],
        offset=offset,
        channel_multiplier=row,
        on_true_tile=tile,
        on_false_value=other,
        cmp_op=nl.greater_equal,
    )


def finish(out: Any, lse: Any, sums: Any, peak: Any, scale: float) -> None:
    """out = sums / their last column; lse = log(last column) + peak * scale"""
    rows, width = out.shape
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=total, data=sums[:, width : width + 1])
    made = nl.ndarray((rows, width), dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=made, data=sums[:, 0:width], op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=out, src=made)
    logarithm = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=logarithm, op=nl.log, data=sums[:, width : width + 1])
    nisa.scalar_tensor_tensor(dst=logarithm, data=peak, op0=nl.multiply, operand0=scale, op1=nl.add, operand1=logarithm)
    nisa.dma_copy(dst=lse.expand_dim(1), src=logarithm)


def check_heads(q: Any, k: Any, v: Any, causal: bool) -> None:
    """Refuse queries, keys and values that do not belong together, or heads that are too wide."""
    part = nl.tile_size.pmax
    require_heads(q, k, v, part, f"at most {part}; block_sparse_attention takes wider heads")
    fits = not causal or q.shape[-2] <= k.shape[-2]
    require(fits, f"{q.shape[-2]} queries, {k.shape[-2]} keys", "a causal query needs a key at its position")


@library(references.attention)
def attention(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None) -> Any:
    """softmax(q k^T scale) v for [..., positions, width], and the logarithms of the sums of exponentials.

    causal: query i sees keys 0 to i. scale: 1 / sqrt(width) when left out. Heads are up to 128 wide.
    """
    check_heads(q, k, v, causal)
    keys, d = k.shape[-2:]
    require_sbuf(16 * keys + 8 * q.shape[-2], f"{keys} keys", "split them, and join the parts by their logarithms")
    factor = d**-0.5 if scale is None else scale
    heads = q.shape[:-2]
    flat = [each.reshape(-1, *each.shape[-2:]) for each in (q, k, v)]
    out, lse = launch(attention_kernel, *flat, causal, factor)
    return out.reshape(*heads, *out.shape[-2:]), lse.reshape(*heads, lse.shape[-1])
