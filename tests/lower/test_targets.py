"""The target is a parameter: what its figures say is what lowering does."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check
from tilewright.target import get_target


def shifted(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max(-1, keepdims=True))


@pytest.mark.req("S4-15")
def test_half_of_the_memory_gives_other_tiles():
    """A product whose tiles fill more than half of SBUF on the real target goes in smaller ones on a smaller one."""
    full = get_target("trn2")
    usable = full["memory.sbuf_usable_bytes"]
    half = full.replace({"memory.sbuf_usable_bytes": usable // 2}, name="half")
    x = tw.spec((2048, 2048), "float32")
    large, small = (tw.compile(lambda x, y: x @ y, x, x, target=target).report for target in (full, half))
    assert usable // 2 < large.sbuf_peak_bytes <= usable
    assert small.sbuf_peak_bytes <= usable // 2
    assert small.instructions > large.instructions


@pytest.mark.req("S4-16")
def test_one_program_for_every_target():
    """Lowered, verified and run on each: products, reductions, transposes and elementwise work."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((300, 200), (200, 700)))
    check(lambda x, w: (shifted(x @ w).sum(0), (x @ w).T[:5] * 2), x, w, tolerance=1e-5)
