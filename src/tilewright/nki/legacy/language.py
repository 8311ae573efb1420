"""neuronxcc.nki.language: tensors, index tensors, loops, grids and functions on tiles, as in SDK 2.21 to 2.26."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tilewright.dtypes import tfloat32
from tilewright.nki import missing
from tilewright.nki.binding import bind_all
from tilewright.nki.language.creation import ds
from tilewright.nki.language.memory import hbm, private_hbm, psum, sbuf, shared_hbm, tile_size
from tilewright.nki.legacy import creation, grid, index, limits, loops, memory, operators, random, reduction
from tilewright.nki.legacy.elementwise import FUNCTIONS
from tilewright.nki.legacy.typing import scalar

float32, float16 = np.float32, np.float16
int8, int16, int32 = np.int8, np.int16, np.int32
uint8, uint16, uint32 = np.uint8, np.uint16, np.uint32
bool_ = np.bool_
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float8_e4m3 = np.dtype(ml_dtypes.float8_e4m3)
float8_e5m2 = np.dtype(ml_dtypes.float8_e5m2)

arange, mgrid = index.arange, index.mgrid
par_dim, ndarray, full, zeros, ones = creation.par_dim, creation.ndarray, creation.full, creation.zeros, creation.ones
zeros_like, empty_like = creation.zeros_like, creation.empty_like
shared_constant, shared_identity_matrix = creation.shared_constant, creation.shared_identity_matrix
load, store, load_transpose2d, atomic_rmw = memory.load, memory.store, memory.load_transpose2d, memory.atomic_rmw
affine_range, sequential_range, static_range = loops.affine_range, loops.sequential_range, loops.static_range
program_id, num_programs, program_ndim = loops.program_id, loops.num_programs, loops.program_ndim
loop_reduce, all_reduce = loops.loop_reduce, loops.all_reduce
nc, spmd_dim = grid.nc, grid.spmd_dim
rand, random_seed, dropout, device_print = random.rand, random.random_seed, random.dropout, random.device_print
sum, max, min, prod, all = reduction.sum, reduction.max, reduction.min, reduction.prod, reduction.all
mean, var, softmax, rms_norm = reduction.mean, reduction.var, reduction.softmax, reduction.rms_norm
matmul, transpose, where = reduction.matmul, reduction.transpose, reduction.where
expand_dims, broadcast_to, gather_flattened = reduction.expand_dims, reduction.broadcast_to, reduction.gather_flattened
fp32, bfp16, finfo, static_cast = limits.fp32, limits.bfp16, limits.finfo, limits.static_cast


def gemm_grid() -> Any:
    """Index tensors of a matmul's operands: (stationary), (moving), (result)."""
    size = tile_size.gemm_stationary_fmax
    return mgrid[0 : tile_size.pmax, 0:size]


gemm_stationary_grid = gemm_grid

bind_all(globals(), "nl")

# Elementwise functions, which are also the operators that instructions take.
globals().update(FUNCTIONS)

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *sorted(name for name in globals() if not name.startswith("_") and name not in ("Any", "annotations", "missing")),
]

KEPT = (operators, ds, hbm, private_hbm, psum, sbuf, shared_hbm, tile_size, tfloat32, scalar)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise missing.missing_in_legacy("neuronxcc.nki.language", name, __all__)
