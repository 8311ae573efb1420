"""The tape: every instruction of a run with what it read and wrote. Made only after a run has failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.ir.core import Op, Value
from tilewright.provenance.cells import Cells, address_of, cells_of
from tilewright.sim.evidence import Evidence
from tilewright.sim.machine import Machine
from tilewright.sim.plan import arguments_of
from tilewright.sim.storage import EVERYTHING
from tilewright.tile.record import Record
from tilewright.tile.view import View

MOST_BYTES = 1 << 30
"""Of values that a tape keeps; past that it keeps only those of steps that made or met something not finite."""


@dataclass(eq=False, slots=True)
class Step:
    """One executed instruction. `inputs` are what its meaning got, `sources` where that stood (None: nowhere)."""

    op: Op
    core: int
    clock: int
    inputs: list[Any]
    sources: list[Cells | list[Cells] | None]
    arguments: dict[str, Any]
    added: np.ndarray | None = None
    targets: list[Cells | None] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    kept: bool = True

    @property
    def record(self) -> Record:
        return self.op.definition

    def computed(self) -> tuple[Any, ...]:
        """The results as they were before they were stored, in the order of `outputs`."""
        if self.record.copies and len(self.inputs) == len(self.outputs) == 1:
            # What a copy means includes the cast to the element type that it stores.
            return (np.asarray(self.inputs[0]).reshape(np.shape(self.outputs[0])),)
        with np.errstate(all="ignore"):
            made = self.record.meaning(*self.inputs, *self.arguments.values())
        return made if isinstance(made, tuple) else (made,)


@dataclass(frozen=True, slots=True)
class Found:
    """Bad elements: their cells, as they were when they were found, and what was reported of them, if anything was.

    before: steps that precede it.
    """

    evidence: Evidence | None
    cells: tuple[tuple[Cells, np.ndarray | None], ...]
    before: int


class Tape:
    """Watches the machines of a run."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.found: list[Found] = []
        # Writes to each home in order: (step, which of its written operands).
        self.writes: dict[Any, list[tuple[int, int]]] = {}
        # Machines, to ask where buffers are; storages, so that no address is used twice.
        self.machines: list[Machine] = []
        self.bytes = 0
        self._alive: dict[int, np.ndarray] = {}
        # Storages that held data before the first instruction: arguments and constants.
        self.given: dict[Any, np.ndarray] = {}

    def watch(self, machine: Machine) -> None:
        """Follow what this machine executes."""
        self.machines.append(machine)
        machine.on_execute = _Watch(self, machine).look
        machine.evidence = _Noting(self, machine)

    def keep_alive(self, machine: Machine, operand: View) -> None:
        """Let no later buffer have the address of this one."""
        storage = machine.storage[operand.buffer]
        data = storage.data
        if storage.written is EVERYTHING and storage.first_write < 0 and not operand.on_chip:
            self.given.setdefault(address_of(data), data)
        if id(data) not in self._alive and self.bytes < MOST_BYTES:
            self._alive[id(data)] = data
            self.bytes += data.nbytes

    def add(self, step: Step) -> None:
        """The step has been executed."""
        number = len(self.steps)
        self.steps.append(step)
        for place, cells in enumerate(step.targets):
            if cells is not None:
                self.writes.setdefault(cells.home, []).append((number, place))
        if self.bytes < MOST_BYTES:
            self.bytes += sum(_size(value) for value in (*step.inputs, *step.outputs, step.added))
        elif all(_is_finite(value) for value in (*step.inputs, *step.outputs)):
            step.inputs, step.outputs, step.added, step.kept = [], [], None, False


class _Watch:
    def __init__(self, tape: Tape, machine: Machine) -> None:
        self.tape = tape
        self.machine = machine

    def look(self, op: Op, arrays: list[Any], added: Any) -> Callable[[list[Any]], None]:
        """Called before each instruction with what it reads; the answer is called with what it wrote."""
        machine, record = self.machine, op.definition
        arguments = {**arguments_of(machine, op, machine.engine), "report": _silent}
        if "state" in arguments:
            arguments["state"] = {key: _copied(value) for key, value in arguments["state"].items()}
        arguments = {key: value for key, value in arguments.items() if key in record.asked}
        inputs = [_copied(value) for value in arrays]
        step = Step(op, machine.core, machine.clock, inputs, self._sources(op), arguments, _copied(added))
        step.targets = [self._cells(op.operands[position]) for position in record.written]

        def look_after(written: list[Any]) -> None:
            step.outputs = [_copied(value) for value in written]
            self.tape.add(step)

        return look_after

    def _sources(self, op: Op) -> list[Cells | list[Cells] | None]:
        found: list[Cells | list[Cells] | None] = []
        for position, many, _, _ in op.definition.steps:
            if many:
                found.append([cells for each in op.operands[position:] if (cells := self._cells(each)) is not None])
            else:
                found.append(self._cells(op.operands[position]))
        return found

    def _cells(self, operand: Any) -> Cells | None:
        if isinstance(operand, View):
            self.tape.keep_alive(self.machine, operand)
        elif not isinstance(operand, Value):
            return None
        return cells_of(self.machine, operand)


class _Noting(list[Evidence]):
    """Evidence, whose cells are noted while they are where they are."""

    def __init__(self, tape: Tape, machine: Machine) -> None:
        super().__init__()
        self.tape = tape
        self.machine = machine

    def append(self, evidence: Evidence, /) -> None:
        super().append(evidence)
        for part, _ in evidence.parts:
            if isinstance(part, View):
                self.tape.keep_alive(self.machine, part)
        cells = tuple((cells_of(self.machine, part), bad) for part, bad in evidence.parts)
        self.tape.found.append(Found(evidence, cells, len(self.tape.steps)))


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(each) for each in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def _size(value: Any) -> int:
    if isinstance(value, list):
        return sum(_size(each) for each in value)
    return value.nbytes if isinstance(value, np.ndarray) else 0


def _is_finite(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_finite(each) for each in value)
    if not isinstance(value, np.ndarray) or value.dtype.kind in "iub":
        return True
    return bool(np.isfinite(value.astype(np.float32, copy=False)).all())


def _silent(*_args: Any, **_details: Any) -> None:
    """What a meaning reports while it is only looked at."""
