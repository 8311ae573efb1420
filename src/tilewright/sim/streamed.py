"""Element by element: what an instruction makes of operands that lie over each other.

A run reads everything before it writes anything, as if each instruction had all its data in hand. An engine does not:
lanes step through the elements together, and at each step read one element of every source and write one of the
destination. Here an instruction does the same, forward or backward, since hardware promises neither: what R-engine-16
lets pass comes out alike both ways, and the same as read at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from tilewright.ir.core import Op
from tilewright.sim.conflicts import refuse_conflicts, relation_of
from tilewright.sim.machine import Machine, rounded
from tilewright.sim.plan import Plan
from tilewright.tile.record import Record
from tilewright.tile.relation import APART
from tilewright.tile.view import View

Order = Literal["forward", "backward"]
ORDERS: tuple[Order, Order] = ("forward", "backward")


def streamed(machine: Machine, op: Op, plan: Plan, arrays: list[Any]) -> Any:
    """What the meaning of an instruction gives, element by element where its operands lie over each other.

    `arrays` become copies: memory changes. Accesses by tiles of indices, and what another core sends, are read at once,
    as ever.
    """
    arrays[:] = [_copy_of(each) for each in arrays]
    over = any(relation_of(machine, op, pair) is not APART for pair in plan.pairs)
    if not over or op.definition.meeting is not None or _has_indices(op.operands):
        refuse_conflicts(machine, op, plan.pairs)
        return _results(op.definition.meaning(*arrays, *plan.arguments.values()))
    stream = _Stream(machine, op, plan, [_copy_of(each) for each in arrays])
    made = stream.run()
    refuse_conflicts(machine, op, plan.pairs, notes=[stream.difference(made)])
    return made


class _Stream:
    """One instruction under way. Memory changes with every step; what was read stays as it was read."""

    def __init__(self, machine: Machine, op: Op, plan: Plan, arrays: list[Any]) -> None:
        self.machine, self.op, self.plan = machine, op, plan
        self.record: Record = op.definition
        self.held = arrays
        self.state = plan.arguments.get("state")
        self.before = deepcopy(self.state)
        self.results = self._evaluate()
        self.at_once = [_copy_of(each) for each in self.results]
        self.first: View = op.operands[self.record.written[0]]

    def run(self) -> tuple[Any, ...]:
        """All steps in order; returns what was written, operand by operand."""
        made = [None if value is None else np.array(value, order="C") for value in self.results]
        steps = range(self._steps(self.first))
        for step in steps if self.machine.stream == ORDERS[0] else reversed(steps):
            if self._read(step):
                self.results = self._evaluate()
            for position, value, kept in zip(self.record.written, self.results, made, strict=True):
                if kept is not None and self._goes_along(position):
                    self._write(self.op.operands[position], step, value, kept)
        pairs = zip(self.record.written, self.results, made, strict=True)
        return tuple(kept if self._goes_along(position) else value for position, value, kept in pairs)

    def _goes_along(self, position: int) -> bool:
        """An element of it is written at every step; other results, such as those of a reduction, when all is done."""
        view = self.op.operands[position]
        return isinstance(view, View) and self._steps(view) == self._steps(self.first)

    def difference(self, made: tuple[Any, ...]) -> str:
        """How the results differ from those of operands that were read at once."""
        found: list[str] = []
        for name, value, other in zip(self.record.writing, made, self.at_once, strict=True):
            if value is None:
                continue
            value, other = np.asarray(value), np.asarray(other)
            wrong = (value != other) & ~((value != value) & (other != other))
            if wrong.any():
                where = np.unravel_index(int(wrong.argmax()), wrong.shape)
                place = ", ".join(map(str, where))
                found.append(
                    f"{int(wrong.sum())} of {wrong.size} elements of {name} come out different, the first at "
                    f"[{place}]: {value[where]} instead of {other[where]}"
                )
        order = self.machine.stream
        return f"element by element, {order}: " + ("; ".join(found) or "the same as when all is read first")

    def _evaluate(self) -> tuple[Any, ...]:
        """The meaning on what has been read; registers start from what they held before the instruction."""
        if self.state is not None:
            self.state.clear()
            self.state.update(deepcopy(self.before))
        return _results(self.record.meaning(*self.held, *self.plan.arguments.values()))

    def _steps(self, view: View) -> int:
        """Partitions go in step on an engine; a DMA moves element after element."""
        return view.free if self._in_lanes() else view.size

    def _in_lanes(self) -> bool:
        return self.machine.engine != "dma"

    def _read(self, step: int) -> bool:
        """Read what the step needs; True when memory has changed it since the instruction began.

        Of an operand with which the destination may coincide that is one element, or the run that makes one. Of others
        nothing is known: all.
        """
        changed = False
        aligned = self.record.coincides[self.record.writing[0]]
        for held, view, name in self._sources():
            now = self._array(view)
            run, rest = divmod(self._steps(view), self._steps(self.first))
            if name in aligned and not rest and (run == 1 or name in self.record.folds):
                for each in range(step * run, (step + 1) * run):
                    lanes = self._in_lanes()
                    changed |= _copy(_element(held, view, each, lanes), _at(now, view, each, lanes))
            else:
                changed |= _copy(held, now.reshape(held.shape))
        return changed

    def _sources(self) -> Iterator[tuple[np.ndarray, View, str]]:
        """What is held of every tensor that is read, but of those that are written themselves."""
        for place, position, _, _ in self.plan.reads:
            name = [*self.record.operands][position]
            if not self.record.operands[name].writes:
                yield self.held[place], self.op.operands[position], name
        if self.plan.listed is not None:
            place, position, _ = self.plan.listed
            for held, view in zip(self.held[place], self.op.operands[position:], strict=True):
                yield held, view, self.record.many or ""

    def _write(self, view: View, step: int, value: Any, kept: np.ndarray) -> None:
        stored = self._array(view)
        full = np.broadcast_to(value, stored.shape) if np.size(value) == 1 else np.reshape(value, stored.shape)
        undo = self.machine.touch(view).undo
        if undo is not None:
            undo.keep_all()
        into = _at(stored, view, step, self._in_lanes())
        into[...] = rounded(np.array(_at(full, view, step, self._in_lanes())), self.machine.element(view))
        if kept.size == stored.size:
            _at(kept.reshape(stored.shape), view, step, self._in_lanes())[...] = _at(full, view, step, self._in_lanes())

    def _array(self, view: View) -> np.ndarray:
        machine = self.machine
        offset = machine.offset_of(view)
        if view.dynamic is not None:
            offset += machine.scalar_step(view, self.plan.skip, self.op.location)
        return machine.touch(view).array(view, offset)


def _has_indices(operands: Sequence[Any]) -> bool:
    return any(isinstance(x, View) and x.dynamic is not None and x.dynamic.kind != "scalar" for x in operands)


def _results(made: Any) -> tuple[Any, ...]:
    return made if made.__class__ is tuple else (made,)


def _copy_of(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy_of(each) for each in value]
    return np.array(value, order="C") if isinstance(value, np.ndarray) else value


def _at(array: np.ndarray, view: View, step: int, lanes: bool) -> np.ndarray:
    """The element of a step, of all lanes, as a part of an array with the view's dims."""
    sizes = tuple(view.sizes)
    return array[(slice(None), *_place(step, sizes[1:])) if lanes else _place(step, sizes)]


@lru_cache(maxsize=1 << 12)
def _place(step: int, sizes: tuple[int, ...]) -> tuple[slice, ...]:
    """Where an element is, counted row by row: each is asked for several times, in both orders."""
    return tuple(slice(int(i), int(i) + 1) for i in np.unravel_index(step, sizes)) if sizes else ()


def _element(held: np.ndarray, view: View, step: int, lanes: bool) -> np.ndarray:
    """The same of an array in the dims that the meaning sees."""
    return _at(held.reshape(view.sizes), view, step, lanes)


def _copy(held: np.ndarray, now: np.ndarray) -> bool:
    """Take over what memory holds; True when that is something else."""
    if held.tobytes() == now.tobytes():
        return False
    held[...] = now
    return True
