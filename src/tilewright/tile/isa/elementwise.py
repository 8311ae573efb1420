"""Elementwise instructions of the Vector, GpSimd and Scalar engines: copies, fills, operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.tile.alu import ALU
from tilewright.tile.attrs import alu, engine, enum, flag, number
from tilewright.tile.common import bitvec_integers, column, not_both_psum, runs_on, same_layout
from tilewright.tile.cost import elements, gpsimd, on_engine, vector_rate
from tilewright.tile.record import Call, Cost, Verdict, check, f32, instr, result, source


def copy_engine(call: Call) -> str:
    return call.target["engines.tensor_copy"]


@check("R-tensor_copy-04")
def scalar_engine_copies(call: Call) -> Verdict:
    if call.engine != "scalar" or call.target["features.scalar_tensor_copy"]:
        return None
    return "the Scalar engine has no tensor_copy on this target", "use activation with op=nl.copy"


def copy_cost(call: Call) -> Cost:
    """N elements at the copying engine's rate."""
    target, n = call.target, elements(call)
    if call.engine == "gpsimd":
        return gpsimd(call, "copy", n)
    if call.engine == "scalar":
        rate = target["scalar.elements_per_cycle.activation"]
        return on_engine(call, n / rate, target["scalar.overhead_cycles.copy"])
    return vector_rate("one_input")(call)


@instr(
    nki="dst src engine name",
    operands={"dst": result("R-tensor_copy-01"), "src": source("R-tensor_copy-01")},
    attrs={"engine": enum(engine, "unknown")},
    engines=("vector", "scalar", "gpsimd"),
    engine=copy_engine,
    since=2,
    rules=(same_layout("R-tensor_copy-02", "src", "dst"), scalar_engine_copies),
    flow="elementwise",
    cost=copy_cost,
)
def tensor_copy(src: np.ndarray, dtype: DType, resolved_engine: str) -> np.ndarray:
    """dst[p, f] = src[p, f], bit for bit when the dtypes are equal (R-tensor_copy-06), else through float32"""
    return src if src.dtype == dtype.np and resolved_engine != "scalar" else f32(src)


@check("R-memset-01")
def value_fits_dtype(call: Call) -> Verdict:
    if call.dst.dtype.is_integer and isinstance(call.value, float):
        return f"value={call.value!r} is a float, but dst is {call.dst.dtype}", "pass an int"
    return None


@check("R-memset-02")
def packed_takes_zero(call: Call) -> Verdict:
    if call.dst.dtype.kind == "p" and call.value != 0:
        return f"value={call.value!r}: {call.dst.dtype} can only be set to 0"
    return None


def memset_engine(call: Call) -> str:
    return call.target["engines.memset"]


def memset_cost(call: Call) -> Cost:
    """N elements; twice as fast for zeros of 16 bits."""
    if call.engine == "gpsimd":
        return gpsimd(call, "memset", elements(call))
    fast = call.value == 0 and call.dst.dtype.itemsize == 2
    return vector_rate("memset_zero_16bit" if fast else "memset")(call)


@instr(
    nki="dst value engine name",
    operands={"dst": result("R-err-unsupported_memory-01")},
    attrs={"value": number(), "engine": enum(engine, "unknown")},
    engines=("vector", "gpsimd"),
    engine=memset_engine,
    since=2,
    rules=(value_fits_dtype, packed_takes_zero, runs_on("R-memset-03", "vector", "gpsimd")),
    flow="elementwise",
    cost=memset_cost,
)
def memset(value: float, dtype: DType) -> np.ndarray:
    """dst[p, f] = value"""
    if dtype.kind == "p":
        return np.zeros((), dtype.np)
    return np.asarray(value) if isinstance(value, int) else np.asarray(value, np.float32)


def binary_engine(call: Call) -> str:
    """power and exact 32-bit integers run on GpSimd (integers on Vector where PSUM is involved), the rest on Vector."""
    return call.target["engines.tensor_tensor"]


@instr(
    nki="dst data1 data2 op engine name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "data1": source("R-err-unsupported_memory-01"),
        "data2": source("R-err-unsupported_memory-01"),
    },
    attrs={"op": alu("R-tensor_tensor-04"), "engine": enum(engine, "unknown")},
    engines=("vector", "gpsimd"),
    engine=binary_engine,
    since=2,
    rules=(
        same_layout("R-tensor_tensor-01", "data1", "data2", "dst"),
        not_both_psum("R-tensor_tensor-02", "data1", "data2"),
        bitvec_integers("R-tensor_tensor-05", "data1", "data2", "dst"),
    ),
    flow="elementwise",
    cost=vector_rate("two_inputs"),
)
def tensor_tensor(data1: np.ndarray, data2: np.ndarray, op: str) -> np.ndarray:
    """dst[p, f] = op(data1[p, f], data2[p, f])"""
    row = ALU[op]
    return row.apply(data1, data2) if row.bitvec else row.apply(f32(data1), f32(data2))


def scalar_operand_engine(call: Call) -> str:
    return call.target["engines.tensor_scalar"]


@instr(
    nki="dst data op0 operand0 reverse0 op1 operand1 reverse1 engine name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "data": source("R-err-unsupported_memory-01"),
        "operand0": source("R-tensor_scalar-01", number=True, optional=True, layout="column"),
        "operand1": source("R-tensor_scalar-01", number=True, optional=True, layout="column"),
    },
    attrs={
        "op0": alu("R-tensor_scalar-03"),
        "reverse0": flag(),
        "op1": alu("R-tensor_scalar-03", default=None),
        "reverse1": flag(),
        "engine": enum(engine, "unknown"),
    },
    engines=("vector", "scalar", "gpsimd"),
    engine=scalar_operand_engine,
    since=2,
    rules=(
        same_layout("R-tensor_scalar-09", "data", "dst"),
        column("R-tensor_scalar-01", "operand0", "data"),
        column("R-tensor_scalar-01", "operand1", "data"),
        bitvec_integers("R-tensor_scalar-04", "data", "dst"),
    ),
    flow="elementwise",
    cost=vector_rate("one_input", "tensor_scalar"),
)
def tensor_scalar(
    data: np.ndarray, operand0: Any, operand1: Any, op0: str, reverse0: bool, op1: str | None, reverse1: bool
) -> np.ndarray:
    """dst[p, f] = op1(op0(data[p, f], operand0[p]), operand1[p]); reverse exchanges the arguments of an operator"""
    x = data if ALU[op0].bitvec else f32(data)
    x = one_operator(op0, x, operand0, reverse0)
    return x if op1 is None else one_operator(op1, x, operand1, reverse1)


def one_operator(op: str, x: np.ndarray, operand: Any, reverse: bool) -> np.ndarray:
    """op(x, operand), or op(operand, x) when reversed; in float32 unless the operator works on bits."""
    row = ALU[op]
    if row.unary:
        return row.apply(x, None)
    y = operand if row.bitvec else f32(operand)
    return row.apply(y, x) if reverse else row.apply(x, y)
