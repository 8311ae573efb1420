"""`tw.program`: a function that calls kernels and NumPy, captured as a graph, planned for a target, and run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.checking import FIRST, OFF, check_name
from tilewright.demands import check_program
from tilewright.device import as_output, on_device
from tilewright.errors import Location, TileError, TileTypeError, fail
from tilewright.events import ran, refused
from tilewright.files import as_path, writing
from tilewright.front.adopting import Adopted
from tilewright.front.binding import bind
from tilewright.front.calling import arrays_of, give_back
from tilewright.front.function import Traced, of_graph, trace
from tilewright.front.pytree import argument_leaves, leaves
from tilewright.front.results import check_function
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.text import show
from tilewright.programs.call import READ, calls_of, kernels_of
from tilewright.programs.capture import Capture, Replacements
from tilewright.programs.code import Code
from tilewright.programs.exchange import is_collective, run_in_step
from tilewright.programs.failure import explain_failure
from tilewright.programs.flags import Flags, read_flags
from tilewright.programs.plan import FORMS, FUSED, Executable, Plan
from tilewright.programs.planning import Wishes, check_severities, make_plan
from tilewright.programs.transfers import Transfer, transfers_of
from tilewright.programs.units import Unit, Units, split
from tilewright.programs.warned import Warned, watched
from tilewright.rules import STRICT, Reporter
from tilewright.sim.machine import Machine
from tilewright.target import Target, get_target
from tilewright.tensor.fitting import check_integers
from tilewright.tensor.passes.narrow import Narrowed, narrow

_apart: ContextVar[bool] = ContextVar("tilewright_kernel_by_kernel", default=False)


@contextmanager
def kernel_by_kernel() -> Iterator[None]:
    """Programs that are called meanwhile run as their functions do, one kernel after the other."""
    token = _apart.set(True)
    try:
        yield
    finally:
        _apart.reset(token)


class Program:
    """A captured function. Calling it runs its plan on the simulator: arrays in, what the function returns out.

    `graph`: what was captured; `str` gives its text. `kernels`: the kernels that it calls. `replaced`: calls in whose
    place other functions were captured. `origins`: where a script put each input on a lazy device.
    """

    def __init__(
        self,
        traced: Traced,
        target: Target,
        flags: Flags | None = None,
        profile: str = STRICT,
        check: str = FIRST,
        replaced: Sequence[str] = (),
        arrays: Sequence[np.ndarray] | None = None,
        wishes: Wishes | None = None,
    ) -> None:
        self.traced, self.target, self.profile = traced, target, profile
        self.flags = flags or Flags()
        self.check = check
        self.replaced = tuple(replaced)
        self.example = None if arrays is None else tuple(arrays)
        self.origins: tuple[Location | None, ...] = ()
        self.wishes = wishes or Wishes(profile=profile)
        self.again: Callable[[Sequence[Any], dict[str, Any]], Program] | None = None
        self._is_checked = False
        self._warned = Warned(self)
        check_program(traced.graph, target, profile)

    @property
    def name(self) -> str:
        """What the function is called."""
        return self.graph.name

    @property
    def graph(self) -> Graph:
        """The program as it was captured, in NumPy's own element types."""
        return self.traced.graph

    @property
    def kernels(self) -> list[Code]:
        """The kernels that it calls, each once."""
        return kernels_of(self.graph)

    @cached_property
    def narrowed(self) -> Narrowed:
        """The program in the element types that the hardware has."""
        return narrow(self.graph)

    @cached_property
    def units(self) -> Units:
        """Its kernels, those of its NumPy ops among them, in an order in which they can run."""
        return split(self.narrowed.graph, self.target, self.flags)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the plan: what the function returns for these arguments.

        A function that read numbers on the host goes by them: it is captured again for other arguments.
        """
        if _apart.get():
            return self.traced.function(*args, **kwargs)
        given = Adopted(args, kwargs)
        arrays = arrays_of(self.traced, given.args, given.kwargs)
        if self.reads and self.again is not None and not self._is_example(arrays):
            return given.back(self.again(given.args, given.kwargs)(*given.args, **given.kwargs))
        return given.back(give_back(self.traced, arrays, self.run(arrays)))

    @property
    def reads(self) -> list[Op]:
        """Where the host read numbers while the function was captured."""
        return [op for op in self.narrowed.graph.ops if op.definition is READ]

    def _is_example(self, arrays: Sequence[np.ndarray]) -> bool:
        known = self.example
        return known is not None and all(x.tobytes() == y.tobytes() for x, y in zip(known, arrays, strict=True))

    @cached_property
    def plan(self) -> Plan:
        """The executables of the program, barriers and predicted times; E904 where a kernel cannot be loaded."""
        return make_plan(self.units, self.target, self.wishes)

    @property
    def transfers(self) -> list[Transfer]:
        """The DMA instructions of its kernels, and who writes the descriptors of each."""
        return transfers_of(self.units.units, self.target, self.flags)

    def replan(self, wishes: Wishes) -> None:
        """Have the program planned in another way from here on."""
        self.wishes = wishes
        self.__dict__.pop("plan", None)

    def run(
        self, arrays: Sequence[np.ndarray], form: str | None = None, placement: int | None = None
    ) -> list[np.ndarray]:
        """The outputs of the graph for its inputs, as planned.

        form: "fused" (one executable, where that is legal), "barriered" (one for each kernel) or "round_trip" (the
        same, every tensor by way of the host) instead of the plan; all give the same bits. placement: a number by which
        tensors are put elsewhere in HBM, which changes no bit either.
        """
        if self.has_collectives:
            hint = "p.ranks([(x0, w0), (x1, w1), ...]) runs it with the arguments of every rank"
            raise fail("E501", f"{self.name} has collectives, which one rank alone cannot run", hint=hint)
        if len(arrays) != len(self.graph.inputs):
            names = ", ".join(each.path for each in sorted(self.traced.inputs, key=lambda each: each.place))
            message = f"{self.name} takes {len(self.graph.inputs)} arrays ({names}), and is given {len(arrays)}"
            raise fail("E806", message, hint="give one array for each, in this order", error=TileTypeError)
        given = self.narrowed.arguments(arrays)
        check_integers(self.narrowed, arrays)
        executables = self._executables(form)
        try:
            if self.check != OFF and not (self._is_checked and self.check == FIRST):
                self._check_units(given)
            tensors = self.inputs_on_device(given)
            reporters: list[Reporter] = []

            def watch(machine: Machine) -> None:
                reporters.append(machine.reporter)
                watched(machine)

            for each in executables:
                given_to = [tensors[value] for value in each.inputs]
                with _told(each):
                    results = each.run(given_to, placement, watch)
                tensors.update(zip(each.outputs, results, strict=True))
        except TileError as error:
            explain_failure(self, given, error)
            raise
        self._warned.tell([found for reporter in reporters for found in reporter.diagnostics], given)
        self._check_reads(tensors)
        return self._outputs(tensors)

    @property
    def has_collectives(self) -> bool:
        """Whether several ranks run it together."""
        return any(is_collective(op) for op in self.graph.ops)

    def ranks(self, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """Run the plan on several ranks in step: what the function returns on each, for the arguments of each."""
        arrays = [arrays_of(self.traced, tuple(args), {}) for args in calls]
        tensors = [self.inputs_on_device(self.narrowed.arguments(each)) for each in arrays]
        for executable in self.plan.executables:
            with _told(executable, len(calls)):
                run_in_step(executable, tensors)
        pairs = zip(arrays, tensors, strict=True)
        return [give_back(self.traced, given, self._outputs(known)) for given, known in pairs]

    def _check_reads(self, tensors: Mapping[Value, np.ndarray]) -> None:
        """E901 where the host would have read other numbers than those that the program was captured with."""
        for op in self.reads:
            (x,), wanted = op.operands, op.attrs["value"].array
            found = as_output(tensors[self.units.tensor_of(x)], x.type)
            # A kernel that ends with the number may round otherwise than one that goes on with it.
            close = np.allclose(found, wanted, 1e-5, 1e-6, True) if x.type.dtype.is_float else (found == wanted).all()
            if not close:
                raise fail(
                    "E901",
                    "the host read other numbers when the program was captured, and what followed depends on them",
                    hint="capture the function for these arguments",
                    location=op.location,
                )

    def _executables(self, form: str | None) -> list[Executable]:
        plan = self.plan
        if form is None:
            return plan.executables
        if form not in FORMS:
            raise fail("E902", f"there is no form {form!r}", hint=f"choose {', '.join(FORMS)}")
        if form != FUSED:
            return plan.alone
        if plan.fused is None:
            why = "; ".join(str(each) for each in plan.barriers)
            raise fail("E904", f"{self.name} is not legal as one executable of {self.target.name}: {why}")
        return [plan.fused]

    def _check_units(self, arrays: Sequence[np.ndarray]) -> None:
        """Compare kernels of NumPy's ops with NumPy, unit by unit."""
        if not any(unit.compiled is not None for unit in self.units.units):
            return
        for unit, given, results in self.unit_by_unit(arrays):
            if unit.compiled is not None:
                _check_unit(unit, given, results)
        self._is_checked = True

    def unit_by_unit(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[Unit, list[np.ndarray], list[np.ndarray]]]:
        """Run each kernel by itself: the kernel, what it takes and what it gives, in order.

        arrays: the inputs in the element types that the hardware has (`narrowed.arguments`).
        """
        tensors = self.inputs_on_device(arrays)
        for unit in self.units.units:
            given = [tensors[x] for x in unit.inputs]
            results = unit.code.run(given, self.target)
            tensors.update(zip(unit.outputs, results, strict=True))
            yield unit, given, results

    def inputs_on_device(self, arrays: Sequence[np.ndarray]) -> dict[Value, np.ndarray]:
        """The tensors that are there before anything runs."""
        given = zip(self.narrowed.graph.inputs, arrays, strict=True)
        return {**self.units.constants, **{value: on_device(x) for value, x in given}}

    def _outputs(self, tensors: Mapping[Value, np.ndarray]) -> list[np.ndarray]:
        found = self.narrowed.graph.outputs
        return [as_output(tensors[self.units.tensor_of(value)], value.type) for value in found]

    def replay(self) -> Any:
        """Run it on the arrays that it was captured or saved with."""
        if self.example is None:
            raise fail("E901", f"{self.name} was captured for shapes alone: there are no arrays to run it on")
        arrays = [np.array(x) for x in self.example]
        return give_back(self.traced, arrays, self.run(arrays))

    def save(self, folder: str | Path) -> Path:
        """Write the program, its kernels, its arrays and a manifest into a folder; data alone."""
        from tilewright.programs.saving import save_program

        place = as_path(folder, "the folder")
        with writing(place):
            return save_program(self, place)

    def dump(self, folder: str | Path) -> list[Path]:
        """Write the graph, the plan and every executable with its source lines into a folder; the files written."""
        place = as_path(folder, "the folder")
        texts = {"program.ir": show(self.graph, locations=True), "plan.txt": f"{self.plan}\n"}
        texts["plan.json"] = json.dumps(self.plan.to_dict(), indent=1) + "\n"
        for number, each in enumerate(self.plan.executables):
            for step, part in enumerate(each.parts or (each,)):
                for core, graph in enumerate(part.graphs):
                    suffix = f".part{step}" * bool(each.parts) + f".core{core}" * (len(part.graphs) > 1)
                    texts[f"executable{number}{suffix}.tile.ir"] = show(graph, locations=True)
        with writing(place):
            place.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                (place / name).write_text(text, encoding="utf-8")
        return [place / name for name in texts]

    def _repr_html_(self) -> str:
        """The plan and the graph, for notebooks."""
        from tilewright.report.notebook import folded

        return f"<b>{escape(self.name)}</b>{self.plan._repr_html_()}{folded('graph', str(self.graph))}"

    def __repr__(self) -> str:
        return f"<program {self.name} of {len(calls_of(self.graph))} calls for {self.target.name}>"


@contextmanager
def _told(executable: Executable, ranks: int = 1) -> Iterator[None]:
    """Whoever listens is told of the kernels of an executable that runs inside of the block."""
    try:
        yield
    except TileError as error:
        refused(", ".join(executable.kernels), None, error)
        raise
    for kernel in ranks * executable.kernels:
        ran(kernel)


def _check_unit(unit: Unit, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
    """E811 unless the kernel of NumPy ops gives what NumPy does."""
    compiled = unit.compiled
    assert compiled is not None
    graph = compiled.traced.graph
    given = [as_output(x, value.type) for x, value in zip(arrays, graph.inputs, strict=False)]
    compiled.check(given, [as_output(x, value.type) for x, value in zip(results, graph.outputs, strict=True)])


Listener = Callable[[Program], None]
_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("tilewright_programs", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let `listener` know of every program that is captured meanwhile."""
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


def announce(made: Program) -> Program:
    """Tell those who listen of a program."""
    for listener in _listeners.get():
        listener(made)
    return made


def program(
    function: Callable[..., Any],
    /,
    *args: Any,
    target: str | Target | None = None,
    profile: str | None = None,
    flags: str | Sequence[str] | None = None,
    replace: Replacements | None = None,
    check: str = FIRST,
    demote: bool = True,
    severities: Mapping[str, str] | None = None,
    **kwargs: Any,
) -> Program:
    """Capture a function that calls kernels and NumPy: `p = tw.program(f, x, w, target="trn1")`.

    args, kwargs: arrays or `tw.spec` are the program's inputs; all other arguments are fixed. Kernels of NKI, what
    `tw.compile` and `tw.jit` made, and NumPy's functions are recorded in one graph; nothing runs yet.
    flags: options of the compiler, such as "--auto-cast=none". replace: functions to capture in place of kernels, by
    name or by call: {"moe": moe_in_numpy, "deltanet[3]": chunk_forward}. check: as of `tw.compile`, for NumPy's ops.
    demote: whether shared tensors may go to private memory so that kernels are one executable; else a barrier keeps
    them apart. severities: of rules, by id ({"R-program-02": "error"}), where they are not those of the profile.
    """
    machine = get_target(target)
    check_name(check)
    wanted = Reporter(profile or os.environ.get("TILEWRIGHT_PROFILE") or STRICT).profile
    read, wishes = read_flags(flags), Wishes(demote, wanted, check_severities(severities))

    def captured(args: Sequence[Any], kwargs: dict[str, Any]) -> Program:
        return _captured(function, args, kwargs, machine, wanted, read, dict(replace or {}), check, wishes)

    made = captured(args, kwargs)
    if not calls_of(made.traced.graph) and not made.replaced:
        raise fail(
            "E901",
            f"{made.traced.graph.name} calls no kernel on its arguments",
            hint="a program has kernels: functions decorated with nki.jit or tw.jit; tw.compile takes NumPy alone. "
            "A kernel on other arrays has run while the function was captured",
            location=made.traced.graph.location,
            error=TileTypeError,
        )
    # For other numbers the function may do without kernels.
    made.again = captured
    return announce(made)


def _captured(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    machine: Target,
    wanted: str,
    read: Flags,
    replace: Replacements,
    check: str,
    wishes: Wishes,
) -> Program:
    check_function(function)
    adopted = Adopted(args, kwargs)
    args, kwargs = adopted.args, adopted.kwargs
    arrays = [x for _, x in argument_leaves(bind(function, args, kwargs).arguments) if isinstance(x, np.ndarray)]

    def numbers(graph: Graph, value: Value) -> np.ndarray | None:
        """A value of the graph so far, by a program that ends with it; None where there are only shapes."""
        if len(arrays) != len(graph.inputs):
            return None
        graph.outputs = [value]
        so_far = Program(of_graph(graph.clone()), machine, read, wanted, check, wishes=wishes)
        graph.outputs = []
        (found,) = so_far.run(arrays)
        return found.astype(value.type.dtype.np)

    capture = Capture(machine, wanted, replace, read=numbers)
    traced = trace(function, args, kwargs, capture.prepare)
    capture.check_replaced()
    given = [x for _, x in leaves((list(args), kwargs)) if isinstance(x, np.ndarray)]
    example = arrays_of(traced, args, kwargs) if len(given) == len(traced.inputs) else None
    return Program(traced, machine, read, wanted, check, capture.replaced, example, wishes)
