"""bfloat16 matmuls of 2048 x 2048 x 2048 as a tuner and its authors wrote them; the result is bfloat16 too.

Two structures. `two_level` (blocks of 512 x 1024 x 512 in M, K, N)::

    for each block of N
        zero 16 result tiles [128, 512]
        for each block of K
            load 8 tiles [128, 512] of rhs
            for each block of M
                load 8 tiles [128, 512] of lhsT
                for each of its 4 tiles: PSUM = 0; sum over 8; copy to SBUF; add to the result tile
        store 16 result tiles

`rotating` keeps two sets of rhs buffers, two times four of lhsT and four of results, taken in turn, and a PSUM tile and
a copy of its own for every product; without it every block has fresh buffers, and its products share one PSUM tile.

`resident` loads both whole matrices first (the one that is not K-major through a DMA transpose), multiplies over all of
K in one PSUM tile, copies to SBUF, and stores everything at the end.
"""

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 512
BLOCK_K = 8


def buffers(count, width, dtype):
    """`count` SBUF tiles [128, width]."""
    return [nl.ndarray((nl.tile_size.pmax, width), dtype=dtype, buffer=nl.sbuf) for _ in range(count)]


def load_rows(tiles, source, first_row, start):
    """Fill tiles with consecutive groups of 128 rows."""
    rows, width = tiles[0].shape
    for k in nl.affine_range(len(tiles)):
        nisa.dma_copy(dst=tiles[k], src=source[nl.ds(first_row + k * rows, rows), nl.ds(start, width)])


def add_products(results, left, right, rotating):
    """results[m] += sum over k of left[k][:, m].T @ right[k], through PSUM and a copy in SBUF."""
    width, columns = nl.tile_size.gemm_stationary_fmax, right[0].shape[1]
    for m in nl.affine_range(len(results)):
        if rotating or m == 0:
            partial = nl.ndarray((width, columns), dtype=nl.float32, buffer=nl.psum)
            copied = nl.ndarray((width, columns), dtype=results[0].dtype, buffer=nl.sbuf)
        nisa.memset(partial, value=0.0)
        for k in nl.affine_range(len(left)):
            nisa.nc_matmul(dst=partial, stationary=left[k][:, nl.ds(m * width, width)], moving=right[k])
        nisa.tensor_copy(dst=copied, src=partial)
        nisa.tensor_tensor(dst=results[m], data1=results[m], data2=copied, op=nl.add)


@nki.jit
def two_level(lhsT, rhs, rotating=True):
    """out = lhsT.T @ rhs; loops: N blocks, K blocks, M blocks."""
    width = nl.tile_size.gemm_stationary_fmax
    depth, height = lhsT.shape
    length = rhs.shape[1]
    block_k = nl.tile_size.pmax * BLOCK_K
    per_block = TILE // width
    out = nl.ndarray((height, length), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    kept = [buffers(height // width, TILE, out.dtype) for _ in range(length // TILE)] if rotating else None

    for n in nl.affine_range(length // TILE):
        results = kept[n] if rotating else buffers(height // width, TILE, out.dtype)
        lefts = [[buffers(BLOCK_K, TILE, lhsT.dtype) for _ in range(4)] for _ in range(2)] if rotating else None
        rights = [buffers(BLOCK_K, TILE, rhs.dtype) for _ in range(2)] if rotating else None
        for tile in results:
            nisa.memset(tile, value=0.0)
        for k in nl.sequential_range(depth // block_k):
            right = rights[k % 2] if rotating else buffers(BLOCK_K, TILE, rhs.dtype)
            load_rows(right, rhs, k * block_k, n * TILE)
            for m in nl.affine_range(height // TILE):
                left = lefts[k % 2][m % 4] if rotating else buffers(BLOCK_K, TILE, lhsT.dtype)
                load_rows(left, lhsT, k * block_k, m * TILE)
                add_products(results[m * per_block : (m + 1) * per_block], left, right, rotating)
        for m in nl.affine_range(height // width):
            nisa.dma_copy(dst=out[nl.ds(m * width, width), nl.ds(n * TILE, TILE)], src=results[m])
    return out


def load_all(source, width, transposed):
    """tiles[k][i] = [128, width] of the K-major matrix; `transposed`: the source has K as its columns."""
    rows = nl.tile_size.pmax
    depth, length = (source.shape[1], source.shape[0]) if transposed else source.shape
    tiles = []
    for k in nl.affine_range(depth // rows):
        row = []
        for i in nl.affine_range(length // width):
            tile = nl.ndarray((rows, width), dtype=source.dtype, buffer=nl.sbuf)
            if transposed:
                nisa.dma_transpose(dst=tile, src=source[nl.ds(i * width, width), nl.ds(k * rows, rows)])
            else:
                nisa.dma_copy(dst=tile, src=source[nl.ds(k * rows, rows), nl.ds(i * width, width)])
            row.append(tile)
        tiles.append(row)
    return tiles


@nki.jit
def resident(left, right, left_transposed=True, right_transposed=False):
    """out = left @ right; `*_transposed` says how each is stored: left as [K, M], right as [N, K]."""
    width, columns = nl.tile_size.gemm_stationary_fmax, nl.tile_size.gemm_moving_fmax
    height = left.shape[1] if left_transposed else left.shape[0]
    length = right.shape[0] if right_transposed else right.shape[1]
    out = nl.ndarray((height, length), dtype=left.dtype, buffer=nl.shared_hbm)
    if left_transposed:
        movings = load_all(right, columns, right_transposed)
        stationaries = load_all(left, width, False)
    else:
        stationaries = load_all(left, width, True)
        movings = load_all(right, columns, right_transposed)

    results = []
    total = nl.ndarray((width, columns), dtype=nl.float32, buffer=nl.psum)
    for m in nl.affine_range(height // width):
        row = []
        for n in nl.affine_range(length // columns):
            nisa.memset(total, value=0.0)
            for k in nl.affine_range(len(movings)):
                nisa.nc_matmul(dst=total, stationary=stationaries[k][m], moving=movings[k][n])
            copied = nl.ndarray((width, columns), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=copied, src=total)
            row.append(copied)
        results.append(row)
    for m in nl.affine_range(height // width):
        for n in nl.affine_range(length // columns):
            nisa.dma_copy(dst=out[nl.ds(m * width, width), nl.ds(n * columns, columns)], src=results[m][n])
    return out
