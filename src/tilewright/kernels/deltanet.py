"""Gated DeltaNet in chunks of 128 positions: one chunk, and a whole sequence with the state kept in SBUF.

The recurrence, for every position t with decay exp(g[t]) and rate beta[t]:
    S = exp(g[t]) * S;  S += beta[t] * k[t]^T (v[t] - k[t] S);  out[t] = q[t] S
Within a chunk it is a triangular system, which is inverted (`triangular`).

Decay between two positions is the exponential of the sum of the gates between them, added up by a product with a
triangle: nothing grows, and no difference of two large sums is taken. `deltanet_unsafe` shows what happens otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels import references
from tilewright.kernels.attention import keep_where
from tilewright.kernels.deltanet_steps import (
    GROUP,
    added,
    advance,
    decayed_products,
    decays_to_the_ends,
    read_out,
    scaled,
)
from tilewright.kernels.library import launch, library, require, require_dims, require_float32
from tilewright.kernels.tiles import filled, load, transposed
from tilewright.kernels.triangular import BLOCK, inverse_blocks, joined

TOGETHER = 16
"""Chunks of a head that go through all steps side by side."""
AHEAD = 1
"""How many such batches are prepared before the first one is finished: substitution is a long chain."""
LEAST = -1e4
"""Gates below are as good as this one: the exponential of either is zero."""


@nki.jit
def deltanet_kernel(q, k, v, beta, g, state, together):
    """out and the last state of [heads, length, width] arrays; state is [heads, width of keys, width of values]

    `together` chunks, of several heads or after each other, go through all steps side by side: while some wait, engines
    work on others. Only the last steps need the state, and are done chunk by chunk.
    """
    heads, length, _ = q.shape
    out = nl.ndarray(v.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    last = nl.ndarray(state.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    rows = padded(length)
    upper, strict = filled((rows, rows), 1.0), filled((rows, rows), 1.0)
    keep_where(upper, 0, 1, -1, 0.0)  # [t, i]: t <= i
    keep_where(strict, -1, -1, 1, 0.0)  # [t, j]: t > j
    waiting = []
    for first in range(0, heads, together):
        some = slice(first, min(first + together, heads))
        states = nl.ndarray((state.shape[1], some.stop - first, state.shape[2]), dtype=nl.float32, buffer=nl.sbuf)
        span = max(1, together // (some.stop - first)) * rows
        for start in range(0, length, span):
            at = slice(start, min(start + span, length))
            arrays = q[some, at], k[some, at], v[some, at], beta[some, at], g[some, at]
            chunks = prepared(arrays, (upper, strict))
            if start == 0:
                nisa.dma_copy(dst=states, src=state[some].permute((1, 0, 2)))
            waiting.append((chunks, states, out[some, at], last[some] if at.stop == length else None))
            if len(waiting) > AHEAD:
                finish(*waiting.pop(0))
    for each in waiting:
        finish(*each)
    return out, last


def padded(length: int) -> int:
    """Rows of a chunk on chip: 128, or a half or a quarter of it for short sequences"""
    rows = BLOCK
    while rows < min(length, nl.tile_size.pmax):
        rows = 2 * rows
    return rows


def prepared(arrays: Any, triangles: Any) -> tuple:
    """All of some chunks that does not need their states"""
    rows = triangles[0].shape[0]
    heads, wide = arrays[0].shape[0], arrays[0].shape[2]
    beta = load_chunks(arrays[3].expand_dim(2), rows, heads)[:, :, 0]
    g = load_chunks(arrays[4].expand_dim(2), rows, heads)[:, :, 0]
    q, k = load_chunks(arrays[0], rows, GROUP), load_chunks(arrays[1], rows, GROUP)
    v = load_chunks(arrays[2], rows, GROUP)
    nisa.tensor_scalar(dst=g, data=g, op0=nl.maximum, operand0=LEAST)
    ends = decays_to_the_ends(g, triangles, wide)
    sides_t, products = decayed_products(q, k, beta, g, triangles)
    return sides_t, products, inverse_blocks(products[:, :, 0]), ends, scaled(v, beta), scaled(k, ends[1])


def finish(chunks: tuple, states: Any, out: Any, last: Any) -> None:
    """The outputs of prepared chunks; `states` become those after them, and are stored where there is a `last` place"""
    sides_t, products, blocks, ends, given, kept = chunks
    rows, (heads, length, width) = given.shape[0], out.shape
    inverse_t = joined(products[:, :, 0], *blocks)
    few = max(1, min(GROUP, nl.tile_size.psum_fmax // width))
    for start in range(0, length, rows):
        before, stop = start // rows * heads, min(start + rows, length)
        for first in range(0, heads, few):
            those = slice(first, min(first + few, heads))
            some = slice(before + first, before + those.stop)
            state, grown, shrunk = states[:, those], ends[0][:, some], ends[2][:, some]
            new = added(state, sides_t[:, some], grown, given[:, some], inverse_t[:, some])
            made = read_out(state, sides_t[:, some], grown, products[:, some], new)
            nisa.dma_copy(dst=out[those, start:stop].permute((1, 0, 2)), src=made[0 : stop - start])
            advance(state, shrunk, kept[:, some], new)
            if last != None and stop == length:  # noqa: E711
                nisa.dma_copy(dst=last[those].permute((1, 0, 2)), src=state)


def load_chunks(source: Any, rows: int, together: int) -> Any:
    """[rows, chunks * heads, width] of [heads, length, width], some heads at a time; zeros fill up the last chunk"""
    heads, length, width = source.shape
    whole = length // rows
    tile = nl.ndarray((rows, (length + rows - 1) // rows, heads, width), dtype=source.dtype, buffer=nl.sbuf)
    for first in range(0, heads if whole > 0 else 0, together):
        last = min(first + together, heads)
        chunked = source[first:last, 0 : whole * rows].reshape_dim(1, (whole, rows))
        nisa.dma_copy(dst=tile[:, 0:whole, first:last], src=chunked.permute((2, 1, 0, 3)))
    if length > whole * rows:
        nisa.memset(dst=tile[:, whole], value=0.0)
        rest = source[:, whole * rows : length].permute((1, 0, 2))
        nisa.dma_copy(dst=tile[0 : length - whole * rows, whole], src=rest)
    return tile.flatten_dims(1, 2)


def _check(q: Any, k: Any, v: Any, beta: Any, g: Any) -> None:
    require(q.ndim >= 2, f"q has the shape {tuple(q.shape)}", "give [..., positions, width]")
    require_dims("k", k, *q.shape)
    require_dims("v", v, *q.shape[:-1], None)
    require_dims("beta", beta, *q.shape[:-1])
    require_dims("g", g, *q.shape[:-1])
    require(0 not in q.shape + v.shape, "an array is empty", "give at least one element")
    require_float32(q=q, k=k, v=v, beta=beta, g=g)
    part, widest = nl.tile_size.pmax, nl.tile_size.psum_fmax
    require(q.shape[-1] <= part, f"keys of {q.shape[-1]} elements", f"at most {part}")
    require(v.shape[-1] <= widest, f"values of {v.shape[-1]} elements", f"at most {widest}")


def _launch(q: Any, k: Any, v: Any, beta: Any, g: Any, state: Any) -> Any:
    lead, (length, wide), width = q.shape[:-2], q.shape[-2:], v.shape[-1]
    count = int(np.prod(lead))
    if state is None:
        state = np.zeros((count, wide, width), np.float32)
    else:
        require_dims("state", state, *lead, wide, width)
        require_float32(state=state)
    flat = [each.reshape(count, length, -1) for each in (q, k, v)]
    rates = [each.reshape(count, length) for each in (beta, g)]
    part = nl.tile_size.pmax
    together = TOGETHER * part // max(part, width)
    out, last = launch(deltanet_kernel, *flat, *rates, state.reshape(count, wide, width), together)
    return out.reshape(v.shape), last.reshape(*lead, wide, width)


@library(references.deltanet)
def deltanet(q: Any, k: Any, v: Any, beta: Any, g: Any, state: Any = None) -> Any:
    """Outputs and last state of gated DeltaNet over [..., positions, width]; gates g are logarithms of decays.

    One kernel for the whole sequence: the state stays on chip from chunk to chunk.
    """
    _check(q, k, v, beta, g)
    return _launch(q, k, v, beta, g, state)


@library(references.deltanet)
def deltanet_chunk(q: Any, k: Any, v: Any, beta: Any, g: Any, state: Any = None) -> Any:
    """The same for one chunk of at most 128 positions: chain calls by handing each the last one's state."""
    _check(q, k, v, beta, g)
    part = nl.tile_size.pmax
    require(q.shape[-2] <= part, f"a chunk of {q.shape[-2]} positions", f"at most {part}; deltanet takes any number")
    return _launch(q, k, v, beta, g, state)


def masked_product(left_t: Any, right: Any, mask: Any) -> Any:
    """(left . right) * mask, element by element"""
    made = nl.ndarray((left_t.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=made, stationary=left_t, moving=right)
    kept = nl.ndarray(made.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=kept, data1=made, data2=mask, op=nl.multiply)
    return kept


@nki.jit
def deltanet_unsafe(k, g_sum, lower):
    """How not to do it: the decayed products of keys of a chunk with exp(sums up to i) * exp(-sums up to j)

    One factor overflows where gates sum up to less than -88 although their product is at most one: infinity times zero.
    Kept as an example for `tw.ranges` and `tw.bisect`. k is [rows, width], g_sum [rows, 1] (cumulative), lower a mask.
    """
    rows = k.shape[0]
    out = nl.ndarray((rows, rows), dtype=nl.float32, buffer=nl.shared_hbm)
    keys, sums = load(k), load(g_sum)
    grown = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    shrunk = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=grown, op=nl.exp, data=sums)
    nisa.activation(dst=shrunk, op=nl.exp, data=sums, scale=-1.0)
    ahead = nl.ndarray(keys.shape, dtype=nl.float32, buffer=nl.sbuf)
    behind = nl.ndarray(keys.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=ahead, data=keys, op0=nl.multiply, operand0=grown)
    nisa.tensor_scalar(dst=behind, data=keys, op0=nl.multiply, operand0=shrunk)
    nisa.dma_copy(dst=out, src=masked_product(transposed(ahead), transposed(behind), load(lower)))
    return out
