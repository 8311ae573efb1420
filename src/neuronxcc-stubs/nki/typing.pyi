# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from ._types import DType, MemoryRegion, Operator, Placer, TileSize, _Mgrid, bfp16, dge_mode, engine, fp32, matmul_perf_mode, nc, nc_version, oob_mode, par_dim, reduce_cmd, spmd_dim
from ._types import mutable_tensor as mutable_tensor
from ._types import scalar as scalar
from ._types import tensor as tensor

def immutable(annotation: Any) -> Any:
    """Mark an annotation as only read by the kernel."""
def mutable(annotation: Any) -> Any:
    """Mark an annotation as written by the kernel."""
