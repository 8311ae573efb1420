"""A function of several kernels whose results are not its reference's: where it leaves what that computes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.diagnose.apart import difference
from tilewright.diagnose.bisection.brought import made_by
from tilewright.diagnose.bisection.launches import FoundWrong, Launches, call, copies
from tilewright.diagnose.bisection.oracles import is_close
from tilewright.diagnose.blame import is_our_fault
from tilewright.diagnose.divergence import recorded
from tilewright.diagnose.events import Event, array_leaves, as_numpy
from tilewright.diagnose.resemblance import first_unknown
from tilewright.errors import TileError
from tilewright.ir.core import Graph
from tilewright.nki.kernel import Kernel
from tilewright.target import Target

WORDS = "results that differ from the reference"


@dataclass(frozen=True)
class Whole:
    """A function with its arguments, and what it should return."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]
    reference: Callable[..., Any]
    is_wrong: bool
    launches: Launches

    def checked(self) -> None:
        """Call the function, and find its results wrong as a script does that compares them."""
        result = self.function(*copies(self.args), **copies(self.kwargs))
        if _differ(_arrays(result), self._wanted()):
            raise FoundWrong(WORDS)

    def _wanted(self) -> list[np.ndarray]:
        return _arrays(self.reference(*copies(self.args), **copies(self.kwargs)))

    def left_at(self, target: Target) -> tuple[int, list[str]] | None:
        """The number of the kernel that is the first to compute what the reference does not have, and what tells so."""
        left = recorded(self.function, list(self.args), self.kwargs, None)
        right = recorded(self.reference, list(self.args), self.kwargs, None, as_program=True)
        found = first_unknown(left.events, right.steps) if right.steps else None
        if found is None or not found[0].launch:
            return None
        event, divergence = found
        told = [f"{divergence.op} ({divergence.location})", *divergence.made]
        if event.key[0] == "result":
            told += self._misplaced(event, [step.array for step in right.steps], target)
        return event.launch - 1, told

    def _misplaced(self, event: Event, arrays: Sequence[np.ndarray], target: Target) -> Iterator[str]:
        """By which instructions a kernel makes an element of its result that is another one in the reference."""
        alike = [difference(event.value, each) for each in arrays if each.shape == event.value.shape]
        if alike:
            apart = min(alike, key=np.count_nonzero)
            at = int(np.argmax(apart))
            number = int(str(event.key[2]).strip("[]") or 0)
            by = made_by(self.launches.made[event.launch - 1], number, at, target)
            place = [int(i) for i in np.unravel_index(at, apart.shape)]
            if by is not None:
                yield f"of what it returns, {place} is another number than the reference's: it makes that by {by}"


def whole_of(thing: Any, args: Sequence[Any], kwargs: dict[str, Any], reference: Callable[..., Any]) -> Whole | None:
    """What a reference is of, if it is one of a function and not of the one kernel that this calls."""
    function = getattr(getattr(thing, "traced", None), "function", thing)
    if isinstance(thing, (Kernel, Graph)) or not callable(function) or not callable(reference):
        return None
    if not _takes(reference, args, kwargs):
        return None
    launches, result = _called(function, args, kwargs)
    if launches.error is not None and not isinstance(thing, Kernel):
        # It fails before there are results to be compared.
        return Whole(function, args, kwargs, reference, True, launches)
    if launches.raised is not None or not launches.made or _is_one(launches, args):
        return None
    try:
        wanted = _arrays(reference(*copies(args), **copies(kwargs)))
    except Exception as error:
        # It is one of something else, such as of a kernel.
        if is_our_fault(error):
            raise
        return None
    if [each.shape for each in wanted] != [each.shape for each in result]:
        return None
    return Whole(function, args, kwargs, reference, _differ(result, wanted), launches)


def _called(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Launches, list[np.ndarray]]:
    held: list[Any] = []

    def kept(*given: Any, **named: Any) -> None:
        held.append(function(*given, **named))

    try:
        launches = call(kept, args, kwargs, frozenset())
    except TileError:
        # Whatever is refused besides kernels is told by who looks into it.
        return Launches(), []
    return launches, _arrays(held)


def _is_one(launches: Launches, args: Sequence[Any]) -> bool:
    """Whether one kernel is all that runs, on the arguments as they are."""
    given = [as_numpy(leaf) for _, leaf in array_leaves(list(args), "")]
    return len(launches.made) == 1 and [_bits(each) for each in launches.made[0].given()] == [_bits(x) for x in given]


def _bits(array: np.ndarray | None) -> tuple[Any, ...]:
    return () if array is None else (array.shape, array.tobytes())


def _takes(reference: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    try:
        inspect.signature(reference).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:
        # A function that does not say what it takes.
        return True
    return True


def _arrays(value: Any) -> list[np.ndarray]:
    return [np.asarray(as_numpy(leaf)) for _, leaf in array_leaves(value, "")]


def _differ(results: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> bool:
    return any(not bool(is_close(a, b).all()) for a, b in zip(results, wanted, strict=True))
