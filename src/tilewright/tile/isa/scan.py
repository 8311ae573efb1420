"""Scans of the Vector engine along the free dim: tensor_tensor_scan, tensor_scalar_cumulative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.target import Target
from tilewright.tile.accumulator import begin, keep
from tilewright.tile.alu import ALU, ARITHMETIC, BINARY_ARITHMETIC, IDENTITIES, apply, are_numbers, as_float
from tilewright.tile.attrs import alu, enum, flag, reduce_cmd
from tilewright.tile.common import column, dtype_in, not_both_psum, same_layout
from tilewright.tile.isa.elementwise import on_vector
from tilewright.tile.isa.tensor_scalar import newer_unary, number_or_column
from tilewright.tile.record import MISSING, Call, Verdict, check, instr, result, source
from tilewright.tile.streaming import at_rate

# Operators that give the same bits in any association of two neighbours: maxima and minima of more than one thing.
_LATTICE = ("maximum", "minimum")
_COMMUTATIVE = ("add", "multiply", *_LATTICE)


@instr(
    nki="dst data0 data1 initial op0 op1 reverse0 reverse1 name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "data0": source("R-err-unsupported_memory-01"),
        "data1": source("R-err-unsupported_memory-01"),
        "initial": source("R-err-unsupported_memory-01", number=True, layout="column"),
    },
    attrs={
        "op0": alu("R-tensor_tensor_scan-03", allowed=BINARY_ARITHMETIC),
        "op1": alu("R-tensor_tensor_scan-03", allowed=BINARY_ARITHMETIC),
        "reverse0": flag(),
        "reverse1": flag(),
    },
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(
        same_layout("R-tensor_tensor_scan-01", "data0", "data1", "dst"),
        not_both_psum("R-tensor_tensor_scan-02", "data0", "data1"),
        column("R-tensor_tensor_scan-04", "initial", "data0"),
    ),
    flow="lanes",
    cost=lambda call: at_rate(call, "scan"),
    coincides={"dst": ("data0", "data1", "initial")},
)
def tensor_tensor_scan(
    data0: np.ndarray, data1: np.ndarray, initial: Any, op0: str, op1: str, reverse0: bool, reverse1: bool
) -> np.ndarray:
    """dst[p, f] = op1(op0(data0[p, f], dst[p, f-1]), data1[p, f]) in float32, with dst[p, -1] = initial[p]"""
    x, y = as_float(data0), as_float(data1)
    start = np.broadcast_to(as_float(initial), (len(x), 1)).astype(np.float32)
    if op0 == op1 and op0 in _LATTICE:
        return accumulated(op0, start, ALU[op0].apply(x, y))
    numbers = are_numbers(x) and are_numbers(y)
    if op0 == "multiply" and op1 in _COMMUTATIVE and numbers and (x == 1).all():
        return accumulated(op1, start, y)
    # One step per place, on all partitions at once: rows of the transposed arrays are contiguous.
    steps0, steps1 = x.T.copy(), y.T.copy()
    out = np.empty_like(steps0)
    last, between = start[:, 0], np.empty_like(start[:, 0])
    first, second = ALU[op0].apply, ALU[op1].apply
    if isinstance(first, np.ufunc) and isinstance(second, np.ufunc) and numbers:
        for x, y, into in zip(steps0, steps1, out, strict=True):
            first(*((last, x) if reverse0 else (x, last)), out=between)
            last = second(*((y, between) if reverse1 else (between, y)), out=into)
        return out.T
    for x, y, into in zip(steps0, steps1, out, strict=True):
        into[...] = apply(op1, apply(op0, x, last, reverse0), y, reverse1)
        last = into
    return out.T


def accumulated(op: str, start: np.ndarray, x: np.ndarray) -> np.ndarray:
    """op(... op(op(start, x[:, 0]), x[:, 1]) ...), every partial result, in this order."""
    ufunc = ALU[op].reduce
    assert ufunc is not None
    return ufunc.accumulate(np.concatenate([start, x], axis=1), axis=1)[:, 1:]


# tensor_scalar_cumulative

CUMULATIVE = ("add", "subtract", "multiply", "maximum", "minimum")
CUMULATIVE_DTYPES = (
    *("bfloat16", "float16", "float32"),
    *("float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e3m4"),
    *("uint8", "uint16", "int8", "int16"),
)


@check("R-tensor_scalar_cumulative-04")
def cumulative_command(call: Call) -> Verdict:
    allowed = ("reset_reduce", "load_reduce", "reduce")
    if call.reduce_cmd not in allowed:
        return f"reduce_cmd={call.reduce_cmd} is not one of {', '.join(allowed)}"
    if call.reduce_cmd == "load_reduce" and call.imm1 is None:
        return "reduce_cmd=load_reduce needs imm1"
    return None


@check("R-tensor_scalar_cumulative-01")
def operand_fits(call: Call) -> Verdict:
    if call.imm0 is None and not ALU[call.op0].unary:
        return f"op0={call.op0} needs imm0"
    return None


@instr(
    nki="dst src op0 op1 imm0 imm1 reduce_cmd name",
    operands={
        "dst": result("R-err-unsupported_memory-01", indirect=True),
        "src": source("R-err-unsupported_memory-01", defined=True, indirect=True),
        "imm0": source(
            "R-err-unsupported_memory-01", number=True, optional=True, layout="column", defined=True, default=MISSING
        ),
        "imm1": source("R-err-unsupported_memory-01", number=True, optional=True, layout="column", defined=True),
    },
    attrs={
        "op0": alu("R-tensor_scalar_cumulative-01", allowed=ARITHMETIC),
        "op1": alu("R-tensor_scalar_cumulative-01", allowed=CUMULATIVE),
        "reduce_cmd": enum(reduce_cmd, "reset_reduce"),
    },
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(
        same_layout("R-engine-05", "src", "dst"),
        dtype_in("R-tensor_scalar_cumulative-02", "src", CUMULATIVE_DTYPES),
        dtype_in("R-tensor_scalar_cumulative-02", "dst", CUMULATIVE_DTYPES),
        column("R-tensor_scalar_cumulative-03", "imm0", "src"),
        column("R-tensor_scalar_cumulative-03", "imm1", "src"),
        dtype_in("R-tensor_scalar_cumulative-03", "imm0", ("float32",)),
        dtype_in("R-tensor_scalar_cumulative-03", "imm1", ("float32",)),
        cumulative_command,
        operand_fits,
        newer_unary("op0"),
    ),
    flow="elementwise",
    cost=lambda call: at_rate(call, "cumulative"),
    coincides={"dst": ("src", "imm0", "imm1")},
    dynamic_rules=("R-tensor_scalar_cumulative-05",),
)
def tensor_scalar_cumulative(
    src: np.ndarray,
    imm0: Any,
    imm1: Any,
    op0: str,
    op1: str,
    reduce_cmd: str,
    state: dict[str, Any],
    target: Target,
    lane: int,
    report: Callable[..., None],
) -> np.ndarray:
    """dst[p, f] = op1(op0(src[p, f], imm0[p]), dst[p, f-1]), with dst[p, -1] = the lane's register, kept afterwards"""
    x = apply(op0, as_float(src), number_or_column(imm0))
    start = begin(state, target, lane, len(x), reduce_cmd, report, imm1, identity=IDENTITIES[op1])
    if op1 == "subtract":
        out = np.empty_like(x)
        last = start[:, 0]
        for place in range(x.shape[1]):
            last = out[:, place] = x[:, place] - last
    else:
        out = accumulated(op1, start, x)
    keep(state, lane, out[:, -1:])
    return out
