"""Matmul blocked in all three dims, with the block sizes exposed: the kernel of the fp32 grid.

Loop structure (tiles are 128 x 128 x 512 in M, K, N)::

    for each block of N
        for each tile of M: zero a result [128, block_n] in SBUF
        for each block of K, in order
            load block_k tiles of rhs, each [128, block_n]
            for each block of M
                load block_k tiles of lhsT, each [128, block_m]
                for each tile of N, for each tile of M in the block
                    PSUM [128, 512] = sum over block_k of lhsT tile.T @ rhs tile
                    result += PSUM
        for each tile of M: store the result [128, block_n]

So rhs is read once, lhsT once per block of N, and the results of a whole block of N stay in SBUF.
"""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def blocked(lhsT, rhs, TILES_IN_BLOCK_M=16, TILES_IN_BLOCK_N=2, TILES_IN_BLOCK_K=8):
    """out[M, N] = lhsT[K, M].T @ rhs[K, N]; block sizes count tiles."""
    rows = nl.tile_size.pmax
    width = nl.tile_size.gemm_stationary_fmax
    columns = nl.tile_size.gemm_moving_fmax
    depth, height = lhsT.shape
    length = rhs.shape[1]
    block_m, block_n, block_k = width * TILES_IN_BLOCK_M, columns * TILES_IN_BLOCK_N, rows * TILES_IN_BLOCK_K
    assert height % block_m == 0 and length % block_n == 0 and depth % block_k == 0, "the blocks cover the matrices"
    out = nl.ndarray((height, length), dtype=lhsT.dtype, buffer=nl.shared_hbm)

    for n_block in nl.affine_range(length // block_n):
        n_span = nl.ds(n_block * block_n, block_n)
        results = []
        for _ in nl.affine_range(height // width):
            result = nl.ndarray((width, TILES_IN_BLOCK_N, columns), dtype=out.dtype, buffer=nl.sbuf)
            nisa.memset(result, value=0.0)
            results.append(result)

        for k_block in nl.sequential_range(depth // block_k):
            right = nl.ndarray((rows, TILES_IN_BLOCK_K, block_n), dtype=rhs.dtype, buffer=nl.sbuf)
            for k in nl.affine_range(TILES_IN_BLOCK_K):
                k_span = nl.ds((k_block * TILES_IN_BLOCK_K + k) * rows, rows)
                nisa.dma_copy(dst=right[:, k, :], src=rhs[k_span, n_span])

            for m_block in nl.affine_range(height // block_m):
                left = nl.ndarray((rows, TILES_IN_BLOCK_K, block_m), dtype=lhsT.dtype, buffer=nl.sbuf)
                for k in nl.affine_range(TILES_IN_BLOCK_K):
                    k_span = nl.ds((k_block * TILES_IN_BLOCK_K + k) * rows, rows)
                    nisa.dma_copy(dst=left[:, k, :], src=lhsT[k_span, nl.ds(m_block * block_m, block_m)])

                for n in nl.affine_range(TILES_IN_BLOCK_N):
                    for m in nl.affine_range(TILES_IN_BLOCK_M):
                        partial = nl.ndarray((width, columns), dtype=nl.float32, buffer=nl.psum)
                        for k in nl.affine_range(TILES_IN_BLOCK_K):
                            nisa.nc_matmul(
                                dst=partial,
                                stationary=left[:, k, nl.ds(m * width, width)],
                                moving=right[:, k, nl.ds(n * columns, columns)],
                            )
                        total = results[m_block * TILES_IN_BLOCK_M + m][:, n, :]
                        nisa.tensor_tensor(dst=total, data1=total, data2=partial, op=nl.add)

        for m in nl.affine_range(height // width):
            nisa.dma_copy(dst=out[nl.ds(m * width, width), n_span], src=results[m].reshape((width, block_n)))
    return out
