"""One step of the machine: execute(machine, op) reads views, applies the record's meaning, writes views.

The same step serves kernels that run eagerly and tile IR with loops (`sim.run`). It never changes when an instruction
is added: everything instruction-specific comes from the record.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tilewright.ir.core import Op, Value
from tilewright.sim.accumulation import accumulate
from tilewright.sim.bounds import require_distinct
from tilewright.sim.flow import flow, merge, moved_mask
from tilewright.sim.machine import Machine
from tilewright.sim.storage import EVERYTHING, Codes
from tilewright.tile.record import Record
from tilewright.tile.view import View


def execute(machine: Machine, op: Op, engine: str) -> None:
    """Run one instruction, whose static rules have been checked."""
    machine.clock += 1
    machine.engine = engine
    record: Record = op.definition
    attrs, operands, location = op.attrs, op.operands, op.location
    skip = attrs.get("oob_mode") == "skip"
    arrays: list[Any] = []
    undefined: list[Codes | None] | None = None
    lanes: View | None = None
    for position, many, flat, strict in record.steps:
        operand: Any = operands[position] if not many else operands[position:]
        if operand is None:
            arrays.append(None)
            continue
        codes: Codes | None = None
        if strict is not True and strict is not False:
            strict = strict(attrs)
        if operand.__class__ is View:
            array, codes = machine.read(operand, strict, location, skip)
            arrays.append(array if not flat or array.ndim == 2 else array.reshape(array.shape[0], -1))
            if codes is not None and flat:
                codes = codes.reshape(codes.shape[0], -1)
            if skip and operand.dynamic is not None:
                lanes = operand
        elif many:
            values = [machine.read(each, strict, location, skip) for each in operand]
            arrays.append([value for value, _ in values])
            codes = merge([each if each is None else each.reshape(1, -1) for _, each in values])
            if skip:
                lanes = next((each for each in operand if each.dynamic is not None), lanes)
        else:
            arrays.append(machine.number(operand, location) if isinstance(operand, Value) else operand)
        if codes is not None:
            if undefined is None:
                undefined = [None for _ in record.reading]
            undefined[len(arrays) - 1] = codes
    if record.meeting is not None:
        # Copies: the other core may change its own data before this one looks.
        arrays, undefined = machine.meet(op, ([np.array(each) for each in arrays], undefined))
    extra: dict[str, Any] = {}
    for name in record.passed:
        extra[name] = attrs[name]
    if record.specials:
        _add_specials(machine, op, extra, engine)
    # Looked at before anything is written: an instruction may overwrite its own input.
    look_after = machine.on_execute(op, arrays, _accumulated(machine, op)) if machine.on_execute is not None else None
    made = record.meaning(*arrays, **extra)
    flowed: Any = None
    keep = None
    if undefined is not None:
        flowed = flow(record, arrays, undefined, extra)
    if lanes is not None:
        keep = _skipped(machine, record, lanes, extra, operands[record.written[0]], location)
    results = made if made.__class__ is tuple else (made,)
    for position, value in zip(record.written, results, strict=True):
        view = operands[position]
        if view.__class__ is not View:
            if isinstance(view, Value):
                machine.values[view] = value
        elif record.accumulates:
            accumulate(machine, view, value.reshape(view.sizes), attrs["accumulate"], location, flowed)
        elif value is not None:
            if attrs.get("unique_indices"):
                require_distinct(machine, view, location)
            codes = flowed if flowed.__class__ is not tuple else flowed[record.written.index(position)]
            machine.write(view, value, location, codes, skip, keep)
    if look_after is not None:
        look_after([_stored(machine, operands[p], value) for p, value in zip(record.written, results, strict=True)])


def _accumulated(machine: Machine, op: Op) -> Any:
    """What a destination that is added to holds before, if matmuls wrote all of it."""
    if not op.definition.accumulates or op.attrs["accumulate"] is False:
        return None
    view: View = op.operands[0]
    storage = machine.storage[view.buffer]
    if view.dynamic is not None or storage.accumulated_mask(view, machine.offset_of(view)) is not EVERYTHING:
        return None
    return storage.array(view, machine.offset_of(view))


def _stored(machine: Machine, view: Any, value: Any) -> Any:
    """What a destination holds now; the value itself where the place is known only at run time."""
    if not isinstance(view, View) or view.dynamic is not None:
        return value
    return machine.storage[view.buffer].array(view, machine.offset_of(view))


def _add_specials(machine: Machine, op: Op, arguments: dict[str, Any], engine: str) -> None:
    """What the meaning asks for besides operands and attributes."""
    record: Record = op.definition
    for name in record.specials:
        if name == "dtypes":
            named = zip(op.definition.operands, op.operands, strict=False)
            arguments[name] = {key: operand.dtype for key, operand in named if isinstance(operand, View)}
        elif name == "dtype":
            arguments[name] = machine.element(op.operands[record.written[0]])
        elif name == "target":
            arguments[name] = machine.target
        elif name == "report":
            arguments[name] = partial(machine.reporter.violate, location=op.location)
        elif name == "state":
            arguments[name] = machine.accumulators.setdefault(engine, {})
        elif name == "resolved_engine":
            arguments[name] = engine
        else:
            view: View = op.operands[record.written[0]]
            arguments[name] = view.sizes if name == "shape" else view.start_partition


def _skipped(
    machine: Machine, record: Record, lanes: View, extra: dict[str, Any], view: View, location: Any
) -> np.ndarray | None:
    """Destination elements that come from out-of-bounds indices and therefore stay as they are."""
    _, valid = machine.lanes(lanes, True, location)
    if valid.all():
        return None
    usable = np.broadcast_to(valid.reshape(-1, *[1] * (lanes.ndim - 1)), lanes.sizes)
    if record.flow == "movement":
        return moved_mask(record, ~usable, extra).reshape(view.sizes)
    return ~usable.reshape(view.sizes)
