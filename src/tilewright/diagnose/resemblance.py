"""Which values of a reference a run has, in whatever order and shape: where a program leaves what it should compute.

A program computes by other steps than its reference, in tiles, transposed, several steps at once. What it does right
leaves values of the reference behind all the same; after the last one that is new, something went wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tilewright.diagnose.apart import Divergence, difference
from tilewright.diagnose.events import Event
from tilewright.ir.core import Op, Value

_TOLERANCE = 1e-5
"""Of the largest number: what lies so near is one number, computed in another order."""

_BY_CHANCE = 1e-6
"""How likely it may be that numbers which have nothing to do with each other are taken for the same."""

_MOST_TOLD = 4
"""Kernels that are named besides the first."""

_FEWEST = 4
"""Different numbers of an array that says something: zeros and masks are everywhere."""


@dataclass(frozen=True)
class Step:
    """A value of a reference: an argument (op is None), or what an op gave."""

    op: Op | None
    value: Value
    array: np.ndarray


def first_unknown(events: Sequence[Event], steps: Sequence[Step]) -> tuple[Event, Divergence] | None:
    """Where a run leaves its reference: of the first kernel whose results that does not have, after the last one of
    which it has them, the first instruction that computes something else; what the kernel returns, if none does.

    None where the run has all that the reference ends with, or nothing tells the values of one from the other's.
    """
    known = _known_of(steps)
    wrong = _wrong_launches(events, known)
    launch = wrong[0] if wrong else 0
    own = [each for each in events if each.launch == launch] if launch else list(events)
    last = _last_new(events if not launch else own, known)
    never = _never_had(events, known)
    if never is None:
        return None
    unknown = (each for each in own[last + 1 :] if each.key[0] == "instruction" and _is_unknown(each, known))
    event = next(unknown, None)
    if event is None and launch:
        event = next(each for each in own if each.key[0] == "result" and _is_unknown(each, known))
    if event is None:
        return None
    told = _told(own, event, known, last, never)
    return event, replace(told, made=(*told.made, *_others(events, wrong[1:])))


def _others(events: Sequence[Event], launches: Sequence[int]) -> list[str]:
    """The kernels after it, which may be at fault too: a reference that goes another way has no values of the first."""
    names = [next(each.what for each in events if each.key[0] == "result" and each.launch == n) for n in launches]
    shown = ", ".join(name.partition(" of kernel ")[2] for name in names[:_MOST_TOLD])
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return [f"nor does it have the results of {shown}{more} after it, which may be wrong first"] if names else []


def _wrong_launches(events: Sequence[Event], known: Sequence[_Known]) -> list[int]:
    """The kernels with a result that the reference does not have, none of those after them having one that is new.

    What is fused in the reference, or taken apart, is right where something right comes of it.
    """
    wrong: dict[int, None] = {}
    seen: set[int] = set()
    for event in events:
        if event.key[0] != "result" or not event.launch:
            continue
        if _is_unknown(event, known):
            wrong[event.launch] = None
            continue
        numbers = _numbers(event.value)
        new = {i for i, each in enumerate(known) if not each.is_moved and each.has(event, numbers)} - seen
        seen |= new
        if new and len(numbers) >= _FEWEST:
            wrong.clear()
    return list(wrong)


def _known_of(steps: Sequence[Step]) -> list[_Known]:
    made: dict[Value, _Known] = {}
    for step in steps:
        numbers = _numbers(step.array)
        operands = () if step.op is None else step.op.operands
        held = [made[each].numbers for each in operands if isinstance(each, Value) and each in made]
        moves = step.op is None or any(bool(np.isin(numbers, each).all()) for each in held)
        made[step.value] = _Known(step, numbers, moves)
    return list(made.values())


def _is_unknown(event: Event, known: Sequence[_Known]) -> bool:
    """Whether it computes something, and nothing that is in the reference."""
    numbers = _numbers(event.value)
    if event.key[0] == "result" and len(numbers) < _FEWEST:
        # Of a mask, where its numbers are says what their size does not.
        masks = [each for each in known if each.is_mask_like(event.value, numbers)]
        return bool(masks) and not any(each.is_placed_as(event.value) for each in masks)
    if event.key[0] == "result":
        return not any(each.has(event, numbers) for each in known)
    if len(numbers) >= _FEWEST:
        return not any(each.has(event, numbers) for each in known)
    is_filled = not event.operands or event.value.size < _FEWEST
    return not is_filled and not any(each.near(numbers) for each in known)


def _numbers(array: np.ndarray) -> np.ndarray:
    """The different numbers of an array, in order."""
    flat = array.reshape(-1)
    return np.unique(flat[np.isfinite(flat.astype(np.float64))].astype(np.float64))


@dataclass
class _Known:
    """A value of the reference, its numbers, and those of them that the run has.

    is_moved: they are numbers of an argument, or of what it was made of: to have them shows nothing.
    """

    step: Step
    numbers: np.ndarray
    is_moved: bool
    found: list[np.ndarray] = field(default_factory=list)
    is_whole: bool = False

    @cached_property
    def tolerance(self) -> float:
        if self.step.array.dtype.kind in "iub":
            return 0.0
        return _TOLERANCE * float(np.abs(self.numbers).max(initial=0.0))

    @cached_property
    def chance(self) -> float:
        """That a number of its range is one of its own."""
        span = float(np.ptp(self.numbers)) if len(self.numbers) else 0.0
        width = 2 * self.tolerance if self.tolerance else 1.0
        return min(1.0, width * len(self.numbers) / (span + width))

    @cached_property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.step.array.astype(np.float64)).all())

    def has(self, event: Event, numbers: np.ndarray) -> bool:
        """Whether all numbers of an event are numbers of this value."""
        if not len(self.numbers) or not len(numbers) or not self._near(numbers, self.numbers):
            return False
        if self.is_finite and not np.isfinite(event.value.astype(np.float64)).all():
            return False
        if event.key[0] == "result" and event.value.shape == self.step.array.shape:
            return self.is_placed_as(event.value)
        if event.value.size == self.step.array.size:
            return self._near(self.numbers, numbers)
        apart = len(np.unique(np.round(numbers / self.tolerance))) if self.tolerance else len(numbers)
        return self.chance**apart < _BY_CHANCE

    def is_mask_like(self, array: np.ndarray, numbers: np.ndarray) -> bool:
        """Whether an array of few different numbers has the same ones and the same shape."""
        return 1 < len(numbers) == len(self.numbers) and array.shape == self.step.array.shape and self.near(numbers)

    def is_placed_as(self, array: np.ndarray) -> bool:
        """Whether every number is where it is here, or where it is in the transposed array."""
        here, there = array.astype(np.float64), self.step.array.astype(np.float64)
        ways = (there, there.T) if array.ndim == 2 and array.shape == array.shape[::-1] else (there,)
        return any(bool((difference(here, each) <= self.tolerance).all()) for each in ways)

    def near(self, numbers: np.ndarray) -> bool:
        """Whether numbers are among those of this value, be it by chance."""
        return len(self.numbers) > 0 and self._near(numbers, self.numbers)

    def take(self, event: Event, numbers: np.ndarray) -> bool:
        """Note an event that has its numbers, or some of them; whether that is new."""
        if self.is_whole or not self.has(event, numbers):
            return False
        is_new = not any(self._near(numbers, each) for each in self.found)
        self.found.append(numbers)
        held = np.sort(np.concatenate(self.found))
        self.is_whole = self._near(self.numbers, held)
        return is_new

    def _near(self, some: np.ndarray, others: np.ndarray) -> bool:
        """Whether each of some numbers lies by one of the others."""
        at = np.searchsorted(others, some)
        below, above = others[np.maximum(at - 1, 0)], others[np.minimum(at, len(others) - 1)]
        return bool((np.minimum(np.abs(some - below), np.abs(some - above)) <= self.tolerance).all())


def _last_new(events: Sequence[Event], known: Sequence[_Known]) -> int:
    """The number of the last event that computes something of the reference for the first time; -1: none does."""
    last = -1
    for number, event in enumerate(events):
        numbers = _numbers(event.value)
        if len(numbers) < _FEWEST:
            continue
        new = [each.take(event, numbers) for each in known]
        if any(some and not each.is_moved for some, each in zip(new, known, strict=True)):
            last = number
    return last


def _never_had(events: Sequence[Event], known: Sequence[_Known]) -> _Known | None:
    """The first value that the run never has, nor anything that is computed of it."""
    for event in events:
        numbers = _numbers(event.value)
        for each in known if len(numbers) >= _FEWEST else ():
            each.take(event, numbers)
    reached = {each.step.value for each in known if each.is_whole}
    for each in reversed(known):
        if each.step.op is not None and each.step.value in reached:
            reached.update(value for value in each.step.op.operands if isinstance(value, Value))
    missing = [each for each in known if each.step.op is not None and each.step.value not in reached]
    # All numbers may be there, and be in other places.
    last = [each for each in known if each.step.op is not None][-1:]
    return next((each for each in [*missing, *last] if len(each.numbers) >= _FEWEST), None)


def _told(events: Sequence[Event], event: Event, known: Sequence[_Known], last: int, never: _Known) -> Divergence:
    assert never.step.op is not None
    given = next((each for each in events if each.key[0] == "argument" and each.launch == event.launch), None)
    is_named = given is not None and given.location is not None and event.key[0] != "result"
    launched = f", launched at {given.location}" if given is not None and is_named else ""
    made = [f"the reference's {never.step.op.name} ({never.step.op.location}) is a value that the run never has"]
    if never.is_whole:
        made = [f"the numbers of the reference's {never.step.op.name} ({never.step.op.location}) are all there"]
    if event.key[0] == "result":
        made.append(
            "each instruction of it computes numbers of the reference: they are in other places, or are missing"
        )
    if last >= 0:
        before = events[last]
        numbers = _numbers(before.value)
        like = next((each.step.op for each in known if each.step.op is not None and each.has(before, numbers)), None)
        if like is not None:
            made.append(f"before it, {before.what} ({before.location}) is right: {like.name} ({like.location})")
    what = f"{event.what}{launched}, which is no value of the reference"
    right = never.step.array
    return Divergence(
        what, event.location, event.value, right, np.inf, never.step.op.location, event.operands, (), tuple(made)
    )
