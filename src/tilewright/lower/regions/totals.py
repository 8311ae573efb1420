"""Sums and extremes over the rows of a group that come with it: reductions, and products that contract the rows. Each
takes in one block of rows after the other, so that what is reduced need not go to HBM first."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

from tilewright.dtypes import bfloat16, float16, float32
from tilewright.ir.core import Op, Value
from tilewright.lower.regions.roles import Roles, carried
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import is_view

if TYPE_CHECKING:
    from tilewright.lower.regions.grouping import Group

REDUCTIONS = ("sum", "max", "min")
"""Reductions whose results of some rows can be combined with those of others, exactly or as sums are."""

ADDED_UP = ("matmul", "matmul_wide", "matmul_split")
"""Products whose terms add up in PSUM as they come."""


def totals_of(group: Group, able: Container[Op], ready: Container[Value], lanes: int, room: int) -> list[Op]:
    """What goes over all rows of what a group makes, of which there are several blocks, with the views it reads.

    room: elements per partition of PSUM that products may take. What has no room there may be added up in SBUF.
    """
    if group.tall is not None or group.rows <= lanes:
        return []
    known, views = dict(group.roles), dict[Op, None]()
    work = list(known)
    found: dict[Op, None] = {}
    while work:
        for op in work.pop().uses:
            if op not in able or op in views or op in found or any(v in known for v in op.results):
                continue
            if is_view(op):
                made = carried(op, known) if _keeps_order(op, known) else None
                if made is not None:
                    known[op.result] = made
                    views[op] = None
                    work.append(op.result)
            elif op.name in REDUCTIONS and op.operands[0] in group.roles and _reduces_rows(op, known):
                found[op] = None
            elif op.name in ADDED_UP and _contracts_rows(op, known, ready, group.reads):
                room -= columns_of(op, lanes)
                if room >= 0 or columns_of(op, lanes) * float32.itemsize <= TUNING.added_bytes:
                    found[op] = None
    for op in [op for op in found if op.name in ADDED_UP]:
        if (cast := rounding_of(op)) is not None and cast in able:
            found[cast] = None
    return _without_late(views, found)


def rounding_of(op: Op) -> Op | None:
    """The cast to a narrower float that alone reads a product: what leaves PSUM is rounded on the way."""
    cast = op.result.uses[0] if len(op.result.uses) == 1 else None
    narrower = cast is not None and cast.name == "cast" and cast.result.type.dtype in (bfloat16, float16)
    return cast if narrower and op.result.type.dtype is float32 else None


def _without_late(views: Mapping[Op, None], found: Mapping[Op, None]) -> list[Op]:
    """Those of them that a group can have by itself: a view that something else reads too is made by whoever reads it,
    after the group, and so is what reads that view."""
    inside = {*views, *found}
    while True:
        late = {op for op in views if op in inside and not (op.result.uses and inside.issuperset(op.result.uses))}
        late |= {op for op in inside if any(v.producer in views and v.producer not in inside for v in op.values())}
        if not late:
            return [op for op in (*views, *found) if op in inside]
        inside -= late


def _keeps_order(op: Op, known: Mapping[Value, Roles]) -> bool:
    """True for a view that leaves the free dims of each row in their order."""
    if op.name != "transpose":
        return op.name == "reshape"
    free, perm = known[op.operands[0]].free_dims(op.result.type.rank), op.attrs["perm"]
    order = [d for d in perm if d in free and op.operands[0].type.shape[d] != 1]
    return order == sorted(order)


def _reduces_rows(op: Op, known: Mapping[Value, Roles]) -> bool:
    (x,) = op.operands
    own, over, shape = known[x], op.attrs["axes"], x.type.shape
    if not x.type.dtype.is_float or not all(d in over or shape[d] == 1 for d in range(*own.rows)):
        return False
    # Trips of outer loops are taken in together, or each gives its own part of the result, which lie in their order.
    kept = [d for d in range(x.type.rank) if d not in over and shape[d] != 1]
    batch = [d for d in own.batch if d in kept]
    return not batch or (len(batch) == len(own.batch) and kept[: len(batch)] == batch)


def columns_of(op: Op, lanes: int) -> int:
    """Elements per partition that a product takes."""
    return -(-op.result.type.shape[-2] // lanes) * op.result.type.shape[-1]


def _contracts_rows(op: Op, known: Mapping[Value, Roles], ready: Container[Value], reads: Container[Value]) -> bool:
    """True for x.T @ y, where both have the rows of the group in their first dim. reads: what the group reads
    besides."""
    left, right = op.operands
    rank = op.result.type.rank
    batch = tuple(d for d in range(rank - 2) if op.result.type.shape[d] != 1)
    if {left.type.rank, right.type.rank} != {rank} or left.type.shape[:-2] != right.type.shape[:-2]:
        return False
    # A narrow right operand is as wide as the left one when it is multiplied.
    same = left.type.dtype is right.type.dtype or op.name == "matmul_split"
    if not same or not left.type.dtype.is_float:
        return False
    rows = {left: Roles((rank - 1, rank), batch), right: Roles((rank - 2, rank - 1), batch)}
    if left is right or not all(known[x] == own if x in known else x in ready for x, own in rows.items()):
        return False
    if left not in known:
        # Its rows have to be there anyway: a matrix that is multiplied again and again stays as products read it.
        made = left.producer
        if right not in known or made is None or made.name != "transpose" or made.operands[0] not in reads:
            return False
    return True
