"""Copies, fills and operators on two tiles: Vector, GpSimd and Scalar engines."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import DType, round_to
from tilewright.tile.alu import ALU, BINARY, apply, as_float, from_pattern, note_rounding, pattern
from tilewright.tile.attrs import alu, engine, enum, flag, number
from tilewright.tile.common import (
    INT32,
    bitvec_integers,
    dtype_in,
    not_both_psum,
    runs_on,
    same_dtype,
    same_layout,
    same_partitions,
)
from tilewright.tile.cost import elements, gpsimd
from tilewright.tile.indirect import indirection
from tilewright.tile.memory import PSUM
from tilewright.tile.record import Call, Cost, Verdict, check, instr, result, source, updated
from tilewright.tile.streaming import at_rate, copy_cost, function_cost, in_psum, stream, tensor_tensor_cost

COPY_ENGINES = ("vector", "scalar", "gpsimd")


def on_vector(call: Call) -> str:
    """Instructions that only the Vector engine has."""
    return "vector"


# tensor_copy


@check("R-tensor_copy-03")
def gpsimd_copies_sbuf(call: Call) -> Verdict:
    if call.engine != "gpsimd" or not in_psum(call.src, call.dst):
        return None
    return "GpSimd cannot access psum", "leave the engine out, or choose nisa.engine.vector or nisa.engine.scalar"


@check("R-tensor_copy-04")
def scalar_engine_copies(call: Call) -> Verdict:
    if call.engine != "scalar" or call.target["features.scalar_tensor_copy"]:
        return None
    return f"the Scalar engine of {call.target.name} has no tensor_copy", "use activation with op=nl.copy"


@instr(
    nki="dst src engine name",
    operands={"dst": result("R-tensor_copy-01", indirect=True), "src": source("R-tensor_copy-01", indirect=True)},
    attrs={"engine": enum(engine, "unknown")},
    engines=COPY_ENGINES,
    engine=lambda call: call.target["engines.tensor_copy"],
    since=2,
    rules=(
        same_partitions("R-engine-05", "src", "dst"),
        same_layout("R-tensor_copy-02", "src", "dst"),
        gpsimd_copies_sbuf,
        scalar_engine_copies,
        runs_on("R-tensor_copy-07", *COPY_ENGINES),
        indirection("R-tensor_copy-05", "vector", "scalar"),
    ),
    flow="elementwise",
    cost=copy_cost,
    coincides={"dst": ("src",)},
    copies=True,
)
def tensor_copy(src: np.ndarray, dtype: DType) -> np.ndarray:
    """dst[p, f] = src[p, f]; bit for bit when the dtypes are equal (R-tensor_copy-06), else through float32"""
    return src if src.dtype == dtype.np else as_float(src)


# memset


@check("R-memset-01")
def value_fits_dtype(call: Call) -> Verdict:
    if call.dst.dtype.is_integer and isinstance(call.value, float) and call.value:
        return f"value={call.value!r} is a float, but dst is {call.dst.dtype}", "pass an int"
    return None


@check("R-memset-04")
def zero_is_an_int(call: Call) -> Verdict:
    if call.dst.dtype.is_integer and isinstance(call.value, float) and not call.value:
        return f"value={call.value!r} is a float, but dst is {call.dst.dtype}", "write 0"
    return None


@check("R-memset-02")
def packed_takes_zero(call: Call) -> Verdict:
    if call.dst.dtype.kind == "p" and call.value != 0:
        return f"value={call.value!r}: {call.dst.dtype} can only be set to 0", "load other values with dma_copy"
    return None


@check("R-memset-03")
def memset_engine(call: Call) -> Verdict:
    if call.engine not in ("vector", "gpsimd"):
        return f"cannot run on the {call.engine} engine, only vector or gpsimd"
    if call.engine == "gpsimd" and call.dst.memory is PSUM:
        return "GpSimd cannot access psum", "leave the engine out, or choose nisa.engine.vector"
    return None


def memset_cost(call: Call) -> Cost:
    """N elements; zeros of 16 bits go twice as fast."""
    if call.engine == "gpsimd":
        return gpsimd(call, "memset", elements(call))
    fast = call.value == 0 and call.dst.dtype.itemsize == 2
    return at_rate(call, "memset_zero_16bit" if fast else "memset")


@instr(
    nki="dst value engine name",
    operands={"dst": result("R-err-unsupported_memory-01")},
    attrs={"value": number(), "engine": enum(engine, "unknown")},
    engines=("vector", "gpsimd"),
    engine=lambda call: call.target["engines.memset"],
    since=2,
    rules=(value_fits_dtype, zero_is_an_int, packed_takes_zero, memset_engine),
    flow="elementwise",
    cost=memset_cost,
    coincides={"dst": ()},
)
def memset(value: float, dtype: DType) -> np.ndarray:
    """dst[p, f] = value"""
    if dtype.kind == "p":
        return np.zeros((), dtype.np)
    return np.asarray(value) if isinstance(value, int) else np.asarray(value, np.float32)


# tensor_copy_predicated


def predicated_cost(call: Call) -> Cost:
    """N cycles when one of the inputs is in PSUM, else 2N."""
    one = in_psum(call.src, call.predicate) == 1
    return at_rate(call, "copy_predicated_one_psum" if one else "copy_predicated")


@instr(
    nki="dst src predicate reverse_pred name",
    operands={
        "dst": updated("R-err-unsupported_memory-01", indirect=True),
        "src": source("R-err-unsupported_memory-01", number=True),
        "predicate": source("R-err-unsupported_memory-01", defined=True, indirect=True),
    },
    attrs={"reverse_pred": flag()},
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(
        not_both_psum("R-tensor_copy_predicated-01", "src", "predicate"),
        same_layout("R-tensor_copy_predicated-02", "dst", "src", "predicate"),
        dtype_in("R-tensor_copy_predicated-03", "predicate", ("uint8", "uint16", "uint32")),
        same_dtype("R-tensor_copy_predicated-04", "src", "dst"),
        indirection("R-tensor_copy_predicated-05", "vector"),
    ),
    flow="movement",
    cost=predicated_cost,
    coincides={"dst": ("src", "predicate")},
)
def tensor_copy_predicated(
    dst: np.ndarray, src: Any, predicate: np.ndarray, reverse_pred: bool, dtype: DType
) -> np.ndarray:
    """dst[p, f] = src[p, f] where predicate[p, f] != 0, else dst[p, f]; reverse_pred takes the other elements"""
    chosen = (predicate == 0) if reverse_pred else (predicate != 0)
    value = src if isinstance(src, np.ndarray) else round_to(np.asarray(src, np.float32), dtype)
    return np.where(chosen, value, dst)


# tensor_tensor


def all_int32(call: Call) -> bool:
    return all(view.dtype in INT32 for _, view in call.tensors())


def binary_engine(call: Call) -> str:
    """power runs on GpSimd, as does arithmetic of 32-bit integers without an operand in PSUM (R-tensor_tensor-06)."""
    target = call.target
    if call.op == "power":
        return target["engines.tensor_tensor_power"]
    if not ALU[call.op].bitvec and all_int32(call) and not in_psum(call.data1, call.data2, call.dst):
        return target["engines.tensor_tensor_int32"]
    return target["engines.tensor_tensor"]


@check("R-tensor_tensor-03")
def power_stays_in_sbuf(call: Call) -> Verdict:
    if call.op == "power" and in_psum(call.data1, call.data2, call.dst):
        return "power runs on GpSimd, which cannot access psum", "copy the operand to sbuf with tensor_copy"
    return None


@check("R-tensor_tensor-06")
def binary_engines(call: Call) -> Verdict:
    if call.engine not in ("vector", "gpsimd"):
        return f"cannot run on the {call.engine} engine, only vector or gpsimd"
    if call.op == "power" and call.engine != "gpsimd":
        return "power runs on GpSimd only", "leave the engine out"
    return None


@instr(
    nki="dst data1 data2 op engine name",
    operands={
        "dst": result("R-err-unsupported_memory-01", indirect=True),
        "data1": source("R-err-unsupported_memory-01", indirect=True),
        "data2": source("R-err-unsupported_memory-01"),
    },
    attrs={"op": alu("R-tensor_tensor-04", allowed=BINARY), "engine": enum(engine, "unknown")},
    engines=("vector", "gpsimd"),
    engine=binary_engine,
    since=2,
    rules=(
        same_layout("R-tensor_tensor-01", "data1", "data2", "dst"),
        not_both_psum("R-tensor_tensor-02", "data1", "data2"),
        power_stays_in_sbuf,
        bitvec_integers("R-tensor_tensor-05", "data1", "data2", "dst"),
        binary_engines,
        indirection("R-tensor_tensor-07", "vector", "gpsimd"),
    ),
    flow="elementwise",
    cost=tensor_tensor_cost,
    coincides={"dst": ("data1", "data2")},
)
def tensor_tensor(data1: np.ndarray, data2: np.ndarray, op: str, dtype: DType, resolved_engine: str) -> np.ndarray:
    """dst[p, f] = op(data1[p, f], data2[p, f]); in float32, on bit patterns, or on GpSimd in 32-bit integers"""
    if ALU[op].bitvec:
        width = max(data1.dtype.itemsize, data2.dtype.itemsize)
        return from_pattern(apply(op, pattern(data1, width), pattern(data2, width)), dtype)
    if resolved_engine == "gpsimd" and op != "power" and all(x in _INT32 for x in (data1.dtype, data2.dtype, dtype.np)):
        return _int32(op, data1, data2, dtype)
    computed = apply(op, as_float(data1), as_float(data2))
    note_rounding(computed, dtype, data1, data2)
    return computed


_INT32 = (np.dtype(np.int32), np.dtype(np.uint32))


def _int32(op: str, a: np.ndarray, b: np.ndarray, dtype: DType) -> np.ndarray:
    """op on 32-bit integers, exactly; what overflows wraps, comparisons are 0 or 1."""
    if op in ("add", "subtract", "multiply"):
        # The low 32 bits are the same for signed and unsigned numbers.
        return from_pattern(apply(op, pattern(a, 4), pattern(b, 4)), dtype)
    if a.dtype != b.dtype:
        a, b = a.astype(np.int64), b.astype(np.int64)
    value = apply(op, a, b)
    return value if value.dtype == dtype.np else from_pattern(value.astype(np.int64).view(np.uint64), dtype)


# reciprocal


def _reciprocal_engine(call: Call) -> str:
    """The Vector engine; some compilers put those of many elements on the Scalar engine."""
    least = call.target["compiler.reciprocal_on_scalar_from"]
    return "scalar" if 0 < least <= elements(call) else "vector"


def _reciprocal_cost(call: Call) -> Cost:
    if call.engine == "scalar":
        return function_cost(call, "reciprocal", call.data)
    return stream(call, call.target["vector.cycles_per_element.reciprocal"])


@instr(
    nki="dst data name",
    operands={"dst": result("R-reciprocal-02"), "data": source("R-reciprocal-02")},
    attrs={},
    engines=("vector",),
    engine=_reciprocal_engine,
    since=2,
    rules=(same_layout("R-reciprocal-01", "data", "dst"),),
    flow="elementwise",
    cost=_reciprocal_cost,
    coincides={"dst": ("data",)},
)
def reciprocal(data: np.ndarray) -> np.ndarray:
    """dst[p, f] = 1 / data[p, f]"""
    return 1 / as_float(data)
