"""Shape mode: an instruction's effect on lifetimes and written state, without values."""

from __future__ import annotations

from tilewright.ir.core import Op, Value
from tilewright.sim.machine import Machine
from tilewright.tile.record import Record
from tilewright.tile.view import View


def trace_shapes(machine: Machine, op: Op) -> None:
    """Note reads and writes of an instruction as if it had run.

    Unwritten elements are refused where they matter, as in a run; they do not flow on through other instructions, and
    run-time indices are not looked at, since there are no values.
    """
    machine.clock += 1
    record: Record = op.definition
    for position, spec in enumerate(record.operands.values()):
        views = op.operands[position:] if spec.many else op.operands[position : position + 1]
        for view in views:
            if isinstance(view, Value) and spec.writes:
                machine.values[view] = None
            if not isinstance(view, View):
                continue
            storage = machine.touch(view)
            offset = machine.offset_of(view)
            defined = spec.defined if isinstance(spec.defined, bool) else spec.defined(op.attrs)
            must_be_defined = spec.reads and not spec.writes and (defined or record.flow == "refuse")
            if must_be_defined and view.dynamic is None:
                machine.require_written(view, op.location, "R-tensor-08")
            if spec.writes:
                if storage.first_write < 0:
                    storage.first_write = machine.clock
                if view.dynamic is None:
                    storage.mark_written(view, offset)
                else:
                    storage.written = "everything"
                if record.accumulates:
                    storage.mark_accumulated(view, offset)
