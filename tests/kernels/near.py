"""How results of the library are compared with float64, shared by its tests."""

from __future__ import annotations

from typing import Any

import numpy as np


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Normally distributed float32 numbers, the same for the same seed."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def error(got: Any, wanted: Any) -> float:
    """The greatest difference as a share of the greatest value; infinite where a shape or a number is not right."""
    gots, wants = (each if isinstance(each, tuple) else (each,) for each in (got, wanted))
    worst = 0.0
    for a, b in zip(gots, wants, strict=True):
        if a.shape != np.shape(b) or not np.isfinite(a.astype(np.float64)).all():
            return np.inf
        off = np.abs(a.astype(np.float64) - b).max()
        worst = max(worst, float(off / max(np.abs(b).max(), 1e-30)))
    return worst
