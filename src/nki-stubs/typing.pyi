# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from ._types import DType, MemoryRegion, NKIObject, NkiInstruction, NkiTensor, NkiValidationError, Operator, PackedDType, ReplicaGroup, TileSize, VirtualRegister, dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd
from ._types import mutable_tensor as mutable_tensor
from ._types import tensor as tensor

def immutable(annotation: Any) -> Any:
    """Mark an annotation as only read by the kernel."""
def mutable(annotation: Any) -> Any:
    """Mark an annotation as written by the kernel."""
