"""Shape mode: an instruction's effect on lifetimes and written state, without values."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.sim.accumulation import may_accumulate
from tilewright.sim.conflicts import refuse_conflicts
from tilewright.sim.machine import Machine
from tilewright.sim.shape_storage import ShapeStorage
from tilewright.sim.storage import EVERYTHING
from tilewright.tile.conflicts import pairs_of
from tilewright.tile.indirect import group_size, index_of, offset_tiles
from tilewright.tile.record import LANES, OperandSpec, Record
from tilewright.tile.view import View


def trace_shapes(machine: Machine, op: Op, engine: str) -> None:
    """Note reads and writes of an instruction as if it had run.

    Unwritten elements are refused where they matter, as in a run. They flow on only from tensors of which nothing at
    all was written; of others every element counts as defined, once one is. Run-time indices have no values here.
    """
    machine.clock += 1
    machine.engine = engine
    record: Record = op.definition
    refuse_conflicts(machine, op, pairs_of(record, op.operands))
    source: ShapeStorage | None = None
    written: list[Any] = []
    for position, spec in enumerate(record.operands.values()):
        operands = op.operands[position:] if spec.many else op.operands[position : position + 1]
        for operand in operands:
            if spec.writes and operand is not None:
                written.append(operand)
            if spec.reads and isinstance(operand, View):
                source = _read(machine, op, spec, operand) or source
    if record.meeting is not None:
        source = machine.meet(op, source)
    for operand in written:
        if isinstance(operand, Value):
            machine.values[operand] = None
        elif isinstance(operand, View):
            _write(machine, op, operand, source)


def _read(machine: Machine, op: Op, spec: OperandSpec, view: View) -> ShapeStorage | None:
    """Check what is read; returns its storage when all of it is undefined and flows on."""
    storage = machine.touch(view)
    assert isinstance(storage, ShapeStorage)
    _read_index(machine, op, view)
    if storage.place is not None and storage.place.tainted and index_of(view) is None:
        machine.check_owner(storage, storage.place, view, machine.offset_of(view), op.location)
    defined = spec.defined if isinstance(spec.defined, bool) else spec.defined(op.attrs)
    if not spec.writes and (defined or op.definition.flow in ("refuse", LANES)):
        if op.definition.flow == LANES and _may_lack_lanes(machine, storage, view):
            return None
        machine.require_written(view, op.location, "R-tensor-08")
        return None
    return storage if storage.untouched() and not spec.writes else None


def _may_lack_lanes(machine: Machine, storage: ShapeStorage, view: View) -> bool:
    """Whether so many elements are unwritten that they may be all of some partitions, but not of every one."""
    offset = machine.offset_of(view)
    if view.dynamic is not None or storage.is_written(view, offset):
        return False
    missing = storage.hole(view, offset).count
    return missing < view.size and missing % view.free == 0


def _read_index(machine: Machine, op: Op, view: View) -> None:
    if index_of(view) is not None:
        for part in offset_tiles(view, group_size(machine.target, machine.engine)):
            machine.require_written(part, op.location, "R-tensor-08")
    elif view.dynamic is not None and isinstance(view.dynamic.index, View):
        machine.require_written(view.dynamic.index, op.location, "R-tensor-08")


def _write(machine: Machine, op: Op, view: View, source: ShapeStorage | None) -> None:
    storage = machine.touch(view)
    assert isinstance(storage, ShapeStorage)
    _read_index(machine, op, view)
    offset = machine.offset_of(view)
    if op.definition.accumulates:
        # Which columns an indirect view names is not known: they may all have been written, and all may be now.
        chosen = index_of(view) is not None
        accumulate = op.attrs["accumulate"] and not chosen
        if accumulate is True and storage.accumulated_mask(view, offset) is not EVERYTHING:
            may_accumulate(machine, storage, view, offset, op.location)
        storage.mark_accumulated(view.choices() if chosen else view, offset)
    if source is not None and storage.untouched() and storage is not source:
        # Nobody's data was copied here: it is still the source's fault.
        if storage.first_write < 0:
            storage.first_write = machine.clock
        storage.number = storage.number or machine.origins.number(source, op.location)
    elif view.dynamic is None:
        machine.wrote(storage, view, offset)
    else:
        storage.written = EVERYTHING
        if storage.first_write < 0:
            storage.first_write = machine.clock
