"""Arrays that a rule describes are made on chip: counted ones along any axis, triangles and the identity."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw

TARGETS = ("trn1", "trn2", "trn3")


def counted(shape: tuple[int, ...], axis: int) -> np.ndarray:
    """An array that counts along an axis."""
    line = np.arange(shape[axis], dtype=np.float32)
    return np.broadcast_to(line.reshape([-1 if a == axis else 1 for a in range(len(shape))]), shape)


@pytest.mark.req("S4-48")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((7,), 0), ((300, 5), 0), ((300, 5), 1), ((3, 40, 6), 1), ((2, 3, 130, 4), 2), ((2, 3, 4, 5), 0)],
)
def test_counting_along_any_axis(shape: tuple[int, ...], axis: int, target: str):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    kernel = tw.compile(lambda x: x * counted(shape, axis), x, target=target)
    np.testing.assert_allclose(kernel.simulate(x), x * counted(shape, axis), rtol=1e-6)


@pytest.mark.req("S4-48")
def test_a_row_longer_than_a_tile():
    x = np.ones((1, 128256), np.float32)
    kernel = tw.compile(lambda x: x + np.arange(128256, dtype=np.float32), x, target="trn2")
    np.testing.assert_array_equal(kernel.simulate(x), x + np.arange(128256, dtype=np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("k", [-3, 0, 1, 200])
def test_triangles_are_not_loaded(k: int, target: str):
    x = np.random.default_rng(1).standard_normal((300, 300)).astype(np.float32)

    def masked(x):
        return x + np.triu(np.full((300, 300), -1e4, np.float32), k=k)

    kernel = tw.compile(masked, x, target=target)
    np.testing.assert_allclose(kernel.simulate(x), masked(x), rtol=1e-6)
    assert kernel.constants == ()
    assert kernel.report.hbm_bytes == 2 * x.nbytes
