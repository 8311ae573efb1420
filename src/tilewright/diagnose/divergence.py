"""`tw.first_divergence`: where two runs part, the first thing that both do and that comes out different."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.compiler import Compiled
from tilewright.diagnose.apart import Divergence, difference
from tilewright.diagnose.blame import is_our_fault
from tilewright.diagnose.events import Event, Recorder, array_leaves, is_users
from tilewright.diagnose.parting import aligned, only_in_one, start_of, written_elsewhere
from tilewright.diagnose.ranges import uses_nki
from tilewright.diagnose.resemblance import Step, first_unknown
from tilewright.errors import Location, TileTypeError, fail, place_in
from tilewright.front.calling import arrays_of
from tilewright.front.function import Traced, trace
from tilewright.front.jit import Jit
from tilewright.interop import is_torch
from tilewright.ir.core import Graph, Op, Value
from tilewright.nki.earlier import Earlier, HasOutputs, found_in
from tilewright.nki.kernel import Kernel, Launch, Run, following, run_kernel
from tilewright.provenance.explain import unexplained
from tilewright.provenance.lineage import lineage
from tilewright.provenance.tape import Tape
from tilewright.sim.run import run_graph
from tilewright.sim.session import Options
from tilewright.target import Target
from tilewright.tensor.interpret import interpret, run_op
from tilewright.tensor.passes.precision import with_precision
from tilewright.tensor.text import TENSOR


def first_divergence(
    a: Any, b: Any, /, *args: Any, tolerance: float = 1e-5, target: str | Target | None = None, **kwargs: Any
) -> Divergence | None:
    """The first op or instruction of two runs on the same arguments that differs by more than `tolerance`.

    a, b: an `nki.jit` kernel, what `tw.compile` or `tw.jit` made, a kernel or program in IR, or any function; of a
    function the variables are compared, and the arguments, instructions and results of kernels that it calls.
    tolerance: relative to the largest value of what is compared. None: nothing differs by more.
    """
    for each in (a, b):
        if not callable(each) and not isinstance(each, Graph):
            hint = "pass a kernel, a compiled program or a function"
            raise fail("E108", f"{each!r} cannot be run", hint=hint, error=TileTypeError)
    if not isinstance(tolerance, (int, float, np.number)) or not 0 <= tolerance < np.inf:
        told = f"tolerance={tolerance!r} is not a number from 0 on"
        raise fail("E108", told, hint="such as 1e-3, of the largest number of an array", error=TileTypeError)
    for each in (a, b):
        _check_arguments(each, args, kwargs)
    programs = [isinstance(each, (Compiled, Jit)) or _is_tensor(each) for each in (a, b)]
    left = recorded(a, args, kwargs, target, programs[1])
    right = recorded(b, args, kwargs, target, programs[0])
    return compare_runs(left, right, tolerance)


def _check_arguments(thing: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """What a plain function lacks, or does not take; kernels and programs say so themselves."""
    if not inspect.isfunction(thing):
        return
    try:
        inspect.signature(thing).bind(*args, **kwargs)
    except TypeError as error:
        hint = f"it is {thing.__name__}{inspect.signature(thing)}; describe its arguments (--shape, --arg)"
        raise fail("E108", f"{thing.__name__}: {error}", hint=hint, error=TileTypeError) from None


def compare_runs(left: Recorded, right: Recorded, tolerance: float) -> Divergence | None:
    """Where two recorded runs part."""
    pairs = aligned(left.events, right.events)
    before = -1, -1
    for number, (i, j) in enumerate(pairs):
        parted = _computed_otherwise(left.events[before[0] + 1 : i], right.events[before[1] + 1 : j], tolerance)
        if parted is not None:
            return parted
        before = i, j
        one, found = left.events[i], _compared(left.events[i], right.events[j], tolerance)
        if found is not None and one.key[0] in ("returned", "result"):
            found = _elsewhere(left, right, pairs[:number]) or found
        if found is not None and one.key[0] == "returned" and isinstance(found.left, np.ndarray):
            made = [told for run in (left, right) if (told := _made(run, found, one.key[1])) is not None]
            otherwise = _by_value(left, right, tolerance) or found
            return replace(otherwise, made=(*otherwise.made, *made))
        if found is not None:
            return replace(found, made=tuple(only_in_one(left.events, right.events, pairs[: number + 1])))
    if left.raised is not None and right.raised is not None:
        # Both fail, and nothing before that tells them apart.
        raise left.raised
    if left.raised is not None or right.raised is not None:
        raised = left.raised or right.raised
        shown = [_error(each.raised) for each in (left, right)]
        return Divergence(f"{type(raised).__name__} is raised", _where(raised), shown[0], shown[1], np.inf)
    returned = [sum(each.key[0] == "returned" for each in run.events) for run in (left, right)]
    if returned[0] != returned[1]:
        shown = [f"{count or 'no'} array{'' if count == 1 else 's'}" for count in returned]
        return Divergence("what is returned", None, shown[0], shown[1], np.inf)
    return None


def _computed_otherwise(left: Sequence[Event], right: Sequence[Event], tolerance: float) -> Divergence | None:
    """What a line computes by one op in one run and by others in the other, such as a product in another precision.

    left, right: events that have no counterpart, between two that do. The last of a line is what it was computed for.
    """
    made = {(each.location, each.value.shape): each for each in right if each.key[0] == "op"}
    last = {(each.location, each.value.shape): each for each in left if each.key[0] == "op"}
    for key, one in last.items():
        found = _compared(one, made[key], tolerance) if key in made else None
        if found is not None:
            return replace(found, op=f"{one.what} ({made[key].what} in the other)")
    return None


def _elsewhere(left: Recorded, right: Recorded, pairs: Sequence[tuple[int, int]]) -> Divergence | None:
    """A result differs, and no instruction computes anything else: the first that writes to another place."""
    for i, j in written_elsewhere(left.events, right.events, pairs):
        one, other = left.events[i], right.events[j]
        shown = start_of(one), start_of(other)
        if shown[0] != shown[1]:
            return Divergence(one.what, one.location, *shown, np.inf, other.location, one.operands, other.operands)
    return None


def _made(run: Recorded, found: Divergence, path: str) -> str | None:
    """How the kernel that was run made the element of a result that differs most, by the lines of its instructions."""
    number = int(path.strip("[]")) if path.strip("[]").isdigit() else 0
    if run.kernel is None or found.left.shape != found.right.shape or path.count("[") > 1:
        return None
    element = np.array([int(np.argmax(difference(found.left, found.right)))])
    known = found_in(run.kernel, number, element, None)
    if known is None:
        return None
    tape, ((cells, _),) = known[0], known[1].cells
    return f"kernel {run.kernel.kernel} makes it by {lineage(tape, cells, int(element[0]))}"


class Recorded(Recorder):
    """The events of a run and what ended it, if something did.

    kernel: what was run, where it is a kernel alone, to run it again.
    """

    raised: Exception | None = None
    kernel: Earlier | None = None

    def __init__(self) -> None:
        super().__init__()
        # Of a program that was taken by ops: its arguments and what each op gave.
        self.steps: list[Step] = []


def matched(left: Sequence[Event], right: Sequence[Event]) -> Iterator[tuple[Event, Event]]:
    """Events of two runs that correspond to each other, in order."""
    for one, other in aligned(left, right):
        yield left[one], right[other]


def _compared(one: Event, other: Event, tolerance: float) -> Divergence | None:
    error = np.inf
    if one.value.shape == other.value.shape:
        apart = difference(one.value, other.value)
        finite = np.abs(other.value.astype(np.float64))
        scale = float(finite[np.isfinite(finite)].max(initial=0.0))
        error = float(apart.max(initial=0.0))
        if error <= tolerance * max(scale, 1e-30):
            return None
    return Divergence(
        one.what, one.location, one.value, other.value, error, other.location, one.operands, other.operands
    )


def _by_value(left: Recorded, right: Recorded, tolerance: float) -> Divergence | None:
    """Results differ and nothing else corresponds by name: the first op of one run whose value the other never has."""
    for run, program in ((left, right), (right, left)):
        found = first_unknown(run.events, program.steps) if program.steps and not run.steps else None
        if found is not None:
            return found[1]
    for ops, others in ((left.events, right.events), (right.events, left.events)):
        made = [each for each in ops if each.key[0] == "op"]
        found = [each for each in others if each.key[0] == "instruction"]
        for op in made if found else ():
            near = min(((_apart(op.value, each.value), i) for i, each in enumerate(found)), default=(np.inf, 0))
            if np.isfinite(near[0]) and near[0] > tolerance:
                other = found[near[1]]
                what = f"{op.what} ({op.location}), to which {other.what} comes nearest"
                return Divergence(what, other.location, other.value, op.value, near[0], op.location, other.operands)
    return None


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    """The relative difference of two arrays, one of which may be transposed or of another shape."""
    if one.size != other.size or one.size < 2:
        return np.inf
    scale = float(np.abs(one.astype(np.float64)).max()) or 1.0
    flat = [other.reshape(one.shape)]
    if other.ndim == 2 and one.ndim == 2:
        flat.append(other.T.reshape(one.shape))
    return min(float(difference(one, each).max()) for each in flat) / scale


def recorded(
    thing: Any, args: Sequence[Any], kwargs: dict[str, Any], target: str | Target | None, as_program: bool = False
) -> Recorded:
    """The events of a run on copies of the arguments. as_program: a function is a NumPy program, to be taken by ops."""
    run = Recorded()
    own, keywords = copied(args), copied(kwargs)
    with unexplained():
        try:
            result = _execute(thing, own, keywords, target, run, as_program)
        except Exception as error:
            # Whatever it is, it is part of what is compared, unless it is ours.
            if is_our_fault(error):
                raise
            run.raised = error
            return run
    for path, leaf in array_leaves(result, ""):
        run.add(f"result {path or '0'}", ("returned", path), None, leaf)
    return run


def _execute(
    thing: Any, args: list[Any], kwargs: dict[str, Any], target: str | Target | None, run: Recorded, as_program: bool
) -> Any:
    if isinstance(thing, Jit):
        thing = thing.compiled(*args, **kwargs)
    if isinstance(thing, Compiled):
        graph, arrays = thing.program.graph, arrays_of(thing.traced, args, kwargs)
        _ops(with_precision(graph, thing.options.precision) or graph, thing.program.arguments(arrays), run)
        return thing.simulate(*args, **kwargs)
    if isinstance(thing, Graph):
        if _is_tensor(thing):
            return _ops(thing, args, run)
        return run_graph(thing, args, target, watch=lambda machine: run.watch(machine, thing.name))
    if isinstance(thing, Kernel):
        run.by_name = False
        run.kernel = to_run_again(thing, copied(args), copied(kwargs), target)
        with following(run.follow):
            return run_kernel(thing, args, kwargs, target, None, Options()).result
    if as_program or not uses_nki(thing):
        traced = _traced(thing, args, kwargs)
        if traced is not None:
            _ops(traced.graph, arrays_of(traced, args, kwargs), run)
            return thing(*args, **kwargs)
    with run.recording():
        return thing(*args, **kwargs)


def to_run_again(kernel: Any, args: Sequence[Any], kwargs: dict[str, Any], target: str | Target | None) -> Earlier:
    """A kernel that ran on these arguments, to be looked into when it runs once more."""

    def again(tape: Tape) -> tuple[list[np.ndarray], Sequence[HasOutputs]]:
        def watched(launch: Launch) -> Run:
            launch.watch = tape.watch
            return launch.run()

        with following(watched):
            run = run_kernel(kernel, copied(args), copied(kwargs), target)
        return [leaf for _, leaf in array_leaves(run.result, "")], run.sessions

    return Earlier(kernel.name, again, [], 0, [])


def _traced(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Traced | None:
    """A function as a program of ops; None for host code that is none."""
    if any(is_torch(leaf) for _, leaf in array_leaves([args, kwargs], "")):
        return None
    try:
        return trace(function, copied(args), copied(kwargs))
    except Exception as error:
        # Host code that is no program: its variables are compared instead. A bug of the tracer is not the user's.
        if is_our_fault(error):
            raise
        return None


def _is_tensor(thing: Any) -> bool:
    return isinstance(thing, Graph) and thing.dialect is TENSOR


def _ops(graph: Graph, arrays: Sequence[np.ndarray], run: Recorded) -> list[np.ndarray]:
    """Run a program op by op."""

    def compute(op: Op, known: dict[Value, np.ndarray]) -> tuple[np.ndarray, ...]:
        results = run_op(op, known)
        operands = [known[each] for each in op.operands if isinstance(each, Value)]
        for value in results:
            run.add(op.name, ("op", op.name, value.shape), op.location, value, operands)
        run.steps += [Step(op, *pair) for pair in zip(op.results, results, strict=True)]
        return results

    run.steps += [Step(None, *pair) for pair in zip(graph.inputs, arrays, strict=True)]

    return interpret(graph, arrays, compute)


def copied(value: Any) -> Any:
    """Arguments with arrays of their own."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if is_torch(value):
        return value.clone()
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(copied(each) for each in value)
    return value


def _error(raised: Exception | None) -> str:
    if raised is None:
        return "no error"
    return f"{type(raised).__name__}: {(str(raised).splitlines() or [''])[0]}"


def _where(raised: Exception | None) -> Location | None:
    diagnostic = getattr(raised, "diagnostic", None)
    if diagnostic is not None:
        return diagnostic.location
    trace_ = raised.__traceback__ if raised is not None else None
    found: Location | None = None
    while trace_ is not None:
        if is_users(trace_.tb_frame):
            found = place_in(trace_.tb_frame.f_code, trace_.tb_lasti, trace_.tb_lineno)
        trace_ = trace_.tb_next
    return found
