# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from ._types import DType, MemoryRegion, NKIObject, Operator, PackedDType, ReplicaGroup, TileSize, mutable_tensor, tensor
from ._types import NkiInstruction as NkiInstruction
from ._types import NkiTensor as NkiTensor
from ._types import NkiValidationError as NkiValidationError
from ._types import VirtualRegister as VirtualRegister
from ._types import dge_mode as dge_mode
from ._types import dma_engine as dma_engine
from ._types import engine as engine
from ._types import matmul_perf_mode as matmul_perf_mode
from ._types import nc_version as nc_version
from ._types import oob_mode as oob_mode
from ._types import reduce_cmd as reduce_cmd

def activate2(dst: NkiTensor, op: Operator, data: NkiTensor, imm0: NkiTensor | builtins.float | None, imm1: NkiTensor | builtins.float | None, op0: Operator, op1: Operator, relu_param: NkiTensor | builtins.float | None = ..., reverse0: builtins.bool = ..., reverse1: builtins.bool = ..., reduce_op: Operator | None = ..., reduce_res: NkiTensor | None = ..., reduce_cmd: reduce_cmd = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = op(op1(op0(data[p, f], imm0[p]), imm1[p])); reduce_res[p] = reduce_op over f, with the registers"""
def activation(dst: NkiTensor, op: Operator, data: NkiTensor, bias: NkiTensor | builtins.float | None = ..., scale: NkiTensor | builtins.float | None = ..., reduce_op: Operator | None = ..., reduce_res: NkiTensor | None = ..., reduce_cmd: reduce_cmd = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]); reduce_res[p] = the registers, to which reduce_cmd adds the sum over f"""
def activation_reduce(dst: NkiTensor, op: Operator, data: NkiTensor, reduce_op: Operator, reduce_res: NkiTensor | None, bias: NkiTensor | builtins.float | None = ..., scale: NkiTensor | builtins.float | None = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]); reduce_res[p] = reduce_op over f of dst[p, f] before rounding"""
def affine_select(dst: NkiTensor, pattern: Sequence[Sequence[builtins.int]], channel_multiplier: builtins.int, on_true_tile: NkiTensor, on_false_value: NkiTensor | builtins.float, cmp_op: Operator = ..., offset: builtins.int = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = on_true_tile[p, f] if cmp_op(offset + p * channel_multiplier + pattern[f], 0) else on_false_value"""
def bn_aggr(dst: NkiTensor, data: NkiTensor, name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p] = mean, variance of all elements behind the triples count, mean, variance * count of data[p]"""
def bn_stats(dst: NkiTensor, data: NkiTensor, name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p] = count, mean, variance * count of the elements at even places, then of those at odd places"""
def core_barrier(data: NkiTensor, cores: Any, engine: engine = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """all cores have come here before any goes on: data = what all of them have written to it"""
def dma_compute(dst: NkiTensor, srcs: Sequence[NkiTensor], reduce_op: Operator, scales: Sequence[builtins.float] | None = ..., unique_indices: builtins.bool = ..., oob_mode: oob_mode = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[i] = srcs[0][i] + srcs[1][i] + ..., in float32, in this order"""
def dma_copy(dst: NkiTensor, src: NkiTensor, priority: builtins.int | None = ..., oob_mode: oob_mode = ..., dge_mode: dge_mode = ..., engine: engine = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[i] = src[i], elements in row-major order of the two access patterns"""
def dma_transpose(dst: NkiTensor, src: NkiTensor, axes: builtins.int | Sequence[builtins.int] | None = ..., priority: builtins.int | None = ..., dge_mode: dge_mode = ..., oob_mode: oob_mode = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[j, i] = src[i, j]; dst[k, j, i] = src[i, j, k]; dst[l, j, k, i] = src[i, j, k, l]"""
def dropout(dst: NkiTensor, data: NkiTensor, prob: NkiTensor | builtins.float, name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = 0 with probability prob[p], else data[p, f]"""
def exponential(dst: NkiTensor, src: NkiTensor, max_value: NkiTensor | builtins.float | None = ..., reduce_res: NkiTensor | None = ..., reduce_cmd: reduce_cmd = ..., reduce_init: NkiTensor | builtins.float | None = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = exp(src[p, f] - max_value[p]); reduce_res[p] = the sum over f, on top of the registers"""
def get_nc_sub_version() -> builtins.int:
    """The silicon revision within a generation; 0 is the first."""
def get_nc_version() -> nc_version:
    """The generation the kernel runs on (outside a kernel: the default target's)."""
gpsimd_engine: engine
def iota(dst: NkiTensor, pattern: Sequence[Sequence[builtins.int]], offset: builtins.int = ..., channel_multiplier: builtins.int = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, w, z, y, x] = offset + p * channel_multiplier + w * step_w + z * step_z + y * step_y + x * step_x"""
def local_gather(dst: NkiTensor, src_buffer: NkiTensor, index: NkiTensor, num_elem_per_idx: builtins.int = ..., num_valid_indices: builtins.int | None = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, v, e] = src_buffer[p, i[v] + e], where i = index of p's 16 partitions, partition fastest"""
def max8(dst: NkiTensor, src: NkiTensor, name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, :] = the eight largest of src[p, :] in float32, descending; NaN counts as largest"""
def memset(dst: NkiTensor, value: builtins.float, engine: engine = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = value"""
def nc_find_index8(dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, j] = first position of vals[p, j] in data[p, :], all ones where there is none"""
def nc_match_replace8(dst: NkiTensor, data: NkiTensor, vals: NkiTensor, imm: builtins.float, dst_idx: NkiTensor | None = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst_idx[p, j] = first position of vals[p, j] in data[p, :]; dst[p, f] = imm at these positions, else data[p, f]"""
def nc_matmul(dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, is_stationary_onezero: builtins.bool = ..., is_moving_onezero: builtins.bool = ..., is_transpose: builtins.bool = ..., accumulate: builtins.bool | None = ..., tile_position: builtins.int | Sequence[builtins.int] = ..., tile_size: builtins.int | Sequence[builtins.int] = ..., perf_mode: matmul_perf_mode = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[m, n] (+)= sum over k of stationary[k, m] * moving[k, n], in float32"""
def nc_matmul_mx(dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, stationary_scale: NkiTensor, moving_scale: NkiTensor, tile_position: builtins.int | Sequence[builtins.int] | None = ..., tile_size: builtins.int | Sequence[builtins.int] | None = ..., accumulate: builtins.bool | None = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[m, n] (+)= sum over k, i of stationary[k, m][i] X[k, m] * moving[k, n][i] Y[k, n], in float32"""
def nc_n_gather(dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, i] = data[p, indices[p, i]], free dims flattened"""
def nc_stream_shuffle(dst: NkiTensor, src: NkiTensor, shuffle_mask: builtins.int | Sequence[builtins.int], name: builtins.str | None = ...) -> NkiInstruction:
    """dst[32 * q + i, f] = src[32 * q + shuffle_mask[i], f] in every quadrant q; 255 leaves dst as it is"""
def nc_transpose(dst: NkiTensor, data: NkiTensor, engine: engine = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[f, p] = data[p, f]"""
def nonzero_with_count(dst: NkiTensor, src: NkiTensor, index_offset: builtins.int = ..., padding_val: builtins.int = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, :N] = index_offset + where src[p, :] != 0; dst[p, N:T] = padding_val; dst[p, T] = N"""
def quantize_mx(dst: NkiTensor, src: NkiTensor, dst_scale: NkiTensor, name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = four of src[p, :] / X, where X = 2 ** (floor(log2(amax)) - (Emax - 1)) of 8 partitions; dst_scale = X"""
def rand2(dst: NkiTensor, min: NkiTensor | builtins.float, max: NkiTensor | builtins.float, name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = min[p] + (max[p] - min[p]) * u, where u is uniform in [0, 1)"""
def rand_get_state(dst: NkiTensor, engine: engine = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, :] = generators of lane p"""
def rand_set_state(src_seeds: NkiTensor, engine: engine = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """generators of lane p = src_seeds[p, :]"""
def range_select(dst: NkiTensor, on_true_tile: NkiTensor, comp_op0: Operator, comp_op1: Operator, bound0: NkiTensor, bound1: NkiTensor, reduce_cmd: reduce_cmd = ..., reduce_res: NkiTensor | None = ..., reduce_op: Operator = ..., range_start: builtins.int = ..., on_false_value: builtins.float = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = on_true_tile[p, f] if comp_op0(range_start + f, bound0[p]) and comp_op1(range_start + f, bound1[p]) else on_false_value; reduce_res[p] = the maximum over f, kept in the accumulator registers as reduce_cmd says"""
def reciprocal(dst: NkiTensor, data: NkiTensor, name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = 1 / data[p, f]"""
def register_alloc(x: builtins.int | None = ...) -> VirtualRegister:
    """A new register, unwritten or holding the constant `x`."""
def register_load(dst: VirtualRegister, src: NkiTensor) -> NkiInstruction:
    """dst = src[0], the only element"""
def register_move(dst: VirtualRegister, src: builtins.float | VirtualRegister) -> NkiInstruction:
    """dst = src, a constant or what another register holds"""
def register_store(dst: NkiTensor, src: VirtualRegister) -> NkiInstruction:
    """dst[0] = src"""
def rng(dst: NkiTensor, engine: engine = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = the lowest bits of the next 32 random ones of lane p"""
scalar_engine: engine
def scalar_tensor_tensor(dst: NkiTensor, data: NkiTensor, op0: Operator, operand0: NkiTensor | builtins.float | None, op1: Operator, operand1: NkiTensor, reverse0: builtins.bool = ..., reverse1: builtins.bool = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = op1(op0(data[p, f], operand0[p]), operand1[p, f]); reverse exchanges an operator's arguments"""
def select_reduce(dst: NkiTensor, predicate: NkiTensor, on_true: NkiTensor, on_false: NkiTensor | builtins.float, reduce_res: NkiTensor | None = ..., reduce_cmd: reduce_cmd = ..., reduce_op: Operator = ..., reverse_pred: builtins.bool = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = on_true[p, f] where predicate[p, f] != 0, else on_false[p]; reduce_res[p] = the maximum over f"""
def sendrecv(src: NkiTensor, dst: NkiTensor, send_to_rank: builtins.int, recv_from_rank: builtins.int, pipe_id: builtins.int, dma_engine: dma_engine = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst = src of core recv_from_rank, which sends it to this core"""
def sequence_bounds(dst: NkiTensor, segment_ids: NkiTensor, name: builtins.str | None = ...) -> NkiInstruction:
    """dst[0, 0, i], dst[0, 1, i] = begin and end of the run of equal ids that holds i; n and -1 where the id is 0"""
def set_rng_seed(src_seeds: NkiTensor, name: builtins.str | None = ...) -> NkiInstruction:
    """generators of all lanes of the Vector engine = what the seed says"""
def tensor_copy(dst: NkiTensor, src: NkiTensor, engine: engine = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = src[p, f]; bit for bit when the dtypes are equal (R-tensor_copy-06), else through float32"""
def tensor_copy_predicated(dst: NkiTensor, src: NkiTensor | builtins.float, predicate: NkiTensor, reverse_pred: builtins.bool = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = src[p, f] where predicate[p, f] != 0, else dst[p, f]; reverse_pred takes the other elements"""
tensor_engine: engine
def tensor_partition_reduce(dst: NkiTensor, op: Operator, data: NkiTensor, name: builtins.str | None = ...) -> NkiInstruction:
    """dst[0, f] = op over p of data[p, f]"""
def tensor_reduce(dst: NkiTensor, op: Operator, data: NkiTensor, axis: builtins.int | Sequence[builtins.int], negate: builtins.bool = ..., keepdims: builtins.bool = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, i...] = op over the dims `axis` of data[p, i..., j...], times -1 if negate; keepdims keeps them, size 1"""
def tensor_scalar(dst: NkiTensor, data: NkiTensor, op0: Operator, operand0: NkiTensor | builtins.float | None, reverse0: builtins.bool = ..., op1: Operator | None = ..., operand1: NkiTensor | builtins.float | None = ..., reverse1: builtins.bool = ..., engine: engine = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = op1(op0(data[p, f], operand0[p]), operand1[p]); reverse exchanges the arguments of an operator"""
def tensor_scalar_cumulative(dst: NkiTensor, src: NkiTensor, op0: Operator, op1: Operator, imm0: NkiTensor | builtins.float | None, imm1: NkiTensor | builtins.float | None = ..., reduce_cmd: reduce_cmd = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = op1(op0(src[p, f], imm0[p]), dst[p, f-1]), with dst[p, -1] = the lane's register, kept afterwards"""
def tensor_scalar_reduce(dst: NkiTensor, data: NkiTensor, op0: Operator, operand0: NkiTensor | builtins.float | None, reduce_op: Operator, reduce_res: NkiTensor | None = ..., reverse0: builtins.bool = ..., reduce_cmd: reduce_cmd = ..., reduce_init: NkiTensor | builtins.float | None = ..., reduce_res_negate: builtins.bool = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = op0(data[p, f], operand0[p]); reduce_res[p] = reduce_op over f of that, on top of the registers"""
def tensor_tensor(dst: NkiTensor, data1: NkiTensor, data2: NkiTensor, op: Operator, engine: engine = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = op(data1[p, f], data2[p, f]); in float32, on bit patterns, or on GpSimd in 32-bit integers"""
def tensor_tensor_scan(dst: NkiTensor, data0: NkiTensor, data1: NkiTensor, initial: NkiTensor | builtins.float, op0: Operator, op1: Operator, reverse0: builtins.bool = ..., reverse1: builtins.bool = ..., name: builtins.str | None = ...) -> NkiInstruction:
    """dst[p, f] = op1(op0(data0[p, f], dst[p, f-1]), data1[p, f]) in float32, with dst[p, -1] = initial[p]"""
def topk(val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: builtins.int, name: builtins.str | None = ...) -> NkiInstruction:
    """val_dst[p, :], idx_dst[p, :] = the K largest of the n elements x[16 c + p % 16] = src[p, c], ascending, and where"""
unknown_engine: engine
vector_engine: engine
