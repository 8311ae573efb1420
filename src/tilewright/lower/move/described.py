"""Tiles of arrays that a rule describes: numbers that count along a dim, and bands of a matrix."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import DType, float32, uint8
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.regions.roles import Roles
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import device_dtype
from tilewright.lower.write.patterns import once, row_numbers
from tilewright.lower.write.views import affine, as_shape, picked, sliced
from tilewright.tensor.ranges import EXACT
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.nest.operands import Operands

DESCRIBED = ("iota", "band")


def described(e: Operands, x: Value, roles: Roles) -> View | None:
    """A tile of an array that a rule describes, or None where it has to be loaded."""
    op = x.producer
    if op is None or op.name not in DESCRIBED or roles.batch:
        return None
    shape = x.type.shape
    tall = [d for d in range(*roles.rows) if shape[d] != 1]
    if tall and e.block.per != 1:
        return None
    wide = [d for d in roles.free_dims(len(shape)) if shape[d] != 1]
    return _counted(e, op, roles, tall) if op.name == "iota" else _band(e, op, roles, tall, wide)


@decision("mask: band", if_found=True)
def _band(e: Operands, op: Op, roles: Roles, tall: list[int], wide: list[int]) -> View | None:
    """inside where low <= column - row <= high, outside elsewhere"""
    shape, attrs, block = op.result.type.shape, op.attrs, e.block
    rank = len(shape)
    if tall not in ([rank - 2], []) or wide not in ([rank - 1], []):
        return None
    if block.panel is not None and e.causal is not None and tall and (made := _diagonal(e, op)) is not None:
        return as_shape(made, (block.partitions, 1, *[1 for _ in roles.free_dims(rank)[:-1]], made.sizes[1]))
    columns = e.numbers(op.result, rank - 1)
    if block.panel is not None and e.causal is not None:
        columns = sliced(columns, 1, block.begin + block.open, block.columns - block.open)
    made = e.b.sbuf(columns.sizes, device_dtype(op.result.type.dtype), "band", depth=e.depth)
    inside, outside = float(attrs["inside"]), float(attrs["outside"])
    limits = [("greater_equal", attrs["low"]), ("less_equal", attrs["high"])]
    limits = [(name, bound) for name, bound in limits if bound is not None]
    if len(limits) == 1 and inside == 0 and _is_plain(outside, made.dtype):
        opposite = {"greater_equal": "less", "less_equal": "greater"}[limits[0][0]]
        e.select.scalars(made, columns, opposite, _edge(e, limits[0][1], bool(tall)), "multiply", outside)
    elif len(limits) == 1 and outside == 0 and _is_plain(inside, made.dtype):
        name, bound = limits[0]
        e.select.scalars(made, columns, name, _edge(e, bound, bool(tall)), "multiply", inside)
    else:
        chosen = mask(e, columns, limits, bool(tall))
        e.select.fill(made, attrs["outside"])
        other = e.b.sbuf(made.sizes, made.dtype, "inside", depth=e.depth)
        e.select.fill(other, attrs["inside"])
        e.b.op("tensor_copy_predicated", made, other, chosen)
    free = roles.free_dims(rank)
    return as_shape(made, (block.partitions, 1, *[1 for _ in free[:-1]], columns.sizes[1]))


def _diagonal(e: Operands, op: Op) -> View | None:
    """A band near the diagonal that is the same all along it."""
    attrs, block = op.attrs, e.block
    limits = [(name, attrs[key]) for name, key in (("greater_equal", "low"), ("less_equal", "high"))]
    limits = [(name, bound) for name, bound in limits if bound is not None]
    width, dtype = block.columns - block.open, device_dtype(op.result.type.dtype)
    if len(limits) != 1 or attrs["outside"] != 0 or not _is_plain(float(attrs["inside"]), dtype):
        return None
    return near_diagonal(e, block.begin + block.open, width, *limits[0], float(attrs["inside"]), dtype)


@decision("mask: near the diagonal", if_found=True)
def near_diagonal(
    e: Operands, first: int, width: int, name: str, bound: float, inside: float, dtype: DType
) -> View | None:
    """A number for each of some columns that a comparison of how far it is ahead of its row leaves, 0 for others: made
    once for all blocks of the kind, where that is little."""
    block, lanes = e.block, e.lanes
    if block.place is None:
        return None
    place, count = block.place
    if count * width * dtype.itemsize > TUNING.piece_bytes or not prod(e.group.batch) > 1:
        return None
    # What the first column of the first block's rows is ahead of them.
    ahead = affine(block.start) + affine(place) * -lanes + -first
    assert not ahead.terms

    def make() -> View:
        # By how much the column's number is ahead of the row's.
        numbers = e.b.sbuf((lanes, count, width), float32, "numbers")
        pattern = ((-lanes, count), (1, width))
        e.b.op("iota", numbers, pattern=pattern, offset=-ahead.const, channel_multiplier=-1)
        made = e.b.sbuf(numbers.sizes, dtype, "band")
        e.select.scalars(made, numbers, name, float(bound), "multiply", inside)
        return made

    key = ("diagonal", name, bound, inside, dtype, count, width, ahead.const)
    return picked(once(e.low, key, make), 1, place)


def _is_plain(number: float, dtype: DType) -> bool:
    """True for a number that times zero is zero, and that engines compute with as it is."""
    return abs(number) < float("inf") if dtype.is_float else abs(number) <= EXACT


def _edge(e: Operands, bound: int, has_rows: bool) -> View:
    """The row's number plus a bound, for each partition."""
    edge = e.b.sbuf((e.block.partitions, 1), float32, "edge", depth=e.depth)
    if not has_rows:
        e.select.fill(edge, float(bound))
        return edge
    numbers = row_numbers(e.low, e.group.rows)
    here = sliced(sliced(numbers, 1, e.block.number, 1), 0, 0, e.block.partitions)
    e.select.scalars(edge, here, "add", float(bound))
    return edge


def mask(e: Operands, columns: View, limits: list[tuple[str, int]], has_rows: bool) -> View:
    """1 inside of the band, 0 outside."""
    made = e.b.sbuf(columns.sizes, uint8, "mask", depth=e.depth)
    if not limits:
        e.select.fill(made, 1)
        return made
    name, bound = limits[0]
    e.select.scalars(made, columns, name, _edge(e, bound, has_rows))
    for name, bound in limits[1:]:
        attrs = {"op0": name, "op1": "multiply", "reverse0": False, "reverse1": False}
        e.b.op("scalar_tensor_tensor", made, columns, _edge(e, bound, has_rows), made, **attrs)
    return made


@decision("places: counted", if_found=True)
def _counted(e: Operands, op: Op, roles: Roles, tall: list[int]) -> View | None:
    """start + step * place along the axis"""
    shape, attrs, block = op.result.type.shape, op.attrs, e.block
    axis, start, step = attrs["axis"], float(attrs["start"]), float(attrs["step"])
    dtype, last = device_dtype(op.result.type.dtype), abs(step) * shape[axis]
    if dtype.is_integer and last + abs(start) > EXACT:
        return None
    free = roles.free_dims(len(shape))
    if shape[axis] == 1:
        made = e.b.sbuf((block.partitions, 1), dtype, "iota", depth=e.depth)
        e.select.fill(made, attrs["start"])
        return as_shape(made, (block.partitions, 1, *[1 for _ in free]))
    if axis in free:
        numbers = e.numbers(op.result, axis)
        sizes = [numbers.sizes[1] if d == axis else 1 for d in free]
    elif tall == [axis]:
        table = row_numbers(e.low, e.group.rows)
        numbers = sliced(sliced(table, 1, block.number, 1), 0, 0, block.partitions)
        sizes = [1 for _ in free]
    else:
        return None
    if (step, start, dtype) == (1, 0, float32):
        return as_shape(numbers, (block.partitions, 1, *sizes))
    made = e.b.sbuf(numbers.sizes, dtype, "iota", depth=e.depth)
    e.select.scalars(made, numbers, "multiply", step, "add", start)
    return as_shape(made, (block.partitions, 1, *sizes))
