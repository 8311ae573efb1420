"""What the compilers of the dialects make of the same instructions."""

from __future__ import annotations

import pytest

from tests.kit import full_run, nisa, nl, np
from tilewright.report.timing import time_graphs
from tilewright.target import get_target
from tilewright.timing.compilers import CURRENT, LEGACY


def inverting(x):
    data = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(data, x)
    nisa.reciprocal(data, data)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, data)
    return out


@pytest.mark.parametrize(
    ("target", "compiler", "free", "engine"),
    [
        ("trn1", LEGACY, 512, "scalar"),
        ("trn1", LEGACY, 63, "vector"),
        ("trn1", CURRENT, 512, "vector"),
        ("trn2", LEGACY, 512, "vector"),
    ],
)
def test_reciprocals_of_many_elements_on_trn1(target: str, compiler: str, free: int, engine: str) -> None:
    graph = full_run(inverting, np.ones((128, free), np.float32), target=target).session.graph
    busy = time_graphs([graph], get_target(target), compiler=compiler)[0].engine_busy_us
    assert busy.get(engine, 0.0) > 0 and not busy.get("vector" if engine == "scalar" else "scalar", 0.0)
    # One element per cycle instead of eight.
    assert engine == "vector" or busy["scalar"] < 512 * 2 / 1.4e3
