"""Inverses of many small triangular systems: blocks of 32 rows, one on every partition, then pairs of blocks.

All systems are of the form 1 - A, A strictly lower; kernels keep A turned, [column, row], as products want it.
"""

from __future__ import annotations

from typing import Any

import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels.tiles import copied, filled, load

BLOCK = 32
"""Rows that are solved for one after the other; partitions can be addressed from every 32nd on."""


def inverse_turned(systems_t: Any) -> Any:
    """[j, n, i]: (1 - A)^-1, turned, of n systems [j, n, i] of 32, 64 or 128 rows, A turned

    Blocks on the diagonal are solved by substitution. Then the inverse of a pair of blocks [[a, 0], [-c, b]] is
    [[a', 0], [b' c a', b']]. The product (1 + A)(1 + A^2)(1 + A^4)... is the same for exact numbers; where rows
    resemble each other its factors are huge and cancel.
    """
    return joined(systems_t, *inverse_blocks(systems_t))


def inverse_blocks(systems_t: Any) -> tuple[Any, Any]:
    """Tiles of zeros with the inverses of the blocks on the diagonal, turned and as they are

    Blocks go through HBM, which gives each of them a partition.
    """
    rows, count = systems_t.shape[0:2]
    place = nl.ndarray((count, rows, BLOCK), dtype=nl.float32, buffer=nl.private_hbm)
    for at in range(0, rows, BLOCK):
        nisa.dma_copy(
            dst=place[:, at : at + BLOCK].permute((1, 0, 2)), src=systems_t[at : at + BLOCK, :, at : at + BLOCK]
        )
    solved = substituted(load(place.reshape((count * rows // BLOCK, BLOCK, BLOCK))))
    return on_diagonal(copied(solved.permute((0, 2, 1)), nl.float32), count), on_diagonal(solved, count)


def joined(systems_t: Any, inverse_t: Any, inverse: Any) -> Any:
    """The first of the two tiles, with the inverses of whole systems"""
    rows, count = systems_t.shape[0:2]
    size = BLOCK
    while size < rows:
        together = 2 * nl.tile_size.psum_fmax // rows
        for first in range(0, count, together):
            some = slice(first, min(first + together, count))
            join(inverse_t[:, some], inverse[:, some], systems_t[:, some], size)
        size = 2 * size
    return inverse_t


def on_diagonal(blocks: Any, count: int) -> Any:
    """[rows, n, rows] with blocks, one on each partition, on the diagonals"""
    rows = blocks.shape[0] // count * BLOCK
    tile = nl.ndarray((rows, count, rows), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0, engine=nisa.engine.gpsimd)
    place = nl.ndarray((count, rows, BLOCK), dtype=nl.float32, buffer=nl.private_hbm)
    nisa.dma_copy(dst=place.reshape(blocks.shape), src=blocks)
    for at in range(0, rows, BLOCK):
        nisa.dma_copy(dst=tile[at : at + BLOCK, :, at : at + BLOCK], src=place[:, at : at + BLOCK].permute((1, 0, 2)))
    return tile


def substituted(systems_t: Any) -> Any:
    """[p, i, c]: (1 - A)^-1 of a system [p, j, i] on every partition, A turned: column after column is eliminated"""
    count, size, _ = systems_t.shape
    made = filled((count, size * size), 0.0)
    nisa.memset(dst=made[:, 0 : size * size : size + 1], value=1.0)
    made = made.reshape((count, size, size))
    for j in range(size - 1):
        below = size - 1 - j
        more = nl.ndarray((count, below, j + 1), dtype=nl.float32, buffer=nl.sbuf)
        factors = systems_t[:, j, j + 1 : size].expand_dim(2).broadcast(2, j + 1)
        nisa.tensor_tensor(
            dst=more, data1=factors, data2=made[:, j : j + 1, 0 : j + 1].broadcast(1, below), op=nl.multiply
        )
        rest = made[:, j + 1 : size, 0 : j + 1]
        nisa.tensor_tensor(dst=rest, data1=rest, data2=more, op=nl.add)
    return made


def join(inverse_t: Any, inverse: Any, systems_t: Any, size: int) -> None:
    """The inverses of all pairs of blocks, turned; and as they are, where a larger pair will need them

    Products are those of whole columns: what lies beside the blocks meets zeros, or is not used.
    """
    rows, count = systems_t.shape[0:2]
    pairs = rows // (2 * size)
    halves = nl.ndarray((rows, count, pairs, size), dtype=nl.float32, buffer=nl.psum)
    for n in range(count):
        left = inverse[:, n].reshape_dim(1, (pairs, 2, size))[:, :, 0]
        nisa.nc_matmul(dst=halves[:, n], stationary=systems_t[:, n], moving=left)
    half = copied(halves, nl.float32)
    for pair in range(0, pairs - 1, 2):
        a, b = slice(2 * pair * size, (2 * pair + 1) * size), slice((2 * pair + 1) * size, (2 * pair + 2) * size)
        below = nl.ndarray((rows, count, size), dtype=nl.float32, buffer=nl.psum)
        for n in range(count):
            nisa.nc_matmul(dst=below[b, n], stationary=inverse_t[:, n, b], moving=half[:, n, pair])
        nisa.tensor_copy(dst=inverse[b, :, a], src=below[b])
    above = nl.ndarray((rows, count, pairs, size), dtype=nl.float32, buffer=nl.psum)
    for n in range(count):
        right = inverse_t[:, n].reshape_dim(1, (pairs, 2, size))[:, :, 1]
        nisa.nc_matmul(dst=above[:, n], stationary=half[:, n].expand_dim(2).broadcast(2, 2), moving=right)
    for pair in range(pairs):
        a, b = slice(2 * pair * size, (2 * pair + 1) * size), slice((2 * pair + 1) * size, (2 * pair + 2) * size)
        nisa.tensor_copy(dst=inverse_t[a, :, b], src=above[a, :, pair])
