"""The Scalar engine's pipeline of scale, bias, function and reduction: activation, activation_reduce."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tilewright.target import Target
from tilewright.tile.accumulator import accumulate, reduces
from tilewright.tile.alu import ALU, IDENTITIES, activate, are_numbers, as_float
from tilewright.tile.attrs import activation_function, alu, enum, reduce_cmd
from tilewright.tile.common import column, dtype_in, same_layout
from tilewright.tile.record import MISSING, Call, Cost, Verdict, check, instr, result, source
from tilewright.tile.streaming import function_cost
from tilewright.tile.view import View

Report = Callable[..., None]


def on_scalar(call: Call) -> str:
    """Instructions that only the Scalar engine has."""
    return "scalar"


def activation_cost(call: Call) -> Cost:
    """N elements of a function; reading the accumulators takes some more."""
    extra = call.target["scalar.reduce_result_cycles"] if call.reduce_res is not None else 0
    return function_cost(call, call.op, call.data, extra)


@check("R-activation-03")
def bias_dtype(call: Call) -> Verdict:
    if isinstance(call.bias, View) and call.bias.dtype == "tfloat32":
        return "bias is tfloat32, the one dtype it cannot have", "use float32"
    return None


@check("R-activation-05")
def bias_is_column(call: Call) -> Verdict:
    if call.bias is None or isinstance(call.bias, View) or call.target["features.activation_scalar_bias"]:
        return None
    return f"bias is a number; {call.target.name} takes a (P, 1) vector", "memset a (P, 1) tile to that number"


@check("R-activation-06")
def reciprocal_bias(call: Call) -> Verdict:
    if call.op != "reciprocal" or call.bias is None or call.target["features.activation_reciprocal_bias"]:
        return None
    return f"reciprocal takes no bias on {call.target.name}", "add it with tensor_scalar first"


@check("R-activation-07")
def reduction_has_operator(call: Call) -> Verdict:
    if call.reduce_op is None and reduces(call.attrs):
        return f"reduce_cmd={call.reduce_cmd} needs reduce_op=nl.add"
    return None


INPUT_RULES = (
    same_layout("R-activation-09", "data", "dst"),
    column("R-activation-04", "bias", "data"),
    column("R-activation-04", "scale", "data"),
    dtype_in("R-activation-02", "scale", ("float32",)),
    bias_dtype,
    bias_is_column,
    reciprocal_bias,
)


def activated(op: str, data: np.ndarray, bias: Any, scale: Any, target: Target, report: Report) -> np.ndarray:
    """op(data * scale + bias) in float32."""
    x = as_float(data)
    if scale is not None and not (isinstance(scale, (int, float)) and scale == 1):
        x = x * as_float(scale)
    if bias is not None:
        x = x + as_float(bias)
    check_range(op, x, target, report)
    return activate(op, x)


@cache
def valid_range(op: str, target: Target) -> tuple[float, float] | None:
    """Where a function of the Scalar engine is valid; None: everywhere."""
    key = f"limits.activation_range.{op}"
    if key not in target:
        return None
    return target[key]


def check_range(op: str, x: np.ndarray, target: Target, report: Report) -> None:
    """Report arguments outside the documented range, where the engine's results are invalid (R-engine-09)."""
    limits = valid_range(op, target)
    if limits is None:
        return
    if not are_numbers(x):
        x.check_range(op, limits)  # type: ignore[attr-defined]
        return
    low, high = limits
    # The range of reciprocal is one of magnitudes.
    size = np.abs(x) if op == "reciprocal" else x
    outside = (size < np.float32(low)) | (size > np.float32(high))
    if outside.any():
        where = np.unravel_index(int(outside.argmax()), x.shape)
        what = "magnitudes" if op == "reciprocal" else "arguments"
        report(
            "R-engine-09",
            f"{op} of {x[where]:.6g}: {int(outside.sum())} of {x.size} {what} are outside the valid range "
            f"[{low:.6g}, {high:.6g}]",
            hint="use nl.sin, which reduces its argument first" if op == "sin" else "clip or scale the argument first",
            wrong=outside,
        )


@instr(
    nki="dst op data bias scale reduce_op reduce_res reduce_cmd name",
    operands={
        "dst": result("R-err-unsupported_memory-01", indirect=True),
        "data": source("R-err-unsupported_memory-01", defined=reduces, indirect=True),
        "bias": source("R-err-unsupported_memory-01", number=True, optional=True, layout="column"),
        "scale": source("R-err-unsupported_memory-01", number=True, optional=True, layout="column", default=1.0),
        "reduce_res": result("R-activation-08", optional=True, layout="column"),
    },
    attrs={
        "op": activation_function("R-activation-01"),
        "reduce_op": alu("R-activation-07", allowed=("add",), default=None),
        "reduce_cmd": enum(reduce_cmd, "idle"),
    },
    engines=("scalar",),
    engine=on_scalar,
    since=2,
    rules=(*INPUT_RULES, column("R-activation-08", "reduce_res", "data"), reduction_has_operator),
    flow="elementwise",
    cost=activation_cost,
    coincides={"dst": ("data", "bias", "scale"), "reduce_res": ("data", "bias", "scale")},
    survives=("reduce_res",),
    # reduce_res is written after dst, which it may alias (R-activation-10).
    dynamic_rules=("R-engine-09", "R-activation-10", "R-activation-11"),
)
def activation(
    data: np.ndarray,
    bias: Any,
    scale: Any,
    op: str,
    reduce_op: str | None,
    reduce_cmd: str,
    state: dict[str, Any],
    target: Target,
    lane: int,
    report: Report,
) -> tuple[np.ndarray, np.ndarray | None]:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]); reduce_res[p] = the registers, to which reduce_cmd adds the sum
    over f
    """
    y = activated(op, data, bias, scale, target, report)
    if reduce_op is None and reduce_cmd == "idle":
        return y, None
    sums = y.sum(axis=1, keepdims=True, dtype=np.float32)
    total = accumulate(state, target, lane, reduce_cmd, np.add, sums, report, rule="R-activation-11", idle_reads=True)
    return y, total


@check("R-activation_reduce-01")
def reduce_op_of_generation(call: Call) -> Verdict:
    if call.reduce_op == "add" or call.target["features.activation_reduce_any_op"]:
        return None
    return f"reduce_op={call.reduce_op}; on {call.target.name} it must be add"


@instr(
    nki="dst op data reduce_op reduce_res bias scale name",
    operands={
        "dst": result("R-err-unsupported_memory-01", indirect=True),
        "data": source("R-err-unsupported_memory-01", defined=True, indirect=True),
        "bias": source("R-err-unsupported_memory-01", number=True, optional=True, layout="column"),
        "scale": source("R-err-unsupported_memory-01", number=True, optional=True, layout="column", default=1.0),
        "reduce_res": result("R-activation_reduce-02", optional=True, layout="column", default=MISSING),
    },
    attrs={
        "op": activation_function("R-activation-01"),
        "reduce_op": alu("R-engine-10", allowed=("add", "multiply", "maximum", "minimum")),
    },
    engines=("scalar",),
    engine=on_scalar,
    since=2,
    rules=(*INPUT_RULES, column("R-activation_reduce-02", "reduce_res", "data"), reduce_op_of_generation),
    flow="elementwise",
    cost=activation_cost,
    coincides={"dst": ("data", "bias", "scale"), "reduce_res": ("data", "bias", "scale")},
    dynamic_rules=("R-engine-09",),
)
def activation_reduce(
    data: np.ndarray,
    bias: Any,
    scale: Any,
    op: str,
    reduce_op: str,
    state: dict[str, Any],
    target: Target,
    lane: int,
    report: Report,
) -> tuple[np.ndarray, np.ndarray | None]:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]); reduce_res[p] = reduce_op over f of dst[p, f] before rounding"""
    y = activated(op, data, bias, scale, target, report)
    row = ALU[reduce_op]
    assert row.reduce is not None
    column = row.reduce.reduce(y, axis=1, keepdims=True, dtype=np.float32)
    identity = IDENTITIES[reduce_op]
    return y, accumulate(state, target, lane, "reset_reduce", row.apply, column, report, identity=identity)
