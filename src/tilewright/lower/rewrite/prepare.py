"""Rewrites of a program that make it cheaper on this hardware, before anything is lowered.

They change the order of roundings, never the mathematics; each says how far the result may move.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from math import isfinite, prod

import numpy as np

from tilewright.dtypes import bfloat16, float32, int32
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.rewrite import Rule, rewrite, rule
from tilewright.lower.decisions import decided
from tilewright.lower.regions.checks import is_table
from tilewright.lower.regions.even import even_parts
from tilewright.lower.regions.residency import root
from tilewright.lower.regions.roles import is_sparse
from tilewright.lower.regions.tall import has_channels
from tilewright.lower.rewrite.batches import multiply_by_batch
from tilewright.lower.rewrite.counted_lines import count_in_lines
from tilewright.lower.rewrite.diagonals import pick_diagonal
from tilewright.lower.rewrite.early_terms import add_early_terms_first
from tilewright.lower.rewrite.halves import by_halves
from tilewright.lower.rewrite.joined_products import join_products
from tilewright.lower.rewrite.joined_takes import join_takes
from tilewright.lower.rewrite.long_axes import reduce_lines_first
from tilewright.lower.rewrite.naming import name_values
from tilewright.lower.rewrite.repeats import read_repeats_as_they_are
from tilewright.lower.rewrite.roundings import write_roundings
from tilewright.lower.rewrite.short_sorts import search_short_axes, sort_short_rows
from tilewright.lower.rewrite.slices import share_rows
from tilewright.lower.rewrite.small_integers import RULES as SMALL_INTEGERS
from tilewright.lower.rewrite.small_products import small_products
from tilewright.lower.rewrite.taps import sum_taps
from tilewright.lower.rewrite.unit_dims import keep_unit_dims
from tilewright.lower.rewrite.unrolled import roll_up
from tilewright.lower.rewrite.whole_products import (
    multiply_digits,
    multiply_few,
    multiply_truth,
    multiply_whole_windows,
)
from tilewright.lower.select.select import REDUCE, inverse_of
from tilewright.lower.tuning import TUNING
from tilewright.target import Target
from tilewright.tensor.build import make, value
from tilewright.tensor.intervals import Interval, interval_of
from tilewright.tensor.passes.simplify.reductions import reduce_of_transpose
from tilewright.tensor.passes.simplify.views import (
    reshape_of_reshape,
    reshape_to_itself,
    transpose_in_order,
    transpose_of_transpose,
)
from tilewright.tensor.ranges import range_of

TINY, HUGE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
_ROWWISE = ("divide", "multiply")


@rule("matmul", "matmul_wide", "matmul_split", exact=False, ulp=4)
def scale_rows_after(op: Op) -> Value | None:
    """matmul(x / c, y) -> matmul(x, y) / c            c has one number per row, and y has fewer columns than rows"""
    x, y = op.operands
    found = _row_factor(x) if x.type.dtype.is_float and _has_fewer_columns(y, x) else None
    if found is None or found[2].type.rank < op.result.type.rank:
        return None
    name, data, column = found
    return value(name, value(op.name, data, y), column)


@rule("matmul_wide", exact=False, ulp=2.0**16)
def scale_rounded_rows_after(op: Op) -> Value | None:
    """matmul_wide(cast(x / sum(x)), y) -> matmul_wide(cast(x), y) / sum(x)            x is rounded to a narrower float

    x is at most one and the greatest of each row is one: rounding it is off by no more, beside the sum of its row, than
    rounding the quotients is.
    """
    x, y = op.operands
    inner = x.producer
    if inner is None or inner.name != "cast" or len(x.uses) != 1 or op.result.type.dtype is not float32:
        return None
    found = _row_factor(inner.operands[0]) if _has_fewer_columns(y, x) else None
    if found is None or found[2].type.rank < op.result.type.rank or not _divides_by_sum(*found):
        return None
    name, data, column = found
    return value(name, value(op.name, value("cast", data, dtype=x.type.dtype), y), column)


def _divides_by_sum(name: str, data: Value, column: Value) -> bool:
    """True where rows are divided by their sums, perhaps with a small number added, or multiplied by the inverse."""
    total = column.producer
    if name == "multiply":
        one = None if total is None or total.name not in ("divide", "reciprocal") else total
        if one is None or (one.name == "divide" and one.operands[0] != 1) or not isinstance(one.operands[-1], Value):
            return False
        total = one.operands[-1].producer
    if total is not None and total.name == "add" and not isinstance(total.operands[1], Value):
        (inner,), total = total.values(), None if total.operands[1] < 0 else total
        total = total and inner.producer
    return total is not None and total.name == "sum" and total.operands[0] is data


def _has_fewer_columns(y: Value, x: Value) -> bool:
    return y.type.shape[-1] < x.type.shape[-1]


def _row_factor(x: Value) -> tuple[str, Value, Value] | None:
    """The op that made x of exponentials, these, and a number per row that they are multiplied with or divided by."""
    inner = x.producer
    if inner is None or inner.name not in _ROWWISE or len(x.uses) != 1:
        return None
    data, column = inner.operands
    if (
        inner.name == "multiply"
        and isinstance(data, Value)
        and isinstance(column, Value)
        and data.type.shape[-1:] == (1,)
    ):
        data, column = column, data
    if not isinstance(data, Value) or not isinstance(column, Value) or data.type.shape != x.type.shape:
        return None
    per_row = (
        column.type.rank == x.type.rank and column.type.shape[-1] == 1 and column.type.shape[-2] == x.type.shape[-2]
    )
    return (inner.name, data, column) if per_row and _is_at_most_one(data) else None


def _is_at_most_one(x: Value) -> bool:
    """True for exponentials of what is at most zero: their products with finite numbers are no larger than those."""
    power = x.producer
    while power is not None and power.name == "cast":
        power = power.operands[0].producer
    inner = power.operands[0].producer if power is not None and power.name == "exp" else None
    if inner is None or inner.name != "subtract" or not isinstance(inner.operands[1], Value):
        return False
    most = inner.operands[1].producer
    return most is not None and most.name == "max" and most.operands[0] is inner.operands[0]


@rule("matmul", exact=False, ulp=4)
def scale_columns_after(op: Op) -> Value | None:
    """matmul(x, cast(q) * c) -> matmul(x, cast(q)) * c            c has one number per column, q has 8 bits

    Weights that are stored in 8 bits, with a scale for each out channel, are multiplied as they are stored. Sums of x
    times q stay finite as long as x is not near the end of float32. A scale that is infinite makes a column NaN, as 0
    or two signs among many q do.
    """
    x, y = op.operands
    turn = y.producer if y.producer is not None and y.producer.name == "transpose" else None
    inner = y.producer if turn is None else turn.operands[0].producer
    if inner is None or inner.name != "multiply" or len(inner.result.uses) != 1 or len(y.uses) != 1:
        return None
    if x.type.shape[-1] < TUNING.least_scaled or op.result.type.rank < y.type.rank or y.type.dtype is not float32:
        return None
    for data, scale in (inner.operands, inner.operands[::-1]):
        if not isinstance(data, Value) or not isinstance(scale, Value) or not _has_eight_bits(data):
            continue
        column = value("reshape", scale, shape=(*(1 for _ in data.type.shape[scale.type.rank :]), *scale.type.shape))
        if turn is not None:
            data, column = (value("transpose", v, perm=turn.attrs["perm"]) for v in (data, column))
        if data.type.shape == y.type.shape and column.type.size == column.type.shape[-1] == y.type.shape[-1]:
            finite = value("add", column, value("subtract", column, column))
            return value("multiply", value(op.name, x, data), finite)
    return None


def _has_eight_bits(x: Value) -> bool:
    """True for what was cast from integers of 8 bits."""
    op = x.producer
    return op is not None and op.name == "cast" and op.operands[0].type.dtype in EIGHT_BITS


@rule("divide", exact=False, ulp=1)
def multiply_by_inverse(op: Op) -> Value | None:
    """x / number -> x * (1 / number)            the inverse is a normal float32: scales of instructions are factors"""
    x, y = op.operands
    if not isinstance(x, Value) or isinstance(y, Value) or x.type.dtype is not float32:
        return None
    name, factor, *more = inverse_of(float(y))
    return None if more or not isfinite(factor) or not factor else value(name, x, float(factor))


@rule("multiply", exact=False, ulp=1)
def multiply_numbers_first(op: Op) -> Value | None:
    """x * a * b -> x * (a * b)            of numbers; x * a is infinite only where the result is"""
    x, b = op.operands
    inner = x.producer if isinstance(x, Value) else None
    if isinstance(b, Value) or inner is None or inner.name != "multiply" or x.type.dtype is not float32:
        return None
    y, a = inner.operands
    if not isinstance(y, Value) or isinstance(a, Value) or len(x.uses) != 1 or y.type.dtype is not float32:
        return None
    first, second = abs(float(np.float32(a))), abs(float(np.float32(b)))
    kept = (first <= 1 or second >= 1) and first >= TINY and second >= TINY and TINY <= first * second < HUGE
    return value("multiply", y, float(a) * float(b)) if kept else None


NARROW = ("bfloat16", "float16", "float8_e4m3", "float8_e5m2")


@rule("matmul")
def multiply_narrow(op: Op) -> Value | None:
    """matmul(cast(x), cast(y)) -> matmul_wide(x, y)            x and y are narrower floats, cast to float32"""
    if op.result.type.dtype != "float32":
        return None
    dtypes = {_narrow_dtype(x) for x in op.operands}
    if len(dtypes) != 1 or dtypes & {None}:
        return None
    return value("matmul_wide", *(_before_cast(x) for x in op.operands))


@rule("matmul", "matmul_wide")
def widen_eight_bits(op: Op) -> Value | None:
    """matmul(x, y) -> cast(matmul_wide(bf16(x), bf16(y)))            x and y have 8 bits, all of which bfloat16 holds

    The Tensor engine turns no operands of 8 bits into what it multiplies (R-nc_transpose-06).
    """
    if not any(x.type.dtype.is_float and x.type.dtype.itemsize == 1 for x in op.values()):
        return None
    made = value("matmul_wide", *(value("cast", x, dtype=bfloat16) for x in op.values()))
    dtype = op.result.type.dtype
    return made if made.type.dtype is dtype else value("cast", made, dtype=dtype)


EIGHT_BITS = ("int8", "uint8")
"""Integers that bfloat16 holds exactly."""

VIEWS = ("transpose", "reshape", "slice", "broadcast_to")


def _narrow_dtype(x: Value, narrow: Sequence[str] = NARROW) -> str | None:
    """The element type of what was cast to float32, perhaps with other dims since."""
    op = x.producer
    if op is None or op.name not in ("cast", *VIEWS):
        return None
    (source,) = op.operands
    if op.name != "cast":
        return _narrow_dtype(source, narrow)
    return str(source.type.dtype) if x.type.dtype is float32 and source.type.dtype in narrow else None


def _before_cast(x: Value) -> Value:
    """What was cast to float32, with the dims that it has since."""
    op = x.producer
    assert op is not None
    if op.name == "cast":
        return op.operands[0]
    return value(op.name, _before_cast(op.operands[0]), **op.attrs)


@rule("matmul")
def keep_right_narrow(op: Op) -> Value | None:
    """matmul(x, cast(y)) -> matmul_split(x, y)            y is bfloat16, or has 8 bits, cast to float32

    A float32 number is the sum of three bfloat16 numbers, whose products with y float32 holds exactly.
    """
    x, y = op.operands
    found = _narrow_dtype(y, (*NARROW, *EIGHT_BITS)) if x.type.dtype == "float32" else None
    if found in EIGHT_BITS:
        return value("matmul_split", x, value("cast", _before_cast(y), dtype=bfloat16))
    return value("matmul_split", x, _before_cast(y)) if found == "bfloat16" else None


@rule("pad")
def pad_nothing(op: Op) -> Op | None:
    """pad(x) -> full(value)            x has no elements"""
    if op.operands[0].type.size:
        return None
    return make("full", shape=op.result.type.shape, dtype=op.result.type.dtype, value=op.attrs["value"])


@rule("matmul")
def contract_nothing(op: Op) -> Op | None:
    """matmul(x, y) -> full(0)            there is nothing to contract"""
    if op.operands[0].type.shape[-1]:
        return None
    return make("full", shape=op.result.type.shape, dtype=op.result.type.dtype, value=0)


@rule("matmul", "matmul_wide", "matmul_split", exact=False, ulp=4)
def multiply_elements(op: Op) -> Value | None:
    """matmul(x, y) -> sum(x * y)            a long row times a column"""
    x, y = op.operands
    k = x.type.shape[-1]
    if op.result.type.size != 1 or k <= TUNING.columns or not x.type.dtype.is_float:
        return None
    lines = (value("reshape", v, shape=(k,)) for v in (x, y))
    line = value("multiply", *(value("cast", v, dtype=float32) if v.type.dtype != "float32" else v for v in lines))
    total = value("reshape", value("sum", line, axes=(0,), keepdims=False), shape=op.result.type.shape)
    return total if op.result.type.dtype == "float32" else value("cast", total, dtype=op.result.type.dtype)


@rule("checked_index", "bounded_index")
def check_no_known_index(op: Op) -> Value | None:
    """checked_index(i) -> i            i is known to lie within the dim"""
    (index,) = op.operands
    return index if range_of(index).is_inside(0, op.attrs["size"] - 1) else None


def _order(index: Value) -> tuple[Value, Op | None]:
    """Indices before they were cast to another type of integers, and the sort that they are the order of, if any."""
    while (
        index.producer is not None
        and index.producer.name == "cast"
        and not index.producer.operands[0].type.dtype.is_float
    ):
        index = index.producer.operands[0]
    found = index.producer
    return index, found if found is not None and found.name == "topk" and index is found.results[1] else None


@rule("put_along_axis")
def put_in_an_order(op: Op) -> Value | None:
    """put_along_axis(x, topk(y)[1], part) -> take_along_axis(part, argsort(topk(y)[1]))            all of a long axis

    Every place is written once: what comes to it is found by a sort, not by looking through all for each.
    """
    x, index, part = op.operands
    index, found = _order(index)
    axis, length = op.attrs["axis"], x.type.shape[op.attrs["axis"]]
    if found is None or found.attrs["axis"] != axis or index.type.shape != x.type.shape or length < TUNING.least_order:
        return None
    if not range_of(index).is_inside(0, op.operands[1].type.dtype.max) or part.type.shape != x.type.shape:
        return None
    back = make("topk", index, k=length, axis=axis, largest=False).results[1]
    return value("take_along_axis", part, back, axis=axis)


@rule("take_along_axis")
def take_what_was_sorted(op: Op) -> Value | None:
    """take_along_axis(x, topk(x)[1]) -> topk(x)[0]            also of -x"""
    x, index = op.operands
    index, found = _order(index)
    if found is None:
        return None
    (y,), axis = found.operands, found.attrs["axis"]
    if axis != op.attrs["axis"] or not range_of(index).is_inside(0, op.operands[1].type.dtype.max):
        return None
    if x is y:
        return found.results[0]
    negated = any(
        a.producer is not None and a.producer.name == "negative" and a.producer.operands[0] is b
        for a, b in ((x, y), (y, x))
    )
    return value("negative", found.results[0]) if negated and x.type.dtype.is_float else None


def pick_from_memory(target: Target) -> Rule:
    """The rule, as it suits a target."""
    apiece = 0 if target["features.swdge_indirect"] else target["dma.swdge_indirect_block_ns"]

    @rule("take_along_axis")
    def pick_from_memory(op: Op) -> Value | None:
        """take_along_axis(x, i) -> take(reshape(x), n * [0, 1, ...] + i)        of long rows of an input, few elements

        Transfers bring what the indices say from HBM, wherever it is; where one brings no column of them, but a single
        element, only from rows that take longer to load, or that no group loads.
        """
        x, index = op.operands
        length, picked = x.type.shape[-1], index.type.shape[-1]
        rows = x.type.size // max(length, 1)
        if op.attrs["axis"] != x.type.rank - 1 or index.type.size != rows * picked or index.type.dtype is not int32:
            return None
        if not _is_given(x) or picked * TUNING.picked_of > length or not index.type.size or x.type.size > int32.max:
            return None
        loading = x.type.size * x.type.dtype.itemsize / target["dma.core_bandwidth"]
        if index.type.size * apiece > loading and not is_sparse(op):
            return None
        if not interval_of(index).is_inside(Interval(0, length - 1)):
            # Beyond a row there is another one.
            return None
        shape = (rows,) if picked == 1 else (rows, picked)
        first = value("iota", shape=(rows, *(1 for _ in shape[1:])), dtype=int32, axis=0, start=0, step=length)
        places = value("reshape", value("add", first, value("reshape", index, shape=shape)), shape=(rows * picked,))
        found = value("take", value("reshape", x, shape=(x.type.size,)), places, axis=0)
        return value("reshape", found, shape=op.result.type.shape)

    return pick_from_memory


@rule("take")
def look_numbers_up(op: Op) -> Value | None:
    """take(x, i) -> take(reshape(x), n * i + [0, 1, ...])            rows of a table that every partition may have

    Where all who read them have the dims of a row first, each of these has a table of its own.
    """
    x, index = op.operands
    count, shape = x.type.shape[0], x.type.shape[1:]
    size, rank = prod(shape), index.type.rank
    if op.attrs["axis"] != 0 or not shape or index.type.dtype is not int32 or not is_table(op):
        return None
    first = (*range(rank, rank + len(shape)), *range(rank))
    turned = all(use.name == "transpose" and tuple(use.attrs["perm"]) == first for use in op.result.uses)
    one, step = (count, 1) if turned else (1, size)
    spread = (size, *(1 for _ in range(rank))) if turned else (*(1 for _ in range(rank)), size)
    places = value("reshape", index, shape=(1, *index.type.shape) if turned else (*index.type.shape, 1))
    if step != 1:
        places = value("multiply", places, step)
    places = value(
        "add", places, value("iota", shape=spread, dtype=int32, axis=0 if turned else rank, start=0, step=one)
    )
    table = value("transpose", value("reshape", x, shape=(count, size)), perm=(1, 0)) if turned else x
    found = value("take", value("reshape", table, shape=(x.type.size,)), places, axis=0)
    if not turned:
        return value("reshape", found, shape=op.result.type.shape)
    found = value("reshape", found, shape=(*shape, *index.type.shape))
    return value("transpose", found, perm=(*range(len(shape), len(shape) + rank), *range(len(shape))))


@rule("take")
def take_along_last(op: Op) -> Value | None:
    """take(reshape(transpose(x)), i, 0) -> transpose(take(reshape(x), i, -1))            the last dims of x come first

    Elements of a row that lie far apart had better be taken along the axis as it lies in memory.
    """
    table, index = op.operands
    source = table.producer
    if source is not None and source.name == "reshape":
        source = source.operands[0].producer
    if op.attrs["axis"] != 0 or source is None or source.name != "transpose" or is_table(op):
        return None
    (x,) = source.operands
    rank, rows = x.type.rank, x.type.rank - table.type.rank + 1
    lead = rank - rows
    turned = tuple(source.attrs["perm"]) == (*range(lead, rank), *range(lead))
    if not lead or not turned or table.type.shape != (prod(x.type.shape[lead:]), *x.type.shape[:lead]):
        return None
    lines = value("reshape", x, shape=(*x.type.shape[:lead], table.type.shape[0]))
    found = value("take", lines, index, axis=lead)
    return value("transpose", found, perm=(*range(lead, found.type.rank), *range(lead)))


def _is_given(x: Value) -> bool:
    """True for an input of the program, perhaps in another shape, that nothing else reads: it need not come on chip."""
    while len(x.uses) == 1 and x.producer is not None and x.producer.name == "reshape":
        (x,) = x.producer.operands
    return len(x.uses) == 1 and x.producer is None


@rule("sum", "max", "min", "prod")
def reduce_columns_first(op: Op) -> Value | None:
    """sum(x, (0, 2)) -> sum(sum(x, 2), 0)            what follows the leading dims is more than a few numbers"""
    (x,) = op.operands
    axes = op.attrs["axes"]
    lead = next((d for d in range(x.type.rank) if d not in axes), x.type.rank)
    inner = tuple(a for a in axes if a >= lead)
    exact = x.type.dtype in ("float32", "int32", "uint32") or op.name in ("max", "min")
    if not lead or not inner or not exact or prod(x.type.shape[lead:]) <= TUNING.columns or has_channels(op):
        return None
    first = value(op.name, x, axes=inner, keepdims=True)
    done = value(op.name, first, axes=tuple(range(lead)), keepdims=True)
    return value("reshape", done, shape=op.result.type.shape)


def _lines(x: Value) -> Value | None:
    """A few rows too long for all partitions together, in parts that many can share: [..., parts, length]."""
    size = x.type.shape[-1] if x.type.rank else 1
    if size <= TUNING.longest_row or x.type.size // size >= TUNING.few_rows:
        return None
    parts = even_parts(size, TUNING.row_parts)[-1:]
    return value("reshape", x, shape=(*x.type.shape[:-1], parts[0], size // parts[0])) if parts else None


@rule("cumsum", "cumprod", exact=False, ulp=4)
def scan_parts_first(op: Op) -> Value | None:
    """cumsum(x) -> cumsum(parts of x) + what comes before each            the same rows"""
    (x,) = op.operands
    lines = _lines(x) if op.attrs["axis"] == x.type.rank - 1 and x.type.dtype == "float32" else None
    if lines is None:
        return None
    last = lines.type.rank - 1
    inner = value(op.name, lines, axis=last)
    shape = inner.type.shape
    starts, sizes, steps = (0,) * last + (shape[-1] - 1,), (*shape[:-1], 1), (1,) * len(shape)
    totals = value("reshape", value("slice", inner, starts=starts, sizes=sizes, steps=steps), shape=shape[:-1])
    running = value(op.name, totals, axis=last - 1)
    before = value("slice", running, starts=(0,) * last, sizes=(*shape[:-2], shape[-2] - 1), steps=(1,) * last)
    low, start = (*(0 for _ in shape[:-2]), 1), 0.0 if op.name == "cumsum" else 1.0
    shifted = value("pad", before, low=low, high=(0,) * last, value=start)
    column = value("reshape", shifted, shape=(*shape[:-1], 1))
    return value("reshape", value("add" if op.name == "cumsum" else "multiply", inner, column), shape=x.type.shape)


@rule("put_along_axis")
def choose_in_place(op: Op) -> Value | None:
    """put_along_axis(x, i, y) -> where(place == i, y, x)            one i for each line of what was computed"""
    (x, index, part), axis = op.operands, op.attrs["axis"]
    if index.type.shape[axis] != 1 or root(x).producer is None:
        return None
    shape = tuple(n if d == axis else 1 for d, n in enumerate(x.type.shape))
    places = value("iota", shape=shape, dtype=index.type.dtype, axis=axis, start=0, step=1)
    return value("where", value("equal", places, index), part, x)


@rule("max", "min", "sum", "prod", exact=False, ulp=4)
def combine_layers(op: Op) -> Value | None:
    """max(stack(x, y, ...)) -> maximum(maximum(x, y), ...)            along the axis of the stack"""
    joined = op.operands[0].producer
    if joined is None or joined.name != "concatenate" or op.attrs["axes"] != (joined.attrs["axis"],):
        return None
    axis, parts = joined.attrs["axis"], joined.values()
    if any(x.type.shape[axis] != 1 for x in parts) or len(parts) > TUNING.most_layers or op.result.type.rank < 2:
        return None
    if op.result.type.dtype.is_float and op.result.type.dtype is not float32 and op.name not in ("max", "min"):
        # A sum is rounded once.
        return None
    shape = op.result.type.shape
    layers = [x if x.type.shape == shape else value("reshape", x, shape=shape) for x in parts]
    return reduce(partial(value, REDUCE[op.name]), layers)


@rule("conv")
def multiply_window(op: Op) -> Value | None:
    """conv(x, w) -> matmul(x, transpose(w))            one window sees all of the input"""
    x, w = op.operands
    attrs, shape = op.attrs, x.type.shape
    if attrs["groups"] != 1 or shape[2:] != w.type.shape[2:] or any(attrs["low"]) or any(attrs["high"]):
        return None
    if not x.type.dtype.is_float or not op.result.type.size or prod(op.result.type.shape[2:]) != 1:
        return None
    size = prod(shape[1:])
    rows, columns = value("reshape", x, shape=(shape[0], size)), value("reshape", w, shape=(w.type.shape[0], size))
    product = value("matmul", rows, value("transpose", columns, perm=(1, 0)))
    return value("reshape", product, shape=op.result.type.shape)


@rule("sum", "prod", exact=False, ulp=4)
def sum_before_transpose(op: Op) -> Value | None:
    """sum(transpose(x, p), axes) -> transpose(sum(x, p[axes]))            also prod"""
    return reduce_of_transpose(op)


@rule("sum", exact=False, ulp=4)
def sum_before_shift(op: Op) -> Value | None:
    """sum(x - c) -> sum(x) - n * c            x <= 0 <= c, one number for each sum: nothing cancels"""
    (y,), axes = op.operands, op.attrs["axes"]
    inner = y.producer
    if inner is None or inner.name != "subtract" or len(y.uses) != 1 or y.type.dtype is not float32:
        return None
    x, c = inner.operands
    if not isinstance(x, Value) or x.type.shape != y.type.shape or not isinstance(c, Value):
        return None
    same = c.type.rank == y.type.rank and c.type.size * prod(y.type.shape[a] for a in axes) == y.type.size
    if not same or any(c.type.shape[a] != 1 for a in axes) or range_of(x).high > 0 or range_of(c).low < 0:
        return None
    count = float(prod(y.type.shape[a] for a in axes))
    shift = value("reshape", value("multiply", c, count), shape=op.result.type.shape)
    return value("subtract", value("sum", x, **op.attrs), shift)


RULES = (
    sum_before_shift,
    choose_in_place,
    combine_layers,
    *SMALL_INTEGERS,
    multiply_by_inverse,
    multiply_numbers_first,
    sum_before_transpose,
    multiply_window,
    multiply_whole_windows,
    check_no_known_index,
    take_what_was_sorted,
    put_in_an_order,
    pick_diagonal,
    look_numbers_up,
    take_along_last,
    transpose_of_transpose,
    transpose_in_order,
    reshape_to_itself,
    reshape_of_reshape,
    pad_nothing,
    contract_nothing,
    multiply_truth,
    multiply_few,
    multiply_digits,
    multiply_elements,
    reduce_columns_first,
    scan_parts_first,
    scale_rows_after,
    scale_rounded_rows_after,
    scale_columns_after,
    multiply_narrow,
    keep_right_narrow,
    widen_eight_bits,
)


def prepare(graph: Graph, target: Target) -> None:
    """Apply all of them, and name the values that are left."""
    write_roundings(graph)
    sum_taps(graph)
    sort_short_rows(graph, target)
    search_short_axes(graph, target)
    add_early_terms_first(graph)
    roll_up(graph, target)
    keep_unit_dims(graph)
    join_products(graph)
    multiply_by_batch(graph)
    reduce_lines_first(graph, target)
    read_repeats_as_they_are(graph)
    between, on_rows = small_products(target)
    for rules in ([between], [*RULES, pick_from_memory(target), on_rows, by_halves(target)]):
        for name in rewrite(graph, rules, inexact=True).elements():
            decided(f"rule: {name}")
    count_in_lines(graph, target)
    join_takes(graph, target)
    share_rows(graph)
    name_values(graph)
