"""The matmuls of the SDK's tutorials, from the simplest to the fully optimised, on tiles of 128 x 128 x 512.

All take lhsT[K, M] and rhs[K, N]. What differs is when tiles are loaded, hence how often::

    tiled       for m, n, k: load both tiles, multiply                       lhsT N/512 times, rhs M/128 times
    hoisted     for m: load K/128 tiles of lhsT; for n: load K/128 of rhs    lhsT once, rhs M/128 times
    free_blocks as hoisted, on blocks of 2 tiles in M and in N               lhsT once, rhs M/256 times
    packed      blocks in M, N and K; sums in SBUF tiles of one PSUM bank    lhsT N/1024 times, rhs once
                each, gathered into rows before they are stored

`packed` differs from matmul_blocked.blocked in its results: separate [128, 512] tiles, copied once more into a
[128, block_n] tile for each store. This is what the tutorials measured.
"""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def tiled(lhsT, rhs):
    """for m, for n: PSUM sums over k, both tiles loaded for every product; copy, store."""
    rows, width, columns = nl.tile_size.pmax, nl.tile_size.gemm_stationary_fmax, nl.tile_size.gemm_moving_fmax
    depth, height = lhsT.shape
    length = rhs.shape[1]
    out = nl.ndarray((height, length), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(height // width):
        for n in nl.affine_range(length // columns):
            total = nl.ndarray((width, columns), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(depth // rows):
                left = nl.ndarray((rows, width), dtype=lhsT.dtype, buffer=nl.sbuf)
                right = nl.ndarray((rows, columns), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=lhsT[nl.ds(k * rows, rows), nl.ds(m * width, width)])
                nisa.dma_copy(dst=right, src=rhs[nl.ds(k * rows, rows), nl.ds(n * columns, columns)])
                nisa.nc_matmul(dst=total, stationary=left, moving=right)
            copied = nl.ndarray((width, columns), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=copied, src=total)
            nisa.dma_copy(dst=out[nl.ds(m * width, width), nl.ds(n * columns, columns)], src=copied)
    return out


def load_column(source, start, width):
    """All tiles [128, width] of the columns from `start`, one per 128 rows."""
    rows = nl.tile_size.pmax
    tiles = []
    for k in nl.affine_range(source.shape[0] // rows):
        tile = nl.ndarray((rows, width), dtype=source.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=source[nl.ds(k * rows, rows), nl.ds(start, width)])
        tiles.append(tile)
    return tiles


def multiply_and_store(out, row, column, left, right):
    """out tile at (row, column) = sum over k of left[k].T @ right[k], through one PSUM bank."""
    width, columns = left[0].shape[1], right[0].shape[1]
    total = nl.ndarray((width, columns), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(len(left)):
        nisa.nc_matmul(dst=total, stationary=left[k], moving=right[k])
    copied = nl.ndarray((width, columns), dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copied, src=total)
    nisa.dma_copy(dst=out[nl.ds(row, width), nl.ds(column, columns)], src=copied)


@nki.jit
def hoisted(lhsT, rhs):
    """for m: load lhsT's column of tiles; for n: load rhs's column of tiles, multiply, store."""
    width, columns = nl.tile_size.gemm_stationary_fmax, nl.tile_size.gemm_moving_fmax
    height, length = lhsT.shape[1], rhs.shape[1]
    out = nl.ndarray((height, length), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(height // width):
        left = load_column(lhsT, m * width, width)
        for n in nl.affine_range(length // columns):
            right = load_column(rhs, n * columns, columns)
            multiply_and_store(out, m * width, n * columns, left, right)
    return out


@nki.jit
def free_blocks(lhsT, rhs, TILES_IN_BLOCK_M=2, TILES_IN_BLOCK_N=2):
    """for m blocks: load columns of lhsT; for n blocks: load columns of rhs; for m, n in the block: multiply."""
    width, columns = nl.tile_size.gemm_stationary_fmax, nl.tile_size.gemm_moving_fmax
    height, length = lhsT.shape[1], rhs.shape[1]
    assert height % (width * TILES_IN_BLOCK_M) == 0 and length % (columns * TILES_IN_BLOCK_N) == 0
    out = nl.ndarray((height, length), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m_block in nl.affine_range(height // (width * TILES_IN_BLOCK_M)):
        m_first = m_block * TILES_IN_BLOCK_M
        left = [load_column(lhsT, (m_first + m) * width, width) for m in range(TILES_IN_BLOCK_M)]
        for n_block in nl.affine_range(length // (columns * TILES_IN_BLOCK_N)):
            n_first = n_block * TILES_IN_BLOCK_N
            right = [load_column(rhs, (n_first + n) * columns, columns) for n in range(TILES_IN_BLOCK_N)]
            for m in nl.affine_range(TILES_IN_BLOCK_M):
                for n in nl.affine_range(TILES_IN_BLOCK_N):
                    multiply_and_store(out, (m_first + m) * width, (n_first + n) * columns, left[m], right[n])
    return out


def load_block(source, first_row, start, width, tiles):
    """`tiles` tiles [128, width], one below the other from `first_row`, at the columns from `start`."""
    rows = nl.tile_size.pmax
    loaded = []
    for k in nl.affine_range(tiles):
        tile = nl.ndarray((rows, width), dtype=source.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=source[nl.ds(first_row + k * rows, rows), nl.ds(start, width)])
        loaded.append(tile)
    return loaded


@nki.jit
def packed(lhsT, rhs, TILES_IN_BLOCK_M=16, TILES_IN_BLOCK_N=2, TILES_IN_BLOCK_K=8):
    """for n blocks: zero result tiles; for k blocks: load rhs; for m blocks: load lhsT, multiply, add; pack, store."""
    rows, width, columns = nl.tile_size.pmax, nl.tile_size.gemm_stationary_fmax, nl.tile_size.gemm_moving_fmax
    depth, height = lhsT.shape
    length = rhs.shape[1]
    block_m, block_n, block_k = width * TILES_IN_BLOCK_M, columns * TILES_IN_BLOCK_N, rows * TILES_IN_BLOCK_K
    assert height % block_m == 0 and length % block_n == 0 and depth % block_k == 0, "the blocks cover the matrices"
    out = nl.ndarray((height, length), dtype=lhsT.dtype, buffer=nl.shared_hbm)

    for n_block in nl.affine_range(length // block_n):
        results = []
        for _ in nl.affine_range(height // width):
            row = []
            for _ in nl.affine_range(TILES_IN_BLOCK_N):
                tile = nl.ndarray((width, columns), dtype=lhsT.dtype, buffer=nl.sbuf)
                nisa.memset(tile, value=0.0)
                row.append(tile)
            results.append(row)

        for k_block in nl.sequential_range(depth // block_k):
            right = load_block(rhs, k_block * block_k, n_block * block_n, block_n, TILES_IN_BLOCK_K)
            for m_block in nl.affine_range(height // block_m):
                left = load_block(lhsT, k_block * block_k, m_block * block_m, block_m, TILES_IN_BLOCK_K)
                for n in nl.affine_range(TILES_IN_BLOCK_N):
                    for m in nl.affine_range(TILES_IN_BLOCK_M):
                        partial = nl.ndarray((width, columns), dtype=nl.float32, buffer=nl.psum)
                        for k in nl.affine_range(TILES_IN_BLOCK_K):
                            nisa.nc_matmul(
                                dst=partial,
                                stationary=left[k][:, nl.ds(m * width, width)],
                                moving=right[k][:, nl.ds(n * columns, columns)],
                            )
                        total = results[m_block * TILES_IN_BLOCK_M + m][n]
                        nisa.tensor_tensor(dst=total, data1=total, data2=partial, op=nl.add)

        for m in nl.affine_range(height // width):
            gathered = nl.ndarray((width, block_n), dtype=out.dtype, buffer=nl.sbuf)
            for n in nl.affine_range(TILES_IN_BLOCK_N):
                nisa.tensor_copy(dst=gathered[:, nl.ds(n * columns, columns)], src=results[m][n])
            nisa.dma_copy(dst=out[nl.ds(m * width, width), nl.ds(n_block * block_n, block_n)], src=gathered)
    return out
