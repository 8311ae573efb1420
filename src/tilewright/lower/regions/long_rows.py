"""Groups of rows of one length, which can lie across several partitions each."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.lower.regions.axes import COMBINED, SCANNED
from tilewright.lower.regions.roles import Roles, operand_roles
from tilewright.lower.write.homes import is_view

if TYPE_CHECKING:
    from tilewright.lower.regions.grouping import Group


@dataclass(frozen=True, slots=True)
class LongAxis:
    """The first dim of the rows of a group: its size, its place from the last dim on, and the elements of a row."""

    size: int
    back: int
    row: int

    def is_of(self, x: Value, roles: Roles) -> bool:
        """True for a value whose rows have it."""
        dim = x.type.rank - self.back
        return dim >= 0 and x.type.shape[dim] == self.size and roles.is_free(dim)

    def fits(self, x: Value, roles: Roles) -> bool:
        """True where a row of a value is one number, or begins with this axis and is all there is after the rows."""
        free = [d for d in roles.free_dims(x.type.rank) if x.type.shape[d] != 1]
        if not free:
            return True
        return self.is_of(x, roles) and free[0] == x.type.rank - self.back and roles.rows[1] <= free[0]


def long_axis(group: Group) -> LongAxis | None:
    """The axis along which all rows of a group can be cut; None where something reads them otherwise."""
    if group.batch:
        return None
    values = list(group.roles.items())
    values += [
        (op.operands[0], operand_roles(op, group.roles[op.result]))
        for op in group.ops
        if op.name in (*COMBINED, *SCANNED)
    ]
    axis = max((_first_axis(x, roles) for x, roles in values), key=lambda found: found.row)
    if axis.size == 1 or any(axis.is_of(op.result, Roles((0, 0))) for op in group.shared):
        return None
    results = set(group.results)
    return axis if all(_is_splittable(op, group, axis, op.result in results) for op in group.ops) else None


def _first_axis(x: Value, roles: Roles) -> LongAxis:
    free = roles.free_dims(x.type.rank)
    first = next((d for d in free if x.type.shape[d] != 1), None)
    if first is None:
        return LongAxis(1, 1, 1)
    return LongAxis(x.type.shape[first], x.type.rank - first, prod(x.type.shape[d] for d in free))


def _is_splittable(op: Op, group: Group, axis: LongAxis, is_result: bool) -> bool:
    roles, rank = group.roles[op.result], op.result.type.rank
    if not axis.fits(op.result, roles):
        return False
    if is_result and op.result.type.size == group.rows and op.result.type.dtype is not float32:
        return False
    if op.definition.family == "elementwise":
        return all(_reads_lines(x, roles, rank, group, axis) for x in op.values())
    if op.name in COMBINED or op.name in SCANNED:
        return _is_reduced_by_parts(op, roles, axis)
    # Views of a number per row.
    return is_view(op) and all(group.rows == v.type.size for v in (op.result, *op.values()))


def _is_reduced_by_parts(op: Op, roles: Roles, axis: LongAxis) -> bool:
    """True where rows are reduced as a whole, or within the elements of the axis."""
    x, *others = op.operands
    if others:
        # What a part begins with is no sum that could be added later.
        return False
    own, axes = operand_roles(op, roles), op.attrs["axes"] if op.name in COMBINED else (op.attrs["axis"],)
    free = [d for d in own.free_dims(x.type.rank) if x.type.shape[d] != 1]
    if not axis.fits(x, own) or not axis.is_of(x, own):
        return False
    dtypes = x.type.dtype, op.result.type.dtype
    if op.name in SCANNED:
        return axis.back == 1 and free == list(axes) and all(dtype is float32 for dtype in dtypes)
    whole, inside = set(free) <= set(axes), x.type.rank - axis.back not in axes
    return (whole or inside) and all(dtype.is_float for dtype in dtypes)


def _reads_lines(x: Value, roles: Roles, rank: int, group: Group, axis: LongAxis) -> bool:
    """True for an operand from outside of which each partition can have its part."""
    if x in group.roles:
        return True
    by = rank - x.type.rank
    own = Roles((max(roles.rows[0] - by, 0), max(roles.rows[1] - by, 0)))
    if x.producer is not None and x.producer.name in ("iota", "band") and x.type.size > 1:
        return False
    per_row = prod(x.type.shape[slice(*own.rows)])
    if per_row == 1 != group.rows and not axis.is_of(x, own):
        # Every partition has all of it.
        return x.type.rank < axis.back or x.type.shape[x.type.rank - axis.back] == 1
    if not axis.fits(x, own):
        return False
    column = x.type.size == per_row != 1 or group.rows == 1 == x.type.size
    return per_row in (1, group.rows) and (not column or x.type.dtype is float32)
