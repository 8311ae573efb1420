# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from ._types import DType, MemoryRegion, Operator, Placer, TileSize, _Mgrid, bfp16, dge_mode, engine, fp32, matmul_perf_mode, mutable_tensor, nc, nc_version, oob_mode, par_dim, reduce_cmd, scalar, spmd_dim, tensor

def enable_stack_allocator(func: Any = ..., log_level: builtins.int = ...) -> Any:
    """Place tiles on a stack (R-legacy-16: together with skip_middle_end_transformations)."""
def force_auto_alloc(func: Any = ...) -> Any:
    """Ignore the places that the kernel gives to its tiles."""
psum: Placer
sbuf: Placer
def skip_middle_end_transformations(func: Any = ...) -> Any:
    """Keep the order of the source: what the simulator does anyway."""
