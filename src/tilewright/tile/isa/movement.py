"""Data movement by DMA: dma_copy and dma_compute, and the rules that DMA instructions share."""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import DType, round_to
from tilewright.tile.alu import as_float
from tilewright.tile.attrs import alu, dge_mode, engine, enum, flag, integer, numbers, oob_mode
from tilewright.tile.dma import compute_cost, copy_cost, is_indirect, row_indices
from tilewright.tile.memory import SBUF
from tilewright.tile.record import DMA, Call, Verdict, check, instr, result, source
from tilewright.tile.view import View, same_access


def on_dma(call: Call) -> str:
    """DMA queues, whichever engine triggers them."""
    return "dma"


def has_index(view: View) -> bool:
    """The address depends on a value that only a run knows."""
    return view.dynamic is not None


# Rules that DMA instructions share. That DMA does not reach PSUM (R-engine-03) follows from their operands' memories.


@check("R-dma_copy-06")
def hardware_descriptors(call: Call) -> Verdict:
    if call.dge_mode == "hwdge" and not call.target["features.hwdge"]:
        return "dge_mode hwdge needs NeuronCore-v3 or newer", "leave dge_mode out"
    return None


@check("R-dma_copy-09")
def dynamic_descriptors(call: Call) -> Verdict:
    dynamic = [name for name, view in call.tensors() if has_index(view) and not is_indirect(view)]
    if call.dge_mode == "none" and dynamic:
        return (
            f"{dynamic[0]} has a run-time offset, but dge_mode none writes descriptors before the run",
            "use dge_mode unknown, swdge or hwdge",
        )
    return None


@check("R-dma_copy-13")
def priority_level(call: Call) -> Verdict:
    if call.priority is None:
        return None
    if not call.target["features.dma_priority"]:
        return "priority needs NeuronCore-v4", "leave it out"
    top = call.target["limits.dma_priority_max"]
    return None if 0 <= call.priority <= top else f"priority is {call.priority}; levels are 0 to {top}"


# dma_copy.


@check("R-dma_copy-02")
def equal_counts(call: Call) -> Verdict:
    dst, src = call.dst, call.src
    if dst.size != src.size:
        message = f"dst has {dst.size} elements, but src has {src.size}"
        if src.size and dst.size % src.size == 0 and dst.size == dst.partitions * src.size:
            row = "src.expand_dim(0)" if src.ndim == 1 else "src"
            return message, f"give every partition the same row: {row}.broadcast(0, {dst.partitions})"
        return message, f"slice both to the same {min(dst.size, src.size)} elements"
    return None


@check("R-dma_copy-04")
def hardware_cast(call: Call) -> Verdict:
    if call.dge_mode == "hwdge" and call.dst.dtype != call.src.dtype:
        return (
            f"src is {call.src.dtype} and dst {call.dst.dtype}, but dge_mode hwdge does not cast",
            "leave dge_mode out, or reinterpret one side with .view(dtype)",
        )
    return None


@check("R-dma_copy-05")
def packed_cast(call: Call) -> Verdict:
    if call.dst.dtype != call.src.dtype and "p" in (call.dst.dtype.kind, call.src.dtype.kind):
        return f"DMA does not cast {call.src.dtype} to {call.dst.dtype}", "reinterpret one side with .view(dtype)"
    return None


@check("R-dma_copy-07")
def hardware_gather(call: Call) -> Verdict:
    if call.dge_mode == "hwdge" and any(is_indirect(view) for _, view in call.tensors()):
        return "dge_mode hwdge has no gather or scatter (vector_offset)", "use dge_mode unknown or swdge"
    return None


@check("R-dma_copy-08")
def static_gather(call: Call) -> Verdict:
    if call.dge_mode == "none" and any(is_indirect(view) for _, view in call.tensors()):
        return "vector_offset needs dge_mode unknown or swdge, not none"
    return None


@check("R-dma_copy-10")
def trigger_engine(call: Call) -> Verdict:
    trigger = call.attrs["engine"]
    if trigger == "unknown":
        return None
    if call.dge_mode != "hwdge":
        return f"engine is only for dge_mode hwdge, but dge_mode is {call.dge_mode}", "leave engine out"
    if trigger not in ("sync", "scalar"):
        return f"engine is {trigger}; hwdge is triggered by sync or scalar"
    return None


@check("R-dma_copy-12")
def one_index_per_row(call: Call) -> Verdict:
    for name, view in call.tensors():
        index, rows = row_indices(view), view.sizes[0]
        if index is not None and (index.partitions != rows or index.free != 1):
            return f"vector_offset of {name} is {list(index.sizes)}; {rows} rows need ({rows}, 1)"
    return None


@check("R-dma_copy-15")
def gather_generation(call: Call) -> Verdict:
    if not call.target["features.swdge_indirect"] and any(is_indirect(view) for _, view in call.tensors()):
        return (
            "gather and scatter by vector_offset need NeuronCore-v3 or newer",
            "load the table and pick from it with nc_n_gather, or multiply by a matrix of zeros and ones (nc_matmul)",
        )
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
    rules=(
        equal_counts,
        hardware_cast,
        packed_cast,
        hardware_descriptors,
        hardware_gather,
        static_gather,
        dynamic_descriptors,
        trigger_engine,
        one_index_per_row,
        priority_level,
        gather_generation,
    ),
    flow="movement",
    cost=copy_cost,
    coincides={"dst": ("src",)},
    copies=True,
    dynamic_rules=("R-dma_copy-11",),
    removed={
        "dst_rmw_op": ("R-dma_copy-14", "add with nisa.dma_compute(dst, [dst, src], reduce_op=nl.add)"),
        "unique_indices": ("R-dma_copy-14", "it is a parameter of nisa.dma_compute now"),
    },
)
def dma_copy(src: np.ndarray, dtype: DType) -> np.ndarray:
    """dst[i] = src[i], elements in row-major order of the two access patterns

    Equal dtypes keep their bits; others cast through float32 (R-dma_copy-03).
    """
    return src if src.dtype == dtype.np else round_to(as_float(src), dtype)


# dma_compute.


@check("R-dma_compute-01")
def unit_scales(call: Call) -> Verdict:
    if call.scales is None:
        return None
    if len(call.scales) != len(call.srcs):
        return f"{len(call.scales)} scales for {len(call.srcs)} srcs"
    odd = [scale for scale in call.scales if scale != 1]
    return (f"scale {odd[0]}; DMA has no scaling but 1.0", "scale with tensor_scalar") if odd else None


@check("R-dma_compute-02")
def equal_sources(call: Call) -> Verdict:
    limit = call.target["limits.dma_compute_sources_max"]
    if len(call.srcs) > limit:
        return f"{len(call.srcs)} srcs; at most {limit}"
    for name, view in call.tensors():
        if view.size != call.dst.size:
            return f"{name} has {view.size} elements, but dst has {call.dst.size}"
    return None


@check("R-dma_compute-04")
def read_modify_write(call: Call) -> Verdict:
    """Scatter: dst[indices] += src in SBUF. Gather: dst in SBUF += src[indices]."""
    if not any(is_indirect(view) for _, view in call.tensors()):
        return None
    wanted = call.target["limits.dma_compute_indirect_sources"]
    if len(call.srcs) != wanted:
        return f"vector_offset with {len(call.srcs)} srcs; it takes {wanted}, dst itself and the data"
    if not call.unique_indices:
        return "vector_offset needs unique_indices=True"
    matching = [src for src in call.srcs if same_access(src, call.dst)]
    if not matching:
        return "with vector_offset one of srcs must be dst itself, with the same indices"
    (data,) = [src for src in call.srcs if src is not matching[0]]
    if is_indirect(call.dst):
        return None if data.memory is SBUF else f"the data of a scatter is in {data.memory.value}; it must be in sbuf"
    return None if call.dst.memory is SBUF else f"dst of a gather is in {call.dst.memory.value}; it must be in sbuf"


@check("R-dma_compute-05")
def skip_needs_indices(call: Call) -> Verdict:
    if call.oob_mode == "skip" and not any(is_indirect(view) for _, view in call.tensors()):
        return "oob_mode.skip, but no operand has a vector_offset"
    return None


@check("R-dma_compute-06")
def static_addresses(call: Call) -> Verdict:
    for name, view in call.tensors():
        if has_index(view) and not is_indirect(view):
            return f"{name} has a run-time offset", "use vector_offset, or copy with dma_copy first"
    return None


@instr(
    nki="dst srcs reduce_op scales unique_indices oob_mode name",
    operands={
        "dst": result("R-dma_compute-03", DMA, layout="full", start=False),
        "srcs": source("R-dma_compute-03", DMA, layout="full", start=False, many=True),
    },
    attrs={
        "reduce_op": alu("R-dma_compute-01", allowed=("add",)),
        "scales": numbers(None),
        "unique_indices": flag(True),
        "oob_mode": enum(oob_mode, "error"),
    },
    engines=("dma",),
    engine=on_dma,
    since=2,
    rules=(unit_scales, equal_sources, read_modify_write, skip_needs_indices, static_addresses),
    flow="elementwise",
    cost=compute_cost,
    coincides={"dst": ("srcs",)},
    compares=True,
    dynamic_rules=("R-dma_compute-07", "R-dma_copy-11"),
)
def dma_compute(srcs: list[np.ndarray]) -> np.ndarray:
    """dst[i] = srcs[0][i] + srcs[1][i] + ..., in float32, in this order"""
    total = as_float(srcs[0]).reshape(-1)
    for src in srcs[1:]:
        total = total + as_float(src).reshape(-1)
    return total
