"""Places in a memory for what is alive at certain times: by a few orders of greed, the first that fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

_NEAREST = 200
"""Neighbours in time that a place is chosen by."""

_NEVER = 1 << 40
"""The distance in time to a neighbour that there is not."""


@dataclass(frozen=True, slots=True)
class Request:
    """What wants a place: units (bytes, or banks of PSUM) for all copies, and when it is alive, both ends included.

    wide: how long it had better be the only one there.
    """

    units: int
    life: tuple[int, int]
    wide: tuple[int, int]


Order = Callable[[int, int, int], tuple[int, ...]]
"""What comes first, by units and by when it is alive: the least."""

Solver = Callable[[Sequence[Request], int], "list[int] | None"]
"""Where each request goes, in units; None where no way was found."""


def _by_time(units: int, start: int, end: int) -> tuple[int, ...]:
    return (start,)


def _by_length(units: int, start: int, end: int) -> tuple[int, ...]:
    return (start - end, -units)


def _by_size(units: int, start: int, end: int) -> tuple[int, ...]:
    return (-units, start - end)


def _by_area(units: int, start: int, end: int) -> tuple[int, ...]:
    return (-units * (end - start + 1),)


def greedy(requests: Sequence[Request], room: int) -> list[int] | None:
    """Places by several orders and with lives as generous as there is room for."""
    for sparing, generous in ((False, True), (False, False), (True, False)):
        if not may_fit(requests, room, generous):
            continue
        for order in (_by_time, _by_length, _by_size, _by_area):
            made = _greedy(requests, room, order, generous, sparing)
            if made is not None:
                return made
    return None


def may_fit(requests: Sequence[Request], room: int, generous: bool) -> bool:
    """False where more is alive at once than there is room for."""
    changes: dict[int, int] = {}
    for request in requests:
        start, end = request.wide if generous else request.life
        changes[start] = changes.get(start, 0) + request.units
        changes[end + 1] = changes.get(end + 1, 0) - request.units
    taken = 0
    for at in sorted(changes):
        taken += changes[at]
        if taken > room:
            return False
    return True


def _greedy(requests: Sequence[Request], room: int, order: Order, generous: bool, sparing: bool) -> list[int] | None:
    """One place for each request. sparing: the lowest there is, instead of the one that was left longest ago."""
    lives = [request.wide if generous else request.life for request in requests]
    units = [request.units for request in requests]
    # Low, high, start and end of what is placed so far.
    table = np.zeros((4, len(requests)), np.int64)
    places = [0] * len(requests)
    reached = 0
    for done, number in enumerate(sorted(range(len(requests)), key=lambda i: order(units[i], *lives[i]))):
        size, (start, end) = units[number], lives[number]
        if sparing or reached + size > room:
            at = _best(table[:, :done], size, start, end, room, sparing)
            if at is None:
                return None
        else:
            at = reached
        places[number] = at
        reached = max(reached, at + size)
        table[:, done] = at, at + size, start, end
    return places


def _best(table: np.ndarray, size: int, start: int, end: int, room: int, sparing: bool) -> int | None:
    """The place that was left, or will be taken, at the greatest distance in time; None where all are in use."""
    _, _, starts, ends = table
    gaps = np.maximum(starts - end, start - ends)
    if len(gaps) > _NEAREST:
        # Who is furthest away in time has no say; who is alive at the same time always has.
        near = (gaps <= 0) | (gaps <= np.partition(gaps, _NEAREST)[_NEAREST])
        table, gaps = table[:, near], gaps[near]
    low, high, _, _ = table
    # Below what is there or above it; what is alive at the same time is in the way.
    choices = np.unique(np.concatenate([[0, room - size], high, low - size]))
    choices = choices[(choices >= 0) & (choices + size <= room)]
    alive = gaps <= 0
    choices = choices[~_meets(low[alive], high[alive], choices, size).any(axis=1)]
    if sparing or not len(choices) or alive.all():
        return int(choices[0]) if len(choices) else None
    low, high, gaps = low[~alive], high[~alive], gaps[~alive]
    by_gap = np.argsort(gaps)
    meets = _meets(low[by_gap], high[by_gap], choices, size)
    first = meets.argmax(axis=1)
    nearest = np.where(meets[np.arange(len(choices)), first], gaps[by_gap][first], _NEVER)
    return int(choices[np.argmax(nearest)])


def _meets(low: np.ndarray, high: np.ndarray, choices: np.ndarray, size: int) -> np.ndarray:
    """Which places share something with what lies there, for each choice."""
    return (low < choices[:, None] + size) & (high > choices[:, None])
