"""Checks of indices that cost nothing, as their readers make them."""

from __future__ import annotations

from tilewright.ir.core import Op, Value
from tilewright.lower.write.homes import is_view

CHECKS = ("checked_index", "bounded_index")
"""Ops that give indices unchanged but for those that count from the end, and refuse others."""

TRANSFERRING = {"take": 1, "put_rows": 1, "combine_rows": 1}
"""Ops that check their indices, mostly by their transfers: the position of that operand."""


def checked_by_readers(op: Op) -> bool:
    """True for a check whose readers all are transfers along a dim of that very size, perhaps through views."""
    return _transferred(op.result, op.attrs["size"])


def _transferred(value: Value, size: int) -> bool:
    for use in value.uses:
        if is_view(use):
            if not _transferred(use.result, size):
                return False
            continue
        at = TRANSFERRING.get(use.name)
        if at is None or any(x is value for i, x in enumerate(use.operands) if i != at):
            return False
        if use.operands[0].type.shape[use.attrs.get("axis", 0)] != size:
            return False
    return bool(value.uses)
