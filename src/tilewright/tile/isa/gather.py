"""Gathers on GpSimd: nc_n_gather within each partition, local_gather with indices shared by 16 partitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.target import Target
from tilewright.tile.attrs import integer
from tilewright.tile.common import dtype_in, same_dtype
from tilewright.tile.cost import gpsimd, on_engine
from tilewright.tile.memory import SBUF
from tilewright.tile.record import Call, Cost, Verdict, check, instr, result, source

Report = Callable[..., None]


def on_gpsimd(call: Call) -> str:
    return "gpsimd"


@check("R-nc_n_gather-03")
def one_result_per_index(call: Call) -> Verdict:
    dst, data, indices = call.dst, call.data, call.indices
    limit = call.target["limits.partitions"]
    if not dst.partitions == data.partitions == indices.partitions <= limit:
        return (
            f"dst has {dst.partitions} partitions, data {data.partitions} and indices {indices.partitions}; "
            f"they must be equal and at most {limit}"
        )
    if dst.free != indices.free:
        return f"dst has {dst.free} elements per partition, but there are {indices.free} indices"
    return None


def in_bounds(indices: np.ndarray, bound: int, report: Report, rule: str, what: str, operand: str) -> np.ndarray:
    """The indices, which are those of an operand, reported and cut where they are not below `bound`."""
    beyond = indices >= bound
    if beyond.any():
        at = tuple(int(i) for i in np.argwhere(beyond)[0])
        report(
            rule,
            f"{what}: index {int(indices[at])} at {list(at)} is outside [0, {bound}); {int(beyond.sum())} of "
            f"{beyond.size} indices are",
            hint="clamp the indices; a value that nc_find_index8 did not find has index 0xFFFFFFFF",
            bad=(operand, bound),
        )
        indices = np.clip(indices, 0, max(bound - 1, 0))
    return indices


@instr(
    nki="dst data indices name",
    operands={
        "dst": result("R-nc_n_gather-01", (SBUF,)),
        "data": source("R-nc_n_gather-01", (SBUF,)),
        "indices": source("R-nc_n_gather-01", (SBUF,), defined=True),
    },
    attrs={},
    engines=("gpsimd",),
    engine=on_gpsimd,
    since=2,
    rules=(
        dtype_in("R-nc_n_gather-02", "indices", ("uint32",)),
        same_dtype("R-nc_n_gather-02", "dst", "data"),
        one_result_per_index,
    ),
    flow="movement",
    cost=lambda call: gpsimd(call, "n_gather", call.indices.free),
    coincides={"dst": ()},
    dynamic_rules=("R-nc_n_gather-04",),
)
def nc_n_gather(data: np.ndarray, indices: np.ndarray, report: Report) -> np.ndarray:
    """dst[p, i] = data[p, indices[p, i]], free dims flattened"""
    chosen = in_bounds(indices.astype(np.int64), data.shape[1], report, "R-nc_n_gather-04", "nc_n_gather", "indices")
    return np.take_along_axis(data, chosen, axis=1)


@check("R-local_gather-02")
def whole_groups(call: Call) -> Verdict:
    group = call.target["limits.gpsimd_group_partitions"]
    dst, src, index = call.dst.partitions, call.src_buffer.partitions, call.index.partitions
    if src != index or dst != src:
        return f"dst has {dst} partitions, src_buffer {src} and index {index}; they must be equal"
    if src % group:
        return f"{src} partitions are not a multiple of {group}, the partitions of a GpSimd core"
    return None


@check("R-local_gather-03")
def elements_per_index(call: Call) -> Verdict:
    allowed = call.target["limits.local_gather_elements"]
    if call.num_elem_per_idx in allowed:
        return None
    return f"num_elem_per_idx={call.num_elem_per_idx}; it must be one of {', '.join(map(str, allowed))}"


def valid_indices(call: Call) -> int:
    """How many indices each GpSimd core uses."""
    given = call.num_valid_indices
    return call.target["limits.gpsimd_group_partitions"] * call.index.free if given is None else given


@check("R-local_gather-04")
def index_count(call: Call) -> Verdict:
    held = call.target["limits.gpsimd_group_partitions"] * call.index.free
    limit, used = call.target["limits.local_gather_indices_max"], valid_indices(call)
    if not 1 <= used <= held:
        return f"num_valid_indices={used}, but index holds {held} for each GpSimd core"
    if used > limit:
        return f"{used} indices per GpSimd core; there may be {limit}", "gather in several instructions"
    return None


@check("R-local_gather-06")
def result_size(call: Call) -> Verdict:
    used, each = valid_indices(call), call.num_elem_per_idx
    if call.dst.free == used * each:
        return None
    return (
        f"dst has {call.dst.free} elements per partition, but {used} indices of {each} elements give {used * each}: "
        "num_elem_per_idx would be ignored",
        "pass num_valid_indices and num_elem_per_idx so that their product is the size of dst",
    )


def local_gather_cost(call: Call) -> Cost:
    """fixed + V * E / C, with C = ((startup + t E) / (t E)) / min(word / s, E)"""
    target, each = call.target, call.num_elem_per_idx
    steady = target["gpsimd.local_gather_cycles_per_element"] * each
    packed = min(target["gpsimd.local_gather_word_bytes"] / call.src_buffer.dtype.itemsize, each)
    rate = (target["gpsimd.local_gather_startup"] + steady) / steady / packed
    return on_engine(call, target["gpsimd.fixed_cycles"] + valid_indices(call) * each / rate)


@instr(
    nki="dst src_buffer index num_elem_per_idx num_valid_indices name",
    operands={
        "dst": result("R-err-unsupported_memory-01", (SBUF,)),
        "src_buffer": source("R-err-unsupported_memory-01", (SBUF,)),
        "index": source("R-err-unsupported_memory-01", (SBUF,), defined=True),
    },
    attrs={"num_elem_per_idx": integer(1, "R-local_gather-03"), "num_valid_indices": integer(None)},
    engines=("gpsimd",),
    engine=on_gpsimd,
    since=2,
    rules=(
        dtype_in("R-local_gather-01", "index", ("uint16",)),
        same_dtype("R-local_gather-01", "dst", "src_buffer"),
        whole_groups,
        elements_per_index,
        index_count,
        result_size,
    ),
    flow="movement",
    cost=local_gather_cost,
    coincides={"dst": ()},
    dynamic_rules=("R-local_gather-05",),
)
def local_gather(
    src_buffer: np.ndarray,
    index: np.ndarray,
    num_elem_per_idx: int,
    num_valid_indices: int | None,
    target: Target,
    report: Report,
) -> np.ndarray:
    """dst[p, v, e] = src_buffer[p, i[v] + e], where i = index of p's 16 partitions, partition fastest

    Indices count elements of the flattened free dims, also where several elements are read per index.
    """
    group = target["limits.gpsimd_group_partitions"]
    cores, free = len(src_buffer) // group, src_buffer.shape[1]
    starts = index.reshape(cores, group, -1).transpose(0, 2, 1).reshape(cores, -1)[:, :num_valid_indices]
    bound = max(free - num_elem_per_idx + 1, 0)
    starts = in_bounds(starts.astype(np.int64), bound, report, "R-local_gather-05", "local_gather", "index")
    chosen = (starts[:, :, None] + np.arange(num_elem_per_idx)).reshape(cores, 1, -1)
    lanes = src_buffer.reshape(cores, group, free)
    return np.take_along_axis(lanes, np.minimum(chosen, free - 1), axis=2).reshape(len(src_buffer), -1)
