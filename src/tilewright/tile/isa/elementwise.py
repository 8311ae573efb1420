"""Elementwise instructions of the Vector and GpSimd engines."""

from __future__ import annotations

import numpy as np

from tilewright.tile.alu import ALU
from tilewright.tile.attrs import alu, engine, enum
from tilewright.tile.common import bitvec_integers, not_both_psum, same_layout
from tilewright.tile.cost import vector_rate
from tilewright.tile.record import Call, f32, instr, result, source


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
