"""A kernel and its tests, as a project has them: `pytest --tilewright examples/gate`."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest


@nki.jit
def scaled(x, factor):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.tilewright(max_us=40, max_sbuf=4096)
@pytest.mark.parametrize("rows", [1, 77, 128])
def test_scaled(rows):
    x = np.random.default_rng(0).standard_normal((rows, 512)).astype(np.float32)
    np.testing.assert_allclose(scaled(x, 3.0), 3 * x, rtol=1e-6)


def test_rows_that_do_not_fit():
    with pytest.raises(Exception, match="partition"):
        scaled(np.zeros((129, 512), np.float32), 3.0)
