"""What a kernel moves through HBM because its tiles do not fit in SBUF, as a compiler that spills well would have it.

Instructions access parts of tiles in the order of the source, but stores come as soon as what they store is finished.
A part that finds no room takes that of the part that is needed again last. What was computed has to be stored for that,
and loaded before its next use. What was only loaded is loaded again instead, at no cost of its own (docs/timing.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise

from tilewright.ir.core import Op
from tilewright.sim.columns import Columns
from tilewright.target import Target
from tilewright.tile.memory import SBUF, Buffer
from tilewright.tile.overlap import extent
from tilewright.tile.patterns import pattern_of
from tilewright.tile.record import Record
from tilewright.tile.view import View

_NEVER = 1 << 40
_MOST_PARTS = 1 << 6
"""Tiles that accesses cut into more parts than these count as one."""


@dataclass(frozen=True, slots=True)
class _Access:
    """What an instruction reads or writes of a tile, or loads: bytes within a partition."""

    buffer: Buffer
    low: int
    high: int
    writes: bool
    loads: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A piece of a tile that accesses have as a whole or not at all. tile: its number; size: bytes of a partition."""

    tile: int
    buffer: Buffer
    size: int


def spilled_bytes(ops: Sequence[Op], target: Target, room: int) -> dict[Buffer, int]:
    """Bytes that tiles move to HBM and back in a straight line of ops, of those that lie where the compiler wants.

    room: bytes of a partition that there are for them.
    """
    steps = _steps(ops)
    parts = _Parts(access for accesses in steps for access in accesses)
    touched = [[(part, access) for access in step for part in parts.of(access)] for step in steps]
    return _Replacement(touched, target).run(room)


def _steps(ops: Sequence[Op]) -> list[list[_Access]]:
    """Accesses that come together, by time."""
    steps: list[tuple[int, list[_Access]]] = []
    finished: dict[Buffer, list[tuple[_Access, int]]] = {}
    for time, op in enumerate(ops):
        record = op.definition
        if not isinstance(record, Record):
            continue
        views = [(view, writes) for view, _, writes in record.accesses(op.operands)]
        accesses = [_access(view, writes) for view, writes in views if _is_placed_by_compiler(view.buffer)]
        if "dma" in record.engines and not all(view.on_chip for view, _ in views):
            stored = [access for access in accesses if not access.writes]
            if stored:
                steps.append((max(_finished(access, finished) for access in stored), stored))
            loaded = [replace(access, writes=False, loads=True) for access in accesses if access.writes]
            if loaded:
                steps.append((time, loaded))
            accesses = loaded
        elif accesses:
            steps.append((time, accesses))
        for access in accesses:
            if access.writes or access.loads:
                finished.setdefault(access.buffer, []).append((access, time))
    return [accesses for _, accesses in sorted(steps, key=lambda step: step[0])]


def _is_placed_by_compiler(buffer: Buffer) -> bool:
    return buffer.memory is SBUF and buffer.address is None


def _access(view: View, writes: bool) -> _Access:
    buffer = view.buffer
    if view.dynamic is not None:
        return _Access(buffer, 0, buffer.row_bytes, writes)
    found = extent(pattern_of(view, view.offset))
    return _Access(buffer, max(0, found.low), min(found.high, buffer.row_bytes), writes)


def _finished(access: _Access, finished: dict[Buffer, list[tuple[_Access, int]]]) -> int:
    """When what is stored was last written; -1 for what never was."""
    for written, time in reversed(finished.get(access.buffer, [])):
        if written.low < access.high and access.low < written.high:
            return time
    return -1


class _Parts:
    """Tiles cut where an access begins or ends."""

    def __init__(self, accesses: Iterable[_Access]) -> None:
        bounds: dict[Buffer, set[int]] = {}
        for each in accesses:
            bounds.setdefault(each.buffer, {0, each.buffer.row_bytes}).update((each.low, each.high))
        self._bounds: dict[Buffer, list[int]] = {}
        self._made: dict[Buffer, list[_Part]] = {}
        for buffer, found in bounds.items():
            at = sorted(found) if len(found) <= _MOST_PARTS + 1 else [0, buffer.row_bytes]
            self._bounds[buffer] = at
            self._made[buffer] = [_Part(len(self._made), buffer, high - low) for low, high in pairwise(at)]

    def of(self, access: _Access) -> list[_Part]:
        """The parts that an access touches."""
        at, made = self._bounds[access.buffer], self._made[access.buffer]
        return made[bisect_right(at, access.low) - 1 : max(1, bisect_right(at, access.high - 1))]


class _Replacement:
    """What is on chip, step by step, where the part that is needed again last makes room (Belady's rule)."""

    def __init__(self, steps: list[list[tuple[_Part, _Access]]], target: Target) -> None:
        self._steps = steps
        self._columns = Columns(target, whole=False)
        self._uses: dict[_Part, list[int]] = {}
        for step in range(len(steps) - 1, -1, -1):
            for part in dict.fromkeys(part for part, _ in steps[step]):
                self._uses.setdefault(part, []).append(step)
        self._here: dict[_Part, int] = {}
        self._pushed = 0
        self._queue: list[tuple[int, int, _Part]] = []
        # What was computed since it was last stored, and what lies in HBM.
        self._changed: set[_Part] = set()
        self._stored: set[_Part] = set()
        self._moved: dict[Buffer, int] = {}

    def run(self, room: int) -> dict[Buffer, int]:
        """Bytes moved by tile."""
        for step, accessed in enumerate(self._steps):
            parts: dict[_Part, list[_Access]] = {}
            for part, access in accessed:
                parts.setdefault(part, []).append(access)
            for part, accesses in parts.items():
                self._access(part, any(each.writes for each in accesses), any(each.loads for each in accesses))
            self._make_room(room, step)
        return self._moved

    def _access(self, part: _Part, writes: bool, loads: bool) -> None:
        if loads:
            self._changed.discard(part)
            self._stored.discard(part)
        if part not in self._here:
            self._columns.add(part.tile, part.buffer.partitions, part.size)
            if part in self._stored:
                self._move(part)
        if writes:
            self._changed.add(part)
            self._stored.discard(part)
        uses = self._uses[part]
        uses.pop()
        self._put(part, uses[-1] if uses else _NEVER)

    def _put(self, part: _Part, needed: int) -> None:
        self._here[part] = needed
        self._pushed += 1
        heappush(self._queue, (-needed, self._pushed, part))

    def _make_room(self, room: int, step: int) -> None:
        """What is not needed again goes, and then what is needed last, but not what this step accesses."""
        held = {part for part, _ in self._steps[step]}
        kept: list[_Part] = []
        while self._queue and (self._queue[0][0] == -_NEVER or self._columns.highest() > room):
            needed, _, part = heappop(self._queue)
            if self._here.get(part) != -needed:
                continue
            if part in held and needed != -_NEVER:
                kept.append(part)
                continue
            del self._here[part]
            self._columns.remove(part.tile, part.size)
            if needed != -_NEVER and part in self._changed:
                self._changed.discard(part)
                self._stored.add(part)
                self._move(part)
        for part in kept:
            self._put(part, self._here[part])

    def _move(self, part: _Part) -> None:
        self._moved[part.buffer] = self._moved.get(part.buffer, 0) + part.size * part.buffer.partitions
