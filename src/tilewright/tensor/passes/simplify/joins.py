"""Concatenation and padding."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.rewrite import rule
from tilewright.tensor.build import value
from tilewright.tensor.passes.match import maker, number, used_once
from tilewright.tensor.passes.simplify.slices import Box, box_of


@rule("concatenate")
def join_one(op: Op) -> Any:
    """concatenate(x) -> x"""
    return op.operands[0] if len(op.operands) == 1 else None


@rule("concatenate")
def drop_empty_parts(op: Op) -> Any:
    """concatenate(x, nothing, y) -> concatenate(x, y)"""
    axis = op.attrs["axis"]
    kept = [x for x in op.operands if x.type.shape[axis]]
    return value("concatenate", *kept, axis=axis) if 0 < len(kept) < len(op.operands) else None


@rule("concatenate")
def join_joined(op: Op) -> Any:
    """concatenate(concatenate(x, y), z) -> concatenate(x, y, z)        along the same axis, if unused otherwise"""
    axis = op.attrs["axis"]
    parts: list[Value] = []
    for x in op.operands:
        inner = maker(x, "concatenate")
        join = inner is not None and inner.attrs["axis"] == axis and used_once(x)
        parts += inner.operands if join and inner is not None else (x,)
    return value("concatenate", *parts, axis=axis) if len(parts) > len(op.operands) else None


@rule("concatenate")
def join_neighbours(op: Op) -> Any:
    """concatenate(slice(x, a), slice(x, b)) -> slice(x, a then b)        where b follows on a"""
    axis = op.attrs["axis"]
    parts = [op.operands[0]]
    for x in op.operands[1:]:
        joined = _joined(parts[-1], x, axis)
        parts[-1:] = [joined] if joined is not None else [parts[-1], x]
    return value("concatenate", *parts, axis=axis) if len(parts) < len(op.operands) else None


@rule("concatenate")
def join_steps(op: Op) -> Any:
    """concatenate(reshape(x[0]), reshape(x[1]), ...) -> transpose(reshape(x))        x[i]: one element of a dim"""
    axis, parts = op.attrs["axis"], [maker(x, "reshape") for x in op.operands]
    slices = [None if part is None else maker(part.operands[0], "slice") for part in parts]
    first, *others = (None if each is None else box_of(each) for each in slices)
    if first is None or not others or slices[0] is None or op.operands[0].type.shape[axis] != 1:
        return None
    base, shape = slices[0].operands[0], op.operands[0].type.shape
    if any(each is None or each.operands[0] is not base for each in slices):
        return None
    moved = [d for d in range(base.type.rank) if any(b is None or b.starts[d] != first.starts[d] for b in others)]
    alike = all(b is not None and (b.sizes, b.steps) == (first.sizes, first.steps) for b in others)
    if not alike or len(moved) != 1 or first.sizes[moved[0]] != 1 or any(x.type.shape != shape for x in op.operands):
        return None
    (dim,), count, rank = moved, len(parts), base.type.rank
    whole = value("concatenate", *(part.operands[0] for part in parts if part is not None), axis=dim)
    ahead = value("transpose", whole, perm=(dim, *(d for d in range(rank) if d != dim)))
    rows = value("reshape", ahead, shape=(count, *shape[:axis], *shape[axis + 1 :]))
    return value("transpose", rows, perm=(*range(1, axis + 1), 0, *range(axis + 1, len(shape))))


def _joined(x: Value, y: Value, axis: int) -> Value | None:
    first, second = maker(x, "slice"), maker(y, "slice")
    if first is None or second is None or first.operands[0] is not second.operands[0]:
        return _joined_numbers(x, y, axis)
    a, b = box_of(first), box_of(second)
    # One element goes with any step, two elements next to each other with one of their own.
    step = a.steps[axis] if a.sizes[axis] > 1 else b.steps[axis]
    if a.sizes[axis] == b.sizes[axis] == 1 and b.starts[axis] == a.starts[axis] - 1:
        step = -1
    if (b.sizes[axis] > 1 and b.steps[axis] != step) or a.starts[axis] + step * a.sizes[axis] != b.starts[axis]:
        return None
    sizes = (*a.sizes[:axis], a.sizes[axis] + b.sizes[axis], *a.sizes[axis + 1 :])
    steps = (*a.steps[:axis], step, *a.steps[axis + 1 :])
    others = (*b.starts[:axis], a.starts[axis], *b.starts[axis + 1 :])
    alike = all(
        s == t or n == 1 for k, (s, t, n) in enumerate(zip(a.steps, b.steps, a.sizes, strict=True)) if k != axis
    )
    return Box(a.starts, sizes, steps).of(first.operands[0]) if alike and others == a.starts else None


def _joined_numbers(x: Value, y: Value, axis: int) -> Value | None:
    first, second = maker(x, "full"), maker(y, "full")
    if first is None or second is None or repr(number(x)) != repr(number(y)):
        return None
    shape = x.type.shape
    size = shape[axis] + y.type.shape[axis]
    return value("full", **{**first.attrs, "shape": (*shape[:axis], size, *shape[axis + 1 :])})


@rule("pad")
def pad_nothing(op: Op) -> Any:
    """pad(x, 0) -> x"""
    return None if any(op.attrs["low"]) or any(op.attrs["high"]) else op.operands[0]


@rule("pad")
def pad_of_pad(op: Op) -> Any:
    """pad(pad(x, a, c), b, c) -> pad(x, a + b, c)"""
    inner = maker(op.operands[0], "pad")
    if inner is None or repr(inner.attrs["value"]) != repr(op.attrs["value"]):
        return None
    low, high = (
        tuple(a + b for a, b in zip(inner.attrs[side], op.attrs[side], strict=True)) for side in ("low", "high")
    )
    return value("pad", inner.operands[0], low=low, high=high, value=op.attrs["value"])


@rule("pad")
def pad_number(op: Op) -> Any:
    """pad(full(c), c) -> full(c)"""
    inner = maker(op.operands[0], "full")
    if inner is None or repr(inner.attrs["value"]) != repr(op.attrs["value"]):
        return None
    return value("full", **{**inner.attrs, "shape": op.result.type.shape})
