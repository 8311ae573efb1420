"""One step of the machine: execute(machine, op) reads views, applies the record's meaning, writes views.

The same step serves kernels that run eagerly and tile IR with loops (`sim.run`). It never changes when an instruction
is added: everything instruction-specific comes from the record.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tilewright.dtypes import round_to
from tilewright.ir.core import Op, Value
from tilewright.sim.flow import fit, flow, merge, moved_mask
from tilewright.sim.machine import Machine
from tilewright.sim.storage import EVERYTHING, Codes
from tilewright.tile.record import OperandSpec, Record
from tilewright.tile.view import View


def execute(machine: Machine, op: Op, engine: str) -> None:
    """Run one instruction, whose static rules have been checked."""
    machine.clock += 1
    record: Record = op.definition
    attrs, operands, location = op.attrs, op.operands, op.location
    skip = attrs.get("oob_mode") == "skip"
    arrays: list[Any] = []
    undefined: list[Codes | None] | None = None
    refuse = record.flow == "refuse"
    specs = record.operands
    outputs: list[tuple[OperandSpec, Any]] = []
    lanes: View | None = None
    for position, (name, spec) in enumerate(specs.items()):
        operand: Any = operands[position:] if spec.many else operands[position] if position < len(operands) else None
        if spec.writes:
            outputs.append((spec, operand))
        if not spec.reads:
            continue
        if spec.many:
            values = [machine.read(each, refuse or _must_be_defined(spec, attrs), location, skip) for each in operand]
            arrays.append([value for value, _ in values])
            codes = merge([each if each is None else each.reshape(1, -1) for _, each in values])
            if skip:
                lanes = next((each for each in operand if each.dynamic is not None), lanes)
        elif isinstance(operand, View):
            # An operand that is updated keeps what it does not overwrite, defined or not.
            strict = not spec.writes and (refuse or _must_be_defined(spec, attrs))
            array, codes = machine.read(operand, strict, location, skip)
            arrays.append(_laid_out(array, spec.layout))
            if codes is not None:
                codes = _laid_out(codes, spec.layout)
            if skip and operand.dynamic is not None:
                lanes = operand
        else:
            arrays.append(machine.number(operand, location) if isinstance(operand, Value) else operand)
            codes = None
        if codes is not None:
            if undefined is None:
                undefined = [None for _ in record.reading]
            undefined[record.reading.index(name)] = codes
    extra = _special_arguments(machine, op, outputs, engine) if record.specials else {}
    # Looked at before anything is written: an instruction may overwrite its own input.
    look_after = machine.on_execute(op, arrays, _accumulated(machine, op)) if machine.on_execute is not None else None
    values = record.meaning(*arrays, **extra)
    if record.accumulates:
        ((_, view),) = outputs
        assert view is not None
        results: tuple[Any, ...] = (values,)
        machine.accumulate(view, values.reshape(view.sizes), attrs["accumulate"], location)
    else:
        flowed = flow(record, arrays, undefined, extra) if undefined is not None else None
        keep = _skipped(machine, record, lanes, extra, outputs, location) if lanes is not None else None
        results = values if isinstance(values, tuple) else (values,)
        for (_, view), value in zip(outputs, results, strict=True):
            if isinstance(view, Value):
                machine.values[view] = value
                continue
            if view is None or value is None:
                continue
            if attrs.get("unique_indices"):
                machine.require_distinct(view, location)
            _store(machine, view, value, flowed, keep, skip, location)
    if look_after is not None:
        look_after([_stored(machine, view, value) for (_, view), value in zip(outputs, results, strict=True)])


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


def _must_be_defined(spec: OperandSpec, attrs: Any) -> bool:
    return spec.defined if isinstance(spec.defined, bool) else spec.defined(attrs)


def _laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    if layout == "full" or array.ndim == 2:
        return array
    return array.reshape(array.shape[0], -1)


def _special_arguments(
    machine: Machine, op: Op, outputs: list[tuple[OperandSpec, View | None]], engine: str
) -> dict[str, Any]:
    """The attributes and machine facts that the meaning names."""
    record: Record = op.definition
    attrs = op.attrs
    arguments: dict[str, Any] = {}
    for name in record.specials:
        if name in record.attrs:
            arguments[name] = attrs[name]
        elif name == "state":
            arguments[name] = machine.accumulators.setdefault(engine, {})
        elif name == "target":
            arguments[name] = machine.target
        elif name == "resolved_engine":
            arguments[name] = engine
        elif name == "report":
            arguments[name] = partial(machine.reporter.violate, location=op.location)
        else:
            view = outputs[0][1]
            assert view is not None
            arguments[name] = (
                view.sizes if name == "shape" else view.start_partition if name == "lane" else machine.element(view)
            )
    return arguments


def _skipped(
    machine: Machine,
    record: Record,
    lanes: View,
    extra: dict[str, Any],
    outputs: list[tuple[OperandSpec, View | None]],
    location: Any,
) -> np.ndarray | None:
    """Destination elements that come from out-of-bounds indices and therefore stay as they are."""
    view = outputs[0][1]
    assert view is not None
    _, valid = machine.lanes(lanes, True, location)
    if valid.all():
        return None
    usable = np.broadcast_to(valid.reshape(-1, *[1] * (lanes.ndim - 1)), lanes.sizes)
    if record.flow == "movement":
        return moved_mask(record, ~usable, extra).reshape(view.sizes)
    return ~usable.reshape(view.sizes)


def _store(
    machine: Machine, view: View, value: Any, flowed: Codes | None, keep: Any, skip: bool, location: Any
) -> None:
    if isinstance(value, np.ndarray):
        value = round_to(value, machine.element(view))
        if value.shape != view.sizes and value.size == view.size:
            value = value.reshape(view.sizes)
    machine.write(view, value, location, None if flowed is None else fit(flowed, view.sizes), skip, keep)
