"""R-engine-16 in a run: where operands of an instruction lie is known exactly, run-time indices included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.ir.core import Op
from tilewright.sim.machine import Machine
from tilewright.sim.plan import Plan
from tilewright.tile.conflicts import RULE, Pair, breaks, conflict
from tilewright.tile.relation import APART, OVER, SAME, UNKNOWN, Relation, relation_at
from tilewright.tile.view import View, same_access

_REMEMBERED = 1 << 12  # places of operands that were found harmless


def refuse_conflicts(
    machine: Machine, op: Op, pairs: Sequence[Pair], plan: Plan | None = None, notes: Sequence[str] = ()
) -> None:
    """Report operands that are overwritten while they are still read; the plan remembers those that are not."""
    for pair in pairs:
        found = relation_of(machine, op, pair)
        if breaks(pair, found):
            what = conflict(op.definition, op.operands, pair, found)
            machine.reporter.violate(
                RULE, what.message, hint=what.hint, location=op.location, operands=what.operands, notes=notes
            )
        elif plan is not None:
            _remember(plan, pair, *pair.views(op.operands))


def _remember(plan: Plan, pair: Pair, a: View, b: View) -> None:
    if a.buffer is not b.buffer or a.dynamic is not None or b.dynamic is not None or a.terms != b.terms:
        return
    if len(plan.harmless) >= _REMEMBERED:
        plan.harmless.clear()
    plan.harmless.add((pair.written, pair.other, a.offset, b.offset, a.buffer.row_bytes))


def relation_of(machine: Machine, op: Op, pair: Pair) -> Relation:
    """How two operands of an instruction lie to each other now."""
    a, b = pair.views(op.operands)
    if a.buffer is not b.buffer and not pair.placed:
        return APART
    if a.dynamic is not None or b.dynamic is not None:
        if same_access(a, b):
            # That no element is chosen twice is a rule of its own (R-dma_compute-07).
            return SAME
        if machine.shapes:
            return UNKNOWN
    found = between(machine, a, _start(machine, op, a), b, _start(machine, op, b))
    return _by_bytes(machine, op, a, b) if found is UNKNOWN else found


def between(machine: Machine, a: View, a_offset: int, b: View, b_offset: int) -> Relation:
    """How two accesses that begin at these elements lie to each other."""
    first, second = machine.touch(a), machine.touch(b)
    if first is second:
        return relation_at(a, a_offset, b, b_offset)
    if first.place is None or second.place is None or not first.place.meets(second.place):
        return APART
    return relation_at(a, a_offset, b, b_offset, (first.place.address, second.place.address))


def _by_bytes(machine: Machine, op: Op, a: View, b: View) -> Relation:
    """The same where the patterns do not tell: a tile of indices chooses, or they are intricate."""
    first, second = _bytes(machine, op, a), _bytes(machine, op, b)
    there, here = np.isin(first, second), np.isin(second, first)
    if not there.any():
        return APART
    alike = a.dtype.itemsize == b.dtype.itemsize and np.array_equal(there, here)
    once = alike and np.array_equal(first[there], second[here]) and len(np.unique(first[there])) == there.sum()
    return SAME if once else OVER


def _start(machine: Machine, op: Op, view: View) -> int:
    offset = machine.offset_of(view)
    if view.dynamic is None or view.dynamic.kind != "scalar":
        return offset
    return offset + machine.scalar_step(view, True, op.location)


def _bytes(machine: Machine, op: Op, view: View) -> np.ndarray:
    """Every byte of an access in order, counted through its memory; those of indices out of bounds left out."""
    dynamic, strides, start = view.dynamic, [*view.strides], _start(machine, op, view)
    steps = [np.arange(size) * stride for size, stride in zip(view.sizes, strides, strict=True)]
    if dynamic is not None and dynamic.kind != "scalar":
        chosen, valid = machine.lanes(view, True, op.location)
        steps[1 if view.on_chip else 0] = chosen[valid] * dynamic.stride
    found = np.array([start], np.int64)
    for step in steps:
        found = (found[:, None] + step).reshape(-1)
    size = view.dtype.itemsize
    place = machine.touch(view).place
    if place is not None:
        # Rows of buffers at addresses are a memory's partition apart.
        partition, byte = np.divmod(found * size, view.buffer.row_bytes)
        pitch = machine.places[view.memory].pitch
        return _each((partition + place.address.partition) * pitch + byte + place.address.byte, size)
    return _each(found * size, size)


def _each(starts: np.ndarray, size: int) -> np.ndarray:
    return (starts[:, None] + np.arange(size)).reshape(-1)
