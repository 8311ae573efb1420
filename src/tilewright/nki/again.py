"""Running a kernel once more on the arrays that it was given, to see where a bad value comes from."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.interop import is_torch, torch_to_numpy
from tilewright.nki.arrays import Arguments
from tilewright.nki.earlier import (
    Earlier,
    Given,
    as_array,
    found_in,
    last_of,
    last_to_break,
    leaves,
    producer,
    remember,
    weakly,
)
from tilewright.provenance.cells import address_of
from tilewright.provenance.explain import explained, is_explaining
from tilewright.provenance.holes import is_hole
from tilewright.provenance.kinds import INFINITE, NAN
from tilewright.provenance.script import Made, called_by, made_at, made_of
from tilewright.provenance.tape import Tape
from tilewright.provenance.walk import Birth, Walk
from tilewright.rules import Reporter
from tilewright.sim.session import Session

if TYPE_CHECKING:
    from tilewright.errors import Diagnostic
    from tilewright.nki.kernel import Launch, Run


def explain(
    launch: Launch, arguments: Arguments | None, sessions: list[Session], found: list[Diagnostic]
) -> list[Diagnostic]:
    """The diagnostics of a launch, told where their values come from."""
    evidence = [each for session in sessions for each in session.machine.evidence]
    if arguments is None or not (evidence or any(map(is_hole, found))) or launch.options.shapes:
        return found
    return explained(
        found,
        evidence,
        lambda tape: _run_again(launch, arguments, tape),
        lambda births, limit: births_before(given_by(arguments), births, limit),
        lambda birth: _made_outside(arguments, birth),
    )


def _made_outside(arguments: Arguments, birth: Birth) -> Made | None:
    """The line of the script that made an argument, of this kernel or of one before it."""
    if birth.argument is not None:
        return made_at(birth.argument, is_running=False)
    name = birth.cells.name if birth.cells is not None and not birth.kernel else None
    held = next((each for each in given_by(arguments) if each.name == name), None)
    return None if held is None else made_at(held.original)


def remember_launch(launch: Launch, arguments: Arguments, run: Run) -> None:
    """Note a launch that succeeded, in case that a later one fails for what it returned."""
    if not is_explaining() or launch.watch is not None or launch.options.shapes:
        return
    results = list(leaves(run.result))

    def again(tape: Tape) -> tuple[list[np.ndarray], list[Session]]:
        made = _run_again(launch, arguments, tape)
        return [array for each in leaves(made.result) if (array := as_array(each)) is not None], made.sessions

    size = sum(held.original.nbytes + held.undo.nbytes for held in arguments.held.values())
    remember(Earlier(launch.kernel.name, again, [weakly(each) for each in results], size, given_by(arguments)))


def _run_again(launch: Launch, arguments: Arguments, tape: Tape) -> Run:
    first = _First(arguments)
    reporter = Reporter(launch.reporter.profile, launch.reporter.collect)
    again = replace(launch, args=first.of(launch.args), kwargs=first.of(launch.kwargs), reporter=reporter)
    again.watch = tape.watch
    # What the kernel prints it has printed already.
    with contextlib.redirect_stdout(io.StringIO()):
        return again.run()


def given_by(arguments: Arguments) -> list[Given]:
    """The array arguments of a launch."""
    return [Given(held.name, held.original) for held in arguments.held.values()]


def births_before(arguments: Sequence[Given], births: Sequence[Birth], limit: int | None) -> list[Birth]:
    """Where the bad elements of arguments were born, if kernels that ran before tell."""
    search = _Search()
    return [each for birth in births for each in search.births(arguments, birth, limit)]


class _Search:
    """One launch may have spoilt several arguments of a later one, and those of launches after it: looked into once."""

    def __init__(self) -> None:
        self._looked: set[tuple[Earlier, int, bytes]] = set()

    def births(
        self, arguments: Sequence[Given], birth: Birth, limit: int | None, launch: Earlier | None = None
    ) -> list[Birth]:
        """Of an argument of a launch; None: of the one that failed."""
        cells = birth.cells
        held = next((each for each in arguments if cells is not None and each.name == cells.name), None)
        if cells is None or held is None:
            return []
        elements = (cells.addresses.reshape(-1)[birth.wanted] - cells.home) // cells.itemsize
        addresses = _addresses(held.original, elements)
        known = producer(int(addresses[0]))
        if known is not None:
            earlier, number, _ = known
            places = [place[1] for each in addresses.tolist() if (place := earlier.holding(each)) is not None]
            values = np.ascontiguousarray(held.original).reshape(-1)[elements]
            same = values if len(places) == len(elements) else None
            return self._births_in(earlier, number, np.array(places), same, limit)
        if birth.kind in (NAN, INFINITE):
            broken = last_to_break(launch)
            if broken is not None:
                earlier, number, bad = broken
                return self._births_in(earlier, number, np.flatnonzero(bad), None, None)
            return []
        return self._births_of_copy(held.original, elements, limit)

    def _births_of_copy(self, argument: np.ndarray, elements: np.ndarray, limit: int | None) -> list[Birth]:
        """Where numbers of an argument were born that host code copied from the result of a kernel."""
        bad = np.ascontiguousarray(argument).reshape(-1)[elements]
        for source in made_of(argument):
            for earlier, number, result in _results_of(source):
                if np.isin(bad, result).all():
                    places = np.flatnonzero(np.isin(result, bad))
                    return self._births_in(earlier, number, places, result.reshape(-1)[places], limit)
        return []

    def _births_in(
        self, earlier: Earlier, number: int, elements: np.ndarray, values: np.ndarray | None, limit: int | None
    ) -> list[Birth]:
        key = (earlier, number, elements.tobytes())
        if key in self._looked:
            return []
        self._looked.add(key)
        found = found_in(earlier, number, elements, values)
        if found is None:
            return []
        births = Walk(found[0], limit).run(found[1])
        for birth in births:
            birth.kernel = birth.kernel or earlier.kernel
        given = [birth for birth in births if birth.is_given]
        for birth in given:
            name = "" if birth.cells is None else birth.cells.name
            birth.argument = next((each.original for each in earlier.arguments if each.name == name), None)
        return [each for birth in given for each in self.births(earlier.arguments, birth, limit, earlier)] + births


def _results_of(source: Any) -> Iterator[tuple[Earlier, int, np.ndarray]]:
    """The result of a kernel that a variable holds, or those of the last launch of a kernel that a function calls."""
    if isinstance(source, np.ndarray) or is_torch(source):
        array = as_array(source)
        known = None if array is None else producer(address_of(array))
        result = None if known is None else as_array(known[0].results[known[1]]())
        if known is not None and result is not None:
            yield known[0], known[1], result
        return
    for name in called_by(source):
        earlier, results = last_of(name)
        for number, result in enumerate(results):
            assert earlier is not None
            yield earlier, number, result


def _addresses(array: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Where these elements of an argument lie in the caller's memory."""
    places = np.unravel_index(elements, array.shape)
    found = np.full(elements.shape, address_of(array), np.int64)
    for index, stride in zip(places, array.strides, strict=True):
        found += np.asarray(index) * stride
    return found


class _First:
    """Copies of arguments as they were before the kernel wrote to them; what was one array stays one."""

    def __init__(self, arguments: Arguments) -> None:
        self._made: dict[int, Any] = {}
        for key, held in arguments.held.items():
            if held.undo.written:
                self._made[key] = held.before().astype(held.original.dtype).reshape(held.original.shape)

    def of(self, value: Any) -> Any:
        """The value with every array in it copied."""
        if isinstance(value, np.ndarray) or is_torch(value):
            if id(value) not in self._made:
                self._made[id(value)] = np.array(value if isinstance(value, np.ndarray) else torch_to_numpy(value))
            return self._made[id(value)]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self.of, value))
        if isinstance(value, (tuple, list)):
            return type(value)(map(self.of, value))
        if isinstance(value, dict):
            return {key: self.of(each) for key, each in value.items()}
        return value
