"""Reductions: of the Vector engine over free dims, of GpSimd over partitions."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.target import Target
from tilewright.tile.accumulator import accumulate
from tilewright.tile.alu import (
    ALU,
    ARITHMETIC,
    IDENTITIES,
    REDUCTIONS,
    apply,
    as_float,
    from_pattern,
    note_rounding,
    pattern,
)
from tilewright.tile.attrs import alu, enum, flag, integers, reduce_cmd
from tilewright.tile.common import bitvec_integers, column, dtype_in, same_layout, same_partitions
from tilewright.tile.cost import elements, gpsimd
from tilewright.tile.isa.elementwise import on_vector
from tilewright.tile.isa.tensor_scalar import newer_unary, number_or_column, operand_of_unary
from tilewright.tile.memory import SBUF
from tilewright.tile.record import MISSING, Call, Cost, Verdict, check, instr, result, source
from tilewright.tile.streaming import at_rate, half_floats

# tensor_reduce


def reduced_from(ndim: int, axis: tuple[int, ...]) -> int | None:
    """The first reduced dim, or None when the axes are not the last free dims."""
    if not axis or not all(-ndim <= each < ndim for each in axis):
        return None
    if axis == (1,):
        return ndim - 1  # of a tile with more dims: as NKI 0.2 read it, R-tensor_reduce-08
    axes = sorted(each % ndim for each in axis)
    return axes[0] if axes[0] > 0 and axes == list(range(axes[0], ndim)) else None


@check("R-tensor_reduce-01")
def last_free_dims(call: Call) -> Verdict:
    ndim = call.data.ndim
    if reduced_from(ndim, call.axis) is not None:
        return None
    choices = " or ".join(str(tuple(range(first, ndim))) for first in range(ndim - 1, 0, -1))
    return (
        f"axis={call.axis} of a {ndim}-D tile: only the last free dims can be reduced, without gaps: {choices}",
        "permute the free dims with a view, or reduce partitions with nc_matmul or nc_transpose",
    )


@check("R-tensor_reduce-08")
def real_dims(call: Call) -> Verdict:
    ndim = call.data.ndim
    if ndim == 2 or call.axis != (1,):
        return None
    return (
        f"axis={call.axis} of a {ndim}-D tile is not its last dim, as it was in NKI 0.2",
        f"write axis={ndim - 1} to reduce the last dim, axis={tuple(range(1, ndim))} to reduce all free dims",
    )


@check("R-tensor_reduce-04")
def negate_arithmetic(call: Call) -> Verdict:
    return f"negate with {call.op}, which works on bit patterns" if call.negate and ALU[call.op].bitvec else None


@check("R-tensor_reduce-06")
def reduced_elements(call: Call) -> Verdict:
    first = reduced_from(call.data.ndim, call.axis)
    if first is None:
        return None
    kept = prod(call.data.sizes[1:first])
    if call.dst.free == kept:
        return None
    shape = list(call.data.sizes)
    return f"dst has {call.dst.free} elements per partition; reducing {shape} over {call.axis} gives {kept}"


def tensor_reduce_cost(call: Call) -> Cost:
    """N cycles; half for sums and maxima of 16-bit floats."""
    fast = half_floats(call.data, call.dst) and call.op in ("add", "maximum")
    return at_rate(call, "reduce_16bit" if fast else "one_input", "reduce")


@instr(
    nki="dst op data axis negate keepdims name",
    operands={
        "dst": result("R-tensor_reduce-07", indirect=True),
        "data": source("R-tensor_reduce-07", layout="full", indirect=True),
    },
    attrs={
        "op": alu("R-tensor_reduce-02", allowed=REDUCTIONS),
        "axis": integers(),
        "negate": flag(),
        "keepdims": flag(),
    },
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(
        last_free_dims,
        real_dims,
        same_partitions("R-tensor_reduce-05", "data", "dst"),
        reduced_elements,
        bitvec_integers("R-tensor_reduce-03", "data", "dst"),
        negate_arithmetic,
    ),
    flow="lanes",
    cost=tensor_reduce_cost,
    coincides={"dst": ("data",)},
    folds=("data",),
)
def tensor_reduce(data: np.ndarray, op: str, axis: tuple[int, ...], negate: bool, dtype: DType) -> np.ndarray:
    """dst[p, i...] = op over the dims `axis` of data[p, i..., j...], times -1 if negate; keepdims keeps them, size 1"""
    first = reduced_from(data.ndim, axis)
    assert first is not None, "other axes are refused"
    rows = data.reshape(data.shape[0], prod(data.shape[1:first]), -1)
    if ALU[op].bitvec:
        return from_pattern(reduce_last(op, pattern(rows, rows.dtype.itemsize)), dtype)
    computed = reduce_last(op, as_float(rows))
    note_rounding(computed, dtype, data)
    return -computed if negate else computed


def reduce_last(op: str, x: np.ndarray) -> np.ndarray:
    """An operator over the last dim, in the dtype of its input."""
    ufunc = ALU[op].reduce
    assert ufunc is not None, f"{op} is no reduction"
    if op.startswith("logical"):
        return ufunc.reduce(x != 0, axis=-1).astype(x.dtype)
    return ufunc.reduce(x, axis=-1, dtype=x.dtype)


# tensor_partition_reduce

PARTITION_REDUCTIONS = ("add", "average", "maximum", "bitwise_or", "bitwise_and")


@check("R-tensor_partition_reduce-03")
def one_row(call: Call) -> Verdict:
    if call.dst.partitions == 1 and call.dst.free == call.data.free:
        return None
    dst, data = list(call.dst.sizes), list(call.data.sizes)
    return f"dst is {dst}; reducing the partitions of {data} gives (1, {call.data.free})"


@instr(
    nki="dst op data name",
    operands={
        "dst": result("R-tensor_partition_reduce-02", (SBUF,)),
        "data": source("R-tensor_partition_reduce-02", (SBUF,), defined=True),
    },
    attrs={"op": alu("R-tensor_partition_reduce-01", allowed=PARTITION_REDUCTIONS)},
    engines=("gpsimd",),
    engine=lambda call: "gpsimd",
    since=2,
    rules=(one_row, bitvec_integers("R-engine-11", "data", "dst")),
    flow="elementwise",
    cost=lambda call: gpsimd(call, "partition_reduce", elements(call)),
    coincides={"dst": ("data",)},
)
def tensor_partition_reduce(data: np.ndarray, op: str, dtype: DType) -> np.ndarray:
    """dst[0, f] = op over p of data[p, f]"""
    if op == "average":
        return as_float(data).mean(axis=0, keepdims=True, dtype=np.float32)
    columns = data.T.copy()
    if ALU[op].bitvec:
        return from_pattern(reduce_last(op, pattern(columns, data.dtype.itemsize)), dtype)
    computed = reduce_last(op, as_float(columns))
    note_rounding(computed, dtype, data)
    return computed


# tensor_scalar_reduce


@check("R-tensor_scalar_reduce-04")
def initial_with_load(call: Call) -> Verdict:
    given = call.reduce_init is not None
    if given == (call.reduce_cmd == "load_reduce"):
        return None
    what = "given" if given else "missing"
    return f"reduce_init is {what} with reduce_cmd={call.reduce_cmd}; it goes with load_reduce and only with it"


@check("R-tensor_scalar_reduce-05")
def no_reverse(call: Call) -> Verdict:
    return "reverse0 is not supported yet" if call.reverse0 else None


@check("R-tensor_scalar_reduce-06")
def reducing_command(call: Call) -> Verdict:
    allowed = ("reset_reduce", "reduce", "load_reduce")
    return None if call.reduce_cmd in allowed else f"reduce_cmd={call.reduce_cmd} is not one of {', '.join(allowed)}"


def tensor_scalar_reduce_cost(call: Call) -> Cost:
    """N cycles, and the reading of the accumulators."""
    extra = call.target["vector.reduce_result_cycles"] if call.reduce_res is not None else 0
    return at_rate(call, "one_input", "tensor_scalar", extra)


@instr(
    nki="dst data op0 operand0 reduce_op reduce_res reverse0 reduce_cmd reduce_init reduce_res_negate name",
    operands={
        "dst": result("R-err-unsupported_memory-01", indirect=True),
        "data": source("R-err-unsupported_memory-01", defined=True, indirect=True),
        "operand0": source("R-tensor_scalar-01", number=True, optional=True, layout="column", default=MISSING),
        "reduce_init": source("R-tensor_scalar_reduce-04", number=True, optional=True, layout="column", defined=True),
        "reduce_res": result("R-tensor_scalar_reduce-03", optional=True, layout="column"),
    },
    attrs={
        "op0": alu("R-tensor_scalar_reduce-01", allowed=ARITHMETIC),
        "reduce_op": alu("R-tensor_scalar_reduce-02", allowed=("add", "multiply", "maximum", "minimum")),
        "reverse0": flag(),
        "reduce_cmd": enum(reduce_cmd, "reset_reduce"),
        "reduce_res_negate": flag(),
    },
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(
        same_layout("R-tensor_scalar-09", "data", "dst"),
        column("R-tensor_scalar-01", "operand0", "data"),
        dtype_in("R-tensor_scalar-02", "operand0", ("float32",)),
        operand_of_unary("R-tensor_scalar-08"),
        newer_unary("op0"),
        column("R-tensor_scalar_reduce-03", "reduce_res", "data"),
        column("R-tensor_scalar_reduce-04", "reduce_init", "data"),
        dtype_in("R-tensor_scalar_reduce-04", "reduce_init", ("float32",)),
        reducing_command,
        initial_with_load,
        no_reverse,
    ),
    flow="elementwise",
    cost=tensor_scalar_reduce_cost,
    coincides={"dst": ("data", "operand0", "reduce_init"), "reduce_res": ("data", "operand0", "reduce_init")},
    dynamic_rules=("R-tensor_scalar_cumulative-05",),
)
def tensor_scalar_reduce(
    data: np.ndarray,
    operand0: Any,
    reduce_init: Any,
    op0: str,
    reduce_op: str,
    reduce_cmd: str,
    reduce_res_negate: bool,
    dtype: DType,
    state: dict[str, Any],
    target: Target,
    lane: int,
    report: Callable[..., None],
) -> tuple[np.ndarray, np.ndarray | None]:
    """dst[p, f] = op0(data[p, f], operand0[p]); reduce_res[p] = reduce_op over f of that, on top of the registers"""
    computed = apply(op0, as_float(data), number_or_column(operand0))
    note_rounding(computed, dtype, data)
    own = reduce_last(reduce_op, computed)[:, None]
    identity = IDENTITIES[reduce_op]
    combine = ALU[reduce_op].apply
    held = accumulate(state, target, lane, reduce_cmd, combine, own, report, reduce_init, identity=identity)
    assert held is not None
    return computed, -held if reduce_res_negate else held
