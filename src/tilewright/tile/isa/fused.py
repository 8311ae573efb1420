"""Vector instructions that also reduce: select_reduce, exponential."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.target import Target
from tilewright.tile.accumulator import accumulate, reduces
from tilewright.tile.alu import as_float
from tilewright.tile.attrs import alu, enum, flag, reduce_cmd
from tilewright.tile.common import column, dtype_in, not_both_psum, same_layout
from tilewright.tile.isa.elementwise import on_vector
from tilewright.tile.record import Call, Cost, Verdict, check, instr, result, source
from tilewright.tile.streaming import at_rate
from tilewright.tile.view import View

Report = Callable[..., None]
MEMORY = "R-err-unsupported_memory-01"
RESET_HINT = "pass reduce_cmd=nisa.reduce_cmd.reset_reduce"


def reducing_cost(rate: str) -> Callable[[Call], Cost]:
    """N elements at a named rate, and the reading of the accumulators."""

    def cost(call: Call) -> Cost:
        extra = call.target["vector.reduce_result_cycles"] if call.reduce_res is not None else 0
        return at_rate(call, rate, "other", extra)

    return cost


# select_reduce

FLOAT8 = ("float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e3m4")
SELECTED = ("float32", "float16", "bfloat16", *FLOAT8, "int8", "int16", "uint8", "uint16", "bool_")


@check("R-select_reduce-03")
def float_result(call: Call) -> Verdict:
    if isinstance(call.reduce_res, View) and not call.reduce_res.dtype.is_float:
        return f"reduce_res is {call.reduce_res.dtype}; it must be a float type"
    return None


@check("R-select_reduce-04")
def select_command(call: Call) -> Verdict:
    allowed = ("idle", "reset_reduce", "reduce")
    if call.reduce_cmd not in allowed:
        return f"reduce_cmd={call.reduce_cmd} is not one of {', '.join(allowed)}"
    if call.reduce_cmd == "idle" and call.reduce_res is not None:
        return (
            "reduce_res is given, but reduce_cmd=idle reduces nothing",
            RESET_HINT,
        )
    return None


@instr(
    nki="dst predicate on_true on_false reduce_res reduce_cmd reduce_op reverse_pred name",
    operands={
        "dst": result(MEMORY),
        "predicate": source(MEMORY, defined=True),
        "on_true": source(MEMORY, defined=reduces),
        "on_false": source(MEMORY, number=True, layout="column", defined=reduces),
        "reduce_res": result(MEMORY, optional=True, layout="column"),
    },
    attrs={
        "reduce_cmd": enum(reduce_cmd, "idle"),
        "reduce_op": alu("R-select_reduce-04", allowed=("maximum",), default="maximum"),
        "reverse_pred": flag(),
    },
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(
        not_both_psum("R-select_reduce-01", "on_true", "predicate"),
        same_layout("R-select_reduce-02", "on_true", "dst", "predicate"),
        column("R-select_reduce-02", "on_false", "on_true"),
        column("R-select_reduce-03", "reduce_res", "on_true"),
        dtype_in("R-select_reduce-03", "on_true", SELECTED),
        dtype_in("R-select_reduce-03", "predicate", ("int8", "uint8", "int16", "uint16")),
        float_result,
        select_command,
    ),
    flow="movement",
    cost=reducing_cost("select_reduce"),
    coincides={"dst": ("predicate", "on_true", "on_false"), "reduce_res": ("predicate", "on_true", "on_false")},
    dynamic_rules=("R-tensor_scalar_cumulative-05",),
)
def select_reduce(
    predicate: np.ndarray,
    on_true: np.ndarray,
    on_false: Any,
    reduce_cmd: str,
    reverse_pred: bool,
    state: dict[str, Any],
    target: Target,
    lane: int,
    report: Report,
) -> tuple[np.ndarray, np.ndarray | None]:
    """dst[p, f] = on_true[p, f] where predicate[p, f] != 0, else on_false[p]; reduce_res[p] = the maximum over f"""
    chosen = (predicate == 0) if reverse_pred else (predicate != 0)
    selected = np.where(chosen, as_float(on_true), as_float(on_false))
    largest = selected.max(axis=1, keepdims=True)
    held = accumulate(state, target, lane, reduce_cmd, np.maximum, largest, report, identity=-np.inf)
    return selected, held


# exponential

_NARROW = ("float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32")
_INTEGERS = ("int8", "int16", "int32", "uint8", "uint16")


@check("R-exponential-02")
def at_most_four_dims(call: Call) -> Verdict:
    limit = call.target["limits.exponential_dims"]
    for name in ("src", "dst"):
        if call.operands[name].ndim > limit:
            return f"{name} has {call.operands[name].ndim} dims; at most {limit}"
    return None


@check("R-exponential-03")
def initial_with_load(call: Call) -> Verdict:
    if call.reduce_cmd == "reset":
        return "reduce_cmd=reset is not one of idle, reset_reduce, reduce, load_reduce"
    idle = call.reduce_init is None or (not isinstance(call.reduce_init, View) and call.reduce_init == 0)
    if call.reduce_cmd == "load_reduce" or idle:
        return None
    return f"reduce_init is set with reduce_cmd={call.reduce_cmd}; it goes with load_reduce"


@check("R-exponential-06")
def idle_reads_nothing(call: Call) -> Verdict:
    if call.reduce_cmd != "idle" or call.reduce_res is None:
        return None
    return (
        "reduce_res is given, but reduce_cmd=idle leaves the accumulators undefined",
        RESET_HINT,
    )


@instr(
    nki="dst src max_value reduce_res reduce_cmd reduce_init name",
    operands={
        "dst": result(MEMORY, indirect=True),
        "src": source(MEMORY, defined=reduces, indirect=True),
        "max_value": source(MEMORY, number=True, optional=True, layout="column", defined=reduces, default=0.0),
        "reduce_init": source(MEMORY, number=True, optional=True, layout="column", defined=True, default=0.0),
        "reduce_res": result(MEMORY, optional=True, layout="column"),
    },
    attrs={"reduce_cmd": enum(reduce_cmd, "idle")},
    engines=("vector",),
    engine=on_vector,
    since=4,
    since_rule="R-exponential-01",
    rules=(
        same_layout("R-exponential-02", "src", "dst"),
        at_most_four_dims,
        initial_with_load,
        dtype_in("R-exponential-04", "dst", (*_NARROW, "tfloat32", *_INTEGERS)),
        dtype_in("R-exponential-04", "src", (*_NARROW, *_INTEGERS, "uint32")),
        dtype_in("R-exponential-04", "reduce_res", (*_NARROW, "tfloat32")),
        dtype_in("R-exponential-04", "max_value", ("float32",)),
        dtype_in("R-exponential-04", "reduce_init", ("float32",)),
        column("R-exponential-05", "max_value", "src"),
        column("R-exponential-05", "reduce_init", "src"),
        column("R-exponential-05", "reduce_res", "src"),
        idle_reads_nothing,
    ),
    flow="elementwise",
    cost=reducing_cost("exponential"),
    coincides={"dst": ("src", "max_value", "reduce_init"), "reduce_res": ("src", "max_value", "reduce_init")},
    dynamic_rules=("R-exponential-06",),
)
def exponential(
    src: np.ndarray,
    max_value: Any,
    reduce_init: Any,
    reduce_cmd: str,
    state: dict[str, Any],
    target: Target,
    lane: int,
    report: Report,
) -> tuple[np.ndarray, np.ndarray | None]:
    """dst[p, f] = exp(src[p, f] - max_value[p]); reduce_res[p] = the sum over f, on top of the registers"""
    x = as_float(src)
    y = np.exp(x if max_value is None else x - as_float(max_value))
    own = y.sum(axis=1, keepdims=True, dtype=np.float32)
    start = 0.0 if reduce_init is None else reduce_init
    return y, accumulate(state, target, lane, reduce_cmd, np.add, own, report, start, rule="R-exponential-06")
