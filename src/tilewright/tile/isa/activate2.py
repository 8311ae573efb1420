"""The newest Scalar engine's longer pipeline: two operators, a function with a parameter, a reduction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.target import Target
from tilewright.tile.accumulator import accumulate, reduces
from tilewright.tile.alu import ALU, IDENTITIES, activate, apply, as_float, prelu, table_of
from tilewright.tile.attrs import activation_function, alu, enum, flag, reduce_cmd
from tilewright.tile.common import column, same_dtype, same_layout
from tilewright.tile.isa.activation import Report, check_range, on_scalar
from tilewright.tile.isa.reduction import reduce_last
from tilewright.tile.isa.tensor_scalar import number_or_column
from tilewright.tile.memory import PSUM
from tilewright.tile.record import Call, Cost, Verdict, check, instr, result, source
from tilewright.tile.streaming import at_rate, half_floats

COMBINATIONS = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
)
OPERATORS = ("multiply", "add", "subtract", "bypass")
REDUCTIONS = ("add", "maximum", "minimum", "abs_max", "abs_min")


@check("R-activate2-02")
def known_combination(call: Call) -> Verdict:
    if (call.op0, call.op1) in COMBINATIONS:
        return None
    known = ", ".join(f"({first}, {second})" for first, second in COMBINATIONS)
    return f"(op0, op1) = ({call.op0}, {call.op1}) is not one of {known}"


@check("R-activate2-04")
def operators_in_order(call: Call) -> Verdict:
    if call.op0 == "bypass" and call.op1 != "bypass":
        return f"op1={call.op1} without op0"
    for stage in "01":
        if call.attrs[f"reverse{stage}"] and call.attrs[f"op{stage}"] == "bypass":
            return f"reverse{stage} without op{stage}"
        if call.operands[f"imm{stage}"] is None and call.attrs[f"op{stage}"] != "bypass":
            return f"op{stage}={call.attrs[f'op{stage}']} needs imm{stage}"
    return None


@check("R-activate2-05")
def reduction_has_operator(call: Call) -> Verdict:
    if call.reduce_op is None and (reduces(call.attrs) or call.reduce_res is not None):
        return f"reduce_cmd={call.reduce_cmd} needs reduce_op: {', '.join(REDUCTIONS)}"
    return f"reduce_cmd={call.reduce_cmd}: there is nothing to load" if call.reduce_cmd == "load_reduce" else None


def activate2_cost(call: Call) -> Cost:
    """As activation; 16-bit inputs go faster."""
    where = "psum" if call.data.memory is PSUM else "sbuf"
    extra = call.target["scalar.reduce_result_cycles"] if call.reduce_res is not None else 0
    rate = "activate2_16bit" if half_floats(call.data) else "activation"
    return replace(at_rate(call, rate, f"activation_{where}", extra), table=table_of(call.op))


@instr(
    nki="dst op data imm0 imm1 op0 op1 relu_param reverse0 reverse1 reduce_op reduce_res reduce_cmd name",
    operands={
        "dst": result("R-activate2-07", indirect=True),
        "data": source("R-activate2-07", defined=reduces, indirect=True),
        "imm0": source("R-activate2-07", number=True, optional=True, layout="column"),
        "imm1": source("R-activate2-07", number=True, optional=True, layout="column"),
        "relu_param": source("R-activate2-07", number=True, optional=True, layout="column", default=0.0),
        "reduce_res": result("R-activate2-07", optional=True, layout="column"),
    },
    attrs={
        "op": activation_function("R-activation-01"),
        "op0": alu("R-activate2-02", allowed=OPERATORS),
        "op1": alu("R-activate2-02", allowed=OPERATORS),
        "reverse0": flag(),
        "reverse1": flag(),
        "reduce_op": alu("R-activate2-05", allowed=REDUCTIONS, default=None),
        "reduce_cmd": enum(reduce_cmd, "idle"),
    },
    engines=("scalar",),
    engine=on_scalar,
    since=4,
    since_rule="R-activate2-01",
    rules=(
        operators_in_order,
        known_combination,
        same_dtype("R-activate2-03", "imm0", "imm1"),
        reduction_has_operator,
        same_layout("R-activate2-06", "data", "dst"),
        column("R-activate2-06", "imm0", "data"),
        column("R-activate2-06", "imm1", "data"),
        column("R-activate2-06", "relu_param", "data"),
        column("R-activate2-06", "reduce_res", "data"),
    ),
    flow="elementwise",
    cost=activate2_cost,
    coincides={"dst": ("data", "imm0", "imm1", "relu_param"), "reduce_res": ("data", "imm0", "imm1", "relu_param")},
    dynamic_rules=("R-engine-09", "R-activation-11"),
)
def activate2(
    data: np.ndarray,
    imm0: Any,
    imm1: Any,
    relu_param: Any,
    op: str,
    op0: str,
    op1: str,
    reverse0: bool,
    reverse1: bool,
    reduce_op: str | None,
    reduce_cmd: str,
    state: dict[str, Any],
    target: Target,
    lane: int,
    report: Report,
) -> tuple[np.ndarray, np.ndarray | None]:
    """dst[p, f] = op(op1(op0(data[p, f], imm0[p]), imm1[p])); reduce_res[p] = reduce_op over f, with the registers"""
    x = apply(op0, as_float(data), number_or_column(imm0), reverse0)
    x = apply(op1, x, number_or_column(imm1), reverse1)
    check_range(op, x, target, report)
    slope = np.float32(0) if relu_param is None else as_float(relu_param)
    y = prelu(x, slope) if op == "prelu" else activate(op, x)
    if reduce_op is None:
        return y, None
    combine, identity = ALU[reduce_op].apply, IDENTITIES[reduce_op]
    held = accumulate(
        state,
        target,
        lane,
        reduce_cmd,
        combine,
        reduced(reduce_op, y),
        report,
        rule="R-activation-11",
        identity=identity,
        idle_reads=True,
    )
    return y, held


def reduced(op: str, x: np.ndarray) -> np.ndarray:
    """An operator over each row, [P, 1]; of several equal magnitudes the last counts."""
    if op not in ("abs_max", "abs_min"):
        return reduce_last(op, x)[:, None]
    backwards = x[:, ::-1]
    place = np.abs(backwards).argmax(axis=1) if op == "abs_max" else np.abs(backwards).argmin(axis=1)
    return np.take_along_axis(backwards, place[:, None], axis=1)
