"""Kernels: nki.jit, and running one on the simulator with NumPy or torch arrays in and out."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from tilewright.calls import hand_over, taker_of
from tilewright.errors import (
    ERROR,
    Diagnostic,
    Location,
    TileError,
    TileTypeError,
    fail,
    raised_at,
    user_location,
)
from tilewright.events import announced
from tilewright.nki.again import explain, remember_launch
from tilewright.nki.arrays import Arguments, to_caller
from tilewright.nki.display import kernel_html
from tilewright.nki.function import check_pure, watch_top_level
from tilewright.nki.missing import missing_in_operand, missing_in_tensor
from tilewright.nki.orders import beside_races, check_orders, judge_races
from tilewright.nki.schedule import check_edges, edges_of, read_edges
from tilewright.nki.subset import check_returns, check_subset
from tilewright.nki.tensor import NkiTensor
from tilewright.progress import working
from tilewright.rules import Reporter, reporter, restore_reporter, use_reporter, violate
from tilewright.sim.capacity import Occupancy, check_capacity
from tilewright.sim.cores import Order, SharedMemory, run_cores
from tilewright.sim.garbage import seldom_collected
from tilewright.sim.machine import Machine
from tilewright.sim.nonfinite import NonFiniteTrace
from tilewright.sim.session import Options, Session, running_session
from tilewright.sim.threads import one_thread
from tilewright.sim.unread import lost_work, unseen_work
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

    def unseen(self) -> list[Diagnostic]:
        """Warnings of work that nobody sees, where the run was recorded and nothing else is wrong with it."""
        clean = self.failure is None and not self.diagnostics
        return unseen_work(self.sessions, self.result) if clean and self.session.options.record else []


class Kernel:
    """A kernel made by `nki.jit`. Calling it runs it on the simulator; inside another kernel it is a plain call.

    `flags` are what the decorator was given, at `declared`; what is wrong with them is said when the kernel runs, where
    the profile is known.
    """

    __wrapped__: Callable[..., Any]
    __name__: str

    def __init__(
        self,
        function: Callable[..., Any],
        grid: int = 1,
        has_grid: bool = False,
        flags: dict[str, Any] | None = None,
        declared: Location | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.grid = grid
        self.has_grid = has_grid
        self.flags = flags or {}
        self.declared = declared
        self.schedule: tuple[tuple[str, str], ...] = ()
        self.last_run: Run | None = None
        self.numbers = count(1)
        """Of calls, with any grid."""

    @property
    def func(self) -> Callable[..., Any]:
        """The function itself, as the SDK's kernels name it."""
        return self.function

    def _repr_html_(self) -> str:
        return kernel_html(self.name, self.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if running_session() is not None:
            violate(
                "R-jit-08",
                f"{self.name}, which a kernel calls, is decorated with nki.jit itself",
                hint="leave the decorator off, and launch it by itself as nki.jit(function)(...)",
            )
            return self.function(*args, **kwargs)
        taker = taker_of(args, kwargs)
        if taker is not None:
            return hand_over(taker, self, args, kwargs)
        number = next(self.numbers)
        try:
            self.last_run = run_kernel(self, args, kwargs)
        except TileError as error:
            error.tell(_with_call(error.diagnostic, self.name, number))
            raise
        print_warnings(self.last_run)
        return self.last_run.result

    def __getitem__(self, grid: Any) -> Kernel:
        """kernel[n]: run on n physical cores of a logical core."""
        given: Any = grid[0] if isinstance(grid, tuple) and len(grid) == 1 else grid
        cores = operator.index(given) if hasattr(given, "__index__") and not isinstance(given, bool) else 0
        if cores < 1:
            violate(
                "R-jit-05",
                f"kernel[{grid!r}]: the grid is one number, the cores of a logical core",
                hint="write kernel[1] or kernel[2]; loop over larger problems inside the kernel",
                final=True,
                error=TileTypeError,
            )
        made = Kernel(self.function, cores, True, dict(self.flags), self.declared)
        made.schedule, made.numbers = self.schedule, self.numbers
        return made

    def with_schedule(self, edges: Sequence[tuple[str, str | Sequence[str]]]) -> Kernel:
        """The kernel with dependencies between instructions, by their names: (consumer, producer or producers)."""
        made = Kernel(self.function, self.grid, self.has_grid, dict(self.flags), self.declared)
        made.schedule = self.schedule + tuple(read_edges(edges))
        return made

    # What a launch asks of its kernel; other dialects answer in their own way.

    session_type: type[Session] = Session

    def check(self, launch: Launch) -> None:
        """Check how the kernel was declared and how it is called."""
        _check_flags(self)
        check_pure(self.function)
        check_subset(self.function)
        check_returns(self.function)
        _check_call(self, launch.target, launch.args, launch.kwargs)

    def body(self, arguments: Arguments, session: Session) -> Any:
        """The kernel as one core runs it."""
        args, kwargs = arguments.bind(session)
        return calling(self.function, args, kwargs)

    def results(self, sessions: list[Session], returned: list[Any], arguments: Arguments) -> Any:
        """What the kernel gives to its caller."""
        lost = lost_work(sessions) if all(value is None for value in returned) else None
        if lost is not None:
            reporter().add(lost)
        return _results(sessions, returned, arguments)

    @property
    def name(self) -> str:
        """The name of the kernel function."""
        return getattr(self.function, "__name__", "kernel")


def calling(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a kernel function returns; attributes that tensors, index tensors and masks lack are refused by name."""
    try:
        return function(*args, **kwargs)
    except AttributeError as error:
        where, kind = raised_at(error), type(error.obj)
        if where is None or error.name is None:
            raise
        if isinstance(error.obj, NkiTensor):
            raise missing_in_tensor(error.name, type(error.obj), where) from None
        called = getattr(kind, "_CALLED", None)
        if called is None:
            raise
        raise missing_in_operand(error.name, kind, called, where) from None


def _with_call(diagnostic: Diagnostic, kernel: str, number: int) -> Diagnostic:
    """A diagnostic that says which call failed, of a kernel that was called before: one layer of many, say."""
    place = user_location()
    if number == 1 or place is None or place == diagnostic.location:
        return diagnostic
    return replace(diagnostic, notes=(*diagnostic.notes, f"in call {number} of {kernel}, at {place}"))


IGNORED_FLAGS = ("debug_kernel", "experimental_flags", "show_compiler_tb", "additional_compile_opt")


def jit(fn: Callable[..., Any] | None = None, **flags: Any) -> Any:
    """Make a function a kernel: @nki.jit, @nki.jit(...) or nki.jit(fn)."""
    make = functools.partial(_jit, flags=flags, declared=user_location())
    return make if fn is None else make(fn)


def _jit(function: Callable[..., Any], flags: dict[str, Any], declared: Location | None) -> Kernel:
    if isinstance(function, Kernel):
        return function
    require_function(function)
    cores = _cores_of(flags)
    return Kernel(function, cores or 1, cores is not None, dict(flags), declared)


def _cores_of(flags: dict[str, Any]) -> int | None:
    """The cores that `nki.jit(grid=[n])` asks for, which kernels of before NKI 0.3 have instead of kernel[n]."""
    grid = flags.get("grid")
    given: Any = grid[0] if isinstance(grid, (tuple, list)) and len(grid) == 1 else grid
    return given if isinstance(given, int) and not isinstance(given, bool) and given > 0 else None


def require_function(function: Any) -> None:
    """Refuse what cannot be a kernel: no function, or one that does not return what it computes."""
    if not callable(function) or inspect.isclass(function) or inspect.isbuiltin(function):
        kind = "a class" if inspect.isclass(function) else getattr(function, "__name__", type(function).__name__)
        hint = "decorate a function, or a method of it" if inspect.isclass(function) else None
        raise fail("E108", f"nki.jit needs a function written in Python, not {kind}", hint=hint, error=TileTypeError)
    for is_one, what in _NEVER_RETURNING:
        if is_one(function) or is_one(type(function).__call__):
            name = getattr(function, "__name__", type(function).__name__)
            hint = "a kernel runs once, from its first line to its return"
            raise fail("E108", f"nki.jit: {name} is {what}", hint=hint, error=TileTypeError)


_NEVER_RETURNING: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (inspect.isgeneratorfunction, "a generator: it yields"),
    (inspect.isasyncgenfunction, "an asynchronous generator"),
    (inspect.iscoroutinefunction, "a coroutine (async def)"),
)


def _check_flags(kernel: Kernel) -> None:
    """R-jit-01 to -03: what the decorator takes."""
    for name in kernel.flags:
        if name == "mode":
            violate("R-jit-03", "nki.jit(mode=...) is deprecated and ignored", hint="drop it", location=kernel.declared)
        elif name == "platform_target":
            violate(
                "R-jit-02",
                "nki.jit(platform_target=...) was removed",
                hint="set NEURON_PLATFORM_TARGET_OVERRIDE, or pass target= to tilewright",
                location=kernel.declared,
            )
        elif name not in IGNORED_FLAGS:
            violate(
                "R-jit-01",
                f"nki.jit() got an unexpected keyword argument '{name}'",
                hint=f"launch it as {kernel.name}[{kernel.grid}](...)" if name == "grid" else "drop it",
                location=kernel.declared,
                error=TileTypeError,
            )


def as_kernel(thing: Any) -> Kernel:
    """A kernel for whatever the caller calls one: a Kernel, or a plain function."""
    if isinstance(thing, Kernel):
        return thing
    if callable(thing):
        require_function(thing)
        return Kernel(thing)
    raise fail(
        "E108", f"{thing!r} is not a kernel", hint="pass a function decorated with @nki.jit", error=TileTypeError
    )


@dataclass(slots=True)
class Launch:
    """A kernel that is about to run. `run` runs it; a follower may change how beforehand.

    known: says of a finding whether the follower has it already; then nobody looks into it again.
    """

    kernel: Kernel
    args: Sequence[Any]
    kwargs: dict[str, Any]
    target: Target
    reporter: Reporter
    options: Options
    watch: Callable[[Machine], None] | None = None
    running: list[Session] = field(default_factory=list)
    known: Callable[[Diagnostic], bool] = lambda _: False

    def progress(self) -> str:
        """How many instructions have run, as far as it is known while they do."""
        count = sum(len(session.graph.body.ops) for session in self.running)
        return f"{count:,} instructions" if count else ""

    def run(self) -> Run:
        """Run on every core of the grid.

        When the reporter collects, no rule violation is raised; the run's diagnostics hold all of them, and `failure`
        what ended the run early, if anything did.
        """
        kernel, reporter = self.kernel, self.reporter
        sessions = self.running = []
        result: Any = None
        failure: TileError | None = None
        occupancy: Occupancy | None = None
        arguments: Arguments | None = None
        trace = NonFiniteTrace() if self.options.trace_nonfinite else None
        token = use_reporter(reporter)
        try:
            kernel.check(self)
            # A kernel that is only checked leaves the caller's arrays alone.
            arguments = Arguments(kernel.function, self.args, self.kwargs, copy=reporter.collect)
            sessions += self._sessions(reporter, self.options, trace)
            with one_thread(), seldom_collected():
                returned, accesses = run_cores(sessions, functools.partial(kernel.body, arguments))
            check_edges(kernel.schedule, sessions)
            with beside_races(accesses):
                result = kernel.results(sessions, returned, arguments)
            if accesses is not None:
                judge_races(reporter, accesses, result, arguments, self._again)
            if self.options.orders:
                self._check_orders(sessions, arguments)
            occupancy = check_capacity(sessions, reporter)
            arguments.write_back()
        except TileError as error:
            if not reporter.collect:
                error.tell(explain(self, arguments, sessions, [error.diagnostic])[0])
                raise
            failure = error
            reporter.add(error.diagnostic)
        finally:
            restore_reporter(token)
        new = [each for each in reporter.diagnostics if not self.known(each)]
        told = iter(explain(self, arguments, sessions, new))
        reporter.diagnostics[:] = [each if self.known(each) else next(told) for each in reporter.diagnostics]
        run = Run(result, sessions, reporter.diagnostics, occupancy, failure, trace)
        if arguments is not None and failure is None:
            remember_launch(self, arguments, run)
        return run

    def _sessions(self, reporter: Reporter, options: Options, trace: NonFiniteTrace | None = None) -> Iterator[Session]:
        """A session for every core."""
        kernel = self.kernel
        shared = SharedMemory() if kernel.grid > 1 else None
        for program in range(kernel.grid):
            session = kernel.session_type(kernel.name, self.target, reporter, options, shared)
            session.program_id, session.num_programs = program, kernel.grid
            session.has_grid = kernel.has_grid
            watch_top_level(session, kernel.function, kernel.flags)
            if trace is not None:
                session.machine.on_execute = trace.look
            if self.watch is not None and reporter is self.reporter:
                self.watch(session.machine)
            yield session

    def _check_orders(self, sessions: list[Session], arguments: Arguments) -> None:
        """Other orders of a core's instructions, if none breaks a rule; those of several cores depend on each other."""
        broken = any(found.severity == ERROR for found in self.reporter.diagnostics)
        if broken or len(sessions) > 1 or self.options.shapes or not self.options.record:
            return
        (session,) = sessions
        held = {storage.buffer: each.before() for each in arguments.held.values() for storage in each.storages}
        edges = [*edges_of(self.kernel.schedule, session)]
        check_orders(self.reporter, session, held | session.constants, edges, self.options.orders)

    def _again(self, given: dict[int, np.ndarray], order: Order) -> tuple[Any, Arguments] | None:
        """The same with the cores in another order; None when it breaks rules that it did not break before."""
        reporter = Reporter(self.reporter.profile, self.reporter.collect, dict(self.reporter.severities))
        arguments = Arguments(self.kernel.function, self.args, self.kwargs, True, given)
        sessions = [*self._sessions(reporter, replace(self.options, record=False))]
        token = use_reporter(reporter)
        try:
            with one_thread():
                returned, _ = run_cores(sessions, functools.partial(self.kernel.body, arguments), order)
            result = self.kernel.results(sessions, returned, arguments)
        except TileError:
            return None
        finally:
            restore_reporter(token)
        known = {(each.code, each.rule, each.location) for each in self.reporter.diagnostics}
        new = [each for each in reporter.diagnostics if (each.code, each.rule, each.location) not in known]
        return None if any(each.severity == ERROR for each in new) else (result, arguments)


def _results(sessions: list[Session], returned: list[Any], arguments: Arguments) -> Any:
    """What the kernel returned, seen after all cores have run. The last core that returns something speaks for all."""
    speaking = max((place for place, value in enumerate(returned) if value is not None), default=0)
    result: Any = None
    for place, (session, value) in enumerate(zip(sessions, returned, strict=True)):
        with session.running():
            made = to_caller(session, arguments, value, place == speaking)
        result = made if place == speaking else result
    return result


Follower = Callable[[Launch], Run]
_follower: ContextVar[Follower | None] = ContextVar("tilewright_follower", default=None)


@contextmanager
def following(follower: Follower | None) -> Iterator[None]:
    """Let `follower` run every kernel that is launched meanwhile, and show what it leaves behind; None: nobody does."""
    token = _follower.set(follower)
    try:
        yield
    finally:
        _follower.reset(token)


def is_followed() -> bool:
    """Whether somebody follows the kernels that are launched."""
    return _follower.get() is not None


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
    if collect:
        return launch.run()
    follower = _follower.get()
    doing = working(f"running {launch.kernel.name} on {launch.target.name}", launch.progress)
    with announced(launch.kernel.name, launch.kernel.function) as event, doing:
        event.computes = not launch.options.shapes
        event.run = launch.run() if follower is None else follower(launch)
    return event.run


def _check_call(kernel: Kernel, target: Target, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if not args and not kwargs:
        violate(
            "R-jit-10",
            f"kernel {kernel.name} is called without arguments",
            hint="pass arrays: a kernel works on tensors that it is given",
            final=True,
            error=TileTypeError,
        )
    limit = target["limits.lnc_max"] if target["features.lnc2"] else 1
    if kernel.grid > limit:
        violate(
            "R-jit-05",
            f"kernel[{kernel.grid}]: {target.name} has at most {limit} cores per logical core",
            final=True,
            hint="launch it on fewer cores, and loop over the rest in the kernel",
        )
    configured = os.environ.get("NEURON_LOGICAL_NC_CONFIG", "")
    if configured.isdigit() and int(configured) != kernel.grid:
        violate(
            "R-jit-06",
            f"kernel[{kernel.grid}] runs where NEURON_LOGICAL_NC_CONFIG={configured}",
            hint=f"launch it as kernel[{configured}], or change the variable",
        )


def print_warnings(run: Run) -> None:
    """Show what a run noted but let pass, once, on standard error."""
    if _follower.get() is not None:
        return
    for diagnostic in run.diagnostics:
        if diagnostic.severity != ERROR:
            print(diagnostic, file=sys.stderr)
    found = run.nonfinite.diagnostic() if run.nonfinite is not None else None
    if found is not None:
        print(found, file=sys.stderr)
