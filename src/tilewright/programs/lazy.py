"""A lazy device: arrays that stay on it, and calls that are recorded until somebody asks for numbers.

`Device.upload` gives an array to the device, kernels and NumPy's functions on device arrays are ops of one graph, and
`Device.read` runs what is pending: as a program with a plan of its own, whose outputs are the arrays that are still in
use. Nothing between two kernels goes by way of the host unless it is read.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.errors import Location, TileError, fail, user_location
from tilewright.front.array import TracedArray, new
from tilewright.front.function import of_graph
from tilewright.front.pytree import map_leaves
from tilewright.front.trace import Trace, tracing
from tilewright.ir.core import Graph, Value
from tilewright.programs.call import BARRIER, STEP, calls_of
from tilewright.programs.capture import Capture, recorders
from tilewright.programs.flags import read_flags
from tilewright.programs.program import Program, announce
from tilewright.rules import STRICT
from tilewright.target import Target, get_target
from tilewright.tensor.types import TensorType

DUMP = "TILEWRIGHT_DUMP"
"""Names the folder in which programs of lazy devices are dumped when they run."""


@dataclass
class Transfers:
    """How often, and how many bytes, went between the host and a device."""

    uploads: int = 0
    downloads: int = 0
    uploaded_bytes: int = 0
    downloaded_bytes: int = 0


class Handle:
    """An array on a device: an op's result that is pending, or numbers that are there.

    failure: why there are none, after what was pending failed. location: where somebody put it on the device.
    """

    __slots__ = ("__weakref__", "array", "device", "failure", "location", "traced", "type")

    def __init__(self, device: Device, type: TensorType, array: np.ndarray | None, traced: TracedArray | None) -> None:
        self.device, self.type, self.array, self.traced = device, type, array, traced
        self.failure: TileError | None = None
        self.location: Location | None = None
        device.handles.add(self)

    def pending(self) -> TracedArray:
        """The array in the graph that is being recorded."""
        if self.traced is None:
            self.traced = self.device.enter(self.numbers(), self.location)
        return self.traced

    def numbers(self) -> np.ndarray:
        """The numbers that are there; what is lost is told again."""
        if self.failure is not None:
            raise self.failure
        assert self.array is not None
        return self.array


_open: weakref.WeakSet[Device] = weakref.WeakSet()


def settle_devices() -> None:
    """Run what is pending anywhere: a script that ends without a look at its results has launched its kernels too."""
    for device in list(_open):
        device.flush()


class Device:
    """A device of a target, and the graph that is pending on it."""

    def __init__(self, target: str | Target | None = None, profile: str | None = None) -> None:
        self.target = get_target(target)
        self.profile = profile or os.environ.get("TILEWRIGHT_PROFILE") or STRICT
        self.transfers = Transfers()
        self.handles: weakref.WeakSet[Handle] = weakref.WeakSet()
        self.programs: list[Program] = []
        # Arrays of the host that meet those of the device are constants; otherwise they have to be uploaded.
        self.takes_host = False
        self._begin()
        _open.add(self)
        recorders.add(self)

    def _begin(self) -> None:
        self.capture = Capture(self.target, self.profile)
        self._trace = Trace(f"step{len(self.programs)}")
        self.capture.prepare(self._trace)
        self._arrays: list[np.ndarray] = []
        self._origins: list[Location | None] = []

    @property
    def graph(self) -> Graph:
        """What is pending."""
        return self._trace.graph

    def upload(self, array: np.ndarray) -> Handle:
        """Put an array on the device."""
        self.transfers.uploads += 1
        self.transfers.uploaded_bytes += array.nbytes
        made = Handle(self, TensorType(host_dtype(array.dtype), array.shape), np.array(array), None)
        made.location = user_location()
        return made

    def enter(self, array: np.ndarray, location: Location | None = None) -> TracedArray:
        """An array that is on the device as an input of the graph that is pending."""
        value = Value(TensorType(host_dtype(array.dtype), array.shape), f"x{len(self._arrays)}")
        self.graph.inputs.append(value)
        self._arrays.append(array)
        self._origins.append(location)
        with tracing(self._trace):
            return new(value)

    def apply(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Record a function of NumPy, or a call of a kernel, on handles; gives handles in place of arrays."""
        before = len(self._arrays)
        try:
            given, named = map_leaves((tuple(args), kwargs), _pending)
            with tracing(self._trace):
                return map_leaves(function(*given, **named), self._handle)
        except Exception:
            self._leave(before)
            raise

    def _leave(self, before: int) -> None:
        """What was refused keeps no arrays: inputs from the place `before` on that no op reads go.

        A script that computes in another way what is refused, again and again, would hold every array that it tried.
        """
        kept = [place for place, value in enumerate(self.graph.inputs) if place < before or value.uses]
        dropped = set(self.graph.inputs) - {self.graph.inputs[place] for place in kept}
        for handle in self.handles if dropped else ():
            if handle.traced is not None and handle.traced.storage.root.value in dropped:
                handle.traced = None
        self.graph.inputs[:] = [self.graph.inputs[place] for place in kept]
        self._arrays = [self._arrays[place] for place in kept]
        self._origins = [self._origins[place] for place in kept]

    def _handle(self, _: str, x: Any) -> Any:
        return Handle(self, x.type, None, x) if isinstance(x, TracedArray) else x

    def step(self) -> None:
        """What is pending may run: a barrier, unless the plan finds that it separates nothing."""
        if calls_of(self.graph) and self.graph.ops[-1].definition is not STEP:
            self._trace.builder.add(STEP)

    def barrier(self) -> None:
        """Keep what comes apart from what is pending."""
        if calls_of(self.graph):
            self._trace.builder.add(BARRIER)

    def flush(self) -> Program | None:
        """Run what is pending; gives the program that ran, None where nothing was pending."""
        held = [handle for handle in self.handles if handle.traced is not None]
        held.sort(key=lambda handle: handle.type.shape)
        with tracing(self._trace):
            wanted = {handle: handle.traced.value for handle in held if handle.traced is not None}
        given = dict(zip(self.graph.inputs, self._arrays, strict=True))
        # A function may give back what it was given.
        for handle, value in wanted.items():
            if handle.array is None and value in given:
                handle.array = given[value]
        if not self.graph.ops:
            for handle in held:
                handle.traced = None if handle.array is not None else handle.traced
            return None
        changed = {handle: value for handle, value in wanted.items() if value not in given}
        program = None
        if changed:
            self.graph.outputs = list(dict.fromkeys(changed.values()))
            try:
                program = Program(of_graph(self.graph), self.target, None, self.profile, arrays=self._arrays)
                program.origins = tuple(self._origins)
                announce(program)
                self.programs.append(program)
                _dump(program)
                results = dict(zip(self.graph.outputs, program.run(self._arrays), strict=True))
            except TileError as error:
                self._lose(held, changed, error)
                raise
            for handle, value in changed.items():
                handle.array = results[value]
        for handle in held:
            handle.traced = None
        self._begin()
        return program

    def _lose(self, held: Iterable[Handle], changed: Iterable[Handle], error: TileError) -> None:
        """What was pending gives no numbers: whoever asks for it is told why, and what comes after begins anew."""
        for handle in changed:
            handle.array, handle.failure = None, error
        for handle in held:
            handle.traced = None
        self._begin()

    def finish(self, results: Sequence[Handle], name: str, flags: str | Sequence[str] | None = None) -> Program:
        """What is pending as a program with these results, which does not run yet; the device has nothing any more."""
        with tracing(self._trace):
            self.graph.outputs = [handle.pending().value for handle in results]
        self.graph.name = name
        made = announce(
            Program(of_graph(self.graph), self.target, read_flags(flags), self.profile, arrays=self._arrays)
        )
        lost = fail("E807", f"a tensor of {name} has no numbers outside of it", hint=f"let {name} return it")
        pending = [handle for handle in self.handles if handle.traced is not None]
        self._lose(pending, [handle for handle in pending if handle.array is None], lost)
        return made

    def read(self, handle: Handle) -> np.ndarray:
        """The numbers of an array, on the host."""
        if handle.traced is not None:
            self.flush()
        numbers = handle.numbers()
        self.transfers.downloads += 1
        self.transfers.downloaded_bytes += numbers.nbytes
        # What a device computes has at most 32 bits; the array may be said to have more.
        return numbers.astype(handle.type.dtype.np)


def _pending(_: str, x: Any) -> Any:
    return x.pending() if isinstance(x, Handle) else x


def _dump(program: Program) -> None:
    folder = os.environ.get(DUMP)
    if folder:
        program.dump(Path(folder) / program.name)


__all__ = ["DUMP", "Device", "Handle", "Transfers"]
