"""Recording what a program calls: the instructions of a kernel for given shapes, and what its results are of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.errors import TileTypeError, fail
from tilewright.front.pytree import map_leaves
from tilewright.front.results import location_of
from tilewright.ir.core import Graph, Value, values_of
from tilewright.ir.walk import walk
from tilewright.nki.kernel import Kernel, Run, run_kernel
from tilewright.nki.legacy.kernel import LegacyKernel
from tilewright.programs.code import LEGACY, NKI, Code
from tilewright.rules import STRICT
from tilewright.sim.session import Options, Session
from tilewright.spec import ArraySpec
from tilewright.target import Target
from tilewright.tile.memory import Buffer
from tilewright.tile.record import Record
from tilewright.tile.view import View


@dataclass(frozen=True, slots=True)
class Recorded:
    """A kernel for given shapes.

    constants: arrays that it brings along, its last operands. result: what it returned, with a spec for every
    tensor; `returned` has their views and the number of the output that each is of, in order. updates: pairs (operand,
    output) of the arguments that it writes to. followed: operands whose numbers decided how often a loop ran.
    """

    code: Code
    constants: tuple[np.ndarray, ...]
    result: Any
    returned: tuple[tuple[int, View], ...]
    updates: tuple[tuple[int, int], ...]
    followed: tuple[int, ...] = ()


Numbers = Callable[[], tuple[tuple[Any, ...], dict[str, Any]] | None]
"""The arguments of a kernel as arrays; None where there are only shapes."""


def record_kernel(
    kernel: Kernel,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    target: Target,
    profile: str | None,
    numbers: Numbers | None = None,
) -> Recorded:
    """Run a kernel on arrays that are only described, and keep its instructions; what it breaks is raised.

    numbers: asked for where how often a loop runs depends on data; the instructions are then those for these arrays.
    """
    run = run_kernel(kernel, args, kwargs, target, profile, Options(record=True, shapes=True))
    followed: tuple[int, ...] = ()
    if any(session.follows_data for session in run.sessions):
        known = None if numbers is None else numbers()
        if known is None:
            raise fail(
                "E901",
                f"how often a loop of {kernel.name} runs depends on data: its instructions are not known ahead",
                hint="pass arrays and no specs, give the loop bounds that are numbers, or call the kernel by itself",
                location=location_of(kernel.function),
            )
        run = run_kernel(kernel, *known, target, profile, Options(record=True))
        places = {place for session in run.sessions for place in followed_inputs(session.graph)}
        followed = tuple(sorted(places or range(len(run.session.graph.inputs))))
    graphs = [_whole(session) for session in run.sessions]
    speaker = next((each for each in reversed(run.sessions) if each.returned), run.sessions[0])
    outputs, returned, updates = _outputs(run, speaker)
    for graph, session in zip(graphs, run.sessions, strict=True):
        graph.outputs = [_counterpart(buffer, speaker, session) for buffer in outputs]
    code = Code(
        kernel.name,
        tuple(graphs),
        target.name,
        LEGACY if isinstance(kernel, LegacyKernel) else NKI,
        run.session.reporter.profile or STRICT,
        location_of(kernel.function),
        tuple(run.diagnostics),
    )
    result = map_leaves(run.result, lambda _, x: _as_spec(x))
    return Recorded(code, tuple(run.session.constants.values()), result, returned, updates, followed)


def _as_spec(x: Any) -> Any:
    return ArraySpec(x.shape, host_dtype(x.dtype)) if isinstance(x, np.ndarray) else x


def followed_inputs(graph: Graph) -> list[int]:
    """The inputs that numbers in registers can come from: whatever goes into what goes into a register."""
    wanted: set[Value] = set()
    ops = [op for op in walk(graph) if isinstance(op.definition, Record)]
    for op in reversed(ops):
        made = {value for position in op.definition.written for value in values_of(op.operands[position])}
        to_register = any(not isinstance(value, Buffer) for value in made)
        if to_register or made & wanted:
            wanted |= {value for value in op.values() if isinstance(value, Buffer)}
    return [place for place, value in enumerate(graph.inputs) if value in wanted]


def _whole(session: Session) -> Graph:
    graph = session.graph
    # Constants came while the kernel ran; its arguments come before them.
    held = set(session.constants)
    graph.body.arguments.sort(key=lambda value: value in held)
    return graph


def _outputs(
    run: Run, speaker: Session
) -> tuple[list[Buffer], tuple[tuple[int, View], ...], tuple[tuple[int, int], ...]]:
    """The tensors that leave a kernel: what it returned, then arguments that any core wrote to."""
    outputs: dict[Buffer, int] = {}
    returned = tuple((outputs.setdefault(view.buffer, len(outputs)), view) for view in speaker.returned)
    updates: list[tuple[int, int]] = []
    for place, buffer in enumerate(speaker.graph.inputs):
        assert isinstance(buffer, Buffer)
        twins = [(each, each.graph.inputs[place]) for each in run.sessions]
        if any(each.machine.storage[twin].first_write >= 0 for each, twin in twins):  # type: ignore[index]
            updates.append((place, outputs.setdefault(buffer, len(outputs))))
    return list(outputs), returned, tuple(updates)


def _counterpart(buffer: Buffer, speaker: Session, session: Session) -> Buffer:
    """The tensor of another core that is the same memory."""
    if session is speaker:
        return buffer
    if buffer in speaker.graph.inputs:
        found = session.graph.inputs[speaker.graph.inputs.index(buffer)]
        assert isinstance(found, Buffer)
        return found
    storage = speaker.machine.storage[buffer]
    return next(each for each, held in session.machine.storage.items() if held is storage)


def array_leaves(kernel: Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The leaves of a call's arguments in the order in which a kernel takes its tensors."""
    signature = inspect.signature(kernel.function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as problem:
        hint = f"its signature is {signature}"
        raise fail("E114", f"kernel {kernel.name}: {problem}", hint=hint, error=TileTypeError) from None
    return [leaf for value in bound.arguments.values() for leaf in _leaves(value)]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)
    else:
        yield value


def call_key(kernel: Kernel, leaves: Sequence[Any]) -> Hashable | None:
    """What recordings of a kernel are kept by; None where an argument cannot be told apart from others."""
    grid = kernel.axes if isinstance(kernel, LegacyKernel) else kernel.grid
    parts: list[Hashable] = [kernel.function, repr(grid), kernel.has_grid, kernel.schedule, repr(kernel.flags)]
    for leaf in leaves:
        try:
            hash(leaf)
        except TypeError:
            return None
        parts.append((type(leaf), leaf))
    return tuple(parts)


__all__ = ["Recorded", "array_leaves", "call_key", "record_kernel"]
