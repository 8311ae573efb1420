"""The case of a bisection: the kernel that fails, recorded, with the arrays it gets and what runs before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.diagnose.events import array_leaves, as_numpy
from tilewright.diagnose.oracles import NONFINITE
from tilewright.diagnose.variants import Variant
from tilewright.errors import TileError, TileTypeError, fail
from tilewright.ir.core import Graph
from tilewright.nki.arrays import Arguments
from tilewright.nki.kernel import Kernel, Launch, Run, as_kernel, following, run_kernel
from tilewright.programs.program import kernel_by_kernel
from tilewright.provenance.explain import unexplained
from tilewright.rules import STRICT
from tilewright.sim.session import Options
from tilewright.spec import ArraySpec
from tilewright.target import Target, get_target
from tilewright.tile.memory import Buffer

Fails = Callable[[Variant, tuple[str, ...]], bool]


@dataclass
class Case:
    """A failing variant, the names of its inputs, and how it was come to.

    blamed: why this kernel and not the one whose error was seen. again(kept): the variant when of the kernels before
    only these run, the others giving zeros.
    """

    variant: Variant
    names: list[str]
    blamed: str = ""
    before: tuple[str, ...] = ()
    again: Callable[[Sequence[int]], Variant] | None = None
    oracle: str | None = None
    seen: str = ""
    notes: list[str] = field(default_factory=list)

    def needed_context(self, fails: Fails) -> tuple[str, ...]:
        """The kernels that must run before it for the failure to be there; none when it fails on the same arrays."""
        if not self.before or fails(replace(self.variant, context=()), ()):
            return ()
        again = self.again
        if again is None:
            return self.before
        kept = list(range(len(self.before)))
        for number in reversed(range(len(self.before))):
            rest = [each for each in kept if each != number]
            if fails(again(rest), tuple(self.before[each] for each in rest)):
                kept = rest
        return tuple(self.before[each] for each in kept)

    def fails_alone(self, fails: Callable[[Variant, Any, str], bool]) -> bool:
        """Whether it fails on the same arrays when nothing ran before."""
        return fails(replace(self.variant, context=()), ("context", ()), "alone")


def case_of(thing: Any, args: Sequence[Any], kwargs: dict[str, Any], target: str | Target | None) -> Case:
    """The case that a kernel with its arguments, a kernel in tile IR, a program or a function is."""
    machine = get_target(target)
    if isinstance(thing, Graph):
        arrays = tuple(np.asarray(each) for each in args)
        return Case(Variant(thing, arrays, machine), [str(value.name) for value in thing.inputs])
    if isinstance(thing, Kernel):
        return kernel_case(thing, args, kwargs, machine)
    function = getattr(getattr(thing, "traced", None), "function", thing)
    if not callable(function):
        hint = "pass a kernel, a kernel in tile IR, a program or a function that calls kernels"
        raise fail("E108", f"{thing!r} cannot be bisected", hint=hint, error=TileTypeError)
    return _function_case(function, args, kwargs, machine)


def kernel_case(kernel: Any, args: Sequence[Any], kwargs: dict[str, Any], target: Target) -> Case:
    """A kernel with its arguments. Shapes are enough to record it, whatever its values do."""
    found = as_kernel(kernel)
    described = Arguments(found.function, args, kwargs)
    with unexplained():
        run = run_kernel(found, args, kwargs, target, None, Options(record=True, shapes=True), collect=True)
    if run.failure is not None and not run.session.graph.ops:
        raise run.failure
    graph = run.session.graph
    held = {
        path: as_numpy(leaf) for name, value in described.bound.arguments.items() for path, leaf in _paths(value, name)
    }
    arrays: list[np.ndarray] = []
    for value in graph.inputs:
        assert isinstance(value, Buffer)
        array = run.session.constants.get(value, held.get(str(value.name)))
        if array is None:
            raise fail(
                "E108",
                f"argument {value.name} is not an array",
                hint="bisect a kernel on the arrays with which it fails",
            )
        arrays.append(np.ascontiguousarray(array))
    variant = Variant(graph, tuple(arrays), target, STRICT)
    return Case(variant, [str(value.name) for value in graph.inputs])


def _paths(value: Any, name: str) -> list[tuple[str, Any]]:
    """Arrays by the names that their tensors have (`nki.arrays`)."""
    if as_numpy(value) is not None:
        return [(name, value)]
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in _paths(each, f"{name}_{key}")]
    if isinstance(value, (list, tuple)) and not isinstance(value, ArraySpec):
        return [leaf for i, each in enumerate(value) for leaf in _paths(each, f"{name}_{i}")]
    return []


@dataclass
class _Launches:
    """Runs the kernels that a function calls, those left out giving zeros, and notes them."""

    left_out: frozenset[int] = frozenset()
    made: list[tuple[Launch, list[np.ndarray]]] = field(default_factory=list)
    failed: int | None = None

    def __call__(self, launch: Launch) -> Run:
        number = len(self.made)
        held = replace(launch, args=_copies(launch.args), kwargs=_copies(launch.kwargs))
        self.made.append((held, []))
        try:
            run = launch.run()
        except TileError:
            self.failed = number
            raise
        if number in self.left_out:
            run.result = _zeros(run.result)
        self.made[-1][1].extend(
            array for _, leaf in array_leaves(run.result, "") if (array := as_numpy(leaf)) is not None
        )
        return run


def _function_case(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], target: Target) -> Case:
    launches = _call(function, args, kwargs, frozenset())
    if not launches.made:
        hint = "bisect a kernel, or a function that calls one"
        raise fail("E712", f"{getattr(function, '__name__', 'the function')} calls no kernel", hint=hint)
    number = len(launches.made) - 1 if launches.failed is None else launches.failed
    seen = launches.made[number][0].kernel.name
    broken = _first_to_break(launches)
    blamed, oracle = "", None
    if broken is not None and (broken < number or launches.failed is None):
        number, oracle = broken, NONFINITE
        name = launches.made[number][0].kernel.name
        blamed = f"{name} is the first kernel that makes something not finite of finite arrays"
    case = _launch_case(launches, number, target)
    case.before = tuple(launch.kernel.name for launch, _ in launches.made[:number])
    case.variant = replace(case.variant, context=case.before)
    case.blamed, case.oracle, case.seen = blamed, oracle, seen

    def again(kept: Sequence[int]) -> Variant:
        left_out = frozenset(range(number)) - frozenset(kept)
        run = _call(function, args, kwargs, left_out)
        made = _launch_case(run, number, target) if len(run.made) > number else case
        return replace(made.variant, context=tuple(case.before[each] for each in kept))

    case.again = again
    return case


def _call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], left_out: frozenset[int]
) -> _Launches:
    launches = _Launches(left_out)
    with following(launches), unexplained(), kernel_by_kernel():
        try:
            function(*_copies(args), **_copies(kwargs))
        except TileError:
            if launches.failed is None:
                raise
    return launches


def _launch_case(launches: _Launches, number: int, target: Target) -> Case:
    launch = launches.made[number][0]
    return kernel_case(launch.kernel, launch.args, launch.kwargs, target)


def _first_to_break(launches: _Launches) -> int | None:
    for number, (launch, results) in enumerate(launches.made):
        given = [as_numpy(leaf) for _, leaf in array_leaves([launch.args, launch.kwargs], "")]
        if all(_is_finite(each) for each in given) and not all(_is_finite(each) for each in results):
            return number
    return None


def _is_finite(array: np.ndarray | None) -> bool:
    return array is None or array.dtype.kind in "iub" or bool(np.isfinite(array.astype(np.float32)).all())


def _copies(value: Any) -> Any:
    if as_numpy(value) is not None:
        return value.clone() if hasattr(value, "clone") else np.array(value)
    if isinstance(value, dict):
        return {key: _copies(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_copies(each) for each in value)
    return value


def _zeros(value: Any) -> Any:
    if as_numpy(value) is not None:
        return value * 0 if hasattr(value, "clone") else np.zeros_like(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_zeros(each) for each in value)
    return value
