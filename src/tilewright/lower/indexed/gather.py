"""Rows by run-time indices: taken, put and combined, by transfers that take a column of indices.

    take      out[i] = x[index[i]]        one transfer per 128 rows, from HBM to where the result lives
    put_rows  out[index[i]] = part[i]     a copy, then the rows over it; of equal indices the last wins

Within one transfer the order of rows is open, between transfers it is not. So rows with equal indices in a block of 128
all send the last one of them: whichever comes last, the result is the same.
A target without indirect transfers moves row by row, each by an index of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from tilewright.dtypes import float32, uint32
from tilewright.ir.core import Op, Value
from tilewright.lower.decisions import decision
from tilewright.lower.indexed.column_tables import columns_ns, take_by_columns
from tilewright.lower.indexed.indices import (
    Columns,
    chosen_row,
    chosen_rows,
    columns,
    is_distinct,
    lines,
    table_of,
)
from tilewright.lower.indexed.table_parts import parts_ns, take_by_parts
from tilewright.lower.indexed.taken_lines import take_on_chip
from tilewright.lower.move.copy import by_block
from tilewright.lower.move.join import copied_to_update, result_in_hbm
from tilewright.lower.move.parts import Part
from tilewright.lower.move.together import put_together
from tilewright.lower.regions.checks import known_windows
from tilewright.lower.tuning import TUNING
from tilewright.lower.write.homes import Chip, Hbm, device_dtype
from tilewright.lower.write.patterns import column_numbers, identity
from tilewright.lower.write.views import (
    At,
    affine,
    broadcast,
    expanded,
    merged,
    permuted,
    picked,
    sliced,
    windowed,
)
from tilewright.tensor.ranges import EXACT
from tilewright.tile.view import View

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering


def take(low: Lowering, op: Op) -> None:
    """x at indices along an axis."""
    x, index = op.operands
    if not op.result.type.size:
        result_in_hbm(low, op)
    elif (ranges := _ranges(index)) and isinstance(home := low.home(x), Hbm):
        _take_ranges(low, op, home.view, ranges)
    elif (windows := _windows(low, op)) is not None:
        low.homes[op.result] = Hbm(windows)
    elif (looked_up := _by_table(low, op)) is not None:
        looked_up(low, op)
    elif not take_on_chip(low, op):
        table = _first(table_of(low, x, op.attrs["axis"]), op.attrs["axis"], 1)
        if _is_read_later(low, op) and _into_chip(low, op, table):
            return
        out = _first(result_in_hbm(low, op), op.attrs["axis"], index.type.rank)
        _rows(low, index, table, out)


def _by_table(low: Lowering, op: Op) -> Callable[[Lowering, Op], None] | None:
    """What brings the table to where it is looked up in, if that takes less time than to fetch every row."""
    count, target = op.operands[1].type.size, low.target
    blocks = -(-count // target["limits.partitions"]) if target["features.swdge_indirect"] else count
    rows = blocks * target["dma.swdge_indirect_block_ns"]
    parts, columns = parts_ns(low, op), columns_ns(low, op)
    if min(parts, columns) >= rows:
        return None
    return take_by_parts if parts <= columns else take_by_columns


@decision("take: windows", if_found=True)
def _windows(low: Lowering, op: Op) -> View | None:
    """x at known indices that are windows of it, a + s i + t j: read from HBM as they lie there, one over the other."""
    found = known_windows(op)
    if found is None:
        return None
    (x, index), axis = op.operands, op.attrs["axis"]
    first, steps = found
    return windowed(table_of(low, x, axis), axis, first, index.type.shape, steps)


def _ranges(index: Value) -> list[range]:
    """Known indices as a few ranges, or none where there are many."""
    op = index.producer
    if op is None or op.name != "constant" or index.type.rank != 1:
        return []
    numbers: list[int] = op.attrs["value"].array.tolist()
    made: list[range] = []
    while numbers and len(made) < TUNING.most_ranges:
        first, step = numbers[0], numbers[1] - numbers[0] if len(numbers) > 1 else 0
        longest = range(first, first + len(numbers) * step, step) if step else range(first, first + 1)
        count = next((i for i, (a, b) in enumerate(zip(numbers, longest, strict=False)) if a != b), len(longest))
        made.append(longest[:count])
        numbers = numbers[count:]
    return made if not numbers and all(min(some) >= 0 for some in made) else []


@decision("take: ranges")
def _take_ranges(low: Lowering, op: Op, x: View, ranges: list[range]) -> None:
    """x at a few ranges of indices: a join of its parts."""
    axis, at = op.attrs["axis"], 0
    parts: list[Part] = []
    for some in ranges:
        start = tuple(at if d == axis else 0 for d in range(x.ndim))
        parts.append(Part(sliced(x, axis, some[0], len(some), some.step), start, (1,) * x.ndim))
        at += len(some)
    put_together(low, result_in_hbm(low, op), parts)


def _first(view: View, axis: int, count: int) -> View:
    """The dims from an axis on, merged, before all others, which are merged as far as they go."""
    order = (*range(axis, axis + count), *range(axis), *range(axis + count, view.ndim))
    view = permuted(view, order)
    if count == 0:
        return expanded(view, 0)
    made = merged(view, 0, count - 1)
    assert made is not None, "a result lies in HBM without gaps"
    return made


def _tight(one: View, two: View) -> tuple[View, View]:
    """Both with the dims after the first merged where both allow it."""
    d = 1
    while d + 1 < one.ndim:
        a, b = merged(one, d, d + 1), merged(two, d, d + 1)
        one, two, d = (one, two, d + 1) if a is None or b is None else (a, b, d)
    return one, two


@decision("take: rows by transfer")
def _rows(low: Lowering, index: Value, table: View, out: View) -> None:
    """out[i, ...] = table[index[i], ...], both in HBM."""
    table, out = _tight(table, out)
    b = low.b
    if not low.target["features.swdge_indirect"]:
        for at, numbers in lines(low, index):
            with b.loop(numbers.sizes[1], "i") as i:
                b.op("dma_copy", _held(picked(out, 0, affine(at) + i)), chosen_row(table, sliced(numbers, 1, i, 1)))
        return
    for part in columns(low, index, in_blocks=False):
        with b.loop(part.width, "j") as j:
            b.op("dma_copy", _rows_of(out, part, j), chosen_rows(table, part.column(j)))


def _held(view: View) -> View:
    """A view of one element keeps a dim."""
    return view if view.ndim else expanded(view, 0)


def _rows_of(view: View, part: Columns, j: At) -> View:
    """The rows of a tensor that belong to a column of indices."""
    return sliced(view, 0, affine(j) * part.across + part.start, part.tile.sizes[0], part.down)


def _is_read_later(low: Lowering, op: Op) -> bool:
    return any(use is not low.program.output_op for use in op.result.uses)


@decision("take: into chip", if_found=True)
def _into_chip(low: Lowering, op: Op, table: View) -> bool:
    """The rows to where they stay on chip, if there is room."""
    value, index, axis = op.result, op.operands[1], op.attrs["axis"]
    count, lanes = index.type.size, low.target["limits.partitions"]
    rest, dtype = table.sizes[1:], device_dtype(value.type.dtype)
    blocks = -(-count // lanes)
    size = blocks * prod(rest) * dtype.itemsize
    if size > low.room() or len(rest) > 3:
        return False
    view = low.b.sbuf((min(count, lanes), blocks, *rest), dtype, value.name or "taken")
    if not low.target["features.swdge_indirect"]:
        for at, numbers in lines(low, index):
            here = -(-numbers.sizes[1] // lanes)
            _singly(low, numbers, table, sliced(view, 1, by_block(at, lanes), here))
    else:
        for part in columns(low, index, in_blocks=True):
            with low.b.loop(part.width, "j") as j:
                into = sliced(picked(view, 1, affine(j) + part.start // lanes), 0, 0, part.tile.sizes[0])
                low.b.op("dma_copy", into, chosen_rows(table, part.column(j)))
    low.homes[value] = Chip(view, value.type.shape, (axis, axis + index.type.rank))
    low.resident[value] = size
    return True


@decision("take: one by one")
def _singly(low: Lowering, numbers: View, table: View, view: View) -> None:
    """Row by row into [lanes, blocks, ...]."""
    lanes, count = view.sizes[0], numbers.sizes[1]

    def row(block: At, i: At) -> None:
        at = affine(block) * lanes + affine(i)
        low.b.op("dma_copy", sliced(picked(view, 1, block), 0, i, 1), chosen_row(table, sliced(numbers, 1, at, 1)))

    whole, left = divmod(count, lanes)
    if whole:
        with low.b.loop(whole, "j") as j, low.b.loop(lanes, "i") as i:
            row(j, i)
    if left:
        with low.b.loop(left, "i") as i:
            row(whole, i)


# Putting.


def put_rows(low: Lowering, op: Op) -> None:
    """A copy of x with rows of the part at indices."""
    x, index, part = op.operands
    out = copied_to_update(low, op)
    if not part.type.size:
        return
    into, rows = _tight(out, low.in_hbm(part))
    if not low.target["features.swdge_indirect"] or x.type.shape[0] > EXACT:
        for at, numbers in lines(low, index):
            with low.b.loop(numbers.sizes[1], "i") as i:
                row = _held(picked(rows, 0, affine(at) + i))
                low.b.op("dma_copy", chosen_row(into, sliced(numbers, 1, i, 1)), row)
        return
    if is_distinct(index):
        for group in columns(low, index, in_blocks=False):
            with low.b.loop(group.width, "j") as j:
                low.b.op("dma_copy", chosen_rows(into, group.column(j)), _rows_of(rows, group, j))
        return
    # Rows of the part are chosen too.
    into, rows = _tight(out, table_of(low, part))
    for group in columns(low, index, in_blocks=True):
        _put_last(low, group, into, rows)


@decision("put: the last of equal rows")
def _put_last(low: Lowering, group: Columns, into: View, rows: View) -> None:
    """Blocks of rows, in each the last of those with equal indices in place of all of them."""
    b, height = low.b, group.tile.sizes[0]
    numbers = b.sbuf(group.tile.sizes, float32, "numbers")
    b.op("tensor_copy", numbers, group.tile)
    unit = sliced(sliced(identity(low, float32), 0, 0, height), 1, 0, height)
    ramp = sliced(sliced(column_numbers(low, height), 0, 0, height), 1, 0, height)
    width = prod(rows.sizes[1:])
    step = max(1, TUNING.tile_bytes // rows.dtype.itemsize)
    with b.loop(group.width, "j") as j:
        own = sliced(numbers, 1, j, 1)
        others = b.psum((height, height), float32, "others", depth=2)
        # [p, i] = index i, on every partition
        wide = broadcast(own, (height, height))
        b.op("nc_matmul", others, wide, unit, is_transpose=True, is_moving_onezero=True)
        equal = b.sbuf((height, height), float32, "equal", depth=2)
        b.op("scalar_tensor_tensor", equal, others, own, ramp, op0="equal", op1="multiply")
        last = b.sbuf((height, 1), uint32, "last", depth=2)
        b.op("tensor_reduce", last, equal, op="maximum", axis=(1,))
        block = sliced(rows, 0, affine(j) * group.across + group.start, height)
        for at in range(0, width, step) if rows.ndim == 2 else (0,):
            source, target = block, into
            if rows.ndim == 2 and width > step:
                source, target = (sliced(v, 1, at, min(step, width - at)) for v in (block, into))
            tile = b.sbuf(source.sizes if source.ndim > 1 else (height, 1), rows.dtype, "rows", depth=2)
            b.op("dma_copy", tile, chosen_rows(source, last))
            b.op("dma_copy", chosen_rows(target, group.column(j)), tile)
