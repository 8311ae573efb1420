"""Tensor creation, loops, program ids, tile sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import as_dtype
from tilewright.errors import TileTypeError, fail
from tilewright.nki.context import require_session
from tilewright.nki.tensor import NKIObject, NkiTensor, new_tensor
from tilewright.rules import violate
from tilewright.sim.session import running_session
from tilewright.target import Target, get_target
from tilewright.tile.access import Slice
from tilewright.tile.memory import HBM, MemoryRegion

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
hbm = private_hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm


def is_hbm(buffer: MemoryRegion) -> bool:
    """True for any HBM buffer."""
    return buffer in (HBM, shared_hbm)


def is_on_chip(buffer: MemoryRegion) -> bool:
    """True for SBUF and PSUM."""
    return buffer in (sbuf, psum)


def is_psum(buffer: MemoryRegion) -> bool:
    """True for PSUM."""
    return buffer is psum


def is_sbuf(buffer: MemoryRegion) -> bool:
    """True for SBUF."""
    return buffer is sbuf


def _target() -> Target:
    session = running_session()
    return session.target if session is not None else get_target(None)


class _TileSize(NKIObject):
    """Tile size limits of the target the kernel runs on."""

    _KEYS = {
        "pmax": "limits.partitions",
        "gemm_stationary_fmax": "limits.matmul_stationary_free_max",
        "bn_stats_fmax": "limits.bn_stats_fmax",
        "psum_min_align": "memory.psum_min_align",
        "sbuf_min_align": "memory.sbuf_min_align",
        "psum_bank_fmax_bytes": "memory.psum_bank_bytes",
        "psum_num_banks": "memory.psum_banks",
        "sbuf_fmax_bytes": "memory.sbuf_usable_bytes",
        "total_available_sbuf_size": "memory.sbuf_usable_bytes",
    }

    def __getattr__(self, name: str) -> int:
        target = _target()
        key = self._KEYS.get(name)
        if key is not None:
            return target[key]
        if name in ("psum_bank_fmax", "psum_fmax", "gemm_moving_fmax"):
            return target["memory.psum_bank_bytes"] // 4
        if name == "sbuf_size_bytes":
            return target["memory.sbuf_bytes"] * target["limits.partitions"]
        if name == "sbuf_fmax":
            return target["memory.sbuf_usable_bytes"] // 4
        raise AttributeError(f"nl.tile_size has no {name}")


tile_size = _TileSize()


def ndarray(
    shape: Sequence[int],
    dtype: object,
    buffer: Any = sbuf,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """A new tensor; its elements are undefined until they are written."""
    session = require_session("nl.ndarray")
    if not isinstance(buffer, MemoryRegion):
        violate(
            "R-tensor-05",
            f"buffer={buffer!r} is not a memory",
            hint="pass nl.sbuf, nl.psum, nl.hbm or nl.shared_hbm (strings are not accepted)",
            final=True,
            error=TileTypeError,
        )
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(isinstance(size, int) and not isinstance(size, bool) for size in sizes):
        try:
            sizes = tuple(size.__index__() for size in sizes)
        except (AttributeError, TypeError):
            raise fail(
                "E103", f"shape {shape!r} is not made of whole numbers", rule="R-tensor-04", error=TileTypeError
            ) from None
    return new_tensor(session, sizes, as_dtype(dtype), buffer, name=name or None, address=address)


def ds(start: Any, size: int) -> Slice:
    """`size` elements from `start`, which may be known only at run time."""
    if hasattr(start, "__index__") and not isinstance(start, NkiTensor):
        start = start.__index__()
    return Slice(start, size)


def affine_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """An alias of range."""
    return range(start) if stop is None else range(start, stop, step)


sequential_range = static_range = affine_range


def program_id(axis: int = 0) -> int:
    """This core's number in the launch grid."""
    return require_session("nl.program_id").program_id


def num_programs(axes: int = 0) -> int:
    """Cores in the launch grid."""
    return require_session("nl.num_programs").num_programs


def program_ndim() -> int:
    """Dims of the launch grid: 0 without one."""
    return 1 if require_session("nl.program_ndim").has_grid else 0
