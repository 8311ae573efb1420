# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from ._types import MemoryRegion, NKIObject, NkiInstruction, NkiTensor, NkiValidationError, Operator, PackedDType, ReplicaGroup, TileSize, VirtualRegister, dge_mode, dma_engine, engine, matmul_perf_mode, mutable_tensor, nc_version, oob_mode, reduce_cmd, tensor
from ._types import DType as DType

bfloat16: DType
bool_: DType
float16: DType
float32: DType
float4_e2m1fn_x4: PackedDType
float8_e4m3: DType
float8_e4m3fn: DType
float8_e4m3fn_x4: PackedDType
float8_e5m2: DType
float8_e5m2_x4: PackedDType
float8_e8m0fnu: DType
int16: DType
int32: DType
int8: DType
tfloat32: DType
uint16: DType
uint32: DType
uint8: DType
