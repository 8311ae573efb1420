"""A blocked float32 matrix product: the right matrix stays in SBUF, the left one comes in blocks of rows."""

from __future__ import annotations

from typing import Any

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl

ROWS_PER_BLOCK = 4
"""Tiles of rows of the left matrix that are loaded at once."""


@nki.jit
def matmul(left_t: Any, right: Any) -> Any:
    """out[m, n] = sum over k of left_t[k, m] * right[k, n]

    left_t is the left matrix transposed: both operands have the contracted dim on the partitions. All dims are whole
    tiles: k and m of 128, n of 512.

    Pseudocode:
        load right as [128, k tiles, n]
        for each block of rows: load left_t[:, block] as [128, k tiles, rows]
            for each tile of rows, for each 512 columns: sum over the k tiles in PSUM, copy to SBUF
            store the finished rows
    """
    part, width = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    (k, m), (_, n) = left_t.shape, right.shape
    tiles = k // part
    out = nl.ndarray((m, n), dtype=left_t.dtype, buffer=nl.shared_hbm)

    columns = nl.ndarray((part, tiles, n), dtype=right.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=columns, src=right.reshape((tiles, part, n)).permute((1, 0, 2)))

    rows = part * ROWS_PER_BLOCK
    blocks = left_t.reshape((tiles, part, m)).permute((1, 0, 2))
    for start in range(0, m, rows):
        block = nl.ndarray((part, tiles, rows), dtype=left_t.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=block, src=blocks[:, :, start : start + rows])
        for row in range(0, rows, part):
            finished = nl.ndarray((part, n), dtype=left_t.dtype, buffer=nl.sbuf)
            for column in range(0, n, width):
                total = nl.ndarray((part, width), dtype=nl.float32, buffer=nl.psum)
                for tile in range(tiles):
                    nisa.nc_matmul(
                        dst=total,
                        stationary=block[:, tile, row : row + part],
                        moving=columns[:, tile, column : column + width],
                    )
                nisa.tensor_copy(dst=finished[:, column : column + width], src=total)
            nisa.dma_copy(dst=out[start + row : start + row + part], src=finished)
    return out
