"""Zeroing of PSUM before products are added up there: the first product may as well overwrite.

A measured matmul that zeroes every tile on the Vector engine, in the order written, keeps the Tensor engine 91% busy
(bench/calibration, nki-autotune-trn2/0733), which it could not if the zeroing took place.
"""

from __future__ import annotations

from tilewright.ir.core import Graph, Op
from tilewright.ir.walk import walk
from tilewright.tile.memory import PSUM
from tilewright.tile.ops import DEALLOC
from tilewright.tile.record import Record
from tilewright.tile.view import View


def zeroings(graph: Graph) -> dict[Op, Op]:
    """Instructions that fill a PSUM tensor with zeros, each with the accumulating one that uses it next."""
    found: dict[Op, Op] = {}
    for op in walk(graph.body):
        if isinstance(op.definition, Record) and _fills_with_zeros(op):
            view = op.operands[0]
            uses = [use for use in view.buffer.uses if use.definition is not DEALLOC]
            after = uses[uses.index(op) + 1 :]
            if after and after[0] is not op and _adds_to(after[0], view):
                found[op] = after[0]
    return found


def _fills_with_zeros(op: Op) -> bool:
    """It has a value, zero, and no other source; what it writes is in PSUM, at a place that is known."""
    record: Record = op.definition
    views = [view for view in op.operands if isinstance(view, View)]
    if len(views) != 1 or record.reading or op.attrs.get("value", 1) != 0:
        return False
    return views[0] is op.operands[0] and views[0].memory is PSUM and views[0].dynamic is None


def _adds_to(op: Op, zeroed: View) -> bool:
    """It accumulates into the same elements, as far as it is left to do so."""
    record = op.definition
    if not isinstance(record, Record) or not record.accumulates or op.attrs.get("accumulate") is False:
        return False
    facts = [(view.buffer, view.offset, view.terms, view.sizes) for view in (op.operands[0], zeroed)]
    return facts[0] == facts[1]
