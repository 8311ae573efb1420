"""What the simulator costs: per instruction beyond NumPy's own work, per recorded instruction, and for whole kernels.

python -m bench.simulator [overhead] [memory] [kernels]
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from bench.kernels.attention import attention
from bench.kernels.matmul import matmul
from tilewright.nki.kernel import run_kernel

Row = tuple[str, float, str]

KINDS = 5
"""Instructions per round of `small_instructions`."""


def small_instructions(x: Any, w: Any, rounds: int) -> None:
    """Rounds of five small instructions on [128, 8] tiles."""
    a = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    s = nl.ndarray(w.shape, dtype=nl.float32, buffer=nl.sbuf)
    p = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.dma_copy(dst=b, src=x)
    nisa.dma_copy(dst=s, src=w)
    for _ in range(rounds):
        nisa.dma_copy(dst=a, src=x)
        nisa.tensor_tensor(dst=b, data1=a, data2=b, op=nl.add)
        nisa.activation(dst=b, op=nl.exp, data=a)
        nisa.tensor_copy(dst=b, src=a)
        nisa.nc_matmul(dst=p, stationary=s, moving=b)


def same_in_numpy(x: np.ndarray, w: np.ndarray, rounds: int) -> None:
    """The work of `small_instructions` itself."""
    a, b, p = np.empty_like(x), x.copy(), np.zeros_like(x)
    for _ in range(rounds):
        a[...] = x
        b[...] = np.add(a, b)
        b[...] = np.exp(a)
        b[...] = a
        np.add(p, w.T @ b, out=p)


def best_of(
    repeats: int, function: Callable[..., Any], *args: Any, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The shortest time of several, in seconds: what other work on the machine disturbs least."""
    times: list[float] = []
    for _ in range(repeats):
        start = clock()
        function(*args)
        times.append(clock() - start)
    return min(times)


def _per_round(function: Callable[..., Any], x: np.ndarray, w: np.ndarray) -> float:
    """Processor time per round, without what a run costs once."""
    few, many = 5, 45
    short = best_of(200, function, x, w, few, clock=time.process_time)
    return (best_of(200, function, x, w, many, clock=time.process_time) - short) / (many - few)


def _simulate(x: np.ndarray, w: np.ndarray, rounds: int) -> None:
    run_kernel(small_instructions, (x, w, rounds), {})


def overhead() -> list[Row]:
    """Microseconds per instruction that are not NumPy's."""
    x, w = np.full((128, 8), 1e-3, np.float32), np.full((128, 128), 1e-3, np.float32)
    _simulate(x, w, 1)
    simulated, plain = _per_round(_simulate, x, w), _per_round(same_in_numpy, x, w)
    return [
        ("small instruction, simulated", simulated / KINDS * 1e6, "us"),
        ("small instruction, NumPy alone", plain / KINDS * 1e6, "us"),
        ("simulator overhead per instruction", (simulated - plain) / KINDS * 1e6, "us"),
    ]


def memory() -> list[Row]:
    """Bytes that a recorded instruction keeps: on the same tiles, and with a fresh view for each operand."""
    x, w = np.ones((128, 8), np.float32), np.ones((128, 128), np.float32)

    def sliced(x: Any, count: int) -> None:
        t = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x)
        for _ in range(count):
            nisa.tensor_tensor(dst=t[:, 0:4], data1=t[:, 4:8], data2=t[:, 0:4], op=nl.add)

    count = 2000
    same = _kept(small_instructions, x, w, count // KINDS)
    fresh = _kept(sliced, x, count)
    return [
        ("recorded instruction, same tiles", same / count, "bytes"),
        ("recorded instruction, three fresh views", fresh / count, "bytes"),
    ]


def _kept(kernel: Callable[..., Any], *args: Any) -> int:
    run_kernel(kernel, args, {})
    gc.collect()
    tracemalloc.start()
    done = run_kernel(kernel, args, {})
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert done.session.graph.ops
    return kept


def kernels(size: int = 2048, length: int = 4096, d: int = 128) -> list[Row]:
    """Whole kernels as ratios to NumPy, which may use all cores of the machine."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((2, size, size), dtype=np.float32)
    q, k = rng.standard_normal((2, d, length), dtype=np.float32)
    v = rng.standard_normal((length, d), dtype=np.float32)
    np.testing.assert_allclose(matmul(left, right), left.T @ right, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(attention(q, k, v), numpy_attention(q, k, v), rtol=1e-3, atol=1e-4)
    product = best_of(5, lambda: left.T @ right)
    head = best_of(5, numpy_attention, q, k, v)
    return [
        (f"{size} x {size} x {size} product, NumPy", product * 1e3, "ms"),
        (f"{size} x {size} x {size} product, simulated", best_of(3, matmul, left, right) / product, "x NumPy"),
        (f"attention over {length}, NumPy", head * 1e3, "ms"),
        (f"attention over {length}, simulated", best_of(3, attention, q, k, v) / head, "x NumPy"),
    ]


def numpy_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """softmax(q . k / sqrt(d)) . v"""
    scores = (q.T @ k) * np.float32(q.shape[0] ** -0.5)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v


PARTS = {"overhead": overhead, "memory": memory, "kernels": kernels}


def rows(parts: Sequence[str] = tuple(PARTS)) -> list[Row]:
    """The measurements of these parts: name, value, unit."""
    return [row for part in parts for row in PARTS[part]()]


if __name__ == "__main__":
    for name, value, unit in rows(sys.argv[1:] or tuple(PARTS)):
        print(f"{name:44s} {value:10.2f} {unit}")
