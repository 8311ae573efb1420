"""What later views of a value can make of the rows that it lies in.

Where a view tears rows apart (heads of the tokens of a window, where two windows share the partitions) the value has to
be brought to another order by way of HBM. Whoever decides in which rows it is made had better know.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tilewright.ir.core import Op, Value
from tilewright.lower.write.homes import is_view, moved_rows, reshaped_rows, trimmed

Rows = tuple[int, int]
"""Dims that lie on partitions, merged."""


def torn(value: Value, rows: Rows, lanes: int, counts: Callable[[Op], bool] = is_view) -> int:
    """Elements that later views have to bring to another order. counts: which of them are by themselves."""
    total = 0
    for view in dict.fromkeys(use for use in value.uses if is_view(use) and counts(use)):
        after = [found for each in (rows, *_numbered_anew(value, rows, lanes)) if (found := _after(view, each))]
        total += torn(view.result, after[0], lanes, counts) if after else value.type.size
    return total


def _after(view: Op, rows: Rows) -> Rows | None:
    """Where rows stand in a view; None where it tears them apart."""
    shape, made = view.operands[0].type.shape, view.result.type.shape
    if view.name == "transpose":
        return moved_rows(rows, view.attrs["perm"])
    if view.name == "reshape":
        found = reshaped_rows(shape, rows, made)
        return None if found is None else trimmed(made, found)
    # Parts of rows are found where they are, or copied by themselves.
    return rows


def _numbered_anew(value: Value, rows: Rows, lanes: int) -> list[Rows]:
    """Rows with fewer or more dims in front of those that number the partitions in any case."""
    (was, stop), shape = rows, value.type.shape
    firsts = [first for first in range(stop) if first != was]
    return [(first, stop) for first in firsts if prod(shape[max(first, was) : stop]) % lanes == 0]
