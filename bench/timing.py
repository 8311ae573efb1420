"""What timing a kernel costs, as a ratio to simulating it: the two kernels of the simulator's benchmark."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench.kernels.attention import attention
from bench.kernels.matmul import matmul
from tilewright.nki.kernel import run_kernel
from tilewright.target import get_target
from tilewright.timing.replay import Replay
from tilewright.timing.stream import Stream

Row = tuple[str, float, str]


def rows() -> list[Row]:
    """One row per kernel: time to replay its recorded instructions over time to simulate it."""
    random = np.random.default_rng(0)

    def array(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, dtype=np.float32)

    cases = {
        "timing a 1024^3 matmul": (matmul, (array(1024, 1024), array(1024, 1024))),
        "timing a 1024-long attention": (attention, (array(64, 1024), array(64, 1024), array(1024, 64))),
    }
    return [(name, _ratio(kernel, arrays), "x its simulation") for name, (kernel, arrays) in cases.items()]


def _ratio(kernel: Any, arrays: tuple[np.ndarray, ...]) -> float:
    target = get_target("trn2")
    start = time.perf_counter()
    run = run_kernel(kernel, arrays, {}, target)
    simulated = time.perf_counter() - start
    start = time.perf_counter()
    Stream(target, Replay(target)).run(run.session.graph)
    return (time.perf_counter() - start) / simulated
