"""Running tile IR: loops iterate, allocations start unwritten, every instruction goes through `sim.execute`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import WARNING, Location, fail
from tilewright.ir.core import Graph, Op, Value
from tilewright.rules import Reporter, restore_reporter, use_reporter
from tilewright.sim.execute import execute
from tilewright.sim.machine import Machine
from tilewright.sim.storage import EVERYTHING
from tilewright.sim.threads import one_thread
from tilewright.target import Target, get_target
from tilewright.tile.conflicts import RULE
from tilewright.tile.memory import Buffer
from tilewright.tile.verdict import Verifier
from tilewright.tile.verify import check_graph
from tilewright.tile.view import whole
from tilewright.tile.visit import Visitor


class GraphRun(Visitor):
    """One run of a kernel in tile IR on one machine."""

    def __init__(self, target: Target, reporter: Reporter, stream: str | None = None, name: str = "kernel") -> None:
        self.machine = Machine(target, reporter, name)
        self.machine.stream = stream
        if stream is not None:
            reporter.severities[RULE] = WARNING
        self.verifier = Verifier(target, reporter)
        self.executed = 0
        self._turns: dict[Buffer, int] = {}

    def alloc(self, op: Op, buffer: Buffer) -> None:
        """Another trip of the loop starts with a fresh, unwritten buffer."""
        self.machine.release(buffer)
        turn = self._turns[buffer] = self._turns.get(buffer, -1) + 1
        self.machine.allocate(buffer, turn=turn)

    def dealloc(self, op: Op, buffer: Buffer) -> None:
        self.machine.release(buffer)

    def trip(self, index: Value, position: int) -> None:
        self.machine.values[index] = position

    def register(self, op: Op) -> None:
        self.machine.define_register(op)

    def instruction(self, op: Op) -> None:
        self.machine.reporter.at = op.location
        execute(self.machine, op, self.verifier.check(op.definition, op.operands, op.attrs, op.location))
        self.executed += 1


def run_graph(
    graph: Graph,
    arrays: Sequence[np.ndarray],
    target: str | Target | None = None,
    profile: str = "strict",
    stream: str | None = None,
    verified: bool = False,
    watch: Callable[[Machine], None] | None = None,
    copy: bool = True,
) -> tuple[np.ndarray, ...]:
    """Run a kernel in tile IR on arrays; returns its outputs in order. Inputs are not changed.

    stream: as of a session (`sim.session.Options`). What `verify_graph` finds wrong is raised before anything runs,
    unless it is known to be `verified` or runs to show what comes of it. watch: gets the machine before it starts.
    copy: the kernel works on copies of the arrays, which then lie where they lie.
    """
    if len(arrays) != len(graph.inputs):
        raise fail("E103", f"kernel {graph.name} takes {len(graph.inputs)} arrays, but {len(arrays)} were given")
    machine = get_target(target)
    if not verified and stream is None:
        check_graph(graph, machine, profile)
    reporter = Reporter(profile)
    run = GraphRun(machine, reporter, stream, graph.name)
    if watch is not None:
        watch(run.machine)
    token = use_reporter(reporter)
    try:
        for value, array in zip(graph.inputs, arrays, strict=True):
            bind(run.machine, value, array, copy)
        for value in graph.declared:
            run.machine.allocate(_buffer(value))
        with np.errstate(all="ignore"), one_thread():
            run.region(graph.body)
        return tuple(output_of(run.machine, value, graph.location) for value in graph.outputs)
    finally:
        restore_reporter(token)


def _buffer(value: Any) -> Buffer:
    assert isinstance(value, Buffer), f"{value} is not a buffer"
    return value


def bind(machine: Machine, value: Any, array: np.ndarray, copy: bool = True) -> None:
    """Give an input of a kernel its array; the kernel works on a copy unless told otherwise."""
    buffer = _buffer(value)
    if array.dtype == np.uint8 and buffer.dtype.np == np.bool_:
        # Truth values are bytes wherever they come from another kernel.
        array = array != 0
    if array.shape != buffer.shape or array.dtype != buffer.dtype.np:
        raise fail(
            "E103",
            f"input {buffer.name} is {buffer.dtype}{list(buffer.shape)}, but the array is "
            f"{array.dtype}{list(array.shape)}",
        )
    held = np.array(array, order="C") if copy else array
    machine.allocate(buffer, held.reshape(-1).view(np.uint8)).written = EVERYTHING


def output_of(machine: Machine, value: Any, location: Location | None) -> np.ndarray:
    """What a run left in an output; all of it has to be written."""
    buffer = _buffer(value)
    view = whole(buffer)
    if view.size:
        machine.require_written(view, buffer.location or location, "R-tensor-18")
    return machine.storage[buffer].array(view, 0).copy()
