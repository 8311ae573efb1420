"""Kernels that ran before: a bad argument of one kernel is looked for in what others returned.

Launches are remembered by reference, few and small enough to cost nothing; when one is looked into it runs again, and
counts only if it returns the same once more.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tilewright.interop import is_torch, torch_to_numpy
from tilewright.ir.core import Graph
from tilewright.provenance.cells import Cells, address_of, cells_of
from tilewright.provenance.explain import unexplained
from tilewright.provenance.kinds import kinds_of
from tilewright.provenance.tape import Found, Tape
from tilewright.sim.machine import Machine
from tilewright.tile.view import whole

MOST_LAUNCHES = 300
MOST_BYTES = 1 << 28
MOST_SECONDS = 10.0
"""For running earlier kernels again when it is not known which of them made a bad argument."""


class HasOutputs(Protocol):
    """A core that ran: its kernel and its machine."""

    @property
    def graph(self) -> Graph: ...

    @property
    def machine(self) -> Machine: ...


@dataclass(frozen=True, slots=True)
class Ran:
    """A kernel in tile IR that ran."""

    graph: Graph
    machine: Machine


@dataclass(frozen=True, slots=True)
class Given:
    """An argument of a kernel, by the name of its tensor."""

    name: str
    original: np.ndarray


Again = Callable[[Tape], tuple[list[np.ndarray], Sequence[HasOutputs]]]


@dataclass(eq=False, slots=True)
class Earlier:
    """A launch that succeeded. again(tape): run it once more; its results in order, and its sessions."""

    kernel: str
    again: Again
    results: list[Callable[[], Any]]
    bytes: int
    arguments: Sequence[Given]

    def holding(self, address: int) -> tuple[int, int] | None:
        """Which result, and which element of it, lies at this address."""
        for number, result in enumerate(self.results):
            array = as_array(result())
            if array is None or not array.flags.c_contiguous:
                continue
            offset = address - address_of(array)
            if 0 <= offset < array.nbytes:
                return number, offset // array.itemsize
        return None


_recent: deque[Earlier] = deque(maxlen=MOST_LAUNCHES)


def forget() -> None:
    """Forget all launches."""
    _recent.clear()


def remember(earlier: Earlier) -> None:
    """Note a launch; the oldest are forgotten."""
    _recent.append(earlier)
    held = sum(each.bytes for each in _recent)
    while held > MOST_BYTES and _recent:
        held -= _recent.popleft().bytes


def as_array(value: Any) -> np.ndarray | None:
    """A result of a kernel as a NumPy array on its memory."""
    return torch_to_numpy(value) if is_torch(value) else value


def leaves(value: Any) -> Iterator[Any]:
    """The arrays in arguments or results, in order."""
    if isinstance(value, np.ndarray) or is_torch(value):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from leaves(each)


def weakly(value: Any) -> Callable[[], Any]:
    """A reference that does not keep an array alive."""
    return weakref.ref(value)


def producer(address: int) -> tuple[Earlier, int, int] | None:
    """The latest launch whose result lies at this address: launch, result, element."""
    for earlier in reversed(_recent):
        place = earlier.holding(address)
        if place is not None:
            return earlier, *place
    return None


def last_to_break(before: Earlier | None) -> tuple[Earlier, int, np.ndarray] | None:
    """The last launch (before this one) that returns something not finite: launch, result, bad elements."""
    end = time.monotonic() + MOST_SECONDS
    launches = list(_recent)
    if before is not None:
        launches = launches[: launches.index(before)] if before in launches else []
    for earlier in reversed(launches):
        if time.monotonic() > end:
            return None
        results, _ = _once_more(earlier, Tape())
        for number, result in enumerate(results):
            bad = kinds_of(result).reshape(-1) != 0
            if bad.any():
                return earlier, number, bad
    return None


def last_of(kernel: str) -> tuple[Earlier | None, list[np.ndarray]]:
    """The last launch of a kernel, and what it returns when it runs again."""
    found = next((each for each in reversed(_recent) if each.kernel == kernel), None)
    return found, [] if found is None else _once_more(found, Tape())[0]


def _once_more(earlier: Earlier, tape: Tape) -> tuple[list[np.ndarray], Sequence[HasOutputs]]:
    """The results of a launch that runs again; none if it does not get through.

    The kernel is the user's, and what it reads besides its arguments may have changed since: it may fail in any way.
    Such a launch has nothing to tell about the error that is looked into.
    """
    with unexplained(), suppress(Exception):
        return earlier.again(tape)
    return [], []


def found_in(
    earlier: Earlier, number: int, elements: np.ndarray, values: np.ndarray | None
) -> tuple[Tape, Found] | None:
    """The tape of an earlier launch, and where it made these elements; None when they do not come out again."""
    tape = Tape()
    results, sessions = _once_more(earlier, tape)
    if number >= len(results):
        return None
    made = results[number].reshape(-1)[elements]
    if values is not None and made.tobytes() != values.tobytes():
        return None
    for session in sessions:
        buffers = session.graph.outputs
        if number < len(buffers) and buffers[number] in session.machine.storage:
            cells: Cells = cells_of(session.machine, whole(buffers[number]))  # type: ignore[arg-type]
            if cells.addresses.size != results[number].size:
                return None
            bad = np.zeros(cells.addresses.size, bool)
            bad[elements] = True
            return tape, Found(None, ((cells, bad),), len(tape.steps))
    return None
