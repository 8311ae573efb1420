"""Groups of rows of one length, which can lie across several partitions each."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32
from tilewright.ir.core import Op, Value
from tilewright.lower.regions.axes import COMBINED, SCANNED
from tilewright.lower.regions.roles import Roles, operand_roles
from tilewright.lower.write.homes import is_view

if TYPE_CHECKING:
    from tilewright.lower.regions.grouping import Group


def long_axis(group: Group) -> int | None:
    """The length of the rows of a group whose values are rows of one length, or a number per row; else None."""
    if group.batch:
        return None
    size = max((v.type.shape[-1] for v in group.roles if v.type.rank), default=1)
    operands = [operand_roles(op, group.roles[op.result]) for op in group.ops if op.name in (*COMBINED, *SCANNED)]
    if operands:
        size = max(size, *(op.operands[0].type.shape[-1] for op in group.ops if op.name in (*COMBINED, *SCANNED)))
    if size == 1 or any(op.result.type.shape[-1:] == (size,) for op in group.shared):
        return None
    results = set(group.results)
    return size if all(_is_splittable(op, group, size, op.result in results) for op in group.ops) else None


def _is_splittable(op: Op, group: Group, size: int, is_result: bool) -> bool:
    roles, rank = group.roles[op.result], op.result.type.rank
    if not _is_line(op.result, roles, size):
        return False
    if is_result and op.result.type.size == group.rows and op.result.type.dtype is not float32:
        return False
    if op.definition.family == "elementwise":
        return all(_reads_lines(x, roles, rank, group, size) for x in op.values())
    if op.name in COMBINED or op.name in SCANNED:
        (x,) = op.operands
        own, axes = operand_roles(op, roles), op.attrs["axes"] if op.name in COMBINED else (op.attrs["axis"],)
        whole = x.type.rank - 1 in axes and x.type.shape[-1] == size and own.is_free(x.type.rank - 1)
        dtypes = x.type.dtype, op.result.type.dtype
        held = all(d is float32 for d in dtypes) if op.name in SCANNED else all(d.is_float for d in dtypes)
        return whole and held and _is_line(x, own, size)
    # Views of a number per row.
    return is_view(op) and all(group.rows == v.type.size for v in (op.result, *op.values()))


def _is_line(x: Value, roles: Roles, size: int) -> bool:
    """True where a row of a value is a line of the given length, or one number."""
    shape = x.type.shape
    free = [shape[d] for d in roles.free_dims(len(shape))]
    return prod(free) == 1 or (prod(free) == size == free[-1] and roles.is_free(len(shape) - 1))


def _reads_lines(x: Value, roles: Roles, rank: int, group: Group, size: int) -> bool:
    """True for an operand from outside of which each partition can have its part."""
    if x in group.roles:
        return True
    by = rank - x.type.rank
    own = Roles((max(roles.rows[0] - by, 0), max(roles.rows[1] - by, 0)))
    if x.producer is not None and x.producer.name in ("iota", "band") and x.type.size > 1:
        return False
    if not _is_line(x, own, size):
        return False
    per_row = prod(x.type.shape[slice(*own.rows)])
    column = x.type.size == per_row != 1 or group.rows == 1 == x.type.size
    return per_row in (1, group.rows) and (not column or x.type.dtype is float32)
