"""The Scalar engine's function pipeline: activation."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.tile.alu import ACTIVATIONS
from tilewright.tile.attrs import activation_function, alu, enum, reduce_cmd
from tilewright.tile.common import column, same_layout
from tilewright.tile.cost import elements, on_engine
from tilewright.tile.memory import PSUM
from tilewright.tile.record import Call, Cost, f32, instr, result, source


def on_scalar(call: Call) -> str:
    return "scalar"


def activation_cost(call: Call) -> Cost:
    """N elements at the Scalar engine's rate; the fixed part depends on where the source lies."""
    target = call.target
    where = "psum" if call.data.memory is PSUM else "sbuf"
    cycles = elements(call) / target["scalar.elements_per_cycle.activation"]
    if call.reduce_res is not None:
        cycles += target["scalar.reduce_result_cycles"]
    return on_engine(call, cycles, target[f"scalar.overhead_cycles.activation_{where}"])


@instr(
    nki="dst op data bias scale reduce_op reduce_res reduce_cmd name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "data": source("R-err-unsupported_memory-01"),
        "bias": source("R-err-unsupported_memory-01", number=True, optional=True, layout="column"),
        "scale": source("R-err-unsupported_memory-01", number=True, optional=True, layout="column"),
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
    rules=(
        same_layout("R-activation-09", "data", "dst"),
        column("R-activation-04", "bias", "data"),
        column("R-activation-04", "scale", "data"),
        column("R-activation-08", "reduce_res", "data"),
    ),
    flow="elementwise",
    cost=activation_cost,
)
def activation(
    data: np.ndarray, bias: Any, scale: Any, op: str, reduce_cmd: str, state: dict[str, Any]
) -> tuple[Any, ...]:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]); reduce_res[p] = sum over f of dst[p, f]"""
    x = f32(data)
    if scale is not None:
        x = x * f32(scale)
    if bias is not None:
        x = x + f32(bias)
    y = f32(np.asarray(ACTIVATIONS[op].apply(x)))
    if reduce_cmd in ("reset", "reset_reduce"):
        state["sum"] = np.zeros((len(y), 1), np.float32)
    if reduce_cmd in ("reduce", "reset_reduce"):
        state["sum"] = state["sum"] + y.sum(axis=1, keepdims=True, dtype=np.float32)
    return y, state.get("sum")
