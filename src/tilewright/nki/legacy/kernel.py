"""Kernels of the legacy dialect: nki.jit and its modes, grids of any rank, and what a run gives back."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar

from tilewright.calls import hand_over, taker_of
from tilewright.errors import Location, TileTypeError, fail, user_location
from tilewright.nki.arrays import Arguments
from tilewright.nki.kernel import (
    IGNORED_FLAGS,
    Kernel,
    Launch,
    Run,
    calling,
    is_followed,
    print_warnings,
    require_function,
    run_kernel,
)
from tilewright.nki.legacy.faults import fault
from tilewright.nki.legacy.grid import Grid
from tilewright.nki.legacy.loop_index import Loop
from tilewright.nki.legacy.rewrite import rewritten, source_tree
from tilewright.nki.legacy.session import LegacySession, Scope
from tilewright.nki.legacy.tensor import LegacyTensor
from tilewright.nki.legacy.typing import tensor as described
from tilewright.nki.subset import check_returns
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import ERROR, OFF, WARNING, load_rules, reporter
from tilewright.sim.bounds import OutOfBoundsError
from tilewright.sim.session import Session, running_session
from tilewright.spec import ArraySpec

# Rules of the current dialect that this one does not have; what it says instead are its own rules.
_OFF = (
    *("R-nl-01", "R-nl-02", "R-nl-03", "R-nl-04", "R-nl-05", "R-nl-06", "R-nl-07", "R-nl-19", "R-tensor-15"),
    *("R-tensor-16", "R-tensor-19", "R-jit-11", "R-dma_copy-15", "R-memset-01", "R-dma_compute-07", "R-engine-05"),
)


# Rules that kernels of the current dialect are let pass where a profile is lenient, but none of this one breaks.
_ALWAYS = ("R-err-unsupported_memory-01", "R-err-num_partition_mismatch-01")


# What compiler.py and entry.py note of a kernel.
_MARKS = frozenset({"force_auto_alloc", "returned", "skip_middle_end"})
# Keywords of the decorators, those of nki.benchmark and nki.profile included: nki.jit(mode="benchmark", warmup=10).
FLAGS = _MARKS | {
    *IGNORED_FLAGS,
    *("mode", "platform_target", "disable_allocation_opt", "kernel_return", "grid", "func"),
    *("warmup", "iters", "device_count", "save_neff_name", "save_trace_name", "artifacts_dir"),
    *("working_directory", "overwrite", "profile_nth", "num_execs"),
}


class LegacyKernel(Kernel):
    """A kernel of neuronxcc.nki. `axes` is its launch grid; `flags` what its decorators were given."""

    session_type = LegacySession
    # Kernels are often named as tests are, and are none: pytest leaves them alone.
    __test__ = False
    # Predicts how long a run takes, in microseconds (set where timing is known).
    predict: ClassVar[Callable[[Run], float] | None] = None

    def __init__(
        self,
        function: Callable[..., Any],
        axes: tuple[Any, ...] = (),
        flags: dict[str, Any] | None = None,
        declared: Location | None = None,
    ) -> None:
        self.layout = Grid(axes)
        super().__init__(function, self.layout.cores, bool(axes), flags, declared)
        self.axes = axes
        self.benchmark_result: Any = None

    def with_grid(self, axes: tuple[Any, ...]) -> LegacyKernel:
        """The same kernel on another grid."""
        return type(self)(self.function, axes, dict(self.flags), self.declared)

    def __getitem__(self, grid: Any) -> LegacyKernel:
        """kernel[rows, columns]: one program per place of the grid."""
        return self.with_grid(tuple(grid) if isinstance(grid, tuple) else (grid,))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if running_session() is not None:
            return self._called_inside(args, kwargs)
        taker = taker_of(args, kwargs)
        if taker is not None:
            return hand_over(taker, self, args, kwargs)
        given = [self._array_for(each) for each in args], {key: self._array_for(each) for key, each in kwargs.items()}
        self.last_run = self.launch(tuple(given[0]), given[1])
        if self.flags.get("mode") == "benchmark":
            from tilewright.nki.legacy.entry import measured

            self.benchmark_result = measured(self.last_run)
        return self.last_run.result

    def _array_for(self, given: Any) -> Any:
        """An argument; an array where it only describes one. Element types are arguments like others."""
        if not isinstance(given, type) or not issubclass(given, described):
            return given
        from tilewright.nki.legacy.entry import example_of

        return example_of(self.name, given, self.flags.get("mode") == "benchmark" or "working_directory" in self.flags)

    def launch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Run:
        """Run on the target that the decorator or the environment names.

        A run-time index outside its tensor is the plain IndexError that the legacy simulator raises (R-legacy-18), with
        the diagnostic attached; whoever follows launches gets the diagnostic itself.
        """
        try:
            run = run_kernel(self, args, kwargs, self.flags.get("platform_target"))
        except OutOfBoundsError as error:
            if is_followed():
                raise
            row = error.tensor.strides[0]
            size = error.bound * row
            plain = IndexError(f"index {error.index * row} is out of bounds for axis 0 with size {size}")
            plain.diagnostic = error.diagnostic  # type: ignore[attr-defined]
            raise plain from error
        print_warnings(run)
        return run

    def _called_inside(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.axes:
            grid = ", ".join(map(str, self.layout.sizes))
            fault(
                "err_nested_kernel_with_spmd_grid",
                f"Calling kernel with spmd grid ({self.name}[{grid}]) inside another kernel is not supported",
                hint="call it without a grid, in a loop over what the grid would number",
            )
        return rewritten(self.function)(*args, **kwargs)

    # What a launch asks of its kernel.

    def check(self, launch: Launch) -> None:
        """This dialect warns of keywords that it does not know, and takes kernels without arguments."""
        off = [*_OFF, *(rule for rule in load_rules() if rule.startswith("R-language-"))]
        own = dict.fromkeys(off, OFF) | dict.fromkeys(_ALWAYS, ERROR) | {"R-tensor-18": WARNING, "R-jit-01": WARNING}
        launch.reporter.severities = own | launch.reporter.severities
        check_returns(self.function)
        # Cores of a chip, where they do not make up logical ones.
        limit = launch.target["limits.lnc_max"] if launch.target["features.lnc2"] else launch.target["chip.cores"]
        if self.layout.cores > limit:
            launch.reporter.violate(
                "R-jit-05",
                f"the grid has {self.layout.cores} cores (nl.nc); a kernel has at most {limit} on {launch.target.name}",
                hint="let every core run several programs: nl.spmd_dim(n, nl.nc(2))",
                final=True,
            )
        for name in self.flags.keys() - FLAGS:
            launch.reporter.violate(
                "R-jit-01",
                f"nki.jit: the keyword '{name}' means nothing and is passed over",
                hint=f"known are {', '.join(sorted(FLAGS - _MARKS))}",
                location=self.declared,
            )

    def body(self, arguments: Arguments, session: Session) -> Any:
        """The programs that a core runs, one after the other."""
        assert isinstance(session, LegacySession)
        bound, named = arguments.bind(session)
        args, kwargs = [_adopted(each, session) for each in bound], {k: _adopted(v, session) for k, v in named.items()}
        function = rewritten(self.function)
        session.entry = getattr(function, "__code__", None)
        session.ignores_allocation = bool(self.flags.get("force_auto_alloc"))
        self._mark_parameters(session, args, kwargs)
        programs = self.layout.programs(session.program_id)
        session.grid = self.layout.sizes
        result: Any = None
        loop = Loop("grid", range(len(programs)))
        if len(programs) > 1:
            loop.outcome = {}
            session.nest.append(loop)
        for number, place in enumerate(programs):
            session.place, session.next_shared = place, 0
            session.scope = Scope(None)
            loop.iteration = number
            made = calling(function, args, kwargs)
            session.flush()
            result = made if made is not None else result
        session.nest.clear()
        self._check_outputs(session, result)
        return result

    def _mark_parameters(self, session: LegacySession, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Parameters that may be written: marked ones, and all of a kernel that returns nothing (pass by reference)."""
        bound = inspect.signature(self.function).bind(*args, **kwargs).arguments
        hints = getattr(self.function, "__annotations__", {})
        for name, value in bound.items():
            if self.by_reference or is_mutable(hints.get(name), self.function):
                session.mutable.update(each for each in session.inputs if each.name == name)
            del value

    @property
    def by_reference(self) -> bool:
        """Kernels from before results were returned write to their parameters."""
        return self.flags.get("mode") in ("trace", "baremetal", "benchmark", "plain") and not self.returns_value

    @functools.cached_property
    def returns_value(self) -> bool:
        """Whether the function returns something."""
        tree = source_tree(self.function) if isinstance(self.function, FunctionType) else None
        return tree is not None and _returns(tree)

    @property
    def defined(self) -> Location | None:
        """The line of the function's `def`."""
        if not isinstance(self.function, FunctionType):
            return None
        tree = source_tree(self.function)
        code = self.function.__code__
        return Location(code.co_filename, code.co_firstlineno if tree is None else tree.lineno)

    def _check_outputs(self, session: LegacySession, result: Any) -> None:
        """err_tensor_output_not_written_to, and mutable parameters that are not returned."""
        outputs = [each for each in _leaves(result) if isinstance(each, LegacyTensor)]
        if not outputs and not session.updated:
            fault(
                "err_tensor_output_not_written_to",
                f"kernel {self.name} has no output: it returns no tensor and writes to none of its parameters",
                hint="return the tensor in nl.shared_hbm that holds the result, and store to it; a loop that is never "
                "entered stores nothing",
                location=self.defined,
            )
        for tensor in outputs:
            storage = session.machine.storage.get(_buffer(tensor))
            if storage is not None and storage.first_write < 0 and _buffer(tensor) not in session.inputs:
                fault(
                    "err_tensor_output_not_written_to",
                    f"output tensor `{tensor.name}` of shape {list(tensor.shape)} was never written to",
                    *([(tensor.name, tensor._tile)] if tensor._tile is not None else []),
                    hint="check that the loop or condition with its nl.store is entered (math.ceil of a quotient, with "
                    "a mask), or store a default value before",
                    location=_buffer(tensor).location,
                )
        self._check_returned(session, outputs)

    def _check_returned(self, session: LegacySession, outputs: list[LegacyTensor]) -> None:
        returned = {_buffer(tensor) for tensor in outputs}
        for buffer in session.updated & session.mutable - returned:
            if not self.by_reference:
                fault(
                    "err_mutable_parameter_not_returned",
                    f"Mutable kernel parameter `{buffer.name}` not returned by `return` statement",
                    hint="return it together with the other results",
                    location=self.defined,
                )

    def results(self, sessions: list[Session], returned: list[Any], arguments: Arguments) -> Any:
        """Arrays of the caller's kind; elements that were never written are not looked at."""
        result: Any = None
        for session, value in zip(sessions, returned, strict=True):
            assert isinstance(session, LegacySession)
            with session.running():
                made = _to_caller(session, arguments, value)
            result = made if made is not None else result
        return result


def _returns(tree: ast.FunctionDef) -> bool:
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            return True
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)
    return False


def is_mutable(annotation: Any, function: Any) -> bool:
    """Whether a parameter is annotated as one that the kernel writes to."""
    from tilewright.nki.legacy.typing import mutable_tensor

    if isinstance(annotation, str):
        return "mutable_tensor" in annotation
    return isinstance(annotation, type) and issubclass(annotation, mutable_tensor)


def _buffer(tensor: LegacyTensor) -> Any:
    return tensor._buffer_of()


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in _leaves(each)]
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    return [value]


def _adopted(value: Any, session: LegacySession) -> Any:
    """Arguments with tensors of this dialect."""
    if isinstance(value, NkiTensor):
        return LegacyTensor(value._view, value._handle, session.scope)
    if isinstance(value, tuple):
        parts = [_adopted(each, session) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [_adopted(each, session) for each in value]
    if isinstance(value, dict):
        return {key: _adopted(each, session) for key, each in value.items()}
    return value


def _to_caller(session: LegacySession, arguments: Arguments, value: Any) -> Any:
    if isinstance(value, LegacyTensor):
        return _array(session, arguments, value)
    if isinstance(value, tuple):
        return tuple(_to_caller(session, arguments, each) for each in value)
    if isinstance(value, list):
        return [_to_caller(session, arguments, each) for each in value]
    return value


def _array(session: LegacySession, arguments: Arguments, tensor: LegacyTensor) -> Any:
    tile = tensor._tile
    assert tile is not None
    if tile.on_chip:
        reporter().warn(
            "W104",
            f"the kernel returns {tensor.name}, which is in {tile.memory.value}: only the simulator can show it",
            hint="store it to a tensor in nl.shared_hbm and return that",
        )
        session.fill_all(tile.buffer)
    if session.options.record and not tile.on_chip:
        session.graph.outputs = (*session.graph.outputs, tile.buffer)
        session.returned.append(tile)
    storage = session.machine.touch(tile)
    if session.options.shapes:
        return ArraySpec(tile.sizes, tile.dtype)
    session.machine.require_written(tile, tile.buffer.location, "R-tensor-18")
    array = arguments.own(storage, tile, storage.array(tile, tile.offset))
    return arguments.back(array) if arguments.back else array


def as_legacy(thing: Any) -> LegacyKernel:
    """A kernel of this dialect for a function or a kernel."""
    if isinstance(thing, LegacyKernel):
        return thing
    if isinstance(thing, Kernel):
        return LegacyKernel(thing.function, declared=thing.declared)
    if callable(thing):
        return LegacyKernel(thing, flags={"mode": "plain"})
    raise fail(
        "E108", f"{thing!r} is not a kernel", error=TileTypeError, hint="pass a function decorated with @nki.jit"
    )


def jit(func: Callable[..., Any] | None = None, mode: str = "auto", **kwargs: Any) -> Any:
    """Make a function a kernel: @nki.jit, @nki.jit(mode="simulation") or nki.jit(function, ...)."""
    declared = user_location()
    flags = {"mode": mode, **kwargs}

    def make(function: Any) -> LegacyKernel:
        if isinstance(function, LegacyKernel):
            made = function.with_grid(function.axes)
            made.flags |= flags
            return made
        require_function(function)
        return LegacyKernel(function, flags=dict(flags), declared=declared)

    return make if func is None else make(func)
