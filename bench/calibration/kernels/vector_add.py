"""Sums of two vectors in HBM: what many small transfers cost.

chunks   for each ROW_CHUNK elements: load them one per partition, add, store
columns  the vectors as [128, n / 128]; for each FREE_DIM columns: load, add, store
         (a tile is 128 rows of FREE_DIM elements, far apart in memory)
blocks   the vectors as [n / (128 FREE_DIM), 128, FREE_DIM]; for each first index: load, add, store
         (a tile is one contiguous piece of memory)
"""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def chunks(a, b, ROW_CHUNK=128, tensor_tensor=False):
    """ROW_CHUNK partitions of one element; `tensor_tensor` says which Vector instruction adds."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for number in nl.affine_range(a.shape[0] // ROW_CHUNK):
        span = nl.ds(number * ROW_CHUNK, ROW_CHUNK)
        first = nl.ndarray((ROW_CHUNK, 1), dtype=a.dtype, buffer=nl.sbuf)
        second = nl.ndarray((ROW_CHUNK, 1), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=first, src=a[span])
        nisa.dma_copy(dst=second, src=b[span])
        total = nl.ndarray((ROW_CHUNK, 1), dtype=a.dtype, buffer=nl.sbuf)
        if tensor_tensor:
            nisa.tensor_tensor(dst=total, data1=first, data2=second, op=nl.add)
        else:
            nisa.tensor_scalar(dst=total, data=first, op0=nl.add, operand0=second)
        nisa.dma_copy(dst=out[span], src=total)
    return out


def add_tile(out, a, b):
    """Load two HBM views [128, F], add, store."""
    first = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    second = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=first, src=a)
    nisa.dma_copy(dst=second, src=b)
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=first, data2=second, op=nl.add)
    nisa.dma_copy(dst=out, src=total)


@nki.jit
def columns(a, b, FREE_DIM=1000):
    """Tiles of FREE_DIM neighbouring columns of [128, n / 128]."""
    rows = nl.tile_size.pmax
    length = a.shape[0] // rows
    a2, b2 = a.reshape((rows, length)), b.reshape((rows, length))
    out = nl.ndarray((rows, length), dtype=a.dtype, buffer=nl.shared_hbm)
    for number in nl.affine_range(length // FREE_DIM):
        span = nl.ds(number * FREE_DIM, FREE_DIM)
        add_tile(out[:, span], a2[:, span], b2[:, span])
    return out.reshape(a.shape)


@nki.jit
def blocks(a, b, FREE_DIM=1000):
    """Contiguous tiles [128, FREE_DIM]."""
    rows = nl.tile_size.pmax
    count = a.shape[0] // (rows * FREE_DIM)
    a3, b3 = a.reshape((count, rows, FREE_DIM)), b.reshape((count, rows, FREE_DIM))
    out = nl.ndarray((count, rows, FREE_DIM), dtype=a.dtype, buffer=nl.shared_hbm)
    for number in nl.affine_range(count):
        add_tile(out[number], a3[number], b3[number])
    return out.reshape(a.shape)
