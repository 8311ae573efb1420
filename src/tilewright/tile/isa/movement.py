"""Data movement by DMA: dma_copy."""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import DType, round_to
from tilewright.tile.attrs import dge_mode, engine, enum, integer, oob_mode
from tilewright.tile.cost import dma_cost
from tilewright.tile.record import DMA, Call, Verdict, check, f32, instr, result, source


def on_dma(call: Call) -> str:
    """DMA queues, whichever engine triggers them."""
    return "dma"


@check("R-dma_copy-02")
def equal_counts(call: Call) -> Verdict:
    if call.dst.size != call.src.size:
        return f"dst has {call.dst.size} elements, but src has {call.src.size}"
    return None


@instr(
    nki="dst src priority oob_mode dge_mode engine name",
    operands={
        "dst": result("R-dma_copy-01", DMA, layout="full", start=False),
        "src": source("R-dma_copy-01", DMA, layout="full", start=False),
    },
    attrs={
        "priority": integer(None),
        "oob_mode": enum(oob_mode, "error"),
        "dge_mode": enum(dge_mode, "unknown"),
        "engine": enum(engine, "unknown"),
    },
    engines=("dma",),
    engine=on_dma,
    since=2,
    rules=(equal_counts,),
    flow="movement",
    cost=dma_cost,
    dynamic_rules=("R-dma_copy-11",),
)
def dma_copy(src: np.ndarray, dtype: DType) -> np.ndarray:
    """dst[i] = src[i], elements in row-major order of the two access patterns; casts go through float32"""
    return src if src.dtype == dtype.np else round_to(f32(src), dtype)
