"""A timeline as rows: one track per engine and DMA queue, whose slices do not overlap within a lane."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import PurePath

from tilewright.errors import Location
from tilewright.report.source import shown_path
from tilewright.timing.node import ENGINE
from tilewright.timing.profile import Event

ENGINES = {"tensor": "Tensor", "vector": "Vector", "scalar": "Scalar", "gpsimd": "GpSimd", "sync": "Sync", "dma": "DMA"}
"""Engines in the order in which they are shown, as the hardware's documentation writes them."""

QUEUED = ENGINE
"""The wait of an instruction that was ready and stood in line: its neighbour on the track says so already."""


@dataclass(frozen=True, slots=True)
class Track:
    """An engine or DMA queue of one core; lanes hold indices of events in the order of their start.

    place: the source line whose transfers a DMA queue takes.
    """

    label: str
    place: str
    engine: str
    core: int
    lanes: tuple[tuple[int, ...], ...]


def shown_line(line: Location | None) -> str:
    """A source line as a reader would name it."""
    return "" if line is None else f"{shown_path(line.file)}:{line.line}"


class PlaceNames:
    """Short names of source lines: the line alone when all are of one file."""

    def __init__(self, lines: Iterable[Location | None]) -> None:
        self.several = len({line.file for line in lines if line is not None}) > 1

    def __getitem__(self, line: Location) -> str:
        return f"{PurePath(line.file).name}:{line.line}" if self.several else f"line {line.line}"


def slice_end(event: Event) -> float:
    """Where an event's slice ends: an engine is free again before its result is seen, a transfer is not done before."""
    return event.end_ns if event.engine == "dma" else event.busy_end_ns


def work_ns(events: Sequence[Event], byte_ns: float) -> list[float]:
    """The time that each event takes of its engine.

    Transfers overlap in time and share the DMA engines, which move a byte in `byte_ns`.
    """
    return [event.bytes * byte_ns if event.engine == "dma" else event.busy_end_ns - event.start_ns for event in events]


class Story:
    """What held events up, in words."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.places = {line: shown_line(line) for line in {event.line for event in events}}

    def waited_for(self, event: Event) -> str:
        """The kind of wait and the event it was for; "" when nothing held this one up."""
        return f"{event.wait}: {self.named(event.cause)}" if event.wait and event.cause >= 0 else event.wait

    def named(self, index: int) -> str:
        """An event by its name, number and source line."""
        event = self.events[index]
        where = self.places[event.line]
        return f"{event.name} #{index}" + (f" at {where}" if where else "")


def tracks_of(events: Sequence[Event]) -> list[Track]:
    """The tracks of a timeline: engines first, then DMA queues by their first transfer, core by core."""
    queues: dict[tuple[int, str], list[int]] = {}
    for index, event in enumerate(events):
        queues.setdefault((event.core, event.queue), []).append(index)
    order = list(ENGINES)
    short = PlaceNames(event.line for event in events)
    found: list[tuple[tuple[int, int, float], Track]] = []
    for (core, _), members in queues.items():
        members.sort(key=lambda index: events[index].start_ns)
        first = events[members[0]]
        place = shown_line(first.line) if first.engine == "dma" else ""
        track = Track(_label(first, short), place, first.engine, core, _lanes(members, events))
        rank = order.index(first.engine) if first.engine in ENGINES else len(order)
        found.append(((core, rank, first.start_ns), track))
    found.sort(key=lambda item: item[0])
    return [track for _, track in found]


def _label(event: Event, short: PlaceNames) -> str:
    name = ENGINES.get(event.engine, event.engine)
    if event.engine != "dma" or event.line is None:
        return name
    moved = _OFF_CHIP.search(event.operands)
    return f"{name} {short[event.line]}" + ("" if moved is None else f", {moved[1]}")


# The tensor in HBM that a transfer reads or writes, by its name in the text of the operands.
_OFF_CHIP = re.compile(r"\] hbm (\w+)")


def _lanes(members: Iterable[int], events: Sequence[Event]) -> tuple[tuple[int, ...], ...]:
    """Each event in the lowest lane that is free when it starts."""
    lanes: list[list[int]] = []
    free: list[int] = []
    running: list[tuple[float, int]] = []
    for index in members:
        event = events[index]
        while running and running[0][0] <= event.start_ns:
            heappush(free, heappop(running)[1])
        if not free:
            heappush(free, len(lanes))
            lanes.append([])
        lane = heappop(free)
        lanes[lane].append(index)
        heappush(running, (slice_end(event), lane))
    return tuple(map(tuple, lanes))


def last_event(events: Sequence[Event]) -> int:
    """The event with the last result, -1 when there is none."""
    return max(range(len(events)), key=lambda index: events[index].end_ns, default=-1)


def critical_events(events: Sequence[Event]) -> list[int]:
    """The chain that leads to the last result, from its beginning: see `timing.critical`."""
    at = last_event(events)
    chain: list[int] = []
    done = True
    while at >= 0:
        chain.append(at)
        event = events[at]
        # What follows a transfer waited for its bytes; what merely was issued after it did not.
        behind = event.behind if done else -1
        done = behind >= 0 or event.wait != QUEUED
        at = behind if behind >= 0 else event.cause
    chain.reverse()
    return chain
