"""Mean and variance of the Vector engine in two steps: bn_stats, bn_aggr."""

from __future__ import annotations

import numpy as np

from tilewright.tile.alu import as_float
from tilewright.tile.common import same_partitions
from tilewright.tile.isa.elementwise import on_vector
from tilewright.tile.record import Call, Verdict, check, instr, result, source
from tilewright.tile.streaming import at_rate, stream


@check("R-bn_stats-01")
def stats_width(call: Call) -> Verdict:
    limit = call.target["limits.bn_stats_fmax"]
    if call.data.free <= limit:
        return None
    return (
        f"data has {call.data.free} elements per partition; at most {limit}",
        "take the statistics of pieces of nl.tile_size.bn_stats_fmax and combine them with bn_aggr",
    )


@check("R-bn_stats-02")
def stats_results(call: Call) -> Verdict:
    wanted = call.target["limits.bn_stats_results"]
    return None if call.dst.free == wanted else f"dst has {call.dst.free} elements per partition; it needs {wanted}"


@instr(
    nki="dst data name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "data": source("R-err-unsupported_memory-01"),
    },
    attrs={},
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(same_partitions("R-engine-05", "data", "dst"), stats_width, stats_results),
    flow="lanes",
    cost=lambda call: at_rate(call, "bn_stats"),
    coincides={"dst": ()},
)
def bn_stats(data: np.ndarray) -> np.ndarray:
    """dst[p] = count, mean, variance * count of the elements at even places, then of those at odd places"""
    x = as_float(data)
    return np.concatenate([_statistics(x[:, 0::2]), _statistics(x[:, 1::2])], axis=1)


def _statistics(x: np.ndarray) -> np.ndarray:
    """count, mean and sum of squared deviations per row: [P, 3]."""
    count = x.shape[1]
    mean = x.sum(axis=1, keepdims=True, dtype=np.float32) / max(count, 1)
    deviations = np.square(x - mean).sum(axis=1, keepdims=True, dtype=np.float32)
    return np.concatenate([np.full_like(mean, count), mean, deviations], axis=1)


@check("R-bn_aggr-01")
def aggregated(call: Call) -> Verdict:
    group, results = call.target["limits.bn_aggr_group"], call.target["limits.bn_aggr_results"]
    if call.data.free % group:
        return f"data has {call.data.free} elements per partition, which is not a multiple of {group}"
    return None if call.dst.free == results else f"dst has {call.dst.free} elements per partition; it needs {results}"


@instr(
    nki="dst data name",
    operands={
        "dst": result("R-err-unsupported_memory-01"),
        "data": source("R-err-unsupported_memory-01"),
    },
    attrs={},
    engines=("vector",),
    engine=on_vector,
    since=2,
    rules=(same_partitions("R-engine-05", "data", "dst"), aggregated),
    flow="lanes",
    cost=lambda call: stream(call, call.target["vector.cycles_per_element.bn_aggr"]),
    coincides={"dst": ()},
)
def bn_aggr(data: np.ndarray) -> np.ndarray:
    """dst[p] = mean, variance of all elements behind the triples count, mean, variance * count of data[p]"""
    triples = as_float(data).reshape(len(data), -1, 3)
    count, mean, deviations = triples[..., 0], triples[..., 1], triples[..., 2]
    total = count.sum(axis=1, keepdims=True)
    overall = (count * mean).sum(axis=1, keepdims=True) / total
    squares = deviations + count * np.square(mean - overall)
    return np.concatenate([overall, squares.sum(axis=1, keepdims=True) / total], axis=1)
