"""Operators with a number or a column per partition: tensor_scalar, scalar_tensor_tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.tile.alu import ALU, ARITHMETIC, apply, as_float, from_pattern, note_rounding, pattern
from tilewright.tile.attrs import alu, engine, enum, flag
from tilewright.tile.common import INT32, as_integers, column, not_both_psum, same_layout
from tilewright.tile.indirect import index_of, indirection
from tilewright.tile.isa.elementwise import on_vector
from tilewright.tile.record import MISSING, Call, Check, Cost, Verdict, check, instr, result, source
from tilewright.tile.streaming import at_rate, half_floats, tensor_scalar_cost
from tilewright.tile.view import View

SCALAR_COMBINATIONS = (("multiply", "add"), ("multiply", None), ("add", None))


def operators(call: Call) -> list[str]:
    """The operators an instruction applies, in order."""
    return [op for op in (call.op0, call.op1) if op is not None]


def unary_operand(call: Call, op: str, operand: str) -> Verdict:
    """A unary operator's operand is None or 0; another operator needs one."""
    name, given = call.attrs[op], call.operands[operand]
    if not ALU[name].unary:
        return f"{op}={name} needs {operand}" if given is None else None
    idle = given is None or (not isinstance(given, View) and given == 0)
    return None if idle else f"{op}={name} is unary; {operand} must be None or 0"


def operand_of_unary(rule: str) -> Check:
    """operand0 fits op0."""
    return Check(rule, lambda call: unary_operand(call, "op0", "operand0"))


def newer_unary(*names: str) -> Check:
    """square and relu need a newer generation (R-engine-14)."""

    def test(call: Call) -> Verdict:
        found = [call.attrs[name] for name in names if call.attrs[name] in ("square", "relu")]
        if not found or call.target["features.tensor_scalar_square_relu"]:
            return None
        return f"{found[0]} is not an operator of this instruction on {call.target.name}", "use activation"

    return Check("R-engine-14", test)


@check("R-tensor_scalar-02")
def float32_operands(call: Call) -> Verdict:
    if ALU[call.op0].bitvec:
        return None
    for name in ("operand0", "operand1"):
        view = call.operands[name]
        if isinstance(view, View) and view.dtype != "float32":
            return f"{name} is {view.dtype}; a tile operand of an arithmetic operator must be float32"
    return None


@check("R-tensor_scalar-03")
def same_kind(call: Call) -> Verdict:
    if call.op1 is None or ALU[call.op0].bitvec == ALU[call.op1].bitvec:
        return None
    return f"{call.op0} and {call.op1} mix bit patterns and arithmetic; split them into two instructions"


@check("R-tensor_scalar-04")
def bitvec_on_vector(call: Call) -> Verdict:
    bitvec = [op for op in operators(call) if ALU[op].bitvec]
    if not bitvec:
        return None
    if call.engine != "vector":
        return f"{bitvec[0]} runs on the Vector engine only, not on {call.engine}"
    for name in ("data", "dst", "operand0", "operand1"):
        operand = call.operands[name]
        kind = operand.dtype if isinstance(operand, View) else None
        if (kind is not None and not kind.is_integer) or isinstance(operand, float):
            message = f"{bitvec[0]} works on bit patterns of integers, but {name} is {kind or repr(operand)}"
            hint = as_integers(name, operand) if isinstance(operand, View) else "pass an integer"
            return message, hint
    return None


@check("R-tensor_scalar-05")
def scalar_engine_operators(call: Call) -> Verdict:
    if call.engine != "scalar" or call.target["features.scalar_tensor_scalar_any_op"]:
        return None
    if not call.target["features.scalar_tensor_scalar"]:
        return f"the Scalar engine of {call.target.name} has no tensor_scalar", "use activation with scale and bias"
    if (call.op0, call.op1) in SCALAR_COMBINATIONS:
        return None
    return (
        f"the Scalar engine of {call.target.name} does not combine {call.op0} and {call.op1}",
        "it takes multiply then add, multiply alone, or add alone; leave the engine out for others",
    )


@check("R-tensor_scalar-06")
def rsqrt_on_gpsimd(call: Call) -> Verdict:
    rsqrt = "rsqrt" in operators(call)
    if call.engine not in ("vector", "scalar", "gpsimd"):
        return f"cannot run on the {call.engine} engine, only vector, scalar or gpsimd"
    if call.engine == "gpsimd" and not rsqrt:
        return "GpSimd runs it for rsqrt only", "leave the engine out, or choose nisa.engine.vector"
    if call.engine == "vector" and rsqrt:
        return "the Vector engine has no rsqrt", "leave the engine out: it runs on GpSimd"
    return None


@check("R-tensor_scalar-07")
def second_operand(call: Call) -> Verdict:
    if call.op1 is None:
        return "operand1 is given without op1" if call.operand1 is not None else None
    return unary_operand(call, "op1", "operand1")


@check("R-tensor_scalar-10")
def no_indirect_addresses(call: Call) -> Verdict:
    """Sums and products of 32-bit integers are how addresses are computed, by an instruction of its own."""
    if index_of(call.data) is None and index_of(call.dst) is None:
        return None
    if call.data.dtype in INT32 and call.dst.dtype in INT32 and {*operators(call)} <= {"add", "subtract", "multiply"}:
        return "arithmetic on addresses (32-bit integers) takes no indirect views", "copy the columns first"
    return None


def scalar_operand_engine(call: Call) -> str:
    return call.target["engines.tensor_scalar_rsqrt" if "rsqrt" in operators(call) else "engines.tensor_scalar"]


LISTED = (*(row.name for row in ALU.values() if row.listed), "bypass")


@instr(
    nki="dst data op0 operand0 reverse0 op1 operand1 reverse1 engine name",
    operands={
        "dst": result("R-err-unsupported_memory-01", indirect=True),
        "data": source("R-err-unsupported_memory-01", indirect=True),
        "operand0": source("R-tensor_scalar-01", number=True, optional=True, layout="column", default=MISSING),
        "operand1": source("R-tensor_scalar-01", number=True, optional=True, layout="column"),
    },
    attrs={
        "op0": alu("R-tensor_scalar-03", allowed=LISTED),
        "reverse0": flag(),
        "op1": alu("R-tensor_scalar-03", allowed=LISTED, default=None),
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
        same_kind,
        second_operand,
        operand_of_unary("R-tensor_scalar-08"),
        newer_unary("op0", "op1"),
        bitvec_on_vector,
        float32_operands,
        scalar_engine_operators,
        rsqrt_on_gpsimd,
        indirection("R-tensor_scalar-10", "vector", "scalar", "gpsimd"),
        no_indirect_addresses,
    ),
    flow="elementwise",
    cost=tensor_scalar_cost,
    coincides={"dst": ("data", "operand0", "operand1")},
)
def tensor_scalar(
    data: np.ndarray,
    operand0: Any,
    operand1: Any,
    op0: str,
    reverse0: bool,
    op1: str | None,
    reverse1: bool,
    dtype: DType,
) -> np.ndarray:
    """dst[p, f] = op1(op0(data[p, f], operand0[p]), operand1[p]); reverse exchanges the arguments of an operator"""
    if ALU[op0].bitvec:
        bits = _on_bits(op0, data, operand0, reverse0)
        return from_pattern(bits if op1 is None else _on_bits(op1, bits, operand1, reverse1), dtype)
    computed = apply(op0, as_float(data), number_or_column(operand0), reverse0)
    if op1 is not None:
        computed = apply(op1, computed, number_or_column(operand1), reverse1)
    note_rounding(computed, dtype, data)
    return computed


def number_or_column(operand: Any) -> Any:
    """What an engine sees of an operand that may be absent."""
    return None if operand is None else as_float(operand)


def _on_bits(op: str, x: np.ndarray, operand: Any, reverse: bool) -> np.ndarray:
    width = max(x.dtype.itemsize, operand.dtype.itemsize if isinstance(operand, np.ndarray) else 1)
    return apply(op, pattern(x, width), None if operand is None else pattern(operand, width), reverse)


# scalar_tensor_tensor


def scalar_tensor_tensor_cost(call: Call) -> Cost:
    """N cycles for an even number of 16-bit floats that are subtracted or multiplied, else 2N."""
    half = half_floats(call.data, call.operand1, call.dst) and call.op1 in ("subtract", "multiply")
    fast = half and call.data.free % 2 == 0
    return at_rate(call, "scalar_tensor_tensor_16bit" if fast else "scalar_tensor_tensor")


@instr(
    nki="dst data op0 operand0 op1 operand1 reverse0 reverse1 name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "data": source("R-err-unsupported_memory-01"),
        "operand0": source("R-err-unsupported_memory-01", number=True, optional=True, layout="column"),
        "operand1": source("R-err-unsupported_memory-01"),
    },
    attrs={
        "op0": alu("R-scalar_tensor_tensor-01", allowed=ARITHMETIC),
        "op1": alu("R-scalar_tensor_tensor-01", allowed=[op for op in ARITHMETIC if not ALU[op].unary]),
        "reverse0": flag(),
        "reverse1": flag(),
    },
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(
        same_layout("R-scalar_tensor_tensor-03", "data", "operand1", "dst"),
        column("R-scalar_tensor_tensor-03", "operand0", "data"),
        not_both_psum("R-scalar_tensor_tensor-02", "data", "operand1"),
        operand_of_unary("R-scalar_tensor_tensor-01"),
        newer_unary("op0"),
    ),
    flow="elementwise",
    cost=scalar_tensor_tensor_cost,
    coincides={"dst": ("data", "operand0", "operand1")},
)
def scalar_tensor_tensor(
    data: np.ndarray,
    operand0: Any,
    operand1: np.ndarray,
    op0: str,
    op1: str,
    reverse0: bool,
    reverse1: bool,
    dtype: DType,
) -> np.ndarray:
    """dst[p, f] = op1(op0(data[p, f], operand0[p]), operand1[p, f]); reverse exchanges an operator's arguments"""
    first = apply(op0, as_float(data), number_or_column(operand0), reverse0)
    computed = apply(op1, first, as_float(operand1), reverse1)
    note_rounding(computed, dtype, data, operand1)
    return computed
