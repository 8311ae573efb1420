"""Values that are others but for some elements."""

from __future__ import annotations

from tilewright.ir.core import Op, Value

UPDATES = ("update_slice", "put_rows", "combine_rows", "put_along_axis")
"""Ops that change some elements of their first operand; the last one has what comes there."""

ORDERS = ("reshape", "transpose")
"""Ops that show all elements in another order."""


def updates_of(value: Value, first: Value) -> tuple[Op, ...] | None:
    """The updates that make one value of another, in order, with what shows it in other orders between them; None where
    it is not made by these alone."""
    found: list[Op] = []
    while value is not first:
        op = value.producer
        if op is None or op.name not in (*UPDATES, *ORDERS):
            return None
        found.append(op)
        value = op.operands[0]
    return tuple(reversed(found))
