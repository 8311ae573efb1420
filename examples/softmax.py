"""Row softmax in current NKI: one pass over the data, nothing but the input and the result touches HBM.

tilewright run examples/softmax.py
tilewright run examples/softmax.py --rows 300 --columns 1000
"""

import argparse

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def softmax_kernel(x):
    """out[r, c] = exp(x[r, c] - max of x[r]) / sum over c of the same"""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, nl.tile_size.pmax):
        size = min(nl.tile_size.pmax, rows - start)
        tile = nl.ndarray((size, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + size])
        peak = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=peak, op=nl.maximum, data=tile, axis=1, negate=True)
        total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=tile, op=nl.exp, data=tile, bias=peak, reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[start : start + size], src=tile)
    return out


def softmax(x):
    """The same in NumPy."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--columns", type=int, default=512)
    options = parser.parse_args()
    x = np.random.default_rng(0).standard_normal((options.rows, options.columns), dtype=np.float32)
    error = np.abs(softmax_kernel(x) - softmax(x)).max()
    assert error < 1e-6
    print(f"softmax of {options.rows} x {options.columns} agrees with NumPy")
