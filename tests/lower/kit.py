"""What tests of lowering share: a NumPy function is compiled, its kernel verified and run, and compared with NumPy."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.compiler import Compiled
from tilewright.front.pytree import leaves
from tilewright.lower.occupancy import occupancy
from tilewright.tile.verify import verify_graph

TARGETS = ("trn1", "trn2", "trn3")


def check(
    function: Callable[..., Any], *args: Any, targets: Sequence[str] = TARGETS, tolerance: float | None = None
) -> Compiled:
    """The kernel of the last target; all are clean, fit, and give NumPy's result (floats near it if told how far)."""
    with np.errstate(all="ignore"):
        expected = [np.asarray(leaf) for _, leaf in leaves(function(*copy.deepcopy(args)))]
    kernel = None
    for target in targets:
        kernel = tw.compile(function, *copy.deepcopy(args), target=target)
        assert verify_graph(kernel.tile_ir, kernel.target) == []
        assert occupancy(kernel.tile_ir, kernel.target).sbuf_bytes <= kernel.target["memory.sbuf_usable_bytes"]
        actual = [np.asarray(leaf) for _, leaf in leaves(kernel.simulate(*copy.deepcopy(args)))]
        for mine, theirs in zip(actual, expected, strict=True):
            compare(mine, theirs, tolerance)
    assert kernel is not None
    return kernel


def compare(mine: np.ndarray, theirs: np.ndarray, tolerance: float | None) -> None:
    """Equal shapes and numbers; with a tolerance, floats that differ by no more than it times the largest."""
    assert mine.shape == theirs.shape
    if tolerance is None or theirs.dtype.kind in "biu":
        np.testing.assert_array_equal(mine, theirs)
        return
    wide = theirs.astype(np.float64)
    scale = np.abs(wide[np.isfinite(wide)]).max(initial=0)
    np.testing.assert_allclose(mine.astype(np.float64), wide, rtol=tolerance, atol=tolerance * scale)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Random float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def indices(size: int, *shape: int, dtype: Any = np.int32, seed: int = 1) -> np.ndarray:
    """Random indices of a dim, counted from either end."""
    return np.random.default_rng(seed).integers(-size, size, shape).astype(dtype)
