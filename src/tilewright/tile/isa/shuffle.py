"""Movement across partitions by the Vector engine: nc_stream_shuffle."""

from __future__ import annotations

import numpy as np

from tilewright.target import Target
from tilewright.tile.attrs import integers
from tilewright.tile.common import same_dtype
from tilewright.tile.cost import vector_rate
from tilewright.tile.record import Call, Verdict, check, instr, source, updated


@check("R-nc_stream_shuffle-01")
def lane_mask(call: Call) -> Verdict:
    width, keep = call.target["limits.shuffle_width"], call.target["limits.shuffle_keep"]
    mask = call.shuffle_mask
    if len(mask) != width:
        return f"shuffle_mask has {len(mask)} entries; it needs {width}"
    bad = [entry for entry in mask if entry != keep and not 0 <= entry < width]
    if bad:
        return f"shuffle_mask has entry {bad[0]}; entries are 0 to {width - 1}, or {keep} to keep a partition"
    for row in range(call.dst.partitions):
        entry = mask[row % width]
        lane = row - row % width + entry
        if entry != keep and lane >= call.src.partitions:
            return f"shuffle_mask takes partition {lane} for partition {row} of dst, but src has {call.src.partitions}"
    return None


@check("R-nc_stream_shuffle-03")
def equal_rows(call: Call) -> Verdict:
    if call.src.free != call.dst.free:
        return f"src has {call.src.free} elements per partition, but dst has {call.dst.free}"
    return None


@check("R-nc_stream_shuffle-04")
def shuffle_starts(call: Call) -> Verdict:
    """The start partitions follow from the larger operand, rounded up to whole quadrants."""
    width = call.target["limits.shuffle_width"]
    active = -(-max(call.src.partitions, call.dst.partitions) // width) * width
    # Of more partitions than there are, another rule speaks.
    starts = next((starts for limit, starts in call.target["memory.partition_starts"] if active <= limit), ())
    for name, view in call.tensors():
        if starts and view.start_partition not in starts:
            allowed = ", ".join(map(str, starts))
            return f"{name} starts at partition {view.start_partition}; with {active} active it may start at {allowed}"
    return None


@instr(
    nki="dst src shuffle_mask name",
    operands={
        "dst": updated("R-err-unsupported_memory-01", start=False),
        "src": source("R-err-unsupported_memory-01", start=False),
    },
    attrs={"shuffle_mask": integers()},
    engines=("vector",),
    engine=lambda call: "vector",
    since=2,
    rules=(lane_mask, same_dtype("R-nc_stream_shuffle-02", "src", "dst"), equal_rows, shuffle_starts),
    flow="movement",
    cost=vector_rate("shuffle"),
    # In place is documented; kernels spread one partition over its own quadrant that way.
    coincides={"dst": ("src",)},
    across=("src",),
)
def nc_stream_shuffle(dst: np.ndarray, src: np.ndarray, shuffle_mask: tuple[int, ...], target: Target) -> np.ndarray:
    """dst[32 * q + i, f] = src[32 * q + shuffle_mask[i], f] in every quadrant q; 255 leaves dst as it is"""
    rows = np.arange(dst.shape[0])
    lane = rows % target["limits.shuffle_width"]
    entry = np.asarray(shuffle_mask)[lane]
    moved = entry != target["limits.shuffle_keep"]
    shuffled = dst.copy()
    shuffled[moved] = src[(rows - lane + entry)[moved]]
    return shuffled
