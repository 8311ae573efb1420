"""neuronxcc.nki.isa: instructions that return their result, as in SDK 2.21 to 2.26."""

from __future__ import annotations

from typing import Any

from tilewright.nki import missing
from tilewright.nki.binding import bind_all
from tilewright.nki.isa import get_nc_version
from tilewright.nki.legacy.isa import constants
from tilewright.nki.legacy.isa.compute import (
    activation,
    activation_reduce,
    bn_aggr,
    bn_stats,
    dropout,
    memset,
    reciprocal,
    scalar_tensor_tensor,
    tensor_copy,
    tensor_partition_reduce,
    tensor_reduce,
    tensor_scalar,
    tensor_scalar_reduce,
    tensor_tensor,
    tensor_tensor_scan,
)
from tilewright.nki.legacy.isa.movement import (
    builtin_custom_op,
    dma_copy,
    dma_transpose,
    nc_matmul,
    nc_transpose,
    tensor_copy_dynamic_dst,
    tensor_copy_dynamic_src,
)
from tilewright.nki.legacy.isa.selection import (
    affine_select,
    iota,
    local_gather,
    max8,
    nc_find_index8,
    nc_match_replace8,
    nc_stream_shuffle,
    range_select,
    select_reduce,
    sequence_bounds,
    tensor_copy_predicated,
    tensor_scalar_cumulative,
)
from tilewright.nki.legacy.limits import fp32
from tilewright.tile.attrs import dge_mode, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
dma_engine = engine.dma
unknown_engine = engine.unknown

__all__ = [
    "constants",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "builtin_custom_op",
    "dge_mode",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "fp32",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "matmul_perf_mode",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "oob_mode",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "scalar_engine",
    "scalar_tensor_tensor",
    "select_reduce",
    "sequence_bounds",
    "tensor_copy",
    "tensor_copy_dynamic_dst",
    "tensor_copy_dynamic_src",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "unknown_engine",
    "vector_engine",
]


bind_all(globals(), "nisa")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise missing.missing_in_legacy("neuronxcc.nki.isa", name, __all__)
