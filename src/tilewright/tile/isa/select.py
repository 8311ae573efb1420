"""Patterns and selections: iota and affine_select on GpSimd, range_select on the Vector engine."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import DTYPES, DType
from tilewright.target import Target
from tilewright.tile.accumulator import accumulate
from tilewright.tile.alu import ALU, COMPARISONS
from tilewright.tile.attrs import alu, enum, integer, number, pattern, reduce_cmd
from tilewright.tile.common import column, dtype_in, same_layout
from tilewright.tile.cost import elements, gpsimd, on_engine
from tilewright.tile.memory import SBUF
from tilewright.tile.record import Call, Check, Cost, Verdict, check, f32, instr, result, source
from tilewright.tile.view import View

INT32 = np.iinfo(np.int32)
FLOATS = tuple(name for name, dtype in DTYPES.items() if dtype.is_float)


def on_gpsimd(call: Call) -> str:
    return "gpsimd"


def on_vector(call: Call) -> str:
    return "vector"


def affine_values(
    partitions: int, pattern: tuple[tuple[int, int], ...], offset: int, channel_multiplier: int
) -> np.ndarray:
    """[P, F]: offset + p * channel_multiplier + sum over dims of i_d * step_d, in wrapping 32-bit integers."""
    free = np.zeros(1, np.int64)
    for step, count in pattern:
        free = np.add.outer(free, np.arange(count, dtype=np.int64) * step).reshape(-1)
    lanes = offset + np.arange(partitions, dtype=np.int64) * channel_multiplier
    return lanes.astype(np.int32)[:, None] + free.astype(np.int32)


def pattern_dims(rule: str, limit: str) -> Check:
    """A pattern has at most so many [step, num] pairs."""

    def test(call: Call) -> Verdict:
        most = call.target[limit]
        if len(call.pattern) > most:
            return f"pattern has {len(call.pattern)} [step, num] pairs; it may have {most}", "merge or loop over dims"
        return None

    return Check(rule, test)


def pattern_size(rule: str, *names: str) -> Check:
    """A pattern generates as many values as the named operands have elements per partition."""

    def test(call: Call) -> Verdict:
        counts = [count for _, count in call.pattern]
        if any(count < 1 for count in counts):
            return f"pattern {list(call.pattern)} has a num below 1"
        for name in names:
            view = call.operands[name]
            if prod(counts) != view.free:
                return f"pattern makes {prod(counts)} values, but {name} has {view.free} elements per partition"
        return None

    return Check(rule, test)


@check("R-iota-04")
def iota_partitions(call: Call) -> Verdict:
    limit = call.target["limits.partitions"]
    return None if call.dst.partitions <= limit else f"dst has {call.dst.partitions} partitions; it may have {limit}"


@check("R-iota-05")
def iota_int32(call: Call) -> Verdict:
    for name in ("offset", "channel_multiplier"):
        value = call.attrs[name]
        if not INT32.min <= value <= INT32.max:
            return f"{name}={value} is not an int32: values are computed in 32-bit integers"
    return None


@instr(
    nki="dst pattern offset channel_multiplier name",
    operands={"dst": result("R-iota-01", (SBUF,))},
    attrs={
        "pattern": pattern(),
        "offset": integer(0, "R-iota-05"),
        "channel_multiplier": integer(0, "R-iota-05"),
    },
    engines=("gpsimd",),
    engine=on_gpsimd,
    since=2,
    rules=(
        pattern_dims("R-iota-02", "limits.iota_pattern_dims"),
        pattern_size("R-iota-03", "dst"),
        iota_partitions,
        iota_int32,
    ),
    flow="elementwise",
    cost=lambda call: gpsimd(call, "iota", call.dst.free),
    coincides={"dst": ()},
)
def iota(
    pattern: tuple[tuple[int, int], ...], offset: int, channel_multiplier: int, shape: tuple[int, ...]
) -> np.ndarray:
    """dst[p, w, z, y, x] = offset + p * channel_multiplier + w * step_w + z * step_z + y * step_y + x * step_x"""
    return affine_values(shape[0], pattern, offset, channel_multiplier)


@check("R-affine_select-02")
def float32_fill(call: Call) -> Verdict:
    value = call.on_false_value
    if not isinstance(value, (int, float)):
        return f"on_false_value is {value}; it must be a number", "fill another tile with affine_select, then select"
    if np.isfinite(value) and not np.isfinite(np.float32(value)):
        return f"on_false_value={value} is outside the range of float32"
    return None


@instr(
    nki="dst pattern channel_multiplier on_true_tile on_false_value cmp_op offset name",
    operands={
        "dst": result("R-affine_select-01", (SBUF,)),
        "on_true_tile": source("R-affine_select-01", (SBUF,), kind_rule="R-affine_select-04"),
        "on_false_value": source("R-affine_select-02", number=True, kind_rule="R-affine_select-02"),
    },
    attrs={
        "pattern": pattern(),
        "channel_multiplier": integer(),
        # Before NKI 0.3 the offset was the third argument (R-affine_select-04).
        "cmp_op": alu("R-affine_select-04", allowed=COMPARISONS, default="equal"),
        "offset": integer(0, "R-affine_select-04"),
    },
    engines=("gpsimd",),
    engine=on_gpsimd,
    since=2,
    rules=(
        float32_fill,
        pattern_dims("R-affine_select-03", "limits.affine_pattern_dims"),
        same_layout("R-affine_select-03", "on_true_tile", "dst"),
        pattern_size("R-affine_select-03", "dst"),
    ),
    # Elements that are not selected are not read: where the fill goes, the result is defined.
    flow="movement",
    cost=lambda call: gpsimd(call, "affine_select", call.dst.free),
    coincides={"dst": ("on_true_tile",)},
)
def affine_select(
    on_true_tile: np.ndarray,
    on_false_value: Any,
    pattern: tuple[tuple[int, int], ...],
    channel_multiplier: int,
    cmp_op: str,
    offset: int,
    dtype: DType,
) -> np.ndarray:
    """dst[p, f] = on_true_tile[p, f] if cmp_op(offset + p * channel_multiplier + pattern[f], 0) else on_false_value"""
    affine = affine_values(len(on_true_tile), pattern, offset, channel_multiplier)
    chosen = ALU[cmp_op].apply(affine, np.int32(0)) != 0
    # A cast goes through float32; without one 32-bit integers stay exact, which float64 gives.
    exact = on_true_tile.dtype.kind in "iu" and on_true_tile.dtype == dtype.np
    return np.where(chosen, on_true_tile.astype(np.float64) if exact else f32(on_true_tile), f32(on_false_value))


@check("R-range_select-05")
def lowest_fill(call: Call) -> Verdict:
    wanted = call.target["limits.range_select_fill"]
    if np.float32(call.on_false_value) == np.float32(wanted):
        return None
    return f"on_false_value={call.on_false_value}; the hardware fills with FP32_MIN ({wanted}) only", "leave it out"


@check("R-range_select-07")
def exact_indices(call: Call) -> Verdict:
    limit = call.target["limits.range_select_index_max"]
    last = call.range_start + call.on_true_tile.free - 1
    if max(abs(call.range_start), abs(last)) <= limit:
        return None
    return (
        f"indices {call.range_start}..{last} are compared in float32, which is exact only up to {limit}",
        "shift range_start and the bounds by the same amount",
    )


@check("R-range_select-09")
def wide_maximum(call: Call) -> Verdict:
    res = call.reduce_res
    if not isinstance(res, View) or call.dst.dtype == "float32" or res.dtype == "float32":
        return None
    return (
        f"dst is {call.dst.dtype}, in which the fill becomes -inf, and reduce_res is {res.dtype}: a row that is masked "
        "out completely gives -inf - -inf = NaN in a following exp",
        "make reduce_res float32",
    )


def range_select_cost(call: Call) -> Cost:
    """N cycles, and the reading of the accumulator where the maximum is asked for."""
    target = call.target
    cycles = elements(call) / target["vector.elements_per_cycle.range_select"]
    if call.reduce_res is not None:
        cycles += target["vector.reduce_result_cycles"]
    return on_engine(call, cycles, target["vector.overhead_cycles.other"])


RANGE_COMPARISONS = ("equal", "less", "less_equal", "greater", "greater_equal")


@instr(
    nki="dst on_true_tile comp_op0 comp_op1 bound0 bound1 reduce_cmd reduce_res reduce_op range_start on_false_value "
    "name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "on_true_tile": source("R-err-unsupported_memory-01", defined=True),
        "bound0": source("R-err-unsupported_memory-01", layout="column", defined=True, kind_rule="R-range_select-03"),
        "bound1": source("R-err-unsupported_memory-01", layout="column", defined=True, kind_rule="R-range_select-03"),
        "reduce_res": result("R-err-unsupported_memory-01", optional=True, layout="column"),
    },
    attrs={
        "comp_op0": alu("R-range_select-02", allowed=RANGE_COMPARISONS),
        "comp_op1": alu("R-range_select-02", allowed=RANGE_COMPARISONS),
        "reduce_cmd": enum(reduce_cmd, "reset_reduce"),
        "reduce_op": alu("R-range_select-06", allowed=("maximum",), default="maximum"),
        "range_start": integer(0, "R-range_select-08"),
        "on_false_value": number(float(np.finfo(np.float32).min)),
    },
    engines=("vector",),
    engine=on_vector,
    since=3,
    since_rule="R-range_select-01",
    rules=(
        column("R-range_select-03", "bound0", "on_true_tile"),
        column("R-range_select-03", "bound1", "on_true_tile"),
        column("R-range_select-03", "reduce_res", "on_true_tile"),
        same_layout("R-range_select-03", "on_true_tile", "dst"),
        dtype_in("R-range_select-04", "on_true_tile", FLOATS),
        dtype_in("R-range_select-04", "bound0", ("float32",)),
        dtype_in("R-range_select-04", "bound1", ("float32",)),
        lowest_fill,
        exact_indices,
        wide_maximum,
    ),
    flow="elementwise",
    cost=range_select_cost,
    coincides={"dst": ("on_true_tile", "bound0", "bound1"), "reduce_res": ("on_true_tile", "bound0", "bound1")},
    dynamic_rules=("R-tensor_scalar_cumulative-05",),
)
def range_select(
    on_true_tile: np.ndarray,
    bound0: np.ndarray,
    bound1: np.ndarray,
    comp_op0: str,
    comp_op1: str,
    reduce_cmd: str,
    range_start: int,
    on_false_value: float,
    state: dict[str, Any],
    target: Target,
    lane: int,
    report: Callable[..., None],
) -> tuple[np.ndarray, np.ndarray | None]:
    """dst[p, f] = on_true_tile[p, f] if comp_op0(range_start + f, bound0[p]) and comp_op1(range_start + f, bound1[p])
    else on_false_value; reduce_res[p] = the maximum over f, kept in the accumulator registers as reduce_cmd says
    """
    indices = (range_start + np.arange(on_true_tile.shape[1])).astype(np.float32)
    inside = (ALU[comp_op0].apply(indices, bound0) != 0) & (ALU[comp_op1].apply(indices, bound1) != 0)
    selected = np.where(inside, f32(on_true_tile), np.float32(on_false_value))
    largest = selected.max(axis=1, keepdims=True)
    return selected, accumulate(state, target, lane, reduce_cmd, np.maximum, largest, report)
