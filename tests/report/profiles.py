"""Profiles that tests of views share: a small kernel that uses every kind of track, and made-up ones of any length."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache

from tests.kit import nisa, nki, nl, np
from tilewright.errors import Location
from tilewright.report.profile import Profile, profile_kernel
from tilewright.timing.node import DATA, ENGINE
from tilewright.timing.profile import Event, Sample


@nki.jit
def normalised_product(a, b):
    """out = exp(a.T @ b), in four column blocks: transfers, matmuls, Vector and Scalar work, waits of several kinds."""
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    for block in range(4):
        columns = nl.ds(block * 128, 128)
        right = nl.ndarray((b.shape[0], 128), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=right, src=b[:, columns])
        product = nl.ndarray((a.shape[1], 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(product, stationary=left, moving=right)
        scaled = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=scaled, data=product, op0=nl.multiply, operand0=0.5)
        nisa.activation(dst=scaled, op=nl.exp, data=scaled)
        nisa.dma_copy(dst=out[:, columns], src=scaled)
    return out


@lru_cache(maxsize=1)
def real() -> Profile:
    """The profile of a kernel of some twenty instructions."""
    return profile_kernel(normalised_product, (np.ones((128, 128), np.float32), np.ones((128, 512), np.float32)))


def made_up(count: int, source: str = "pass\n") -> Profile:
    """A profile with `count` events at random times, in turn on each line of `source`, on whichever engine is free."""
    rng = random.Random(0)
    free = dict.fromkeys(("tensor", "vector", "scalar", "gpsimd", "dma"), 0.0)
    last = dict.fromkeys(free, -1)
    lines = len(source.splitlines())
    events: list[Event] = []
    for index in range(count):
        engine = min(free, key=lambda name: free[name])
        start, wait, cause = free[engine], ENGINE if last[engine] >= 0 else "", last[engine]
        other = last[rng.choice(list(last))]
        if other >= 0 and rng.random() < 0.5:
            start, wait, cause = max(start, events[other].end_ns + 35), DATA, other
        busy = rng.uniform(60.0, 900.0)
        line = Location("made_up.py", 1 + index // 50 % lines)
        queue = f"dma:{line}" if engine == "dma" else engine
        operands = f"dst=float32[128, {index % 97}] sbuf t{index % 1009}"
        moved = 65536 if engine == "dma" else 0
        events.append(
            Event(engine, engine, queue, line, start, start + busy, start + busy + 99, wait, cause, operands, moved)
        )
        free[engine], last[engine] = start + busy, index
    end = max((event.end_ns for event in events), default=0.0)
    samples = tuple(Sample(end * part / 64, 1024.0 * part, part % 8) for part in range(64 if events else 0))
    return replace(real(), events=tuple(events), occupancy=samples, end_ns=end, sources={"made_up.py": source})
