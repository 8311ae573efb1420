"""Tiles that later turns of a loop use as one turn left them: lines to look at where a result is wrong.

A kernel may well mean to, so that nothing is said of one whose results are right. A loop is known by lines that run
again on tensors that were made alike: what runs between two times of the same line is one turn of it. A function that
a kernel calls twice makes its tiles for two callers, and is no loop.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.errors import Location
from tilewright.ir.core import Op
from tilewright.tile.memory import Buffer
from tilewright.tile.record import Record

_Line = tuple[Location | None, Location | None]
"""The line of an instruction, and the one that made what it writes."""


@dataclass
class _Use:
    """The instructions that write and read a tile, by number; made: how many ran before it was allocated."""

    made: int = 0
    writes: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)


def carried(ops: Sequence[Op]) -> Iterator[str]:
    """What is said of instructions in the order in which they ran."""
    yield from _Turns(ops).told()


class _Turns:
    def __init__(self, ops: Sequence[Op]) -> None:
        self._ops: list[Op] = []
        self._times: dict[_Line, list[int]] = {}
        self._uses: dict[Buffer, _Use] = {}
        self._stores: dict[_Line, list[int]] = {}
        for op in ops:
            if isinstance(op.definition, Record):
                self._step(op)
            for value in op.results:
                if isinstance(value, Buffer):
                    self._uses[value] = _Use(len(self._ops))

    def _step(self, op: Op) -> None:
        number = len(self._ops)
        self._ops.append(op)
        self._times.setdefault(_line(op), []).append(number)
        for view, _, writes in op.definition.accesses(op.operands):
            if view.on_chip:
                use = self._uses.setdefault(view.buffer, _Use())
                (use.writes if writes else use.reads).append(number)
            elif writes:
                self._stores.setdefault(_line(op), []).append(number)

    def told(self) -> Iterator[str]:
        """Tiles that one turn of a loop writes first, and other turns use."""
        made = [buffer.location for buffer in self._uses]
        for buffer, use in self._uses.items():
            if not use.writes:
                continue
            first = use.writes[0]
            op, loops = self._ops[first], self._around(first)
            name, by = f"{buffer.name} ({buffer.location})", f"by {op.name} ({op.location})"
            # Every turn may write a tile that was made before the loop; one that a turn made was to be made by all.
            once = len(self._times[_line(op)]) == 1 or self._around(use.made)
            last = max([*use.reads, *use.writes])
            if made.count(buffer.location) > 1:
                continue
            if not once or not self._turns(loops, first, last):
                update = self._never_begun_again(use)
                if update is not None:
                    goes_on = f"{update.name} ({update.location}) goes on with it in every turn of a loop"
                    yield f"{name} is begun once, {by}, and {goes_on}, each of which stores results"
                continue
            others = [number for number in use.writes if self._turns(loops, first, number)]
            if not others:
                yield f"{name} is written in one turn of a loop alone, {by}, and read in later turns as it is"
            else:
                later = self._ops[others[0]]
                yield f"{name} is begun in one turn of a loop, {by}; {later.name} ({later.location}) goes on with it"

    def _never_begun_again(self, use: _Use) -> Op | None:
        """What updates a tile in every turn of a loop that stores results, where only the first turn found it new."""
        updates = sorted(set(use.writes) & set(use.reads))
        for stores in self._stores.values():
            begun = use.writes[0] < stores[0] and use.writes[0] not in updates
            turns = [bisect_right(stores, number) for number in updates]
            anew = any(number > stores[0] and number not in updates for number in use.writes)
            if begun and not anew and len(stores) > 1 and set(turns) >= set(range(len(stores))):
                return self._ops[updates[0]]
        return None

    def _around(self, number: int) -> list[list[int]]:
        """The lines that ran before an instruction and run again after it: when each of them does."""
        return [times for times in self._times.values() if times[0] < number < times[-1]]

    def _turns(self, loops: Sequence[Sequence[int]], start: int, stop: int) -> bool:
        """Whether a loop begins another turn between two instructions."""
        return any(bisect_right(times, stop) > bisect_right(times, start) for times in loops)


def _line(op: Op) -> _Line:
    written = [view.buffer for view, _, writes in op.definition.accesses(op.operands) if writes]
    return op.location, written[0].location if written else None
