"""The figures of one compiled program: what its kernel takes, how exact it is, what compiling costs."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import tilewright as tw
from bench.corpus.program import Program
from tilewright.compiler import Compiled
from tilewright.ir.walk import walk
from tilewright.report.resources import Report

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts and model times of a kernel, and CPU seconds and MiB of making it.

    bound_error: how far the kernel goes below the least that the program needs; anything but 0 is a fault of the bound.
    peer_*: the same of another compiler, None where it has no kernel. error: of the greatest value, None when not run.
    memory_mib: how far the process grew beyond the arguments, None where that cannot be seen.
    """

    name: str
    target: str
    instructions: int
    peer_instructions: int | None
    hbm_bytes: int
    compulsory_bytes: int
    latency_us: float
    roofline_us: float
    bound_error: float
    binding: str
    tile_ops: int
    error: float | None
    narrow: bool
    trace_s: float
    passes_s: float
    lower_s: float
    timing_s: float
    peer_lower_s: float | None
    memory_mib: float | None

    @property
    def fewer(self) -> float | None:
        """How many times fewer instructions than the peer's."""
        return None if self.peer_instructions is None else self.peer_instructions / self.instructions

    @property
    def traffic(self) -> float:
        """HBM bytes over those that no kernel can do without."""
        return self.hbm_bytes / self.compulsory_bytes

    @property
    def off_roofline(self) -> float:
        """Latency over the least possible."""
        return self.latency_us / self.roofline_us

    @property
    def compile_s(self) -> float:
        """All of compiling, the prediction of its time included."""
        return self.trace_s + self.passes_s + self.lower_s + self.timing_s


@cache
def peer() -> dict[str, dict[str, Any]]:
    """The figures of the peer by name of program."""
    text = Path(__file__).with_name("corpus").joinpath("peer.json").read_text(encoding="utf-8")
    return {entry["name"]: entry for entry in json.loads(text)["programs"]}


def measure(program: Program, target: str, check: bool = True) -> Figures:
    """Compile a program, time its kernel, and compare what it computes on the simulator with NumPy."""
    # A kernel that was kept from another run would tell nothing of this compiler.
    os.environ["TILEWRIGHT_CACHE"] = "off"
    arguments = program.make()
    seen = _reset_peak()
    start = _resident_mib("VmRSS") if seen else None
    kernel, trace_s = _seconds(lambda: tw.compile(program.fn, *arguments, target=target, check="off"))
    assert isinstance(kernel, Compiled)
    _, passes_s = _seconds(lambda: kernel.passes)
    graph, lower_s = _seconds(lambda: kernel.tile_ir)
    report, timing_s = _seconds(lambda: _timed(kernel))
    memory = None if start is None else _resident_mib("VmHWM") - start
    other = peer().get(program.name, {})
    error = error_of(kernel, program, arguments) if check else None
    return Figures(
        name=program.name,
        target=target,
        instructions=report.instructions,
        peer_instructions=other.get("instructions"),
        hbm_bytes=report.hbm_bytes,
        compulsory_bytes=report.compulsory_bytes,
        latency_us=report.latency_us,
        roofline_us=report.roofline_us,
        bound_error=report.bound_error,
        binding=report.timing.binding,
        tile_ops=sum(1 for _ in walk(graph)),
        error=error,
        narrow=any(a.dtype.itemsize < 4 and a.dtype.kind == "V" for a in arguments),
        trace_s=trace_s,
        passes_s=passes_s,
        lower_s=lower_s,
        timing_s=timing_s,
        peer_lower_s=other.get("lower_cpu_s"),
        memory_mib=memory,
    )


def error_of(kernel: Compiled, program: Program, arguments: tuple[np.ndarray, ...]) -> float:
    """The greatest difference from NumPy's results, as a share of the greatest value; infinite for unequal integers."""
    results = kernel.simulate(*arguments)
    worst = 0.0
    for got, wanted in zip(
        results if isinstance(results, tuple) else (results,), program.reference(arguments), strict=True
    ):
        assert got.shape == wanted.shape
        if wanted.dtype.kind in "iub":
            worst = max(worst, 0.0 if np.array_equal(got, wanted) else np.inf)
            continue
        exact = wanted.astype(np.float64)
        off = np.abs(got.astype(np.float64) - exact).max() / np.abs(exact).max()
        worst = max(worst, float(off) if np.isfinite(off) else np.inf)
    return worst


def measure_apart(program: Program, target: str, check: bool) -> Figures:
    """The same in a process of its own, so that memory is that of this program alone."""
    forking = multiprocessing.get_context("fork")
    receiving, sending = forking.Pipe(duplex=False)
    child = forking.Process(target=lambda: sending.send(measure(program, target, check)))
    child.start()
    sending.close()
    try:
        return receiving.recv()
    except EOFError:
        raise SystemExit(f"{program.name} could not be measured") from None
    finally:
        child.join()


def _timed(kernel: Compiled) -> Report:
    """The report, with its times predicted."""
    report = kernel.report
    assert report.latency_us > 0
    return report


def _seconds(action: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    made = action()
    return made, time.process_time() - start


def _reset_peak() -> bool:
    """Forget the greatest size that this process ever had; says whether that can be done here."""
    switch = Path("/proc/self/clear_refs")
    if not os.access(switch, os.W_OK):
        return False
    switch.write_text("5")
    return True


def _resident_mib(which: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024
