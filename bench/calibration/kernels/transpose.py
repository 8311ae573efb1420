"""Transpose of a matrix by tiles of 128 x 128: load, Tensor-engine transpose into PSUM, copy, store."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def tiles(a):
    """for m, for n: out[n, m] = a[m, n].T, every tile loaded and stored by itself."""
    size = nl.tile_size.pmax
    height, length = a.shape
    out = nl.ndarray((length, height), dtype=a.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(height // size):
        for n in nl.affine_range(length // size):
            m_span, n_span = nl.ds(m * size, size), nl.ds(n * size, size)
            tile = nl.ndarray((size, size), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[m_span, n_span])
            turned = nl.ndarray((size, size), dtype=a.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=tile)
            copied = nl.ndarray((size, size), dtype=a.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=copied, src=turned)
            nisa.dma_copy(dst=out[n_span, m_span], src=copied)
    return out
