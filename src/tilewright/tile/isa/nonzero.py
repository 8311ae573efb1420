"""Positions of nonzero elements: nonzero_with_count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.target import Target
from tilewright.tile.attrs import integer
from tilewright.tile.common import dtype_in, same_partitions
from tilewright.tile.cost import gpsimd
from tilewright.tile.memory import SBUF
from tilewright.tile.record import Call, Cost, Verdict, check, instr, source, updated

INT32 = np.iinfo(np.int32)


@check("R-nonzero_with_count-02")
def room_for_the_count(call: Call) -> Verdict:
    extra = call.target["limits.nonzero_extra_elements"]
    if call.dst.free != call.src.free + extra:
        return f"dst has {call.dst.free} elements per partition; src has {call.src.free}, so that it needs {extra} more"
    return None


@check("R-nonzero_with_count-03")
def fits_int32(call: Call) -> Verdict:
    for name in ("index_offset", "padding_val"):
        if not INT32.min <= call.attrs[name] <= INT32.max:
            return f"{name} is {call.attrs[name]}, which is no int32"
    return None


def nonzero_cost(call: Call) -> Cost:
    return gpsimd(call, "nonzero_with_count", call.src.free)


def lanes(count: int, lane: int, target: Target) -> list[int]:
    """The partitions of an access that GpSimd cores reach: the first of each core's (R-nonzero_with_count-04)."""
    return [row for row in range(count) if (lane + row) % target["limits.nonzero_partition_step"] == 0]


def origins(arrays: Sequence[Any], codes: Sequence[Any], extra: Mapping[str, Any]) -> np.ndarray:
    """A row that is written is undefined as a whole when any element of src's row is; other rows stay as they are."""
    kept, src = codes
    found = np.zeros(arrays[0].shape, np.int32) if kept is None else kept.copy()
    for row in lanes(len(found), extra["lane"], extra["target"]):
        found[row] = 0 if src is None else src[row].max()
    return found


@instr(
    nki="dst src index_offset padding_val name",
    operands={
        "dst": updated("R-nonzero_with_count-03", (SBUF,)),
        "src": source("R-nonzero_with_count-03", (SBUF,)),
    },
    attrs={
        "index_offset": integer(0, "R-nonzero_with_count-03"),
        "padding_val": integer(-1, "R-nonzero_with_count-03"),
    },
    engines=("gpsimd",),
    engine=lambda call: "gpsimd",
    since=3,
    since_rule="R-nonzero_with_count-01",
    rules=(
        same_partitions("R-nonzero_with_count-02", "dst", "src"),
        room_for_the_count,
        dtype_in("R-nonzero_with_count-03", "src", ("float32", "int32")),
        dtype_in("R-nonzero_with_count-03", "dst", ("int32",)),
        fits_int32,
    ),
    flow=origins,
    cost=nonzero_cost,
    coincides={"dst": ()},
)
def nonzero_with_count(
    dst: np.ndarray,
    src: np.ndarray,
    index_offset: int,
    padding_val: int,
    shape: tuple[int, ...],
    lane: int,
    target: Target,
) -> np.ndarray:
    """dst[p, :N] = index_offset + where src[p, :] != 0; dst[p, N:T] = padding_val; dst[p, T] = N

    Partitions 0, 16, ..., 112 are read and written; the others keep what they hold (R-nonzero_with_count-04).
    """
    made = dst.copy()
    for row in lanes(shape[0], lane, target):
        found = np.flatnonzero(src[row])
        made[row, : found.size] = found + index_offset
        made[row, found.size : -1] = padding_val
        made[row, -1] = found.size
    return made
