"""Transposes: dma_transpose by DMA, nc_transpose by the Tensor and the Vector engine."""

from __future__ import annotations

import numpy as np

from tilewright.target import Target
from tilewright.tile.attrs import dge_mode, engine, enum, integer, integers, oob_mode
from tilewright.tile.common import runs_on, same_dtype
from tilewright.tile.cost import pe_transpose_cost, vector_rate
from tilewright.tile.dma import is_indirect, row_indices, transpose_cost
from tilewright.tile.isa.movement import (
    dynamic_descriptors,
    hardware_descriptors,
    has_index,
    on_dma,
    priority_level,
)
from tilewright.tile.memory import PSUM, SBUF
from tilewright.tile.record import DMA, Call, Check, Cost, Verdict, check, f32, instr, result, source
from tilewright.tile.view import View

AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""The one permutation for each rank."""


@check("R-dma_transpose-01")
def legal_axes(call: Call) -> Verdict:
    legal = AXES.get(call.src.ndim)
    if legal is None:
        return f"src has {call.src.ndim} dims; a DMA transposes 2, 3 or 4"
    if call.axes is not None and call.axes != legal:
        return f"axes {call.axes} of a {len(legal)}-D src; the only permutation is {legal}"
    return None


@check("R-dma_transpose-02")
def transposed_shape(call: Call) -> Verdict:
    axes = AXES.get(call.src.ndim)
    if axes is None:
        return None
    wanted = tuple(call.src.sizes[axis] for axis in axes)
    if call.dst.sizes != wanted:
        return f"dst is {list(call.dst.sizes)}; src {list(call.src.sizes)} transposed is {list(wanted)}"
    return None


@check("R-dma_transpose-05")
def direct_mode(call: Call) -> Verdict:
    # The reference of the instruction lists two modes, the DGE guide also none: descriptors computed beforehand are no
    # new abilities, and kernels of the same release transpose so.
    if not has_index(call.src) and call.dge_mode not in ("unknown", "hwdge", "none"):
        return f"dge_mode {call.dge_mode}; a direct transpose takes unknown, hwdge or none"
    return None


@check("R-dma_transpose-06")
def hardware_rows(call: Call) -> Verdict:
    if call.dge_mode != "hwdge" or call.src.ndim not in AXES:
        return None
    limits, rows = call.target, call.src.sizes[0]
    if call.src.ndim == 2:
        wanted = limits["limits.dma_transpose_hwdge_rows_2d"]
        return None if rows == wanted else f"hwdge transposes {wanted} rows of a 2-D src, not {rows}"
    allowed, multiple = limits["limits.dma_transpose_hwdge_rows"], limits["limits.dma_transpose_rows_multiple"]
    if rows not in allowed:
        return f"hwdge transposes {', '.join(map(str, allowed))} rows of a 3-D or 4-D src, not {rows}"
    total = rows * call.src.sizes[-2]
    return None if total % multiple == 0 else f"{rows} * {call.src.sizes[-2]} rows are no multiple of {multiple}"


@check("R-dma_transpose-07")
def hardware_columns(call: Call) -> Verdict:
    limit = call.target["limits.dma_transpose_columns_max"]
    if call.dge_mode == "hwdge" and call.src.sizes[-1] > limit:
        return f"the last dim of src is {call.src.sizes[-1]}; hwdge transposes at most {limit}"
    return None


@check("R-dma_transpose-08")
def two_bytes(call: Call) -> Verdict:
    size = call.target["limits.dma_transpose_itemsize"]
    special = "hwdge" if call.dge_mode == "hwdge" else "an indirect transpose" if is_indirect(call.src) else None
    if special is not None and call.src.dtype.itemsize != size:
        return f"{special} takes {size}-byte elements, but src is {call.src.dtype}"
    return None


@check("R-dma_transpose-09")
def indirect_mode(call: Call) -> Verdict:
    if not is_indirect(call.src):
        return None
    if not call.target["features.dma_transpose_indirect"]:
        return "an indirect transpose needs NeuronCore-v3 or newer"
    if call.dge_mode not in ("unknown", "swdge"):
        return f"dge_mode {call.dge_mode}; an indirect transpose takes unknown or swdge"
    return None


@check("R-dma_transpose-10")
def indirect_middle(call: Call) -> Verdict:
    sizes = call.src.sizes
    if is_indirect(call.src) and len(sizes) == 4 and 1 not in sizes[1:3]:
        return f"src is {list(sizes)}; dim 1 or dim 2 of an indirect 4-D src is 1"
    return None


@check("R-dma_transpose-11")
def indirect_shape(call: Call) -> Verdict:
    if not is_indirect(call.src):
        return None
    rows, columns = call.src.sizes[0], call.src.sizes[-1]
    multiple, limit = call.target["limits.dma_transpose_rows_multiple"], call.target["limits.dma_transpose_columns_max"]
    if rows % multiple:
        return f"{rows} rows; an indirect transpose takes a multiple of {multiple}"
    return None if columns <= limit else f"the last dim of src is {columns}; an indirect transpose takes {limit}"


@check("R-dma_transpose-12")
def indirect_indices(call: Call) -> Verdict:
    target, index = call.target, row_indices(call.src)
    if index is None:
        return None
    low, high = target["limits.dma_transpose_index_partitions_min"], target["limits.dma_transpose_index_partitions_max"]
    multiple = target["limits.dma_transpose_rows_multiple"]
    if index.dtype != "uint32" or index.ndim != 2:
        return f"indices are {index.dtype}{list(index.sizes)}; they must be a 2-D tile of uint32"
    if not low <= index.partitions <= high or index.partitions % multiple:
        return f"indices have {index.partitions} partitions; it must be {low} to {high} and a multiple of {multiple}"
    if index.free > 1 and index.partitions != high:
        return f"indices are {list(index.sizes)}; with several columns they need {high} partitions"
    return None


@check("R-dma_transpose-13")
def skip_needs_index(call: Call) -> Verdict:
    if call.oob_mode == "skip" and not has_index(call.src):
        return "oob_mode.skip, but src has no run-time index"
    return None


@instr(
    nki="dst src axes priority dge_mode oob_mode name",
    operands={
        "dst": result("R-dma_transpose-03", (SBUF,), layout="full", start=False),
        "src": source("R-dma_transpose-03", DMA, layout="full", start=False),
    },
    attrs={
        "axes": integers(None),
        "priority": integer(None),
        "dge_mode": enum(dge_mode, "unknown"),
        "oob_mode": enum(oob_mode, "error"),
    },
    engines=("dma",),
    engine=on_dma,
    since=2,
    rules=(
        legal_axes,
        transposed_shape,
        same_dtype("R-dma_transpose-04", "src", "dst"),
        hardware_descriptors,
        dynamic_descriptors,
        direct_mode,
        hardware_rows,
        hardware_columns,
        two_bytes,
        indirect_mode,
        indirect_middle,
        indirect_shape,
        indirect_indices,
        skip_needs_index,
        priority_level,
    ),
    flow="movement",
    cost=transpose_cost,
    coincides={"dst": ()},
    dynamic_rules=("R-dma_copy-11",),
)
def dma_transpose(src: np.ndarray) -> np.ndarray:
    """dst[j, i] = src[i, j]; dst[k, j, i] = src[i, j, k]; dst[l, j, k, i] = src[i, j, k, l]

    With indices, row i of src is row indices.T.flatten()[i] of its tensor.
    """
    return src.transpose(AXES[src.ndim])


# nc_transpose.


def transpose_engine(call: Call) -> str:
    """R-nc_transpose-05: by memory, since the Tensor engine goes from SBUF to PSUM only, then by size."""
    target, data = call.target, call.data
    if call.dst.memory is SBUF or data.memory is PSUM:
        return target["engines.nc_transpose_sbuf"]
    small = max(data.partitions, data.free) <= target["limits.transpose_vector_max"]
    return target["engines.nc_transpose_small" if small else "engines.nc_transpose"]


@check("R-nc_transpose-01")
def tensor_engine_memories(call: Call) -> Verdict:
    # Part of R-engine-02: the Tensor engine reads SBUF and writes PSUM.
    if call.engine != "tensor":
        return None
    if call.data.memory is not SBUF:
        return f"the Tensor engine reads sbuf, but data is in {call.data.memory.value}", "use engine=nisa.engine.vector"
    if call.dst.memory is not PSUM:
        return f"the Tensor engine writes psum, but dst is in {call.dst.memory.value}", "allocate dst in nl.psum"
    return None


@check("R-nc_transpose-03")
def transpose_size(call: Call) -> Verdict:
    if call.engine not in call.record.engines:
        return None
    limit = call.target[f"limits.transpose_{call.engine}_max"]
    if call.data.partitions > limit or call.data.free > limit:
        size = f"[{call.data.partitions}, {call.data.free}]"
        hint = "write to psum: the Tensor engine takes more" if call.engine == "vector" else "transpose it in pieces"
        return f"data is {size}; the {call.engine} engine transposes at most [{limit}, {limit}]", hint
    return None


@check("R-nc_transpose-04")
def swapped_shape(call: Call) -> Verdict:
    rows, columns = call.data.free, call.data.partitions
    if (call.dst.partitions, call.dst.free) != (rows, columns):
        return f"dst is [{call.dst.partitions}, {call.dst.free}]; data transposed is [{rows}, {columns}]"
    return None


def float8_elements(data: str) -> Check:
    """The Tensor engine's transpose mode writes float8 as 16-bit elements with a zero upper byte.

    So a float8 destination must leave every second byte out; that byte is not modelled.
    """

    def test(call: Call) -> Verdict:
        given: View = call.operands[data]
        dst: View = call.dst
        wide = call.engine == "tensor" and call.target["features.transpose_float8_as_16bit"]
        if not wide or not given.dtype.startswith("float8") or not call.attrs.get("is_transpose", True):
            return None
        steps = [stride for size, stride in zip(dst.sizes[1:], dst.strides[1:], strict=True) if size > 1]
        if dst.dtype.itemsize == 1 and all(step % 2 == 0 for step in steps):
            return None
        return (
            "a float8 transpose on the Tensor engine writes 16-bit elements with a zero upper byte",
            "make psum twice as wide and pass every second element as dst, or transpose as bfloat16",
        )

    return Check("R-nc_transpose-06", test)


def nc_transpose_cost(call: Call) -> Cost:
    """max(P, min(64, F)) columns on the Tensor engine; N elements on the Vector engine."""
    return pe_transpose_cost(call, call.data) if call.engine == "tensor" else vector_rate("transpose")(call)


@instr(
    nki="dst data engine name",
    operands={"dst": result("R-nc_transpose-01"), "data": source("R-nc_transpose-01")},
    attrs={"engine": enum(engine, "unknown")},
    engines=("tensor", "vector"),
    engine=transpose_engine,
    since=2,
    rules=(
        runs_on("R-nc_transpose-05", "tensor", "vector"),
        tensor_engine_memories,
        same_dtype("R-nc_transpose-02", "data", "dst"),
        transpose_size,
        swapped_shape,
        float8_elements("data"),
    ),
    flow="movement",
    cost=nc_transpose_cost,
    coincides={"dst": ()},
)
def nc_transpose(data: np.ndarray, target: Target, resolved_engine: str) -> np.ndarray:
    """dst[f, p] = data[p, f]

    Before NeuronCore-v3 the Tensor engine multiplies by an identity: NaN and infinity spread (R-nc_transpose-07).
    """
    exact = resolved_engine == "vector" or target["features.transpose_bit_exact"]
    if exact or data.dtype.kind in "iub":
        return data.T
    return f32(data).T @ np.eye(data.shape[0], dtype=np.float32)
