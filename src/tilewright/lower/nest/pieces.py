"""What stands before a product of a single block of rows is made piece by piece: the product begins with the first
columns of its left operand while the others are being made."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.lower.decisions import decision
from tilewright.lower.nest.inside import INSIDE
from tilewright.lower.products.left import piece_of
from tilewright.lower.regions.roles import PRODUCTS
from tilewright.lower.write.homes import is_view
from tilewright.lower.write.loops import tiled

if TYPE_CHECKING:
    from tilewright.lower.nest.blocks import BlockEmitter
    from tilewright.lower.regions.fuse import Step


def run_before_product(e: BlockEmitter, first: int) -> list[Step]:
    """The steps from `first` on that make a product's left operand column by column; none where pieces gain nothing."""
    if e.group.rows > e.lanes or e.group.batch or e.per != 1 or e.causal is not None or first > e.last_product:
        return []
    run: list[Step] = []
    for step in e.steps[first:]:
        if step.op.name in PRODUCTS:
            left, makers = step.op.operands[0], [each for each in run if not is_view(each.op)]
            columns = left.type.shape[-1]
            wanted = bool(makers) and makers[-1].result is left and columns > piece_of(columns, e.lanes)
            return run if wanted and all(each.result.type.shape[-1] == columns for each in makers) else []
        if not _is_by_column(e, step):
            return []
        run.append(step)
    return []


def _is_by_column(e: BlockEmitter, step: Step) -> bool:
    """True for a step each of whose columns needs the same column of its operands, or one number per row."""
    op, value = step.op, step.result
    if op.name == "slice":
        return True
    if op.definition.family != "elementwise" or op.name in INSIDE or is_view(op):
        return False
    if step.total is not None or value in e.whole or not value.type.dtype.is_float:
        return False
    roles = e.group.roles[value]
    free = [value.type.shape[d] for d in roles.free_dims(value.type.rank)]
    if not free or prod(free) != free[-1]:
        return False
    for x in step.inputs():
        rule = x.producer is not None and x.producer.name in ("iota", "band")
        if rule or not x.type.dtype.is_float or (x.type.rank and x.type.shape[-1] not in (1, free[-1])):
            return False
    return True


@decision("product: left operand in pieces")
def write_in_pieces(e: BlockEmitter, run: list[Step]) -> None:
    """Write a run of steps, some columns at a time."""
    makers: list[Step] = []
    for step in run:
        e.b.location = step.op.location
        if is_view(step.op):
            e.write_step(step)
            continue
        makers.append(step)
        e.make_room(step)
    columns = makers[-1].result.type.shape[-1]
    for at, count in tiled(e.b, columns, piece_of(columns, e.lanes), "c"):
        for step in makers:
            e.b.location = step.op.location
            e.on_columns(step, at, count)
