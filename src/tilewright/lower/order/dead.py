"""What nothing needs: instructions none of whose results reach HBM, their tiles, and loops that are left empty.

An input that was loaded for several steps, and then had to make room, leaves such a tile; a search that finds values
and their places leaves the places, where only values are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.core import Graph, Op
from tilewright.ir.walk import walk
from tilewright.lower.decisions import decided
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC, FOR
from tilewright.tile.record import Record


def erase_dead(graph: Graph) -> None:
    """Take away what nothing needs."""
    needed = _needed(graph)
    for op in reversed(list(walk(graph))):
        if op.definition is FOR:
            dead = not op.regions[0].ops
        elif op.definition is ALLOC:
            assert isinstance(op.result, Buffer)
            dead = op.result.on_chip and op.result not in needed and not op.result.uses
        else:
            dead = not _acts(op) and not any(buffer in needed for buffer in _written(op))
        if dead:
            decided("order: dead instructions")
            op.erase()


def _needed(graph: Graph) -> set[Buffer]:
    """The tiles that something reads which acts, or which writes a tile that is needed."""
    writers: dict[Buffer, list[Op]] = {}
    todo: list[Op] = []
    for op in walk(graph):
        for buffer in _written(op):
            writers.setdefault(buffer, []).append(op)
        if _acts(op):
            todo.append(op)
    needed: set[Buffer] = set()
    while todo:
        for buffer in set(_read(todo.pop())) - needed:
            needed.add(buffer)
            todo += writers.get(buffer, ())
    return needed


def _acts(op: Op) -> bool:
    """Whether an op does anything beside writing tiles on chip: it writes HBM or a register, or meets another core."""
    record = op.definition
    if not isinstance(record, Record):
        return record is not ALLOC and record is not FOR
    if op.results or record.meeting is not None or not record.written or _leaves_state(op, record):
        return True
    return not all(buffer.on_chip for buffer in _written(op))


def _leaves_state(op: Op, record: Record) -> bool:
    """Whether later instructions find something changed in the registers of the engine."""
    return "state" in record.asked and op.attrs.get("reduce_cmd") != "idle"


def _written(op: Op) -> Iterator[Buffer]:
    record = op.definition
    if isinstance(record, Record):
        yield from (view.buffer for view, _, is_written in record.accesses(op.operands) if is_written)


def _read(op: Op) -> Iterator[Buffer]:
    record = op.definition
    if isinstance(record, Record):
        yield from (
            view.buffer
            for view, name, _ in record.accesses(op.operands)
            if name == "index" or record.operands[name].reads
        )
