"""Microscaled formats: quantize_mx and nc_matmul_mx.

A packed element holds four small floats. 8 partitions of packed elements share one scale, a power of two, that is kept
as its exponent in one byte: one row of scales per 8 partitions, at the start of the quadrant of those partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.dtypes import DType
from tilewright.packed import element_type, pack, unpack
from tilewright.target import Target
from tilewright.tile.attrs import flag, integers
from tilewright.tile.common import dtype_in
from tilewright.tile.cost import mx_matmul_cost, vector_rate
from tilewright.tile.indirect import index_of
from tilewright.tile.memory import PSUM, SBUF
from tilewright.tile.record import Call, Check, Verdict, check, f32, instr, result, source, updated
from tilewright.tile.view import same_access

PACKED = ("float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4")
SCALES = ("float8_e8m0fnu", "uint8")

# float8_e8m0fnu: the byte e stands for 2 ** (e - BIAS), and NO_SCALE for NaN.
BIAS = 127
NO_SCALE = 255


def scale_rows(partitions: int, target: Target) -> np.ndarray:
    """For each group of 8 partitions the row of its scales: 4 at the start of every quadrant."""
    quadrant, block = target["limits.quadrant_partitions"], target["limits.mx_block_partitions"]
    first = np.arange(0, partitions, block)
    return first // quadrant * quadrant + first % quadrant // block


def scale_layout(data: str, scale: str) -> Check:
    """R-nc_matmul_mx-09: as many columns as the data, and a row wherever a group of partitions has one."""

    def test(call: Call) -> Verdict:
        view, scales = call.operands[data], call.operands[scale]
        needed = int(scale_rows(view.partitions, call.target)[-1]) + 1
        if scales.free != view.free:
            return f"{scale} has {scales.free} elements per partition, but {data} has {view.free}"
        if scales.partitions < needed:
            return f"{scale} has {scales.partitions} partitions; the scales of {view.partitions} reach {needed}"
        return None

    return Check("R-nc_matmul_mx-09", test)


def scale_start(scale: str) -> Check:
    """R-nc_matmul_mx-10: scales of several tensors share a quadrant at fixed offsets."""

    def test(call: Call) -> Verdict:
        starts = call.target["limits.mx_scale_quadrant_offsets"]
        at = call.operands[scale].start_partition % call.target["limits.quadrant_partitions"]
        if at not in starts:
            return f"{scale} starts at partition {at} of a quadrant; it may start at {', '.join(map(str, starts))}"
        return None

    return Check("R-nc_matmul_mx-10", test)


# quantize_mx.


@check("R-quantize_mx-04")
def quantized_shape(call: Call) -> Verdict:
    target, src, dst = call.target, call.src, call.dst
    multiple, pack_size = target["limits.quantize_partition_multiple"], target["limits.quantize_free_multiple"]
    if src.partitions % multiple or src.partitions > target["limits.partitions"]:
        most = target["limits.partitions"]
        return f"src has {src.partitions} partitions; it must have a multiple of {multiple}, up to {most}"
    if src.free % pack_size:
        return f"src has {src.free} elements per partition; it must have a multiple of {pack_size}"
    if dst.partitions != src.partitions or dst.free * pack_size != src.free:
        return f"dst is {list(dst.sizes)}; it must be [{src.partitions}, {src.free // pack_size}]"
    return None


def kept_scales(arrays: Sequence[Any], codes: Sequence[Any], extra: Mapping[str, Any]) -> tuple[None, np.ndarray]:
    """Rows between the scales stay as undefined as they were."""
    kept = codes[0].copy()
    kept[scale_rows(extra["shape"][0], extra["target"])] = 0
    return None, kept


@instr(
    nki="dst src dst_scale name",
    operands={
        "dst": result("R-quantize_mx-02", (SBUF,)),
        "dst_scale": updated("R-quantize_mx-02", (SBUF,), start=False),
        "src": source("R-quantize_mx-02", (SBUF,), defined=True),
    },
    attrs={},
    engines=("vector",),
    engine=lambda call: "vector",
    since=4,
    since_rule="R-quantize_mx-01",
    rules=(
        dtype_in("R-quantize_mx-03", "src", ("float16", "bfloat16")),
        dtype_in("R-quantize_mx-03", "dst", PACKED[:2]),
        dtype_in("R-quantize_mx-03", "dst_scale", SCALES),
        quantized_shape,
        scale_layout("dst", "dst_scale"),
        scale_start("dst_scale"),
    ),
    flow=kept_scales,
    cost=vector_rate("quantize_mx"),
    coincides={"dst": (), "dst_scale": ()},
)
def quantize_mx(
    dst_scale: np.ndarray, src: np.ndarray, shape: tuple[int, ...], dtype: DType, target: Target
) -> tuple[np.ndarray, np.ndarray]:
    """dst[p, f] = four of src[p, :] / X, where X = 2 ** (floor(log2(amax)) - (Emax - 1)) of 8 partitions; dst_scale = X

    A group of zeros has the smallest scale (R-quantize_mx-05), one with NaN or infinity the scale NaN. Partitions that
    hold no scale keep what they hold.
    """
    block, pack_size = target["limits.mx_block_partitions"], target["limits.mx_pack"]
    groups = f32(src).reshape(shape[0] // block, block, -1, pack_size)
    largest = np.abs(groups).max(axis=(1, 3))
    # frexp gives a mantissa in [0.5, 1), so that its exponent is one above floor(log2).
    exponent = np.frexp(largest)[1] - 1 - (int(ml_dtypes.finfo(element_type(dtype)).maxexp) - 2) + BIAS
    stored = np.where(largest == 0, 0, np.clip(exponent, 0, NO_SCALE - 1))
    stored = np.where(np.isfinite(largest), stored, NO_SCALE).astype(np.uint8)
    scaled = groups / _factors(stored)[:, None, :, None]
    scales = dst_scale.copy()
    scales.view(np.uint8)[scale_rows(shape[0], target)] = stored
    return pack(scaled.reshape(shape[0], -1), dtype), scales


def _factors(stored: np.ndarray) -> np.ndarray:
    """The powers of two that bytes of scales stand for."""
    powers = np.ldexp(np.float32(1), stored.astype(np.int32) - BIAS)
    return np.where(stored == NO_SCALE, np.float32(np.nan), powers)


# nc_matmul_mx.


@check("R-nc_matmul_mx-04")
def mx_partitions(call: Call) -> Verdict:
    multiple, most = call.target["limits.mx_partition_multiple"], call.target["limits.partitions"]
    k, other = call.stationary.partitions, call.moving.partitions
    if k != other:
        return f"stationary has {k} partitions, but moving has {other}"
    if k % multiple or k > most:
        return f"stationary has {k} partitions; it must have a multiple of {multiple}, up to {most}"
    return None


@check("R-nc_matmul_mx-05")
def mx_stationary(call: Call) -> Verdict:
    most, multiple = call.target["limits.mx_stationary_free_max"], call.target["limits.mx_stationary_free_multiple"]
    if call.stationary.free > most or call.stationary.free % multiple:
        return f"stationary has {call.stationary.free} columns; it must have a multiple of {multiple}, up to {most}"
    return None


@check("R-nc_matmul_mx-06")
def mx_moving(call: Call) -> Verdict:
    if call.dst.dtype not in ("float32", "bfloat16"):
        return None
    most = call.target[f"limits.mx_moving_free_max.{call.dst.dtype}"]
    if call.moving.free > most:
        return f"moving has {call.moving.free} columns; with a {call.dst.dtype} destination it may have {most}"
    return None


@check("R-nc_matmul_mx-07")
def mx_destination(call: Call) -> Verdict:
    m, n = call.stationary.free, call.moving.free
    if call.dst.partitions != m or call.dst.free != n:
        return f"dst is {list(call.dst.sizes)}; stationary and moving give [{m}, {n}]"
    return None


@check("R-nc_matmul_mx-08")
def mx_row_tile(call: Call) -> Verdict:
    """Only rows are tiled; the tile starts at a multiple of its size and holds the stationary operand."""
    position, size, target = call.tile_position, call.tile_size, call.target
    if position is None and size is None:
        return None
    if position is None or size is None or len(position) != 2 or len(size) != 2:
        return f"tile_position={position} and tile_size={size}; both are pairs (rows, columns), or neither is given"
    rows, columns = target["limits.mx_row_sizes"], target["limits.mx_column_size"]
    if size[0] not in rows or size[1] != columns or position[1] != 0:
        return f"tile_size is {size} at {position}; rows are {', '.join(map(str, rows))}, columns {columns} from 0 on"
    if position[0] % size[0] or not 0 <= position[0] < target["limits.pe_rows"]:
        return (
            f"start_row is {position[0]}; it must be a multiple of row_size {size[0]} below {target['limits.pe_rows']}"
        )
    if call.stationary.partitions > size[0]:
        return f"stationary has {call.stationary.partitions} partitions, but row_size is {size[0]}"
    return None


@check("R-nc_matmul_mx-11")
def indirect_pairs(call: Call) -> Verdict:
    """Data and scales are one tensor: both are chosen by the same offsets, or neither is."""
    for data in ("stationary", "moving"):
        index, other = index_of(call.operands[data]), index_of(call.operands[f"{data}_scale"])
        one = index is other or (index is not None and other is not None and same_access(index, other))
        if not one:
            return f"{data} and {data}_scale must be indirect views with the same index, or both plain"
    indirect = any(index_of(view) is not None for _, view in call.tensors())
    if indirect and call.tile_position not in (None, (), (0, 0)):
        return f"an operand is an indirect view, but tile_position is {call.tile_position}", "leave the tile out"
    return None


def from_scales(arrays: Sequence[Any], codes: Sequence[Any], extra: Mapping[str, Any]) -> np.ndarray:
    """An undefined scale makes the row or the column of dst undefined that it is contracted into."""
    stationary, moving, rows_scale, columns_scale = codes
    assert stationary is None and moving is None, "a contraction refuses undefined data"
    used = scale_rows(len(arrays[0]), extra["target"])
    found = np.zeros((arrays[0].shape[1], arrays[1].shape[1]), np.int32)
    if rows_scale is not None:
        found = np.maximum(found, rows_scale[used].max(axis=0)[:, None])
    if columns_scale is not None:
        found = np.maximum(found, columns_scale[used].max(axis=0))
    return found


@instr(
    nki="dst stationary moving stationary_scale moving_scale tile_position tile_size accumulate name",
    operands={
        "dst": result("R-nc_matmul_mx-02", (PSUM,), indirect=True),
        "stationary": source("R-nc_matmul_mx-02", (SBUF,), defined=True, indirect=True),
        "moving": source("R-nc_matmul_mx-02", (SBUF,), defined=True, indirect=True),
        "stationary_scale": source("R-nc_matmul_mx-02", (SBUF,), start=False, indirect=True),
        "moving_scale": source("R-nc_matmul_mx-02", (SBUF,), start=False, indirect=True),
    },
    attrs={"tile_position": integers(None), "tile_size": integers(None), "accumulate": flag(None)},
    engines=("tensor",),
    engine=lambda call: "tensor",
    since=4,
    since_rule="R-nc_matmul_mx-01",
    rules=(
        dtype_in("R-nc_matmul_mx-03", "stationary", PACKED),
        dtype_in("R-nc_matmul_mx-03", "moving", PACKED),
        dtype_in("R-nc_matmul_mx-03", "stationary_scale", SCALES),
        dtype_in("R-nc_matmul_mx-03", "moving_scale", SCALES),
        dtype_in("R-nc_matmul_mx-03", "dst", ("float32", "bfloat16")),
        mx_partitions,
        mx_stationary,
        mx_moving,
        mx_destination,
        mx_row_tile,
        scale_layout("stationary", "stationary_scale"),
        scale_layout("moving", "moving_scale"),
        scale_start("stationary_scale"),
        scale_start("moving_scale"),
        indirect_pairs,
    ),
    flow=from_scales,
    cost=mx_matmul_cost,
    coincides={"dst": ()},
    accumulates=True,
    compares=True,
)
def nc_matmul_mx(
    stationary: np.ndarray,
    moving: np.ndarray,
    stationary_scale: np.ndarray,
    moving_scale: np.ndarray,
    dtypes: Mapping[str, DType],
    target: Target,
) -> np.ndarray:
    """dst[m, n] (+)= sum over k, i of stationary[k, m][i] X[k, m] * moving[k, n][i] Y[k, n], in float32

    i counts the four values of a packed element; X and Y are the scales of k's group.
    """
    weights = _dequantized(stationary, stationary_scale, dtypes["stationary"], target)
    return weights.T @ _dequantized(moving, moving_scale, dtypes["moving"], target)


def _dequantized(data: np.ndarray, scale: np.ndarray, dtype: DType, target: Target) -> np.ndarray:
    """float32 [4 K, F] from packed [K, F] and the scales of its groups."""
    used = scale_rows(len(data), target)
    factors = np.repeat(_factors(scale.view(np.uint8)[used]), target["limits.mx_block_partitions"], axis=0)
    values = unpack(data, dtype).reshape(*data.shape, -1) * factors[:, :, None]
    return values.transpose(0, 2, 1).reshape(-1, data.shape[1])
