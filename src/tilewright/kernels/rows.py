"""Kernels that treat every row by itself: RMSNorm, LayerNorm, rotary embedding, SwiGLU, the k largest."""

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
    require_float32,
    require_floats,
    require_sbuf,
)
from tilewright.kernels.tiles import load, spread

LOWEST = float(np.finfo(np.float32).min)
MOST_SEARCHED = nl.tile_size.psum_fmax * 32
"""Elements of a row that max8 and its kind look through (R-max8-01)."""
GROUPED, GROUPED_ROWS, GROUPED_COLUMNS = 8, 8 * nl.tile_size.pmax, nl.tile_size.psum_fmax
"""So many largest are found by groups, in so many rows and columns: then more steps for a tile, each shorter, pay."""


@nki.jit
def rmsnorm_kernel(x, weight, eps):
    """out[i, :] = x[i, :] / sqrt(mean of x[i, :] ** 2 + eps) * weight"""
    rows, columns = x.shape
    part = nl.tile_size.pmax
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    scale = spread(weight)
    for start in range(0, rows, part):
        stop = min(start + part, rows)
        tile = load(x[start:stop])
        squares = nl.ndarray(tile.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
        total = nl.ndarray((stop - start, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1.0 / columns, op1=nl.add, operand1=eps)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.power, operand0=-0.5)
        nisa.scalar_tensor_tensor(
            dst=tile, data=tile, op0=nl.multiply, operand0=total, op1=nl.multiply, operand1=scale[0 : stop - start]
        )
        nisa.dma_copy(dst=out[start:stop], src=tile)
    return out


@library(references.rmsnorm)
def rmsnorm(x: Any, weight: Any, eps: float = 1e-6) -> Any:
    """x / sqrt(mean(x ** 2) + eps) * weight over the last axis."""
    _check_rows(x, weight=weight)
    return launch(rmsnorm_kernel, x.reshape(-1, x.shape[-1]), weight, eps).reshape(x.shape)


@nki.jit
def layernorm_kernel(x, weight, bias, eps):
    """out[i, :] = (x[i, :] - mean) / sqrt(variance + eps) * weight + bias

    The mean is taken off before anything is scaled: rows far from zero keep their digits.
    """
    rows, columns = x.shape
    part, most = nl.tile_size.pmax, nl.tile_size.bn_stats_fmax
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    scale, shift = spread(weight), spread(bias)
    pieces = (columns + most - 1) // most
    for start in range(0, rows, part):
        stop = min(start + part, rows)
        count = stop - start
        tile = load(x[start:stop])
        found = nl.ndarray((count, pieces, 6), dtype=nl.float32, buffer=nl.sbuf)
        for piece in range(pieces):
            nisa.bn_stats(dst=found[:, piece], data=tile[:, piece * most : min((piece + 1) * most, columns)])
        mean_variance = nl.ndarray((count, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.bn_aggr(dst=mean_variance, data=found)
        rate = nl.ndarray((count, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=rate, data=mean_variance[:, 1:2], op0=nl.add, operand0=eps, op1=nl.power, operand1=-0.5)
        below = nl.ndarray((count, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=below, data=mean_variance[:, 0:1], op0=nl.multiply, operand0=-1.0)
        centred = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=centred, op=nl.copy, data=tile, bias=below)
        nisa.scalar_tensor_tensor(
            dst=centred, data=centred, op0=nl.multiply, operand0=rate, op1=nl.multiply, operand1=scale[0:count]
        )
        made = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=made, data1=centred, data2=shift[0:count], op=nl.add, engine=nisa.engine.gpsimd)
        nisa.dma_copy(dst=out[start:stop], src=made)
    return out


@library(references.layernorm)
def layernorm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axis."""
    _check_rows(x, weight=weight, bias=bias)
    return launch(layernorm_kernel, x.reshape(-1, x.shape[-1]), weight, bias, eps).reshape(x.shape)


def _check_rows(x: Any, **vectors: Any) -> None:
    require(x.ndim >= 1 and 0 not in x.shape, f"x has the shape {tuple(x.shape)}", "give rows of at least one element")
    for name, vector in vectors.items():
        require_dims(name, vector, x.shape[-1])
    require_floats(x=x, **vectors)
    require_sbuf((6 + 2 * len(vectors)) * 4 * x.shape[-1], "a tile of such rows", "shorten the rows, or split them")


@nki.jit
def swiglu_kernel(x, gate):
    """out = x * gate * sigmoid(gate), element by element"""
    rows, part = x.shape[0], nl.tile_size.pmax
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, part):
        stop = min(start + part, rows)
        gates, tile = load(gate[start:stop]), load(x[start:stop])
        opened = nl.ndarray(gates.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=opened, op=nl.silu, data=gates)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=opened, op=nl.multiply)
        nisa.dma_copy(dst=out[start:stop], src=tile)
    return out


@library(references.swiglu)
def swiglu(x: Any, gate: Any) -> Any:
    """x * silu(gate)."""
    require_dims("gate", gate, *x.shape)
    require(x.ndim >= 1 and 0 not in x.shape, f"x has the shape {tuple(x.shape)}", "give at least one element")
    require_floats(x=x, gate=gate)
    require_sbuf(6 * 4 * x.shape[-1], "a tile of such rows", "shorten the rows, or split them")
    return launch(swiglu_kernel, x.reshape(-1, x.shape[-1]), gate.reshape(-1, x.shape[-1])).reshape(x.shape)


@nki.jit
def rope_kernel(x, cos, sin, most):
    """The halves a, b of every head turned by the angle of their position: a cos - b sin, b cos + a sin

    A partition holds positions that follow each other, so that transfers are long, of as many heads as give `most`
    elements; what does not fill the partitions comes last, a position each.
    """
    heads, length, width = x.shape
    part = nl.tile_size.pmax
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    start = 0
    while start < length:
        run = max(1, min((length - start) // part, most // width))
        rows = min(part, length - start)
        stop = start + rows * run
        cosines = load(cos[start:stop].reshape_dim(0, (rows, run)))
        sines = load(sin[start:stop].reshape_dim(0, (rows, run)))
        together = max(1, most // (run * width))
        for first in range(0, heads, together):
            last = min(first + together, heads)
            tile = load(x[first:last, start:stop].reshape_dim(1, (rows, run)).permute((1, 0, 2, 3)))
            made = turned(tile, cosines, sines)
            place = out[first:last, start:stop].reshape_dim(1, (rows, run)).permute((1, 0, 2, 3))
            nisa.dma_copy(dst=place, src=made)
        start = stop
    return out


def turned(tile: Any, cosines: Any, sines: Any) -> Any:
    """[rows, heads, run, width] turned by angles [rows, run, width / 2]"""
    rows, heads, run, width = tile.shape
    half = width // 2
    made = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    a, b = tile[:, :, :, 0:half], tile[:, :, :, half:width]
    c, s = cosines.expand_dim(1).broadcast(1, heads), sines.expand_dim(1).broadcast(1, heads)
    for side in range(2):
        kept = nl.ndarray((rows, heads, run, half), dtype=nl.float32, buffer=nl.sbuf)
        crossed = nl.ndarray((rows, heads, run, half), dtype=nl.float32, buffer=nl.sbuf)
        near, far, op = (a, b, nl.subtract) if side == 0 else (b, a, nl.add)
        nisa.tensor_tensor(dst=kept, data1=near, data2=c, op=nl.multiply)
        nisa.tensor_tensor(dst=crossed, data1=far, data2=s, op=nl.multiply, engine=nisa.engine.gpsimd)
        nisa.tensor_tensor(dst=made[:, :, :, side * half : side * half + half], data1=kept, data2=crossed, op=op)
    return made


@library(references.rope)
def rope(x: Any, cos: Any, sin: Any) -> Any:
    """Rotary embedding of [..., positions, width]: cos and sin are [positions, width / 2], halves are turned."""
    require(x.ndim >= 2 and 0 not in x.shape, f"x has the shape {tuple(x.shape)}", "give [..., positions, width]")
    length, width = x.shape[-2:]
    require(width % 2 == 0, f"heads of {width} elements have no halves", "give an even number")
    require_dims("cos", cos, length, width // 2)
    require_dims("sin", sin, length, width // 2)
    require_floats(x=x, cos=cos, sin=sin)
    require_sbuf(6 * 4 * width, "a head", "give narrower heads")
    most = max(width, nl.tile_size.psum_fmax * 4)
    return launch(rope_kernel, x.reshape(-1, length, width), cos, sin, most).reshape(x.shape)


@nki.jit
def topk_kernel(x, k):
    """The k largest of every row, descending, and where they are: eight at a time, those found taken out

    Rows shorter than eight are filled up with the lowest number.
    """
    rows, columns = x.shape
    part, eight = nl.tile_size.pmax, 8
    rounds = (k + eight - 1) // eight
    values = nl.ndarray((rows, k), dtype=nl.float32, buffer=nl.shared_hbm)
    places = nl.ndarray((rows, k), dtype=nl.uint32, buffer=nl.shared_hbm)
    for start in range(0, rows, part):
        stop = min(start + part, rows)
        count = stop - start
        tile = nl.ndarray((count, max(columns, eight * rounds)), dtype=nl.float32, buffer=nl.sbuf)
        if columns < eight * rounds:
            nisa.memset(dst=tile, value=LOWEST)
        nisa.dma_copy(dst=tile[:, 0:columns], src=x[start:stop])
        best = nl.ndarray((count, rounds * eight), dtype=nl.float32, buffer=nl.sbuf)
        where = nl.ndarray((count, rounds * eight), dtype=nl.uint32, buffer=nl.sbuf)
        for turn in range(rounds):
            at = turn * eight
            nisa.max8(dst=best[:, at : at + eight], src=tile)
            nisa.nc_find_index8(dst=where[:, at : at + eight], data=tile, vals=best[:, at : at + eight])
            if turn + 1 < rounds:
                nisa.nc_match_replace8(dst=tile, data=tile, vals=best[:, at : at + eight], imm=LOWEST)
        nisa.dma_copy(dst=values[start:stop], src=best[:, 0:k])
        nisa.dma_copy(dst=places[start:stop], src=where[:, 0:k])
    return values, places


@nki.jit
def topk_by_groups_kernel(x, k):
    """The k <= 8 largest of every row and where they are, by the greatest of every four neighbours

    The eight largest of a row lie in the eight groups whose greatest are largest, the first of equal ones: a group
    before another one holds places before its places. So Vector, which alone finds the largest and where they are,
    looks at a quarter of the row twice, then at the 32 elements of those groups, in the order of the row. A partition
    has rows that follow each other: three come together, and the results of many are written together.
    """
    rows, columns = x.shape
    part, most, together = nl.tile_size.pmax, 8, 3
    values = nl.ndarray((rows, k), dtype=nl.float32, buffer=nl.shared_hbm)
    places = nl.ndarray((rows, k), dtype=nl.uint32, buffer=nl.shared_hbm)
    within = nl.ndarray((part, together * 8, 4), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=within, pattern=[[0, together * 8], [1, 4]])
    start = 0
    turn = 0
    while start < rows:
        count = min(part, rows - start)
        run = min(most, (rows - start) // count)
        stop = start + run * count
        largest = nl.ndarray((count, run, k), dtype=nl.float32, buffer=nl.sbuf)
        where = nl.ndarray((count, run, k), dtype=nl.uint32, buffer=nl.sbuf)
        block = x[start:stop].reshape((count, run, columns))
        for first in range(0, run, together):
            last = min(first + together, run)
            tile = whole_groups(block[:, first:last, :])
            # GpSimd has a little more to do.
            greatest = greatest_of_four(tile, on_vector=turn % 3 == 0)
            eight_of_groups(tile, greatest, within, largest[:, first:last, :], where[:, first:last, :])
            turn += 1
        nisa.dma_copy(dst=values[start:stop].reshape((count, run, k)), src=largest)
        nisa.dma_copy(dst=places[start:stop].reshape((count, run, k)), src=where)
        start = stop
    return values, places


def whole_groups(rows: Any) -> Any:
    """Rows [partitions, rows, columns] on chip, filled up with the lowest number to whole groups of four"""
    count, run, columns = rows.shape
    whole = (columns + 3) // 4 * 4
    tile = nl.ndarray((count, run, whole), dtype=nl.float32, buffer=nl.sbuf)
    if columns < whole:
        nisa.memset(dst=tile[:, :, columns:whole], value=LOWEST)
    nisa.dma_copy(dst=tile[:, :, 0:columns], src=rows)
    return tile


def greatest_of_four(tile: Any, on_vector: bool) -> Any:
    """[partitions, rows, 4 * groups] to [partitions, rows, groups]: pairs on GpSimd, pairs of pairs on either engine"""
    made = tile
    for engine in (nisa.engine.gpsimd, nisa.engine.vector if on_vector else nisa.engine.gpsimd):
        count, run, columns = made.shape
        pairs = made.reshape((count, run, columns // 2, 2))
        made = nl.ndarray((count, run, columns // 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=made, data1=pairs[:, :, :, 0], data2=pairs[:, :, :, 1], op=nl.maximum, engine=engine)
    return made


def eight_of_groups(tile: Any, greatest: Any, within: Any, largest: Any, where: Any) -> None:
    """The largest of every row and where they are, of the eight groups with the greatest elements"""
    count, run, k = largest.shape
    best = nl.ndarray((count, run, 8), dtype=nl.float32, buffer=nl.sbuf)
    chosen = nl.ndarray((count, run, 8), dtype=nl.uint32, buffer=nl.sbuf)
    for row in range(run):
        nisa.max8(dst=best[:, row, :], src=greatest[:, row, :])
        nisa.nc_find_index8(dst=chosen[:, row, :], data=greatest[:, row, :], vals=best[:, row, :])
    # In the order of the row: of equal elements the first is found first.
    negated = nl.ndarray((count, run, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=negated, op=nl.copy, data=chosen, scale=-1.0)
    ordered = nl.ndarray((count, run, 8), dtype=nl.float32, buffer=nl.sbuf)
    for row in range(run):
        nisa.max8(dst=ordered[:, row, :], src=negated[:, row, :])
    taken = nl.ndarray((count, run * 8, 4), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=taken,
        data=ordered.reshape((count, run * 8)).expand_dim(2).broadcast(2, 4),
        op0=nl.multiply,
        operand0=-4.0,
        op1=nl.add,
        operand1=within[0:count, 0 : run * 8, :],
    )
    taken = taken.reshape((count, run, 32))
    held = nl.ndarray((count, run, 32), dtype=nl.float32, buffer=nl.sbuf)
    found = nl.ndarray((count, run, 8), dtype=nl.float32, buffer=nl.sbuf)
    slots = nl.ndarray((count, run, 8), dtype=nl.uint32, buffer=nl.sbuf)
    for row in range(run):
        nisa.nc_n_gather(dst=held[:, row, :], data=tile[:, row, :], indices=taken[:, row, :])
        nisa.max8(dst=found[:, row, :], src=held[:, row, :])
        nisa.nc_find_index8(dst=slots[:, row, :], data=held[:, row, :], vals=found[:, row, :])
        nisa.nc_n_gather(dst=where[:, row, :], data=taken[:, row, :], indices=slots[:, row, 0:k])
    nisa.activation(dst=largest, op=nl.copy, data=found[:, :, 0:k])


@library(references.topk)
def topk(x: Any, k: int) -> Any:
    """Values and uint32 positions of the k largest of the last axis, descending; of equal ones the first comes first.

    Numbers are finite: what was taken out is marked by the lowest float32.
    """
    require(x.ndim >= 1 and 0 not in x.shape, f"x has the shape {tuple(x.shape)}", "give rows of at least one element")
    require(0 < k <= x.shape[-1], f"{k} of {x.shape[-1]} elements", "ask for at least one and at most all", "E108")
    require(x.shape[-1] <= MOST_SEARCHED, f"rows of {x.shape[-1]} elements", f"give at most {MOST_SEARCHED}")
    require_float32(x=x)
    if isinstance(x, np.ndarray):
        require(bool((x > LOWEST).all()), "x has numbers that are not finite", "replace them first", code="E111")
    flat = x.reshape(-1, x.shape[-1])
    grouped = k <= GROUPED and flat.shape[0] >= GROUPED_ROWS and flat.shape[1] >= GROUPED_COLUMNS
    values, places = launch(topk_by_groups_kernel if grouped else topk_kernel, flat, k)
    return values.reshape(*x.shape[:-1], k), places.reshape(*x.shape[:-1], k)
