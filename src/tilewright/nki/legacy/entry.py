"""How kernels of the legacy dialect are run: simulate_kernel, baremetal, benchmark, profile, trace."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.dtypes import as_dtype
from tilewright.errors import TileTypeError, fail
from tilewright.nki.kernel import Run
from tilewright.nki.legacy.kernel import LegacyKernel, as_legacy, jit
from tilewright.nki.legacy.typing import tensor


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a kernel, with its grid, on the simulator.

    Element types round as on hardware; with NKI_PRECISE_FP=0 bfloat16 and float8 are computed in float32, as the legacy
    simulator does (R-legacy-19).
    """
    chosen = as_legacy(kernel)
    chosen.last_run = chosen.launch(args, kwargs)
    return chosen.last_run.result


def trace(func: Any = None, **kwargs: Any) -> Any:
    """A kernel that others call, or that simulate_kernel runs; it may write to its parameters."""
    return jit(func, mode="trace", **kwargs)


def baremetal(kernel: Any = None, **kwargs: Any) -> Any:
    """A kernel that runs when it is called, here on the simulator."""
    return _with_mode(kernel, "baremetal", kwargs)


def benchmark(kernel: Any = None, **kwargs: Any) -> Any:
    """A kernel whose latency is predicted when it is called: `kernel.benchmark_result.nc_latency`."""
    return _with_mode(kernel, "benchmark", kwargs)


def _with_mode(kernel: Any, mode: str, flags: dict[str, Any]) -> Any:
    if kernel is None:
        return lambda function: _with_mode(function, mode, flags)
    if isinstance(kernel, LegacyKernel):
        made = kernel.with_grid(kernel.axes)
        made.flags |= {**flags, "mode": mode, "returned": True}
        return made
    return LegacyKernel(kernel, flags={**flags, "mode": mode})


class Latency:
    """Predicted latency, the same at every percentile: the simulator's clock does not vary."""

    def __init__(self, microseconds: float) -> None:
        self.microseconds = microseconds

    def get_latency_percentile(self, percentile: int) -> float:
        """Microseconds."""
        return self.microseconds


class BenchmarkResult:
    """What a benchmark leaves behind."""

    def __init__(self, latency: Latency) -> None:
        self.nc_latency = latency


def example_of(kernel: str, described: type, timed: bool) -> np.ndarray:
    """An array for a description of one, which a benchmark takes: random numbers, and zeros where they are whole."""
    if not issubclass(described, tensor) or described.dtype is None or not timed:
        raise fail(
            "E108",
            f"an argument of {kernel} is a type, {described.__name__}, not an array",
            hint="pass an array; nki.benchmark and nki.profile also take nt.tensor[[128, 512], nl.float32]",
            error=TileTypeError,
        )
    dtype = as_dtype(described.dtype)
    numbers = np.zeros(described.shape) if dtype.is_integer else np.random.default_rng(0).random(described.shape)
    return numbers.astype(dtype.np)


def measured(run: Run) -> BenchmarkResult:
    """The predicted latency of a run."""
    predict = LegacyKernel.predict
    if predict is None:
        raise fail("E501", "nki.benchmark needs the timing model, which is not loaded", hint="import tilewright")
    return BenchmarkResult(Latency(predict(run)))


class ProfiledKernel(LegacyKernel):
    """A kernel whose predicted profile is written to files when it is called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = super().__call__(*args, **kwargs)
        if self.last_run is not None:
            self._write(self.last_run)
        return result

    def _write(self, run: Run) -> None:
        folder = Path(self.flags["working_directory"])
        reports = folder / "json_reports"
        if self.flags.get("overwrite") and reports.exists():
            shutil.rmtree(reports)
        reports.mkdir(parents=True, exist_ok=True)
        trace_name = Path(self.flags.get("save_trace_name") or "profile.ntff").stem
        summary = {"kernel": self.name, "latency_us": measured(run).nc_latency.microseconds, "source": "predicted"}
        text = json.dumps(summary, indent=2) + "\n"
        (folder / (self.flags.get("save_neff_name") or "file.neff")).write_text(text)
        every, count = int(self.flags.get("profile_nth", 1)), int(self.flags.get("num_execs", 1))
        chosen = range(every, count + 1, every) if count >= every else (every,)
        for number in chosen:
            name = trace_name if number == 1 else f"{trace_name}_exec_{number}"
            (folder / f"{name}.ntff").write_text(text)
            (reports / f"{name}.json").write_text(text)


def profile(func: Any = None, **kwargs: Any) -> Any:
    """A kernel whose predicted profile is saved in `working_directory` under the names that a profiler would use."""
    if "working_directory" not in kwargs:
        raise fail(
            "E108",
            "nki.profile needs working_directory=, an absolute path",
            error=TileTypeError,
            hint='pass a folder to write to: working_directory=os.path.abspath("profile")',
        )

    def make(function: Any) -> ProfiledKernel:
        return ProfiledKernel(as_legacy(function).function, flags={**kwargs, "mode": "baremetal"})

    return make if func is None else make(func)


class FrameworkKernel:
    """The base class by which frameworks embed kernels in their graphs; nothing here builds such graphs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise fail(
            "E501",
            "FrameworkKernel writes kernels into a framework's graph, which is not simulated",
            hint="call the kernel on arrays: nki.jit(function)(...)",
        )
