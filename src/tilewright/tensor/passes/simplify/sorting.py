"""Sorted arrays of which little is left: those that are sorted for their first or last elements, or have only one; and
those that are views."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import int32
from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import make, value
from tilewright.tensor.passes.match import maker
from tilewright.tensor.passes.simplify.slices import Box, box_of

_MORE = 8
"""Elements beyond half of them that are still searched for: both halves of a sorted array may be read at the middle."""


@rule("partition")
def partition_in_order(op: Op) -> Any:
    """partition(x) -> sort(x)"""
    return make("sort", *op.operands, axis=op.attrs["axis"], descending=False)


@rule("slice")
def slice_of_sort(op: Op) -> Any:
    """slice(sort(x), b) -> slice(topk(x, k), b)        where k elements from either end are all that is read

    Also of argsort. From the other end, equal elements are in the opposite order: positions are those in x backwards.
    """
    inner = maker(op.operands[0], "sort", "argsort")
    if inner is None or not op.result.type.size:
        return None
    (x,), axis = inner.operands, inner.attrs["axis"]
    size = x.type.shape[axis]
    if any(use.name != "slice" or not use.result.type.size for use in inner.result.uses):
        return None
    ends = [_end(box_of(use), axis, size) for use in inner.result.uses]
    wanted = {last: max((count for at_end, count in ends if at_end is last), default=0) for last in (False, True)}
    if 2 * sum(wanted.values()) > size + _MORE:
        return None
    box = box_of(op)
    last, _ = _end(box, axis, size)
    if last:
        starts = (*box.starts[:axis], size - 1 - box.starts[axis], *box.starts[axis + 1 :])
        steps = (*box.steps[:axis], -box.steps[axis], *box.steps[axis + 1 :])
        box = Box(starts, box.sizes, steps)
    largest = inner.attrs["descending"] is not last
    if inner.name == "sort":
        return box.of(make("topk", x, k=wanted[last], axis=axis, largest=largest).results[0])
    places = make("topk", _backwards(x, axis) if last else x, k=wanted[last], axis=axis, largest=largest).results[1]
    found = value("cast", box.of(places), dtype=int32)
    found = value("subtract", size - 1, found) if last else found
    return value("cast", found, dtype=inner.attrs["dtype"])


@rule("sort", "argsort", "topk")
def order_before_transpose(op: Op) -> Any:
    """sort(transpose(x, p), a) -> transpose(sort(x, p[a]), p)        where that axis of x is its last; also topk"""
    inner = maker(op.operands[0], "transpose")
    if inner is None:
        return None
    (x,), perm = inner.operands, inner.attrs["perm"]
    axis = perm[op.attrs["axis"]]
    if axis != x.type.rank - 1 or op.attrs["axis"] == axis:
        return None
    found = make(op.name, x, **{**op.attrs, "axis": axis})
    return [value("transpose", result, perm=perm) for result in found.results]


@rule("topk")
def greatest_alone(op: Op) -> Any:
    """topk(x, 1) -> max(x)        where no position is asked for"""
    (x,), (_, places) = op.operands, op.results
    if op.attrs["k"] != 1 or not op.attrs["largest"] or places.uses or not x.type.size:
        return None
    nowhere = value("full", shape=places.type.shape, dtype=places.type.dtype, value=0)
    return [value("max", x, axes=(op.attrs["axis"],), keepdims=True), nowhere]


@rule("sort", "argsort", "topk", "argmax", "argmin", "cumsum", "cumprod")
def order_single(op: Op) -> Any:
    """sort(x) -> x        along an axis of one element; also topk and running sums; every position is 0"""
    (x,) = op.operands
    made = op.results[-1].type
    if x.type.shape[op.attrs["axis"]] != 1 or not op.results[0].type.size:
        return None
    if op.name in ("sort", "cumsum", "cumprod"):
        return x if made == x.type else None
    places = make("full", shape=made.shape, dtype=made.dtype, value=0)
    return [x, places.result] if op.name == "topk" else places


def _end(box: Box, axis: int, size: int) -> tuple[bool, int]:
    """Whether a box is nearer to the last elements of an axis than to the first, and how many from there it needs."""
    low, high = box.limits(axis)
    return (True, size - low) if size - low < high + 1 else (False, high + 1)


def _backwards(x: Value, axis: int) -> Value:
    shape = x.type.shape
    starts = tuple(size - 1 if a == axis else 0 for a, size in enumerate(shape))
    return value("slice", x, starts=starts, sizes=shape, steps=tuple(-1 if a == axis else 1 for a in range(len(shape))))
