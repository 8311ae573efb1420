"""One step of the machine: execute(machine, op) reads views, applies the record's meaning, writes views.

The same step serves kernels that run eagerly and tile IR with loops (`sim.run`). It never changes when an instruction
is added: everything instruction-specific comes from the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.ir.core import Op, Value
from tilewright.sim.accumulation import accumulate
from tilewright.sim.bounds import require_distinct
from tilewright.sim.conflicts import refuse_conflicts
from tilewright.sim.flow import flow, merge, moved_mask
from tilewright.sim.machine import Machine
from tilewright.sim.plan import Plan, plan_of
from tilewright.sim.storage import EVERYTHING, Codes
from tilewright.sim.streamed import streamed
from tilewright.tile.record import Record
from tilewright.tile.verdict import Ruling
from tilewright.tile.view import View


def execute(machine: Machine, op: Op, ruling: Ruling) -> None:
    """Run one instruction, whose static rules have been checked."""
    plan = machine.plans.get(ruling) or plan_of(machine, op, ruling)
    record: Record = op.definition
    operands, location, skip = op.operands, op.location, plan.skip
    machine.clock += 1
    machine.location = location
    machine.op = op
    machine.engine = ruling.engine
    if machine.stream is None and (plan.indexed or (plan.near and _may_conflict(machine, operands, plan))):
        refuse_conflicts(machine, op, plan.pairs, plan)
    arrays: list[Any] = [None] * plan.count
    undefined: dict[int, Codes] = {}
    for place, position, flat, strict in plan.reads:
        array, codes = machine.read(operands[position], strict, location, skip)
        arrays[place] = array.reshape(array.shape[0], -1) if flat else array
        if codes is not None:
            undefined[place] = codes.reshape(codes.shape[0], -1) if flat else codes
    if plan.others:
        _read_others(machine, op, plan, arrays, undefined)
    if record.meeting is not None:
        # Copies: the other core may change its own data before this one looks.
        arrays, undefined = machine.meet(op, (list(map(np.array, arrays)), undefined))
    # Looked at before anything is written: an instruction may overwrite its own input.
    look_after = machine.on_execute and machine.on_execute(op, arrays, _accumulated(machine, op))
    if machine.stream is None:
        made = record.meaning(*arrays, *plan.arguments.values())
    else:
        made = streamed(machine, op, plan, arrays)
    flowed: Any = _flow(record, arrays, undefined, plan) if undefined else None
    keep = _skipped(machine, op, plan) if plan.lanes else None
    results: Any = made if made.__class__ is tuple else (made,)
    for position, value in zip(record.written, results, strict=True):
        view = operands[position]
        if view.__class__ is not View:
            if isinstance(view, Value):
                machine.values[view] = value
        elif record.accumulates:
            accumulate(machine, view, value, op.attrs["accumulate"], location, flowed)
        elif value is not None:
            if plan.unique:
                require_distinct(machine, view, location)
            codes = flowed if flowed.__class__ is not tuple else flowed[record.written.index(position)]
            machine.write(view, value, location, codes, skip, keep)
    if look_after is not None:
        look_after(_stored(machine, op, results))


def _may_conflict(machine: Machine, operands: Sequence[Any], plan: Plan) -> bool:
    """True where two operands may have elements in common, which has to be looked at more closely."""
    for first, second, placed in plan.near:
        a, b = operands[first], operands[second]
        if a.buffer is b.buffer:
            known = (first, second, a.offset, b.offset, a.buffer.row_bytes) in plan.harmless
            if not known or a.terms != b.terms:
                return True
        elif placed and machine.has_rivals(a.buffer):
            return True
    return False


def _read_others(machine: Machine, op: Op, plan: Plan, arrays: list[Any], undefined: dict[int, Codes]) -> None:
    """Numbers, registers and a list of tensors."""
    for place, position in plan.numbers:
        number = op.operands[position]
        arrays[place] = machine.number(number, op.location) if isinstance(number, Value) else number
    if plan.listed is None:
        return
    place, position, strict = plan.listed
    values = [machine.read(each, strict, op.location, plan.skip) for each in op.operands[position:]]
    arrays[place] = [value for value, _ in values]
    codes = merge([each if each is None else each.reshape(1, -1) for _, each in values])
    if codes is not None:
        undefined[place] = codes


def _flow(record: Record, arrays: list[Any], undefined: dict[int, Codes], plan: Plan) -> Any:
    """Where the undefined elements of the inputs go."""
    return flow(record, arrays, [undefined.get(place) for place in range(len(arrays))], plan.arguments)


def _accumulated(machine: Machine, op: Op) -> Any:
    """What a destination that is added to holds before, if matmuls wrote all of it."""
    if not op.definition.accumulates or op.attrs["accumulate"] is False:
        return None
    view: View = op.operands[0]
    storage = machine.storage[view.buffer]
    if view.dynamic is not None or storage.accumulated_mask(view, machine.offset_of(view)) is not EVERYTHING:
        return None
    return storage.array(view, machine.offset_of(view))


def _stored(machine: Machine, op: Op, results: Sequence[Any]) -> list[Any]:
    """What the destinations hold now; the value itself where the place is known only at run time."""
    held: list[Any] = []
    for position, value in zip(op.definition.written, results, strict=True):
        view = op.operands[position]
        fixed = isinstance(view, View) and view.dynamic is None
        held.append(machine.storage[view.buffer].array(view, machine.offset_of(view)) if fixed else value)
    return held


def _skipped(machine: Machine, op: Op, plan: Plan) -> np.ndarray | None:
    """Destination elements that come from out-of-bounds indices and therefore stay as they are."""
    record: Record = op.definition
    lanes, view = op.operands[plan.lanes[-1]], op.operands[record.written[0]]
    _, valid = machine.lanes(lanes, True, op.location)
    if valid.all():
        return None
    usable = np.broadcast_to(valid.reshape(-1, *[1] * (lanes.ndim - 1)), lanes.sizes)
    if record.flow == "movement":
        return moved_mask(record, ~usable, plan.arguments).reshape(view.sizes)
    return ~usable.reshape(view.sizes)
