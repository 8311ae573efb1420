"""Programs of scripts that call kernels one by one: what the kernels of a run have to do with each other.

A kernel on arrays of NumPy runs at once, and its results are arrays of NumPy again. Passed to another kernel as they
are, they are tensors that could stay on the device; computed with, they are not, and the host stands in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.errors import user_location
from tilewright.front.function import of_graph
from tilewright.front.pytree import map_leaves
from tilewright.interop import is_torch, torch_to_numpy
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.dense import Dense
from tilewright.nki.kernel import Launch, Run, following
from tilewright.programs.call import BARRIER, CALL, READ
from tilewright.programs.capture import Capture, recorders
from tilewright.programs.program import Program
from tilewright.programs.recording import array_leaves
from tilewright.programs.text import PROGRAM
from tilewright.spec import ArraySpec
from tilewright.target import Target
from tilewright.tensor.build import make
from tilewright.tensor.types import TensorType
from tilewright.tile.memory import row_major


class Result(np.ndarray):
    """An array that a kernel returned, or one that NumPy made of such arrays: those are of this class too."""


@dataclass
class _Known:
    """An array that a kernel took or gave, and the value it stood for then; kept so that no other gets its id."""

    array: Any
    value: Value
    digest: bytes


class Watch:
    """Follows the kernels that a script launches, and makes one graph of them."""

    def __init__(self, name: str, target: Target, profile: str | None) -> None:
        self.capture = Capture(target, profile)
        self.graph = Graph(name, dialect=PROGRAM)
        self.arrays: list[np.ndarray] = []
        self._known: dict[int, _Known] = {}
        self._ran = False
        recorders.add(self)

    def __call__(self, launch: Launch) -> Run:
        """Run a kernel as it was launched, and note what it was launched on."""
        given = [x for x in array_leaves(launch.kernel, launch.args, launch.kwargs) if _is_array(x)]
        if any(isinstance(x, ArraySpec) for x in given) or launch.options.shapes:
            return launch.run()
        args, kwargs = map_leaves((tuple(launch.args), dict(launch.kwargs)), _described)
        with following(None):
            recorded = self.capture.record(launch.kernel, args, kwargs, lambda: _copied(launch))
        values = [self._value(x) for x in given] + [self._input(x) for x in recorded.constants]
        op = make(CALL, *values, kernel=recorded.code)
        op.location = recorded.code.location
        self.graph.append(op)
        run = launch.run()
        self._ran = True
        for place, output in recorded.updates:
            self._know(given[place], op.results[output])
        left = iter(recorded.returned)
        run.result = map_leaves(run.result, lambda _, x: self._result(op, left, x))
        return run

    def barrier(self) -> None:
        """Keep what comes apart from what was launched."""
        if self.graph.ops:
            self.graph.append(Op(BARRIER)).location = user_location()

    def program(self) -> Program | None:
        """What was launched, as a program on the arrays that it was launched on; None where nothing was."""
        if not self.graph.ops:
            return None
        used = {value for op in self.graph.ops if op.definition is not READ for value in op.values()}
        made = [value for op in self.graph.ops for value in op.results]
        self.graph.outputs = [value for value in made if value not in used]
        capture = self.capture
        return Program(of_graph(self.graph), capture.target, None, capture.profile or "strict", arrays=self.arrays)

    def _value(self, x: Any) -> Value:
        """The value of an argument: what a kernel made, if it is still that, or else what the host made."""
        array = _numpy(x)
        known = self._known.get(id(x))
        if known is not None and known.digest == _digest(array):
            return known.value
        # Torch does not say what a tensor was computed from.
        if self._ran and (known is not None or isinstance(x, Result) or is_torch(x)):
            self._read(array)
        value = self._input(array)
        self._know(x, value)
        return value

    def _read(self, array: np.ndarray) -> None:
        """The host computed an argument, maybe of what kernels made."""
        made = next(value for op in reversed(self.graph.ops) for value in op.results)
        zero = np.zeros(1, np.float32)
        self.graph.append(Op(READ, (made,), (), {"value": Dense(zero, host_dtype(zero.dtype))}))

    def _input(self, array: np.ndarray) -> Value:
        value = Value(TensorType(host_dtype(array.dtype), array.shape), f"x{len(self.arrays)}")
        self.graph.inputs.append(value)
        self.arrays.append(np.array(array))
        return value

    def _result(self, op: Op, left: Iterator[Any], x: Any) -> Any:
        if not _is_array(x):
            return x
        output, view = next(left)
        value = op.results[output]
        marked = x.view(Result) if isinstance(x, np.ndarray) else x
        if view.offset == 0 and view.strides == row_major(view.sizes) and view.size == value.type.size:
            if value.type.shape != view.sizes:
                value = self.graph.append(make("reshape", value, shape=view.sizes)).result
            self._know(marked, value)
        return marked

    def _know(self, x: Any, value: Value) -> None:
        self._known[id(x)] = _Known(x, value, _digest(_numpy(x)))


def _copied(launch: Launch) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a launch, which a run of it does not change."""
    held = (tuple(launch.args), dict(launch.kwargs))
    return map_leaves(held, lambda _, x: np.array(_numpy(x)) if _is_array(x) else x)


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, ArraySpec)) or is_torch(x)


def _numpy(x: Any) -> np.ndarray:
    return torch_to_numpy(x) if is_torch(x) else np.asarray(x)


def _digest(array: np.ndarray) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).digest()


def _described(_: str, x: Any) -> Any:
    if not _is_array(x) or isinstance(x, ArraySpec):
        return x
    array = _numpy(x)
    return ArraySpec(array.shape, host_dtype(array.dtype))
