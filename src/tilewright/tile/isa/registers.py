"""Registers of the engines' sequencers: register_move, register_load, register_store.

A register holds a number: an int of 32 bits, or the float that was loaded. Integers keep their bit pattern when they
are stored; between integers and floats the number is converted (the documentation leaves both open).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.tile.alu import are_numbers
from tilewright.tile.record import DMA, Call, Cost, OperandSpec, Verdict, check, instr, result, source


def on_sequencer(call: Call) -> str:
    return "sync"


def register_cost(call: Call) -> Cost:
    """A fixed time: a sequencer has no elements to stream."""
    spent = call.target["sequencer.register_ns"]
    return Cost(spent, spent)


def _one_element(name: str) -> Any:
    @check("R-register-01")
    def test(call: Call) -> Verdict:
        view, width = call.operands[name], call.target["limits.register_bytes"]
        if view.size != 1 or view.ndim > 2:
            return f"{name} is {list(view.sizes)}; it must hold one element ([1] or [1, 1])", "slice one element of it"
        if view.dtype.itemsize > width:
            return f"{name} is {view.dtype}; a register has {width} bytes"
        return None

    return test


REGISTER_RESULT = OperandSpec(False, True, (), "R-register-04", register=True)


@instr(
    nki="dst src",
    operands={"dst": REGISTER_RESULT, "src": source("R-register-04", (), number=True, register=True)},
    attrs={},
    engines=("sync",),
    engine=on_sequencer,
    since=2,
    rules=(),
    flow="elementwise",
    cost=register_cost,
    coincides={"dst": ("src",)},
)
def register_move(src: Any) -> Any:
    """dst = src, a constant or what another register holds"""
    return src


@instr(
    nki="dst src",
    operands={"dst": REGISTER_RESULT, "src": source("R-register-01", DMA, layout="full", defined=True, start=False)},
    attrs={},
    engines=("sync",),
    engine=on_sequencer,
    since=2,
    rules=(_one_element("src"),),
    flow="refuse",
    cost=register_cost,
    coincides={"dst": ()},
    dynamic_rules=("R-register-03",),
)
def register_load(src: np.ndarray) -> int | float:
    """dst = src[0], the only element"""
    element = src.reshape(-1)[0]
    if not are_numbers(src):
        return element
    return int(element) if src.dtype.kind in "iub" else float(element)


@instr(
    nki="dst src",
    operands={
        "dst": result("R-register-01", DMA, layout="full", start=False),
        "src": source("R-register-04", (), register=True),
    },
    attrs={},
    engines=("sync",),
    engine=on_sequencer,
    since=2,
    rules=(_one_element("dst"),),
    flow="elementwise",
    cost=register_cost,
    coincides={"dst": ()},
    dynamic_rules=("R-register-03",),
)
def register_store(src: Any, dtype: DType) -> np.ndarray:
    """dst[0] = src"""
    if isinstance(src, int) and dtype.is_integer:
        pattern = np.array(src % 2**32, np.uint32)
        return pattern.astype(dtype.np)
    return np.array(0 if src is None else src, np.float32)
