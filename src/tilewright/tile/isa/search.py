"""The eight largest values of a partition and where they are: max8, nc_find_index8, nc_match_replace8.

All generations have them, dst_idx included (R-nc_match_replace8-04).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tilewright.dtypes import DType
from tilewright.target import Target
from tilewright.tile.attrs import number
from tilewright.tile.common import dtype_in, same_layout
from tilewright.tile.cost import vector_rate
from tilewright.tile.record import Call, Check, Verdict, f32, instr, result, source
from tilewright.tile.view import View

MISSING_INDEX = -1  # All ones in any width once it is stored as an unsigned integer.


def on_vector(call: Call) -> str:
    return "vector"


def searched(rule: str, name: str, least: str | None = "limits.max8_free_min", dims: str = "limits.max8_max_dims"):
    """A check that the operand the instruction looks through has a size and rank it takes."""

    def test(call: Call) -> Verdict:
        view, most = call.operands[name], call.target["limits.max8_free_max"]
        fewest = 1 if least is None else call.target[least]
        if not fewest <= view.free <= most:
            hint = "search chunks and merge" if view.free > most else "pad the tile with the lowest value"
            return f"{name} has {view.free} elements per partition; it may have {fewest} to {most}", hint
        if view.ndim > call.target[dims]:
            return f"{name} has {view.ndim} dims; it may have {call.target[dims]}", "merge its free dims"
        return None

    return Check(rule, test)


def eight(rule: str, name: str, like: str, rank: int | None = None) -> Check:
    """The named operand has eight elements in each partition of `like`; `rank`: exactly so many dims."""

    def test(call: Call) -> Verdict:
        view, width = call.operands[name], call.target["limits.max8_width"]
        if not isinstance(view, View):
            return None
        wanted = call.operands[like].partitions
        most = call.target["limits.max8_max_dims"] if rank is None else rank
        if view.partitions != wanted or view.free != width or view.ndim > most:
            return f"{name} is {list(view.sizes)}; it must be [{wanted}, {width}]"
        return None

    return Check(rule, test)


def match(data: np.ndarray, vals: np.ndarray, order: Iterable[int]) -> np.ndarray:
    """[P, 8]: where each of the values stands in its partition, -1 where it does not.

    Values are taken in `order`; each takes the first position that holds it and that no earlier one took. Comparison is
    in float32, so that NaN is never found.
    """
    data, vals = f32(data), f32(vals)
    rows = np.arange(len(data))
    found = np.full(vals.shape, MISSING_INDEX, np.int64)
    free = np.ones(data.shape, bool)
    for slot in order:
        hits = (data == vals[:, slot, None]) & free
        first = hits.argmax(axis=1)
        present = hits[rows, first]
        found[present, slot] = first[present]
        free[rows[present], first[present]] = False
    return found


@instr(
    nki="dst src name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "src": source("R-err-unsupported_memory-01"),
    },
    attrs={},
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(searched("R-max8-01", "src"), eight("R-max8-01", "dst", "src", rank=2)),
    flow="lanes",
    cost=vector_rate("max8", "max8"),
    coincides={"dst": ()},
)
def max8(src: np.ndarray, target: Target) -> np.ndarray:
    """dst[p, :] = the eight largest of src[p, :] in float32, descending; NaN counts as largest"""
    width = target["limits.max8_width"]
    largest = np.partition(f32(src), src.shape[1] - width, axis=1)[:, -width:]
    return np.sort(largest, axis=1)[:, ::-1]


@instr(
    nki="dst data vals name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "data": source("R-err-unsupported_memory-01"),
        "vals": source("R-err-unsupported_memory-01"),
    },
    attrs={},
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(
        searched("R-nc_find_index8-01", "data"),
        eight("R-nc_find_index8-01", "vals", "data"),
        eight("R-nc_find_index8-01", "dst", "data", rank=2),
        dtype_in("R-nc_find_index8-02", "dst", ("uint16", "uint32")),
    ),
    flow="lanes",
    cost=vector_rate("find_index8", "max8"),
    coincides={"dst": ()},
)
def nc_find_index8(data: np.ndarray, vals: np.ndarray, dtype: DType) -> np.ndarray:
    """dst[p, j] = first position of vals[p, j] in data[p, :], all ones where there is none

    Equal values advance through successive positions, from slot 0 up (R-nc_find_index8-03).
    """
    return match(data, vals, range(vals.shape[1])).astype(dtype.np)


@instr(
    nki="dst data vals imm dst_idx name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "dst_idx": result("R-err-unsupported_memory-01", optional=True),
        "data": source("R-err-unsupported_memory-01"),
        "vals": source("R-err-unsupported_memory-01"),
    },
    attrs={"imm": number()},
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(
        searched("R-nc_match_replace8-02", "data", least=None, dims="limits.max_view_dims"),
        eight("R-nc_match_replace8-02", "vals", "data"),
        same_layout("R-nc_match_replace8-02", "data", "dst"),
        eight("R-nc_match_replace8-02", "dst_idx", "data"),
        dtype_in("R-nc_match_replace8-03", "dst_idx", ("uint32",)),
    ),
    flow="lanes",
    cost=vector_rate("match_replace8", "max8"),
    coincides={"dst": ("data",), "dst_idx": ()},
)
def nc_match_replace8(data: np.ndarray, vals: np.ndarray, imm: float) -> tuple[np.ndarray, np.ndarray]:
    """dst_idx[p, j] = first position of vals[p, j] in data[p, :]; dst[p, f] = imm at these positions, else data[p, f]

    Slots are matched from 7 down to 0, so that of equal values the last slot takes the first position
    (R-nc_match_replace8-01). A value that data does not hold replaces nothing; its index is all ones, as nc_find_index8
    gives it (the documentation leaves that open).
    """
    found = match(data, vals, reversed(range(vals.shape[1])))
    replaced = f32(data).copy()
    lane, slot = np.nonzero(found != MISSING_INDEX)
    replaced[lane, found[lane, slot]] = imm
    return replaced, found.astype(np.uint32)
