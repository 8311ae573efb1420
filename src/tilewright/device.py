"""Running a kernel of a program: arrays as the kernel takes them, results as the program has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np

from tilewright.errors import TileError
from tilewright.ir.core import Graph
from tilewright.nki.again import births_before
from tilewright.nki.earlier import Earlier, Given, Ran, remember, weakly
from tilewright.provenance.explain import explain_error, is_explaining
from tilewright.provenance.tape import Tape
from tilewright.provenance.walk import Birth
from tilewright.sim.machine import Machine
from tilewright.sim.run import run_graph
from tilewright.target import Target
from tilewright.tensor.types import TensorType
from tilewright.tile.memory import Buffer

Watch = Callable[[Machine], None]


@dataclass(frozen=True)
class DeviceRun:
    """A kernel of a compiled function that is about to run; a follower runs it as it likes."""

    graph: Graph
    arrays: Sequence[np.ndarray]
    target: Target

    def run(self, watch: Watch | None = None) -> tuple[np.ndarray, ...]:
        """The outputs; an error says where its value comes from."""
        try:
            results = self._run(watch)
        except TileError as error:
            explain_error(error, lambda tape: self._run(tape.watch), self._before)
            raise
        if is_explaining():
            size = sum(array.nbytes for array in self.arrays)
            made = [weakly(result) for result in results]
            remember(Earlier(self.graph.name, self._again, made, size, self._given()))
        return results

    def as_earlier(self) -> Earlier:
        """The same as a kernel that ran, to be looked into when it runs once more."""
        return Earlier(self.graph.name, self._again, [], 0, self._given())

    def _run(self, watch: Watch | None) -> tuple[np.ndarray, ...]:
        return run_graph(self.graph, self.arrays, self.target, verified=True, watch=watch)

    def _again(self, tape: Tape) -> tuple[list[np.ndarray], list[Ran]]:
        machines: list[Machine] = []

        def watch(machine: Machine) -> None:
            machines.append(machine)
            tape.watch(machine)

        results = list(self._run(watch))
        return results, [Ran(self.graph, machine) for machine in machines]

    def _given(self) -> list[Given]:
        values = (value for value in self.graph.inputs if isinstance(value, Buffer))
        return [Given(str(value.name), array) for value, array in zip(values, self.arrays, strict=True)]

    def _before(self, births: Sequence[Birth], limit: int | None) -> list[Birth]:
        return births_before(self._given(), births, limit)


Follower = Callable[[DeviceRun], tuple[np.ndarray, ...]]
_follower: ContextVar[Follower | None] = ContextVar("tilewright_device_follower", default=None)


@contextmanager
def following_device(follower: Follower) -> Iterator[None]:
    """Let a follower run the kernels of compiled functions meanwhile."""
    token = _follower.set(follower)
    try:
        yield
    finally:
        _follower.reset(token)


def on_device(array: np.ndarray) -> np.ndarray:
    """An argument as the kernel takes it: truth values are bytes, a number is an array of one element."""
    bytes_ = array.view(np.uint8) if array.dtype == np.bool_ else array
    return np.ascontiguousarray(bytes_).reshape(array.shape or (1,))


def run_program(
    kernel: Graph,
    constants: Sequence[np.ndarray],
    target: Target,
    arrays: Sequence[np.ndarray],
    outputs: Sequence[TensorType],
) -> list[np.ndarray]:
    """The outputs of a program, of these types, for its inputs: its kernel on the simulator."""
    run = DeviceRun(kernel, [*map(on_device, arrays), *constants], target)
    follower = _follower.get()
    results = run.run() if follower is None else follower(run)
    return [as_output(result, type) for type, result in zip(outputs, results, strict=True)]


def as_output(result: np.ndarray, type: TensorType) -> np.ndarray:
    """A tensor of a kernel as an array of a program: truth values and numbers as NumPy has them."""
    shaped = result.reshape(type.shape)
    return shaped.view(type.dtype.np) if type.dtype.kind == "b" else shaped
