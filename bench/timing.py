"""What timing a kernel costs: as a ratio to simulating it, per executed instruction, and in memory for a long one."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from resource import getpagesize
from threading import Event, Thread
from typing import Any

import numpy as np

from bench.kernels.attention import attention
from bench.kernels.matmul import matmul
from tilewright.ir.core import Graph
from tilewright.nki.kernel import Run, run_kernel
from tilewright.report.graph import profile_graph
from tilewright.report.timing import time_run
from tilewright.target import get_target
from tilewright.tile.text import parse_tile
from tilewright.timing.latency import latency_us
from tilewright.timing.replay import Replay
from tilewright.timing.stream import Stream

Row = tuple[str, float, str]

LOOP = """\
kernel loop(%x: f32[128, COLUMNS]@hbm) -> (%y: f32[128, COLUMNS]@hbm) {
  for %i in 0..TRIPS {
    %t = alloc f32[128, 512]@sbuf depth 2
    %e = alloc f32[128, 512]@sbuf depth 2
    %p = alloc f32[128, 512]@psum depth 2
    dma_copy %t, %x[:, %i*512 : +512]
    activation %e, %t {op = exp}
    nc_matmul %p, %e[:, 0 : +128], %t
    tensor_copy %e, %p
    dma_copy %y[:, %i*512 : +512], %e
  }
}
"""
STATEMENTS = 5


def loop(instructions: int) -> Graph:
    """A loop that executes so many instructions."""
    trips = instructions // STATEMENTS
    return parse_tile(LOOP.replace("TRIPS", str(trips)).replace("COLUMNS", str(512 * trips)))


def rows() -> list[Row]:
    """Ratios to simulation, microseconds per instruction, memory of 100,000 instructions and of a million."""
    return [*_ratios(), *_per_instruction(), *_memory()]


def _ratios() -> list[Row]:
    random = np.random.default_rng(0)

    def array(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, dtype=np.float32)

    cases = {
        "a 1024^3 matmul": (matmul, (array(1024, 1024), array(1024, 1024))),
        "a 1024-long attention": (attention, (array(64, 1024), array(64, 1024), array(1024, 64))),
    }
    found: list[Row] = []
    for name, (kernel, arrays) in cases.items():
        simulated, run = _seconds(lambda kernel=kernel, arrays=arrays: run_kernel(kernel, arrays, {}, "trn2"))
        found.append((f"timing {name}", _seconds(lambda run=run: _replay(run))[0] / simulated, "x its simulation"))
        report = _seconds(lambda run=run: time_run(run))[0] / simulated
        found.append((f"all figures of {name}, with and without what may be left out", report, "x its simulation"))
    return found


def _replay(run: Run) -> None:
    target = get_target("trn2")
    Stream(target, Replay(target)).run(run.session.graph)


def _per_instruction() -> list[Row]:
    count, target = 30_000, get_target("trn2")
    graph = loop(count)
    latency, _ = _seconds(lambda: latency_us(graph, target))
    report, _ = _seconds(lambda: profile_graph(graph, target, merging=False))
    return [
        (f"latency of {count} instructions of a loop", 1e6 * latency / count, "us per instruction"),
        (f"report of {count} instructions of a loop", 1e6 * report / count, "us per instruction"),
    ]


def _memory() -> list[Row]:
    if not Path("/proc/self/statm").exists():
        return []
    peaks = {count: _peak_mib(lambda count=count: profile_graph(loop(count), "trn2")) for count in (100_000, 1_000_000)}
    return [(f"memory that a report of {count} instructions takes", mib, "MiB") for count, mib in peaks.items()]


def _peak_mib(action: Callable[[], Any]) -> float:
    """How far the process grows while something is done."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()

    def watch() -> None:
        while not done.wait(0.02):
            top[0] = max(top[0], resident())

    gc.collect()
    done, before = Event(), resident()
    top = [before]
    watcher = Thread(target=watch)
    watcher.start()
    action()
    done.set()
    watcher.join()
    return (top[0] - before) / 2**20


def _seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    made = action()
    return time.perf_counter() - start, made
