"""Kernels: nki.jit, and running one on the simulator with NumPy or torch arrays in and out."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from tilewright.errors import ERROR, Diagnostic, TileError, TileTypeError, fail
from tilewright.nki.arrays import Binding, bind_arguments, to_caller
from tilewright.rules import Reporter, violate
from tilewright.sim.capacity import Occupancy, check_capacity
from tilewright.sim.nonfinite import NonFiniteTrace
from tilewright.sim.session import Options, Session, SharedMemory, running_session
from tilewright.target import Target, get_target


@dataclass(slots=True)
class Run:
    """What one run of a kernel left behind: its result, its sessions (one per core) and its diagnostics."""

    result: Any
    sessions: list[Session]
    diagnostics: list[Diagnostic]
    occupancy: Occupancy | None = None
    failure: TileError | None = None
    nonfinite: NonFiniteTrace | None = None

    @property
    def session(self) -> Session:
        """The first core's session."""
        return self.sessions[0]


class Kernel:
    """A kernel made by `nki.jit`. Calling it runs it on the simulator; inside another kernel it is a plain call."""

    def __init__(
        self, function: Callable[..., Any], grid: int = 1, has_grid: bool = False, flags: dict[str, Any] | None = None
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.grid = grid
        self.has_grid = has_grid
        self.flags = flags or {}
        self.last_run: Run | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if running_session() is not None:
            return self.function(*args, **kwargs)
        self.last_run = run_kernel(self, args, kwargs)
        print_warnings(self.last_run)
        return self.last_run.result

    def __getitem__(self, grid: Any) -> Kernel:
        """kernel[n]: run on n physical cores of a logical core."""
        count: Any = grid[0] if isinstance(grid, tuple) and len(grid) == 1 else grid
        if not isinstance(count, int) or count < 1:
            violate(
                "R-jit-05",
                f"kernel[{grid!r}]: the grid is one number, the cores of a logical core",
                hint="write kernel[1] or kernel[2]; loop over larger problems inside the kernel",
                final=True,
                error=TileTypeError,
            )
        return Kernel(self.function, count, True, dict(self.flags))

    @property
    def name(self) -> str:
        """The name of the kernel function."""
        return getattr(self.function, "__name__", "kernel")


IGNORED_FLAGS = ("debug_kernel", "experimental_flags", "show_compiler_tb", "additional_compile_opt")


def jit(function: Callable[..., Any] | None = None, /, **flags: Any) -> Any:
    """Make a function a kernel: @nki.jit, @nki.jit(...) or nki.jit(function)."""
    if "mode" in flags:
        violate("R-jit-03", "nki.jit(mode=...) is deprecated and ignored", hint="drop it")
    if "platform_target" in flags:
        violate(
            "R-jit-02",
            "nki.jit(platform_target=...) was removed",
            hint="set NEURON_PLATFORM_TARGET_OVERRIDE, or pass target= to tilewright",
        )
    unknown = [name for name in flags if name not in (*IGNORED_FLAGS, "mode", "platform_target")]
    if unknown:
        violate("R-jit-01", f"nki.jit() got an unexpected keyword argument '{unknown[0]}'", error=TileTypeError)
    if function is None:
        return functools.partial(_jit, flags=flags)
    return _jit(function, flags)


def _jit(function: Callable[..., Any], flags: dict[str, Any]) -> Kernel:
    if isinstance(function, Kernel):
        return function
    if not callable(function):
        raise fail("E108", f"nki.jit needs a function, not {type(function).__name__}", error=TileTypeError)
    return Kernel(function, flags=dict(flags))


def as_kernel(thing: Any) -> Kernel:
    """A kernel for whatever the caller calls one: a Kernel, or a plain function."""
    if isinstance(thing, Kernel):
        return thing
    if callable(thing):
        return Kernel(thing)
    raise fail(
        "E108", f"{thing!r} is not a kernel", hint="pass a function decorated with @nki.jit", error=TileTypeError
    )


@dataclass(slots=True)
class Launch:
    """A kernel that is about to run. `run` runs it; a follower may change how beforehand."""

    kernel: Kernel
    args: Sequence[Any]
    kwargs: dict[str, Any]
    target: Target
    reporter: Reporter
    options: Options

    def run(self) -> Run:
        """Run on every core of the grid.

        When the reporter collects, no rule violation is raised; the run's diagnostics hold all of them, and `failure`
        what ended the run early, if anything did.
        """
        kernel, reporter = self.kernel, self.reporter
        shared = SharedMemory() if kernel.grid > 1 else None
        sessions: list[Session] = []
        result: Any = None
        failure: TileError | None = None
        trace = NonFiniteTrace() if self.options.trace_nonfinite else None
        bindings: list[Binding] = []
        try:
            _check_call(kernel, self.target, self.args, self.kwargs)
            for program in range(kernel.grid):
                session = Session(kernel.name, self.target, reporter, self.options)
                session.program_id, session.num_programs = program, kernel.grid
                session.has_grid, session.shared = kernel.has_grid, shared
                if trace is not None:
                    session.machine.on_execute = trace.look
                sessions.append(session)
                with session.running():
                    binding = bind_arguments(session, self.args, self.kwargs)
                    bindings.append(binding)
                    value = kernel.function(*binding.args, **binding.kwargs)
                    if program == 0 or value is not None:
                        result = to_caller(session, binding, value)
            occupancy = check_capacity(sessions, reporter)
        except TileError as error:
            if not reporter.collect:
                raise
            failure = error
            occupancy = None
            reporter.add(error.diagnostic)
        finally:
            for binding in bindings:
                binding.write_back()
        return Run(result, sessions, reporter.diagnostics, occupancy, failure, trace)


Follower = Callable[[Launch], Run]
_follower: ContextVar[Follower | None] = ContextVar("tilewright_follower", default=None)


@contextmanager
def following(follower: Follower) -> Iterator[None]:
    """Let `follower` run every kernel that is launched meanwhile; it also shows what they leave behind."""
    token = _follower.set(follower)
    try:
        yield
    finally:
        _follower.reset(token)


def run_kernel(
    kernel: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    target: str | Target | None = None,
    profile: str | None = None,
    options: Options | None = None,
    collect: bool = False,
) -> Run:
    """Run a kernel on the simulator. With `collect` no rule violation is raised (see `Launch.run`)."""
    reporter = Reporter(profile or os.environ.get("TILEWRIGHT_PROFILE") or "strict", collect)
    launch = Launch(as_kernel(kernel), args, kwargs, get_target(target), reporter, options or Options())
    follower = _follower.get()
    return launch.run() if follower is None or collect else follower(launch)


def _check_call(kernel: Kernel, target: Target, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if not args and not kwargs and inspect.signature(kernel.function).parameters:
        violate(
            "R-jit-10",
            f"kernel {kernel.name} is called without arguments",
            hint=f"it takes {inspect.signature(kernel.function)}",
            final=True,
            error=TileTypeError,
        )
    if kernel.grid > target["limits.lnc_max"] or (kernel.grid > 1 and not target["features.lnc2"]):
        limit = target["limits.lnc_max"] if target["features.lnc2"] else 1
        violate(
            "R-jit-05", f"kernel[{kernel.grid}]: {target.name} has at most {limit} cores per logical core", final=True
        )


def print_warnings(run: Run) -> None:
    """Show what a run noted but let pass, once, on standard error."""
    if _follower.get() is not None:
        return
    for diagnostic in run.diagnostics:
        if diagnostic.severity != ERROR:
            print(diagnostic, file=sys.stderr)
