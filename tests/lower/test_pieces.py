"""What stands before a product is made piece by piece: the same result, and a product that begins sooner."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.lower.kit import check, floats


def gated(x: Any, gate: Any, up: Any, down: Any) -> Any:
    g = x @ gate
    return (g / (1.0 + np.exp(-g)) * (x @ up)) @ down


def joined(x: Any, weights: Any, down: Any) -> Any:
    gate, up = np.split(x @ weights, 2, axis=-1)
    return (np.tanh(gate) * up + x[:, :1]) @ down


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "hidden"), [(128, 1024), (5, 1100), (77, 1536)])
def test_same_result(rows: int, hidden: int, dtype: Any):
    """Any number of rows and columns; weights in few bits, which are multiplied term by term."""
    x, down = floats(rows, 64).astype(dtype), (floats(hidden, 40, seed=3) / 32).astype(dtype)
    gate, up = (floats(64, hidden, seed=s).astype(dtype) for s in (1, 2))
    both = np.concatenate([gate, up], axis=1)
    kernel = check(gated, x, gate, up, down, tolerance=2e-6 if dtype is np.float32 else 3e-2)
    check(joined, x.astype(np.float32), both, down, tolerance=2e-6 if dtype is np.float32 else 3e-2)
    assert kernel.tile_ir


def test_pieces_are_in_a_loop():
    x, weights, down = floats(128, 64), floats(64, 3072, seed=1), floats(1536, 40, seed=2)
    kernel = check(joined, x, weights, down, targets=("trn2",), tolerance=2e-6)
    assert "for %c in" in str(kernel.tile_ir)
