"""What happens in a run, in order: variables of host code, arguments of kernels, instructions, ops, results.

Two runs are compared event by event; an event carries its value, a copy from when it happened.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tilewright.device import DeviceRun, following_device
from tilewright.diagnose.bisection.captured import ran_units
from tilewright.errors import Location, is_users_file, place_in
from tilewright.interop import is_torch, torch_to_numpy
from tilewright.ir.core import Op
from tilewright.nki.arrays import Arguments
from tilewright.nki.kernel import Launch, Run, following
from tilewright.programs.program import Program, listening
from tilewright.programs.units import Unit
from tilewright.sim.machine import Machine
from tilewright.tile.memory import Buffer
from tilewright.tile.view import View

MOST_BYTES = 1 << 30
"""Of values that the events of a run keep; later ones are not compared."""

_MOST_CHANGES = 16
"""Of lines that may change an array in place: so many are noted before the function ends."""

_Held = dict[str, tuple[int, int]]
"""Of each variable which array it holds, and how many lines may have changed that since."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: what it is for people, what it is matched by, where, and its value.

    Of an instruction, tensors: those that it reads and writes, by name; place: the shape of the tensor that it writes,
    where in it that begins, and its strides. launch: the number of the kernel that runs, from 1 on; 0: none does.
    """

    what: str
    key: tuple[Any, ...]
    location: Location | None
    value: np.ndarray
    operands: tuple[np.ndarray, ...] = ()
    tensors: frozenset[str] = frozenset()
    place: tuple[tuple[int, ...], int, tuple[int, ...]] | None = None
    launch: int = 0


class Recorder:
    """Collects the events of a run."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.bytes = 0
        # Whether kernels are matched by their names; not when what runs is one kernel, whatever its name.
        self.by_name = True
        self._calls: dict[str, int] = {}
        self._launches = self._running = 0

    def add(
        self,
        what: str,
        key: tuple[Any, ...],
        location: Location | None,
        value: Any,
        operands: Any = (),
        access: tuple[Op, View] | None = None,
    ) -> None:
        """Note an event, unless there have been too many to keep. access: the instruction, and what it writes."""
        array = as_numpy(value)
        if array is None or self.bytes > MOST_BYTES:
            return
        kept = tuple(np.array(each) for each in operands if isinstance(each, np.ndarray))
        tensors, place = (frozenset[str](), None) if access is None else (_tensors(access[0]), _place(access[1]))
        self.events.append(Event(what, key, location, np.array(array), kept, tensors, place, self._running))
        self.bytes += array.nbytes + sum(each.nbytes for each in kept)

    # Kernels.

    def follow(self, launch: Launch) -> Run:
        """Run a kernel, noting its arguments, what each instruction writes, and its results."""
        name = launch.kernel.name
        if launch.options.shapes:
            # It is captured, and runs later.
            return launch.run()
        self._begin()
        call = self._calls[name] = self._calls.get(name, 0) + 1
        where = _caller()
        bound = Arguments(launch.kernel.function, launch.args, launch.kwargs).bound.arguments
        for parameter, value in bound.items():
            for path, leaf in array_leaves(value, parameter):
                what = f"argument {path} of kernel {name} (call {call})"
                self.add(what, ("argument", self._key(name), path), where, leaf)
        launch.watch = lambda machine: self.watch(machine, name)
        run = launch.run()
        for number, leaf in array_leaves(run.result, ""):
            what = f"result{number or ' 0'} of kernel {name} (call {call})"
            self.add(what, ("result", self._key(name), number), where, leaf)
        self._running = 0
        return run

    def _begin(self) -> None:
        self._launches += 1
        self._running = self._launches

    def follow_device(self, run: DeviceRun) -> tuple[np.ndarray, ...]:
        """Run a kernel of a compiled function, noting the same."""
        name = run.graph.name
        self._begin()
        call = self._calls[name] = self._calls.get(name, 0) + 1
        where = _caller()
        for value, array in zip(run.graph.inputs, run.arrays, strict=True):
            what = f"argument {value.name} of kernel {name} (call {call})"
            self.add(what, ("argument", self._key(name), str(value.name)), where, array)
        results = run.run(lambda machine: self.watch(machine, name))
        for number, result in enumerate(results):
            what = f"result [{number}] of kernel {name} (call {call})"
            self.add(what, ("result", self._key(name), f"[{number}]"), where, result)
        self._running = 0
        return results

    def follow_program(self, program: Program) -> None:
        """Note the kernels of a program that is about to run on a lazy device, and those of its NumPy ops."""
        if program.example is None:
            return
        for ran in ran_units(program, lambda unit: lambda machine: self.watch(machine, unit.name)):
            self._results(ran.unit, ran.results or ())

    def _results(self, unit: Unit, results: Sequence[np.ndarray]) -> None:
        call = self._calls[unit.name] = self._calls.get(unit.name, 0) + 1
        for number, result in enumerate(results):
            what = f"result {number} of kernel {unit.name} (call {call})"
            self.add(what, ("result", self._key(unit.name), f"[{number}]"), None, result)

    def _key(self, name: str) -> str:
        return name if self.by_name else ""

    def watch(self, machine: Machine, name: str) -> None:
        """Note what each instruction of a kernel writes."""

        def look(op: Op, arrays: list[Any], _added: Any) -> Callable[[list[Any]], None]:
            inputs = [np.array(each) for each in arrays if isinstance(each, np.ndarray)]

            def look_after(written: list[Any]) -> None:
                for position, value in zip(op.definition.written, written, strict=True):
                    target = op.operands[position]
                    if value is None:
                        continue
                    if not isinstance(target, View):
                        what = f"{op.name} into a register of kernel {name}"
                        key = ("register", self._key(name), op.name)
                        self.add(what, key, op.location, np.asarray(value), inputs)
                        continue
                    shape = tuple(target.sizes)
                    what = f"{op.name} into {target.buffer.name} of kernel {name}"
                    key = ("instruction", self._key(name), op.name, shape)
                    self.add(what, key, op.location, value, inputs, (op, target))

            return look_after

        machine.on_execute = look

    # Host code.

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note the kernels and the variables of host code that runs meanwhile."""
        held: dict[int, _Held] = {}
        lines: dict[int, int] = {}

        def trace(frame: FrameType, event: str, _argument: Any) -> Any:
            if not is_users(frame):
                return None
            if event in ("line", "return"):
                # What is bound when a line begins was bound by the line before.
                line = lines.get(id(frame), frame.f_lineno)
                self._variables(frame, held.setdefault(id(frame), {}), line, event == "return")
                lines[id(frame)] = frame.f_lineno
            if event == "return":
                held.pop(id(frame), None)
                lines.pop(id(frame), None)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with following(self.follow), following_device(self.follow_device), listening(self.follow_program):
                yield
        finally:
            sys.settrace(before)

    def _variables(self, frame: FrameType, held: _Held, line: int, at_end: bool) -> None:
        """Arrays that a line has bound to names or changed in place; at the end of a function all of them."""
        changing = names_changed(frame.f_code).get(line, frozenset())
        for name, value in list(frame.f_locals.items()):
            if not isinstance(value, np.ndarray) and not is_torch(value):
                continue
            number, changes = held.get(name, (0, 0))
            is_known = number == id(value)
            changes = changes + 1 if is_known and name in changing else 0
            if is_known and not at_end and not 0 < changes <= _MOST_CHANGES:
                continue
            held[name] = id(value), changes
            where = Location(frame.f_code.co_filename, line)
            self.add(f"{name} in {frame.f_code.co_name}", ("variable", name, at_end), where, value)


@cache
def names_changed(code: CodeType) -> dict[int, frozenset[str]]:
    """The variables that each line of a function may change in place: those it names, where it stores into something
    (`x[i] = y`), updates it (`x += y`) or calls what gives nothing that is kept (`x.sort()`)."""
    found: dict[int, set[str]] = {}
    storing: set[int] = set()
    line, before = code.co_firstlineno, ""
    for each in dis.get_instructions(code):
        line = _line_of(each, line)
        if each.opname.startswith(("LOAD_", "STORE_")) and isinstance(each.argval, (str, tuple)):
            found.setdefault(line, set()).update((each.argval,) if isinstance(each.argval, str) else each.argval)
        stores = each.opname.startswith(("STORE_SUBSCR", "STORE_SLICE", "INPLACE_"))
        updates = each.opname == "BINARY_OP" and each.argrepr.endswith("=")
        if stores or updates or (each.opname == "POP_TOP" and before.startswith("CALL")):
            storing.add(line)
        before = each.opname
    return {line: frozenset(names) for line, names in found.items() if line in storing}


def _line_of(instruction: dis.Instruction, before: int) -> int:
    positions = getattr(instruction, "positions", None)
    if positions is not None:
        return positions.lineno or before
    return instruction.starts_line or before


def _tensors(op: Op) -> frozenset[str]:
    """The tensors that an instruction reads or writes, by name."""
    return frozenset(str(value.name) for value in op.values() if isinstance(value, Buffer))


def _place(view: View) -> tuple[tuple[int, ...], int, tuple[int, ...]] | None:
    """Where an instruction writes; None where that is known only when it runs."""
    return None if view.dynamic is not None or view.terms else (view.buffer.shape, view.offset, view.strides)


def is_users(frame: FrameType) -> bool:
    """Whether a frame is code of the user, not of a library."""
    return is_users_file(frame.f_code.co_filename)


def _caller() -> Location | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    return None if frame is None else place_in(frame.f_code, frame.f_lasti, frame.f_lineno)


def as_numpy(value: Any) -> np.ndarray | None:
    """An array as NumPy has it; None for anything else, and for tensors that are not there to be read."""
    if is_torch(value):
        return torch_to_numpy(value) if value.device.type == "cpu" else None
    return value if isinstance(value, (np.ndarray, np.generic)) else None  # type: ignore[return-value]


def array_leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The arrays in a value with their paths."""
    if as_numpy(value) is not None:
        yield path, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from array_leaves(each, f"{path}[{key!r}]")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, each in enumerate(value):
            yield from array_leaves(each, f"{path}[{number}]")
