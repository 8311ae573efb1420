"""Single instructions and transfers, for the figures that guides read from timelines."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def transfer(source):
    """One load of [P, F] from HBM to SBUF and back: P rows of F elements each way."""
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def scalar_chain(source, count=64):
    """`count` activations on the Scalar engine, each reading what the one before wrote."""
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    value = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=value, src=source)
    for _ in nl.affine_range(count):
        after = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
        nisa.activation(dst=after, op=nl.tanh, data=value)
        value = after
    nisa.dma_copy(dst=out, src=value)
    return out
