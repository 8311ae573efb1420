"""The case of a bisection: the kernel that fails, recorded, with the arrays it gets and what runs before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np

from tilewright.cache import compiler_key
from tilewright.device import DeviceRun
from tilewright.diagnose.bisection.brought import brought
from tilewright.diagnose.bisection.captured import Ran, ran_units
from tilewright.diagnose.bisection.launches import Launches, call, copies, named_leaves
from tilewright.diagnose.bisection.oracles import NONFINITE
from tilewright.diagnose.bisection.own_check import inexact_cases
from tilewright.diagnose.bisection.variants import Variant
from tilewright.diagnose.events import as_numpy
from tilewright.errors import Diagnostic, Location, TileError, TileTypeError, fail
from tilewright.ir.core import Graph
from tilewright.ir.fingerprint import fingerprint
from tilewright.nki.arrays import Arguments
from tilewright.nki.kernel import Kernel, as_kernel, run_kernel
from tilewright.programs.program import Program, listening
from tilewright.provenance.explain import unexplained
from tilewright.rules import STRICT
from tilewright.sim.session import Options
from tilewright.target import Target, get_target
from tilewright.tile.memory import Buffer

Fails = Callable[[Variant, tuple[str, ...]], bool]


@dataclass
class Case:
    """A failing variant, the names of its inputs, and how it was come to.

    blamed: why this kernel and not the one whose error was seen. again(kept): the variant when of the kernels before
    only these run, the others giving zeros. refusal: what a kernel is refused for while it is traced. births: where
    the value was born for which the error was raised that was seen.
    """

    variant: Variant
    names: list[str]
    blamed: str = ""
    before: tuple[str, ...] = ()
    again: Callable[[Sequence[int]], Variant] | None = None
    oracle: str | None = None
    refusal: TileError | None = None
    births: list[Diagnostic] = field(default_factory=list)
    earlier: list[Diagnostic] = field(default_factory=list)
    """What kernels before it were warned of: something not finite was born in them and vanished again."""
    reference: Callable[..., Any] | None = None
    """What its results should be, where nothing else tells that they are wrong."""
    origins: Sequence[Location | None] = ()
    """Where a script put its arrays on a lazy device."""
    told: Sequence[str] = ()
    """Why it is to blame."""
    brought: Callable[[str, Sequence[int]], Iterable[str]] = lambda name, place: ()
    """Where an element of an input comes from."""

    def needed_context(self, fails: Fails) -> tuple[str, ...]:
        """The kernels that must run before it for the failure to be there; none when it fails on the same arrays."""
        if not self.before or fails(replace(self.variant, context=(), before=None), ()):
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


def cases_of(
    thing: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    target: str | Target | None,
    own_check: bool = True,
    in_order: bool = False,
) -> Iterator[Case]:
    """The case that a kernel with its arguments, a kernel in tile IR, a program or a function is.

    Of a function that calls several kernels first the one that is to blame, then the others, as a case each.
    own_check: a function that ends with an error of its own is about results; otherwise something else tells what
    failing means. in_order: as they ran, whoever is to blame.
    """
    machine = get_target(target)
    if isinstance(thing, Graph):
        arrays = tuple(np.asarray(each) for each in args)
        yield Case(Variant((thing,), arrays, machine), [str(value.name) for value in thing.inputs])
        return
    if isinstance(thing, Kernel):
        yield kernel_case(thing, args, kwargs, machine)
        return
    function = getattr(getattr(thing, "traced", None), "function", thing)
    if not callable(function):
        hint = "pass a kernel, a kernel in tile IR, a program or a function that calls kernels"
        raise fail("E108", f"{thing!r} cannot be bisected", hint=hint, error=TileTypeError)
    yield from _function_cases(function, args, kwargs, machine, own_check, in_order)


def kernel_case(kernel: Any, args: Sequence[Any], kwargs: dict[str, Any], target: Target) -> Case:
    """A kernel with its arguments. Shapes are enough to record it, whatever its values do."""
    found = as_kernel(kernel)
    described = Arguments(found.function, args, kwargs)
    with unexplained():
        run = run_kernel(found, args, kwargs, target, None, Options(record=True, shapes=True), collect=True)
        if any(session.follows_data for session in run.sessions):
            # How often its loops run only the arrays say.
            run = run_kernel(found, copies(args), copies(kwargs), target, None, Options(record=True), collect=True)
    if run.failure is not None and not (run.sessions and run.session.graph.ops):
        raise run.failure
    graphs = tuple(session.graph for session in run.sessions)
    held = {
        path: as_numpy(leaf)
        for name, value in described.bound.arguments.items()
        for path, leaf in named_leaves(value, name)
    }
    wrong = [each for each in run.diagnostics if each.severity == "error"]
    refusal = run.failure or (TileError(wrong[0]) if wrong else None)
    arrays: list[np.ndarray] = []
    for value in graphs[0].inputs:
        assert isinstance(value, Buffer)
        array = run.session.constants.get(value, held.get(str(value.name)))
        if array is None and refusal is not None:
            # What is refused by shapes alone was captured on arrays of which nothing else was known.
            array = np.zeros(value.shape, value.dtype.np)
        if array is None:
            raise fail(
                "E108",
                f"argument {value.name} is not an array",
                hint="bisect a kernel on the arrays with which it fails",
            )
        arrays.append(np.ascontiguousarray(array))
    variant = Variant(graphs, tuple(arrays), target, STRICT)
    return Case(variant, [str(value.name) for value in graphs[0].inputs], refusal=refusal)


def _function_cases(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    target: Target,
    own_check: bool,
    in_order: bool = False,
) -> Iterator[Case]:
    programs: list[Program] = []
    try:
        with listening(programs.append):
            launches = call(function, args, kwargs, frozenset())
    except TileError as error:
        if not programs or programs[-1].example is None:
            raise
        yield from _program_cases(programs[-1], error)
        return
    captured = [each for each in programs if each.example is not None]
    broken = launches.first_to_break()
    found_wrong = own_check and launches.raised is not None
    if captured and (not launches.made or (found_wrong and broken is None)):
        yield from _captured_cases(captured, launches, found_wrong)
        if not launches.made:
            return
    if launches.raised is not None and not launches.made:
        raise launches.raised
    if not launches.made:
        hint = "bisect a kernel, or a function that calls one"
        raise fail("E712", f"{getattr(function, '__name__', 'the function')} calls no kernel", hint=hint)
    source = _Source(function, args, kwargs, target, launches)
    seen = launches.first_shown()
    if found_wrong and launches.raised is not None and broken is None and not launches.made[seen].warnings:
        every = [(source.name(number), source.case(number)) for number in range(len(launches.made))]
        yield from inexact_cases(every, launches.raised)
    first = [] if in_order else [seen] if broken is None else [broken, seen]
    for number in dict.fromkeys([*first, *range(len(launches.made))]):
        case = source.case(number)
        if number == broken and (number < seen or launches.failed is None):
            case.oracle = NONFINITE
            case.blamed = f"{source.name(number)} is the first kernel that makes something not finite of finite arrays"
            before = [each for made in launches.made[:number] for each in made.warnings]
            case.earlier = [each for each in before if each.births]
        yield case


def _captured_cases(programs: Sequence[Program], launches: Launches, found_wrong: bool) -> Iterator[Case]:
    """Kernels of programs that ran: those of the first that makes something not finite.

    Else, where there are no other kernels, those whose results are not exact if a script found them wrong, or those of
    the last.
    """
    broken = next((each for each in programs if any(ran.breaks() for ran in ran_units(each))), None)
    if broken is not None:
        for case in _program_cases(broken, None):
            case.earlier = [each for each in launches.heard if each.births]
            yield case
    elif not launches.made and found_wrong and launches.raised is not None:
        every = [(ran.unit.name, case) for each in programs for ran, case in _ran_cases(each)]
        yield from inexact_cases(every, launches.raised)
    elif not launches.made:
        yield from _program_cases(programs[-1], None)


def _ran_cases(program: Program) -> list[tuple[Ran, Case]]:
    """The kernels of a program, those of its NumPy ops among them, as far as it ran."""
    every = ran_units(program)
    variants = [ran.variant(program, every[:number]) for number, ran in enumerate(every)]
    return [
        (ran, Case(variant, variant.names, before=variant.context, origins=ran.origins(program)))
        for ran, variant in zip(every, variants, strict=True)
    ]


def _program_cases(program: Program, error: TileError | None) -> Iterator[Case]:
    """Kernels of a program, the one to blame first."""
    every = _ran_cases(program)
    broken = next((number for number, (ran, _) in enumerate(every) if ran.breaks()), None)
    first = [len(every) - 1] if broken is None else [broken, len(every) - 1]
    for number in dict.fromkeys([*first, *range(len(every))]):
        ran, case = every[number]
        case.births = [] if error is None else list(error.diagnostic.births)
        if number == broken:
            case.oracle = NONFINITE
            case.blamed = f"{ran.unit.name} is the first kernel that makes something not finite of finite arrays"
        yield case


@dataclass
class _Source:
    """A function, and the kernels that it launched."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]
    target: Target
    launches: Launches

    def name(self, number: int) -> str:
        return self.launches.made[number].name

    def case(self, number: int) -> Case:
        """The launch of a number as a case."""
        try:
            case = self._recorded(self.launches, number)
        except TileError:
            if number == self.launches.failed and self.launches.error is not None:
                # Refused before anything is recorded: the error of the script's own call has its line.
                raise self.launches.error from None
            raise
        case.before = tuple(self.name(each) for each in range(number))
        every = range(number)
        start = self.launches.bytes_before(number)
        surrounded = replace(case.variant, context=case.before, placement=start, before=self._earlier(every))
        case.variant = surrounded
        case.births = [] if self.launches.error is None else list(self.launches.error.diagnostic.births)

        def again(kept: Sequence[int]) -> Variant:
            left_out = frozenset(range(number)) - frozenset(kept)
            with unexplained():
                run = call(self.function, self.args, self.kwargs, left_out)
            made = self._recorded(run, number).variant if len(run.made) > number else surrounded
            names = tuple(case.before[each] for each in kept)
            return replace(made, context=names, placement=start, before=self._earlier(kept))

        case.again = again
        arrays = dict(zip(case.names, case.variant.arrays, strict=True))
        case.brought = lambda name, place: brought(self.launches, number, name, arrays[name], place, self.target)
        return case

    def _recorded(self, launches: Launches, number: int) -> Case:
        launch = launches.made[number].launch
        if isinstance(launch, DeviceRun):
            variant = Variant((launch.graph,), tuple(launch.arrays), launch.target)
            return Case(variant, [str(value.name) for value in launch.graph.inputs])
        return kernel_case(launch.kernel, launch.args, launch.kwargs, self.target)

    def _earlier(self, kept: Sequence[int]) -> Callable[[], Sequence[Variant]]:
        numbers = list(kept)
        return lambda: [self._recorded(self.launches, each).variant for each in numbers]


def identity(case: Case, words: str) -> str:
    """What a case is known by when it is taken up again, by the same version of everything that computes."""
    whole = sha256(compiler_key().encode())
    for graph in case.variant.graphs:
        whole.update(fingerprint(graph).encode())
    for array in case.variant.arrays:
        whole.update(array.tobytes())
    return f"{whole.hexdigest()} {words}"
