"""Gated DeltaNet in chunks of 128 positions: one chunk, and a whole sequence with the state kept in SBUF.

The recurrence, for every position t with decay exp(g[t]) and rate beta[t]:
    S = exp(g[t]) * S;  S += beta[t] * k[t]^T (v[t] - k[t] S);  out[t] = q[t] S
Within a chunk it is a triangular system, whose inverse is put together from those of its blocks.

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
from tilewright.kernels.library import launch, library, require, require_dims, require_sbuf
from tilewright.kernels.tiles import copied, filled, load, transposed


@nki.jit
def deltanet_kernel(q, k, v, beta, g, state):
    """out and the last state of [heads, length, width] arrays; state is [heads, width of keys, width of values]

    Heads take turns within a chunk: while one waits for its chain of products, the engines work on others.
    """
    heads, length, _ = q.shape
    wide, width = state.shape[1:3]
    part = nl.tile_size.pmax
    out = nl.ndarray(v.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    last = nl.ndarray(state.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    triangles = filled((part, part), 1.0), filled((part, part), 1.0)
    keep_where(triangles[0], 0, 1, -1, 0.0)  # [t, i]: t <= i
    keep_where(triangles[1], -1, -1, 1, 0.0)  # [t, j]: t > j
    masks = pairings(min(part, length))
    states = nl.ndarray((wide, heads, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=states, src=state.permute((1, 0, 2)))
    for start in range(0, length, part):
        stop = min(start + part, length)
        for head in range(heads):
            tiles = load(q[head, start:stop]), load(k[head, start:stop]), load(v[head, start:stop])
            rates = load(beta[head, start:stop].expand_dim(1)), load(g[head, start:stop].expand_dim(1))
            made = chunk(tiles, rates, states[:, head], triangles, masks)
            nisa.dma_copy(dst=out[head, start:stop], src=made)
    nisa.dma_copy(dst=last.permute((1, 0, 2)), src=states)
    return out, last


def chunk(tiles: Any, rates: Any, state: Any, triangles: Any, masks: list) -> Any:
    """The outputs of a chunk; `state` becomes the one after it"""
    q, k, v = tiles
    beta, g = rates
    rows = q.shape[0]
    decay, decay_t, grown, left, shrunk = decays(g, triangles, state.shape[0])
    q_t, k_t = transposed(q), transposed(k)

    system = product(k_t, k_t, decay)
    nisa.tensor_scalar(dst=system, data=system, op0=nl.multiply, operand0=beta, op1=nl.multiply, operand1=-1.0)
    nisa.tensor_tensor(dst=system, data1=system, data2=triangles[1][0:rows, 0:rows], op=nl.multiply)

    # What each position adds: (1 - system)^-1 beta (v - grown k S)
    new = solve(difference(v, k_t, state, grown, beta), system, masks)

    attended = product(k_t, q_t, decay_t)
    made = nl.ndarray(v.shape, dtype=nl.float32, buffer=nl.sbuf)
    from_state = nl.ndarray(v.shape, dtype=nl.float32, buffer=nl.psum)
    from_chunk = nl.ndarray(v.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=from_state, stationary=q_t, moving=state)
    nisa.nc_matmul(dst=from_chunk, stationary=attended, moving=new)
    nisa.tensor_scalar(dst=made, data=from_state, op0=nl.multiply, operand0=grown)
    nisa.tensor_tensor(dst=made, data1=made, data2=from_chunk, op=nl.add)

    kept = nl.ndarray(k.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=kept, data=k, op0=nl.multiply, operand0=left)
    added = nl.ndarray(state.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=added, stationary=kept, moving=new)
    nisa.scalar_tensor_tensor(dst=state, data=state, op0=nl.multiply, operand0=shrunk, op1=nl.add, operand1=added)
    return made


def decays(g: Any, triangles: Any, wide: int) -> tuple[Any, Any, Any, Any, Any]:
    """Decay from j to i [i, j], the same turned and zero before j, from the start, to the end, and over the chunk

    The sum of gates after j up to i is one product: of [t <= i] with g[t] * [t > j].
    """
    rows = g.shape[0]
    upper, strict = triangles[0][0:rows, 0:rows], triangles[1][0:rows, 0:rows]
    after = nl.ndarray((rows, rows + 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=after[:, 0:rows], data=strict, op0=nl.multiply, operand0=g)
    nisa.tensor_copy(dst=after[:, rows : rows + 1], src=g)
    sums = nl.ndarray((rows, rows + 1), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=sums, stationary=upper, moving=after)
    both = nl.ndarray((rows, rows + 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=both, op=nl.exp, data=sums)

    sums_t = nl.ndarray((rows, rows), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=sums_t, stationary=after[:, 0:rows], moving=upper)
    decay_t = nl.ndarray((rows, rows), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=decay_t, op=nl.exp, data=sums_t)
    nisa.tensor_tensor(dst=decay_t, data1=decay_t, data2=upper, op=nl.multiply)

    ends = nl.ndarray((max(rows, wide), 2), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=ends[0:rows, 0:1], stationary=strict, moving=g)
    nisa.nc_matmul(dst=ends[0:wide, 1:2], stationary=filled((rows, wide), 1.0), moving=g)
    left = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    shrunk = nl.ndarray((wide, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=left, op=nl.exp, data=ends[0:rows, 0:1])
    nisa.activation(dst=shrunk, op=nl.exp, data=ends[0:wide, 1:2])
    return both[:, 0:rows], decay_t, both[:, rows : rows + 1], left, shrunk


def product(left_t: Any, right: Any, factor: Any) -> Any:
    """(left . right) * factor, element by element"""
    made = nl.ndarray((left_t.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=made, stationary=left_t, moving=right)
    scaled = nl.ndarray(made.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=scaled, data1=made, data2=factor, op=nl.multiply)
    return scaled


def difference(v: Any, k_t: Any, state: Any, grown: Any, beta: Any) -> Any:
    """beta * (v - grown * (k . state))"""
    known = nl.ndarray(v.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=known, stationary=k_t, moving=state)
    taken = nl.ndarray(v.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=taken, data=known, op0=nl.multiply, operand0=grown)
    made = nl.ndarray(v.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=made, data1=v, data2=taken, op=nl.subtract)
    nisa.tensor_scalar(dst=made, data=made, op0=nl.multiply, operand0=beta)
    return made


def pairings(rows: int) -> list:
    """The unit matrix; then for 1, 2, 4 and so on, ones where row and column lie in one pair of blocks of so many rows,
    but not in one block
    """
    inner, size = same_block(rows, 1), 1
    masks = [inner]
    while size < rows:
        outer = same_block(rows, 2 * size)
        mask = nl.ndarray((rows, rows), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=mask, data1=outer, data2=inner, op=nl.subtract)
        masks.append(mask)
        inner, size = outer, 2 * size
    return masks


def same_block(rows: int, size: int) -> Any:
    """Ones where row and column lie in the same block of `size`"""
    blocks = (rows + size - 1) // size
    tile = filled((rows, blocks, size), 1.0)
    for pattern, offset, sign in (([[-size, blocks], [0, size]], 0, 1), ([[size, blocks], [0, size]], size - 1, -1)):
        nisa.affine_select(
            dst=tile,
            pattern=pattern,
            offset=offset,
            channel_multiplier=sign,
            on_true_tile=tile,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )
    return tile.reshape((rows, blocks * size))[:, 0:rows]


def solve(values: Any, system: Any, masks: list) -> Any:
    """(1 - system)^-1 . values for a strictly lower triangle

    The inverse of blocks of 1, 2, 4 and so on: that of a pair [[a, 0], [-c, b]] is [[a', 0], [b' c a', b']]. With x the
    inverse of all blocks and c what joins them: x + x c x. It and its transpose are kept, which saves transposes. The
    product (1 + A)(1 + A^2)(1 + A^4)... is the same for exact numbers; where keys resemble each other its factors are
    huge and cancel.
    """
    rows = system.shape[0]
    if rows == 1:
        return values
    unit, first = masks[0][0:rows, 0:rows], masks[1][0:rows, 0:rows]
    system_t = transposed(system)
    inverse, inverse_t = joined(system, first), joined(system_t, first)
    nisa.tensor_tensor(dst=inverse, data1=inverse, data2=unit, op=nl.add)
    nisa.tensor_tensor(dst=inverse_t, data1=inverse_t, data2=unit, op=nl.add)
    for i in range(2, len(masks)):
        joining = nl.ndarray((rows, rows), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=joining, stationary=joined(system_t, masks[i][0:rows, 0:rows]), moving=inverse)
        half = copied(joining, nl.float32)
        more_t = nl.ndarray((rows, rows), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=more_t, stationary=half, moving=inverse_t)
        if i + 1 < len(masks):
            more = nl.ndarray((rows, rows), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=more, stationary=inverse_t, moving=half)
            nisa.tensor_tensor(dst=inverse, data1=inverse, data2=more, op=nl.add)
        nisa.tensor_tensor(dst=inverse_t, data1=inverse_t, data2=more_t, op=nl.add)
    made = nl.ndarray(values.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=made, stationary=inverse_t, moving=values)
    return copied(made, nl.float32)


def joined(system: Any, mask: Any) -> Any:
    """What joins the blocks of pairs"""
    made = nl.ndarray(system.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=made, data1=system, data2=mask, op=nl.multiply)
    return made


def _check(q: Any, k: Any, v: Any, beta: Any, g: Any) -> None:
    require(q.ndim >= 2, f"q has the shape {tuple(q.shape)}", "give [..., positions, width]")
    require_dims("k", k, *q.shape)
    require_dims("v", v, *q.shape[:-1], None)
    require_dims("beta", beta, *q.shape[:-1])
    require_dims("g", g, *q.shape[:-1])
    require(0 not in q.shape + v.shape, "an array is empty", "give at least one element")
    wrong = {str(each.dtype) for each in (q, k, v, beta, g)} - {"float32"}
    require(not wrong, f"element types {sorted(wrong)}", "give float32", code="E102")
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
    require_sbuf(4 * (count + 24) * width, f"the state of {count} heads", "give fewer heads at once")
    flat = [each.reshape(count, length, -1) for each in (q, k, v)]
    rates = [each.reshape(count, length) for each in (beta, g)]
    out, last = launch(deltanet_kernel, *flat, *rates, state.reshape(count, wide, width))
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
    nisa.dma_copy(dst=out, src=product(transposed(ahead), transposed(behind), load(lower)))
    return out
