"""Mixture of experts: a router, experts on blocks of tokens, and the sum of what each token's experts made."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels import references
from tilewright.kernels.library import (
    launch,
    library,
    require,
    require_dims,
    require_feature,
    require_floats,
    require_sbuf,
)
from tilewright.kernels.rows import LOWEST
from tilewright.kernels.tiles import filled, load, load_by_rows, multiply_wide, turned_columns


@nki.jit
def router_kernel(x, weight, k):
    """The k experts of each token, and the softmax over their scores x . weight"""
    tokens, summed = x.shape
    experts = weight.shape[1]
    part, eight = nl.tile_size.pmax, 8
    chosen = nl.ndarray((tokens, k), dtype=nl.uint32, buffer=nl.shared_hbm)
    shares = nl.ndarray((tokens, k), dtype=nl.float32, buffer=nl.shared_hbm)
    kept = load_by_rows(weight)
    for start in range(0, tokens, part):
        stop = min(start + part, tokens)
        count = stop - start
        product = nl.ndarray((count, experts), dtype=nl.float32, buffer=nl.psum)
        multiply_wide(product, turned_columns(load(x[start:stop])), kept, summed)
        scores = filled((count, max(eight, experts)), LOWEST)
        nisa.tensor_copy(dst=scores[:, 0:experts], src=product)
        best = nl.ndarray((count, eight), dtype=nl.float32, buffer=nl.sbuf)
        where = nl.ndarray((count, eight), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.max8(dst=best, src=scores)
        nisa.nc_find_index8(dst=where, data=scores, vals=best)
        peak = nl.ndarray((count, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=peak, data=best[:, 0:1], op0=nl.multiply, operand0=-1.0)
        share = nl.ndarray((count, k), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((count, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=share, op=nl.exp, data=best[:, 0:k], bias=peak, reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=share, data=share, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=chosen[start:stop], src=where[:, 0:k])
        nisa.dma_copy(dst=shares[start:stop], src=share)
    return chosen, shares


@nki.jit
def experts_kernel(x, tokens, experts, gate, up, down):
    """made[b, s] = (silu(x gate) * (x up)) down, for x of token tokens[b, s] and the weights of expert experts[b]

    A block of up to 512 tokens has one expert, whose weights are found by its number. Places without a token point
    outside of x and stay zero. Hidden values come out with their dim on the partitions, as the last product needs them.
    """
    d, hidden = gate.shape[1:3]
    blocks, size = tokens.shape
    part, width = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    made = nl.ndarray((blocks, size, d), dtype=x.dtype, buffer=nl.shared_hbm)
    number = load(experts.expand_dim(0))
    for block in range(blocks):
        expert = number[:, block : block + 1]
        rows_t = gathered(x, tokens[block])
        gates, ups = expert_rows(gate, expert), expert_rows(up, expert)
        opened = nl.ndarray((part, hidden // part, size), dtype=x.dtype, buffer=nl.sbuf)
        for tile in range(hidden // part):
            columns = slice(tile * part, (tile + 1) * part)
            opening = nl.ndarray((part, size), dtype=nl.float32, buffer=nl.psum)
            passing = nl.ndarray((part, size), dtype=nl.float32, buffer=nl.psum)
            multiply_wide(opening, gates[:, :, columns], rows_t, d)
            multiply_wide(passing, ups[:, :, columns], rows_t, d)
            silu = nl.ndarray((part, size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=silu, op=nl.silu, data=opening)
            nisa.tensor_tensor(dst=opened[:, tile], data1=silu, data2=passing, op=nl.multiply)
        downs = expert_rows(down, expert)
        for start in range(0, size, part):
            result = nl.ndarray((part, d), dtype=x.dtype, buffer=nl.sbuf)
            for left in range(0, d, width):
                right = min(left + width, d)
                total = nl.ndarray((part, right - left), dtype=nl.float32, buffer=nl.psum)
                multiply_wide(total, opened[:, :, start : start + part], downs[:, :, left:right], hidden)
                nisa.tensor_copy(dst=result[:, left:right], src=total)
            nisa.dma_copy(dst=made[block, start : start + part], src=result)
    return made


def gathered(x: Any, tokens: Any) -> Any:
    """[partitions, d / 128, size] with the rows of these tokens as columns"""
    d, size, part = x.shape[1], tokens.shape[0], nl.tile_size.pmax
    rows_t = nl.ndarray((part, d // part, size), dtype=x.dtype, buffer=nl.sbuf)
    for start in range(0, size, part):
        index = load(tokens[start : start + part].expand_dim(1))
        rows = filled((part, d), 0.0, x.dtype)
        source = x.ap(pattern=[[d, part], [1, d]], offset=0, vector_offset=index, indirect_dim=0)
        nisa.dma_copy(dst=rows, src=source, oob_mode=nisa.oob_mode.skip)
        nisa.tensor_copy(dst=rows_t[:, :, start : start + part], src=turned_columns(rows))
    return rows_t


def expert_rows(weights: Any, expert: Any) -> Any:
    """[partitions, blocks, columns] of the weights of one expert, whose number is in a tile"""
    rows, columns = weights.shape[1:3]
    part = nl.tile_size.pmax
    tile = nl.ndarray((part, rows // part, columns), dtype=weights.dtype, buffer=nl.sbuf)
    pattern = [[columns, part], [part * columns, rows // part], [1, columns]]
    nisa.dma_copy(dst=tile, src=weights.ap(pattern=pattern, offset=0, scalar_offset=expert, indirect_dim=0))
    return tile


@nki.jit
def combine_kernel(made, places, shares):
    """out[t] = sum over j of shares[t, j] * made[places[t, j]]"""
    tokens, k = places.shape
    d, part = made.shape[1], nl.tile_size.pmax
    out = nl.ndarray((tokens, d), dtype=made.dtype, buffer=nl.shared_hbm)
    for start in range(0, tokens, part):
        stop = min(start + part, tokens)
        index, share = load(places[start:stop]), load(shares[start:stop])
        total = filled((stop - start, d), 0.0)
        for j in range(k):
            rows = nl.ndarray((stop - start, d), dtype=made.dtype, buffer=nl.sbuf)
            source = made.ap(pattern=[[d, stop - start], [1, d]], offset=0, vector_offset=index[:, j : j + 1])
            nisa.dma_copy(dst=rows, src=source)
            nisa.scalar_tensor_tensor(
                dst=total, data=rows, op0=nl.multiply, operand0=share[:, j : j + 1], op1=nl.add, operand1=total
            )
        result = nl.ndarray((stop - start, d), dtype=made.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[start:stop], src=result)
    return out


def blocks_of_tokens(chosen: np.ndarray, experts: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens [blocks, size], the expert of each block, and the place [tokens, k] of what each pair makes

    Tokens of an expert follow each other in blocks of their own; places that are left point behind the last token.
    """
    count, k = chosen.shape
    flat = chosen.reshape(-1).astype(np.int64)
    tokens, owners, places = [], [], np.zeros(count * k, np.int32)
    for expert in range(experts):
        pairs = np.flatnonzero(flat == expert)
        for start in range(0, len(pairs), size):
            here = pairs[start : start + size]
            places[here] = len(tokens) * size + np.arange(len(here))
            tokens.append(np.concatenate([here // k, np.full(size - len(here), count)]))
            owners.append(expert)
    return np.array(tokens, np.int32), np.array(owners, np.int32), places.reshape(count, k)


@library(references.moe)
def moe(x: Any, router: Any, gate: Any, up: Any, down: Any, k: int = 2) -> Any:
    """sum over the k best experts e of each token of share[e] * (silu(x gate[e]) * (x up[e])) down[e].

    x is [tokens, d], router [d, experts], gate and up [experts, d, hidden], down [experts, hidden, d]; shares are the
    softmax over the k scores. Three kernels: the router, the experts on blocks of tokens, and the sum.
    """
    require_dims("x", x, None, None)
    d = x.shape[1]
    require_dims("router", router, d, None)
    experts = router.shape[1]
    require(0 not in x.shape + router.shape, "an array is empty", "give at least one token and one expert")
    require_dims("gate", gate, experts, d, None)
    require_dims("up", up, *gate.shape)
    hidden = gate.shape[2]
    require_dims("down", down, experts, hidden, d)
    require_floats(x=x, router=router, gate=gate, up=up, down=down)
    part, width = nl.tile_size.pmax, nl.tile_size.psum_fmax
    require(d % part == 0 and hidden % part == 0, f"d is {d}, hidden {hidden}", f"give multiples of {part}")
    require(0 < k <= min(8, experts), f"{k} of {experts} experts", "ask for 1 to 8, and no more than there are", "E108")
    require(experts <= width, f"{experts} experts", f"at most {width}")
    require_feature("features.swdge_indirect", "tokens are gathered by a transfer", "use a later generation")
    size = np.dtype(x.dtype).itemsize
    needed = 2 * size * (3 * d // part * hidden + (2 * d + hidden) // part * width + 2 * d) + 8 * width
    require_sbuf(needed, f"an expert of {d} by {hidden}", "split the hidden dim, and add")
    chosen, shares = launch(router_kernel, x, router, k)
    tokens, owners, places = blocks_of_tokens(np.asarray(chosen), experts, width)
    made = launch(experts_kernel, x, tokens, owners, gate, up, down)
    return launch(combine_kernel, made.reshape(-1, d), places, shares)
