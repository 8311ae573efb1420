"""Positions that GpSimd finds: the largest elements of a snake over partitions, and where sequences begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.target import Target
from tilewright.tile.attrs import integer
from tilewright.tile.common import dtype_in, same_partitions
from tilewright.tile.cost import gpsimd, on_engine
from tilewright.tile.memory import SBUF
from tilewright.tile.record import Call, Cost, Verdict, check, f32, instr, result, source

# topk


@check("R-topk-02")
def sizes_of_a_snake(call: Call) -> Verdict:
    target, k = call.target, call.val_dst.free
    group = target["limits.topk_group_partitions"]
    low, high, most = (target[f"limits.topk_{each}"] for each in ("elements_min", "elements_max", "results_max"))
    if not low <= call.n <= high:
        return f"n is {call.n}; a snake has {low} to {high} elements"
    if k > min(call.n, most):
        return f"val_dst has room for {k} elements per partition; K is at most n and at most {most}"
    if call.src.partitions % group:
        return f"src has {call.src.partitions} partitions; a snake runs over {group}, so that it needs a multiple"
    columns = -(-call.n // group)
    if call.src.free < columns:
        return (
            f"src has {call.src.free} elements per partition; {call.n} elements over {group} partitions need {columns}"
        )
    return None


@check("R-topk-01")
def results_alike(call: Call) -> Verdict:
    wanted = [call.src.partitions, call.val_dst.free]
    for name in ("val_dst", "idx_dst"):
        if list(call.operands[name].sizes) != wanted:
            return f"{name} is {list(call.operands[name].sizes)}; it must be {wanted}"
    return None


def topk_cost(call: Call) -> Cost:
    target = call.target
    per_element, per_result = (target[f"gpsimd.cycles_per_element.{each}"] for each in ("topk", "topk_result"))
    return on_engine(call, target["gpsimd.fixed_cycles"] + per_element * call.n + per_result * call.val_dst.free)


def snakes(array: np.ndarray, n: int, target: Target) -> Iterator[tuple[slice, np.ndarray]]:
    """The partitions of each group, and its first n elements: one of each partition, then the next of each."""
    group = target["limits.topk_group_partitions"]
    for first in range(0, len(array), group):
        yield slice(first, first + group), array[first : first + group].T.reshape(-1)[:n]


def topk_origins(arrays: Sequence[Any], codes: Sequence[Any], extra: Mapping[str, Any]) -> np.ndarray:
    """What a group finds is undefined when any element of its snake is; elements behind the snake are not looked at."""
    found = np.zeros((len(codes[0]), 1), np.int32)
    for rows, snake in snakes(codes[0], extra["n"], extra["target"]):
        found[rows] = snake.max()
    return found


@instr(
    nki="val_dst idx_dst src n name",
    operands={
        "val_dst": result("R-topk-01", (SBUF,)),
        "idx_dst": result("R-topk-01", (SBUF,)),
        "src": source("R-topk-01", (SBUF,)),
    },
    attrs={"n": integer(rule="R-topk-02")},
    engines=("gpsimd",),
    engine=lambda call: "gpsimd",
    since=2,
    rules=(
        dtype_in("R-topk-01", "src", ("bfloat16",)),
        dtype_in("R-topk-01", "val_dst", ("bfloat16",)),
        dtype_in("R-topk-01", "idx_dst", ("uint32",)),
        results_alike,
        sizes_of_a_snake,
    ),
    flow=topk_origins,
    coincides={"val_dst": (), "idx_dst": ()},
    cost=topk_cost,
)
def topk(src: np.ndarray, n: int, shape: tuple[int, ...], target: Target) -> tuple[np.ndarray, np.ndarray]:
    """val_dst[p, :], idx_dst[p, :] = the K largest of the n elements x[16 c + p % 16] = src[p, c], ascending, and where

    All partitions of a group of 16 hold what the group found. Of equal elements the earlier one counts as larger; NaN
    counts as largest.
    """
    values = np.empty(shape, np.float32)
    places = np.empty(shape, np.uint32)
    for rows, snake in snakes(f32(src), n, target):
        ascending = n - 1 - np.argsort(snake[::-1], kind="stable")[n - shape[1] :]
        values[rows], places[rows] = snake[ascending], ascending
    return values, places


# sequence_bounds


@check("R-sequence_bounds-01")
def one_partition(call: Call) -> Verdict:
    partitions, bounds = (call.target[f"limits.sequence_bounds_{each}"] for each in ("partitions", "results"))
    n = call.segment_ids.free
    if call.segment_ids.partitions != partitions:
        return f"segment_ids has {call.segment_ids.partitions} partitions; it must have {partitions}"
    if call.dst.sizes != (partitions, bounds, n):
        return f"dst is {list(call.dst.sizes)}; for {n} segment ids it must be {[partitions, bounds, n]}"
    return None


@instr(
    nki="dst segment_ids name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "segment_ids": source("R-err-unsupported_memory-01", defined=True),
    },
    attrs={},
    engines=("gpsimd",),
    engine=lambda call: "gpsimd",
    since=2,
    rules=(
        same_partitions("R-sequence_bounds-01", "dst", "segment_ids"),
        one_partition,
        dtype_in("R-sequence_bounds-02", "segment_ids", ("float32", "int32")),
        dtype_in("R-sequence_bounds-02", "dst", ("float32", "int32")),
    ),
    flow="elementwise",
    coincides={"dst": ()},
    cost=lambda call: gpsimd(call, "sequence_bounds", call.segment_ids.free),
    dynamic_rules=("R-sequence_bounds-03",),
)
def sequence_bounds(segment_ids: np.ndarray, report: Callable[..., None]) -> np.ndarray:
    """dst[0, 0, i], dst[0, 1, i] = begin and end of the run of equal ids that holds i; n and -1 where the id is 0"""
    ids = segment_ids[0]
    n = ids.size
    wrong = ~((ids >= 0) & (ids == np.floor(ids)))
    if wrong.any():
        first = int(np.argmax(wrong))
        report("R-sequence_bounds-03", f"segment id {ids[first]} at {first} is no non-negative integer")
    changes = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    starts, ends = np.append(0, changes), np.append(changes, n)
    run = np.searchsorted(starts, np.arange(n), side="right") - 1
    padding = ids == 0
    return np.stack([np.where(padding, n, starts[run]), np.where(padding, -1, ends[run])])[None].astype(np.float32)
