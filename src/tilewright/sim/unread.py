"""Work that nobody sees, in kernels that were recorded: values that are never read, kernels that leave nothing behind.

A store is dead when no instruction reads what it wrote before another one overwrites it, or the kernel ends. That is
seen access by access, and a read of any part of a tensor counts for all of it: what is called dead is dead. An
instruction is dead when everything it wrote is, and a line is mentioned when that is so most of the times that it runs:
a loop that loads ahead may well load once too often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tilewright.errors import WARNING, Diagnostic, Location
from tilewright.ir.core import Op
from tilewright.sim.session import Session
from tilewright.tile.memory import Buffer
from tilewright.tile.record import Record
from tilewright.tile.view import View

DEAD, WITHOUT_OUTPUT = "W307", "W308"


def unseen_work(sessions: Sequence[Session], result: Any) -> list[Diagnostic]:
    """What a run of a kernel on these cores did for nobody; its instructions were recorded."""
    written = {buffer for session in sessions for buffer in _written_outside(session.graph.ops)}
    if result is None and not written:
        name, place = sessions[0].name, _last(sessions[0].graph.ops)
        message = f"{name} returns nothing and writes to no tensor in HBM: what it computes is lost"
        hint = "store the result to a tensor in nl.shared_hbm and return that"
        return [Diagnostic(WITHOUT_OUTPUT, message, None, WARNING, hint, place)]
    return [each for session in sessions[:1] for each in dead_lines(session.graph.ops)]


def lost_work(sessions: Sequence[Session]) -> Diagnostic | None:
    """W308 of a kernel that returned nothing: it writes to tensors in HBM, but to none that its caller has."""
    written = [buffer for session in sessions for buffer in _written_outside(session.graph.ops)]
    if not written or any(session.inputs.intersection(written) for session in sessions):
        return None
    buffer = written[-1]
    message = f"{sessions[0].name} returns nothing: what it writes to {buffer.name or 'a tensor'} is lost"
    hint = f"end the kernel with: return {buffer.name or 'the tensor'}"
    return Diagnostic(WITHOUT_OUTPUT, message, None, WARNING, hint, buffer.location)


def dead_lines(ops: Sequence[Op]) -> Iterator[Diagnostic]:
    """Lines whose results nobody reads."""
    follow = _Follow()
    runs: Counter[Location | None] = Counter()
    for op in ops:
        if isinstance(op.definition, Record):
            runs[op.location] += 1
            follow.step(op)
    follow.end()
    lines: dict[Location | None, list[tuple[Op, Op | None]]] = {}
    for op, by in follow.dead():
        lines.setdefault(op.location, []).append((op, by))
    for location, found in lines.items():
        if location is not None and 2 * len(found) >= runs[location]:
            yield _told(found, runs[location])


def _told(found: Sequence[tuple[Op, Op | None]], runs: int) -> Diagnostic:
    op, by = found[0]
    name = _outputs(op)[0].buffer.name
    times = "" if runs == 1 else f", {len(found)} of {runs} times"
    if by is None:
        message = f"{op.name} writes {name}, which nothing reads{times}"
        hint = "leave it out, or use the result: a tensor that a loop makes is gone when the loop goes on"
    else:
        where = "the next round" if by.location == op.location else f"{by.name} in line {_line(by)}"
        message = f"{op.name} writes {name}, which {where} overwrites before anything reads it{times}"
        adds = op.definition.accumulates
        hint = "accumulate=False begins anew: leave it out to add up" if adds else "leave out the first of the two"
    return Diagnostic(DEAD, message, None, WARNING, hint, op.location)


def _line(op: Op) -> int | None:
    return None if op.location is None else op.location.line


class _Follow:
    """Goes through instructions in order, keeping what each wrote until somebody reads it."""

    def __init__(self) -> None:
        self._waiting: dict[Buffer, dict[tuple[int, int], Op]] = {}
        self._left: Counter[int] = Counter()
        self._unread: list[tuple[Op, Op | None]] = []

    def step(self, op: Op) -> None:
        outputs = _outputs(op)
        for view in _inputs(op):
            self._waiting.pop(view.buffer, None)
        self._left[id(op)] = len(outputs)
        for view in outputs:
            if not _is_followed(view):
                self._left[id(op)] += 1  # somebody may see that
                continue
            waiting = self._waiting.setdefault(view.buffer, {})
            key = (view.signature, view.offset)
            before = waiting.get(key)
            if before is not None and before is not op:
                self._unread.append((before, op))
            waiting[key] = op

    def end(self) -> None:
        """What is still waiting has nobody to read it."""
        for waiting in self._waiting.values():
            self._unread += [(op, None) for op in waiting.values()]

    def dead(self) -> Iterator[tuple[Op, Op | None]]:
        """Instructions of which nothing was read, with what overwrote the last of it."""
        for op, by in self._unread:
            self._left[id(op)] -= 1
            if not self._left[id(op)]:
                yield op, by


def _outputs(op: Op) -> list[View]:
    views = [op.operands[position] for position in op.definition.written if position < len(op.operands)]
    return [view for view in views if isinstance(view, View)]


def _inputs(op: Op) -> Iterator[View]:
    """What an instruction reads, the tensor that it adds to and indices among it."""
    record: Record = op.definition
    overwritten = {*record.written} - {p for p, spec in enumerate(record.operands.values()) if spec.reads}
    adds = record.accumulates and op.attrs.get("accumulate") is not False
    # Rows whose index is outside are left as they were.
    if adds or op.attrs.get("oob_mode") == "skip":
        overwritten = set()
    for position, view in enumerate(op.operands):
        if not isinstance(view, View):
            continue
        if position not in overwritten:
            yield view
        if view.dynamic is not None and isinstance(view.dynamic.index, View):
            yield view.dynamic.index


def _is_followed(view: View) -> bool:
    """Tensors on chip whose place nobody else has: one with an address may share it."""
    return view.on_chip and view.buffer.address is None and view.dynamic is None and not view.terms


def _written_outside(ops: Iterable[Op]) -> Iterator[Buffer]:
    for op in ops:
        if isinstance(op.definition, Record):
            yield from (view.buffer for view in _outputs(op) if not view.on_chip)


def _last(ops: Sequence[Op]) -> Location | None:
    return next((op.location for op in reversed(ops) if op.location is not None), None)
