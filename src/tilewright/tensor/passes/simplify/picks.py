"""Elements that are picked by indices: before anything is computed with all the others, and from rows of their own."""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import maker

_FEW = 1 << 6
"""How many times fewer are picked than there are, where what they are picked from is computed in any case."""


@rule("take", "take_along_axis")
def pick_before(op: Op) -> Any:
    """take(f(x), i) -> f(take(x, i))        f goes element by element, and f(x) is larger, much if others read it"""
    x, index = op.operands
    inner, axis = x.producer, op.attrs["axis"]
    if inner is None or inner.definition.family != "elementwise" or len(inner.results) != 1:
        return None
    whole = [y for y in inner.values() if y.type.shape == x.type.shape]
    most = x.type.size if len(x.uses) == 1 else x.type.size // _FEW
    if not whole or op.result.type.size * len(whole) >= most:
        return None
    keeps_dims = op.result.type.rank == x.type.rank
    picked: list[Any] = []
    for y in inner.operands:
        if isinstance(y, Value) and y.type.shape == x.type.shape:
            y = value(op.name, y, index, axis=axis)
        elif isinstance(y, Value) and y.type.rank and not (keeps_dims and _is_repeated(y, axis - x.type.rank)):
            return None
        picked.append(y)
    return value(inner.name, *picked, **inner.attrs)


def _is_repeated(y: Value, axis: int) -> bool:
    """True for an operand that is repeated along an axis, counted from the last."""
    return -axis > y.type.rank or y.type.shape[axis] == 1


@rule("take")
def pick_of_each_row(op: Op) -> Any:
    """take(reshape(x), n * [0, 1, ...] + i) -> take_along_axis(x, i)        one i, or some, for each row of n"""
    found = _of_each_row(*op.operands)
    if found is None:
        return None
    rows, within = found
    return value("reshape", value("take_along_axis", rows, within, axis=1), shape=op.result.type.shape)


@rule("put_rows")
def put_in_each_row(op: Op) -> Any:
    """put_rows(reshape(x), n * [0, 1, ...] + i, y) -> put_along_axis(x, i, y)        one i for each row of n"""
    found = _of_each_row(*op.operands[:2])
    if found is None:
        return None
    rows, within = found
    part = value("reshape", op.operands[2], shape=within.type.shape)
    return value("reshape", value("put_along_axis", rows, within, part, axis=1), shape=op.result.type.shape)


def _of_each_row(flat: Value, index: Value) -> tuple[Value, Value] | None:
    """The rows of an array in a line, and the indices within each, where a number of places in the line says both."""
    view, total = maker(flat, "reshape"), maker(index, "add")
    if view is None or total is None or flat.type.rank != 1 or not view.operands[0].type.rank:
        return None
    (x,) = view.operands
    length = x.type.shape[-1]
    rows = prod(x.type.shape[:-1])
    for first, within in (total.operands, total.operands[::-1]):
        ramp, checked = maker(first, "iota"), maker(within, "checked_index", "bounded_index")
        if ramp is None or checked is None or checked.attrs["size"] > length or index.type.rank not in (1, 2):
            continue
        starts = ramp.attrs["start"] == 0 and ramp.attrs["step"] == length and ramp.attrs["axis"] == 0
        one_each = ramp.attrs["shape"] in ((rows,), (rows, 1)) and ramp.result.type.rank == index.type.rank
        if starts and one_each and within.type.shape == index.type.shape and index.type.shape[0] == rows:
            each = value("reshape", within, shape=(rows, index.type.size // max(rows, 1)))
            return value("reshape", x, shape=(rows, length)), each
    return None
