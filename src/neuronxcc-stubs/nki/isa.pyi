# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from ._types import DType, MemoryRegion, Operator, Placer, TileSize, _Mgrid, bfp16, mutable_tensor, nc, par_dim, scalar, spmd_dim, tensor
from ._types import dge_mode as dge_mode
from ._types import engine as engine
from ._types import fp32 as fp32
from ._types import matmul_perf_mode as matmul_perf_mode
from ._types import nc_version as nc_version
from ._types import oob_mode as oob_mode
from ._types import reduce_cmd as reduce_cmd

def activation(op: Any, data: Any, *, bias: Any = ..., scale: Any = ..., reduce_op: Any = ..., reduce_res: Any = ..., reduce_cmd: Any = ..., mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """op(data * scale + bias) on the Scalar engine."""
def activation_reduce(op: Any, data: Any, *, reduce_op: Any, reduce_res: Any, bias: Any = ..., scale: Any = ..., mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """op(data * scale + bias), and its reduction over the free dims into reduce_res."""
def affine_select(pred: Any, on_true_tile: Any, on_false_value: Any, *, mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """on_true_tile where a comparison of index tensors holds, else a number; on GpSimd."""
def bn_aggr(data: Any, *, mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """Mean and variance from statistics of bn_stats."""
def bn_stats(data: Any, *, mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """Counts, means and variances of even and odd elements."""
def builtin_custom_op(*args: Any, **kwargs: Any) -> Any:
    """Custom C++ operators are not simulated."""
def dma_copy(src: Any = ..., dst: Any = ..., *, mask: Any = ..., dst_rmw_op: Any = ..., oob_mode: Any = ..., dge_mode: Any = ..., **kwargs: Any) -> None:
    """Copy between tensors in HBM and SBUF; with dst_rmw_op add to what is there."""
dma_engine: engine
def dma_transpose(src: Any, *, axes: Any = ..., mask: Any = ..., dtype: Any = ..., dge_mode: Any = ..., **kwargs: Any) -> Any:
    """A transpose by DMA: (1, 0), (2, 1, 0) or (3, 1, 2, 0)."""
def dropout(data: Any, prob: Any, *, mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """data with elements set to 0 with probability `prob`."""
def get_nc_version() -> nc_version:
    """The generation the kernel runs on (outside a kernel: the default target's)."""
gpsimd_engine: engine
def iota(expr: Any, dtype: Any, *, mask: Any = ..., **kwargs: Any) -> Any:
    """A tile of the values of an index tensor, or of one number."""
def local_gather(src_buffer: Any, index: Any, num_elem_per_idx: builtins.int = ..., num_valid_indices: Any = ..., *, mask: Any = ...) -> Any:
    """Gather elements within partitions by indices that groups of partitions share."""
def max8(*, src: Any, mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """The eight largest elements of each partition, in descending order."""
def memset(shape: Sequence[builtins.int], value: Any, dtype: Any, *, mask: Any = ..., engine: Any = ..., **kwargs: Any) -> Any:
    """A new tile of a number (R-legacy-08: on the Vector engine or GpSimd)."""
def nc_find_index8(*, data: Any, vals: Any, mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """Where eight values stand in each partition."""
def nc_match_replace8(*, data: Any, vals: Any, imm: Any, dst_idx: Any = ..., mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """data with the first occurrence of each of eight values replaced by a number; their places in dst_idx."""
def nc_matmul(stationary: Any, moving: Any, *, is_stationary_onezero: builtins.bool = ..., is_moving_onezero: builtins.bool = ..., is_transpose: builtins.bool = ..., tile_position: Any = ..., tile_size: Any = ..., perf_mode: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """stationary.T @ moving in PSUM; `psum += nc_matmul(...)` adds to what is there."""
def nc_stream_shuffle(src: Any, dst: Any, shuffle_mask: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> None:
    """Move partitions within quadrants."""
def nc_transpose(data: Any, *, mask: Any = ..., dtype: Any = ..., engine: Any = ..., **kwargs: Any) -> Any:
    """data with partitions and free dims exchanged: in PSUM by the Tensor engine, in SBUF by the Vector engine."""
def range_select(*, on_true_tile: Any, comp_op0: Any, comp_op1: Any, bound0: Any, bound1: Any, reduce_cmd: Any = ..., reduce_res: Any = ..., reduce_op: Any = ..., range_start: Any = ..., on_false_value: Any = ..., mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """on_true_tile where bound0 and bound1 hold of the position, else the least float32."""
def reciprocal(data: Any, *, dtype: Any = ..., mask: Any = ..., engine: Any = ..., **kwargs: Any) -> Any:
    """1 / data, on the Vector engine, or on the Scalar engine where that is asked for (R-legacy-08)."""
scalar_engine: engine
def scalar_tensor_tensor(*, data: Any, op0: Any, operand0: Any, op1: Any, operand1: Any, reverse0: builtins.bool = ..., reverse1: builtins.bool = ..., dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """op1(op0(data, operand0), operand1) with a second tile (R-legacy-06: tiles of two dims)."""
def select_reduce(*, dst: Any, predicate: Any, on_true: Any, on_false: Any, reduce_res: Any = ..., reduce_cmd: Any = ..., reduce_op: Any = ..., reverse_pred: builtins.bool = ..., mask: Any = ..., **kwargs: Any) -> None:
    """dst = on_true where the predicate is not 0, else on_false; with a reduction over the free dims."""
def sequence_bounds(*, segment_ids: Any, dtype: Any = ...) -> Any:
    """Where the segment of each element begins and ends."""
def tensor_copy(src: Any, *, mask: Any = ..., dtype: Any = ..., engine: Any = ..., **kwargs: Any) -> Any:
    """A copy of a tile."""
def tensor_copy_dynamic_dst(*, dst: Any, src: Any, mask: Any = ..., dtype: Any = ..., engine: Any = ..., **kwargs: Any) -> None:
    """A copy to a part of a tile whose place a tile of one index says."""
def tensor_copy_dynamic_src(src: Any, *, mask: Any = ..., dtype: Any = ..., engine: Any = ..., **kwargs: Any) -> Any:
    """A copy of a part of a tile whose place a tile of one index says."""
def tensor_copy_predicated(*, src: Any, dst: Any, predicate: Any, reverse_pred: builtins.bool = ..., mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> None:
    """dst = src where the predicate is not 0; elsewhere dst stays."""
tensor_engine: engine
def tensor_partition_reduce(op: Any, data: Any, *, mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """Reduce the partitions, on GpSimd."""
def tensor_reduce(op: Any, data: Any, axis: Any, *, mask: Any = ..., dtype: Any = ..., negate: builtins.bool = ..., keepdims: builtins.bool = ..., **kwargs: Any) -> Any:
    """Reduce the last free dims (R-legacy-04)."""
def tensor_scalar(data: Any, op0: Any, operand0: Any, reverse0: builtins.bool = ..., op1: Any = ..., operand1: Any = ..., reverse1: builtins.bool = ..., *, dtype: Any = ..., mask: Any = ..., engine: Any = ..., **kwargs: Any) -> Any:
    """op1(op0(data, operand0), operand1) with numbers or one value per partition."""
def tensor_scalar_cumulative(*, src: Any, dst: Any, op0: Any, op1: Any, imm0: Any, imm1: Any = ..., reduce_cmd: Any = ..., mask: Any = ..., **kwargs: Any) -> None:
    """dst[i] = op1(dst[i - 1], op0(src[i], imm0))."""
def tensor_scalar_reduce(*, data: Any, op0: Any, operand0: Any, reduce_op: Any, reduce_res: Any, reverse0: builtins.bool = ..., dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """op0(data, operand0), and its reduction over the free dims into reduce_res."""
def tensor_tensor(data1: Any, data2: Any, op: Any, *, dtype: Any = ..., mask: Any = ..., engine: Any = ..., **kwargs: Any) -> Any:
    """op(data1, data2), element by element."""
def tensor_tensor_scan(data0: Any, data1: Any, initial: Any, op0: Any, op1: Any, reverse0: builtins.bool = ..., reverse1: builtins.bool = ..., *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """result[i] = op1(op0(data0[i], result[i - 1]), data1[i])."""
unknown_engine: engine
vector_engine: engine
