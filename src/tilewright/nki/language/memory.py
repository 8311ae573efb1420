"""Buffers of nki.language, and tile sizes of the target."""

from __future__ import annotations

from typing import ClassVar

from tilewright.nki.tensor import NKIObject
from tilewright.sim.session import running_session
from tilewright.target import Target, get_target
from tilewright.tile.memory import MemoryRegion, usable_psum_banks

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
hbm = private_hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm


def is_hbm(buffer: object) -> bool:
    """True for any HBM buffer."""
    return buffer in (private_hbm, shared_hbm)


def is_on_chip(buffer: object) -> bool:
    """True for SBUF and PSUM."""
    return buffer in (sbuf, psum)


def is_psum(buffer: object) -> bool:
    """True for PSUM."""
    return buffer is psum


def is_sbuf(buffer: object) -> bool:
    """True for SBUF."""
    return buffer is sbuf


def _target() -> Target:
    session = running_session()
    return session.target if session is not None else get_target(None)


_FLOAT32_BYTES = 4


class TileSize(NKIObject):
    """Sizes that tiles may have on the target of the running kernel (outside a kernel: of the default target)."""

    # R-tile_size-01. psum_fmax and total_available_sbuf_size are deprecated names of a bank and of a partition
    # (R-tile_size-02).
    _FIGURES: ClassVar[dict[str, str]] = {
        "pmax": "limits.partitions",
        "gemm_stationary_fmax": "limits.matmul_stationary_free_max",
        "bn_stats_fmax": "limits.bn_stats_fmax",
        "psum_min_align": "memory.psum_min_align",
        "sbuf_min_align": "memory.sbuf_min_align",
        "psum_bank_fmax_bytes": "memory.psum_bank_bytes",
        "sbuf_fmax_bytes": "memory.sbuf_usable_bytes",
        "total_available_sbuf_size": "memory.sbuf_usable_bytes",
    }

    def __getattr__(self, name: str) -> int:
        figure = self._FIGURES.get(name)
        if figure is None:
            raise AttributeError(f"nl.tile_size has no attribute {name!r}")
        return _target()[figure]

    @property
    def psum_bank_fmax(self) -> int:
        """float32 elements per partition of a PSUM bank."""
        return self.psum_bank_fmax_bytes // _FLOAT32_BYTES

    psum_fmax = psum_bank_fmax
    gemm_moving_fmax = psum_bank_fmax

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks a kernel may use: one fewer where DMA transposes run on the Tensor engine (R-tensor-12)."""
        return usable_psum_banks(_target())

    @property
    def sbuf_fmax(self) -> int:
        """float32 elements per partition that SBUF tiles may use."""
        return self.sbuf_fmax_bytes // _FLOAT32_BYTES

    @property
    def sbuf_size_bytes(self) -> int:
        """All bytes of SBUF, over all partitions."""
        target = _target()
        return target["memory.sbuf_bytes"] * target["limits.partitions"]

    def __repr__(self) -> str:
        return "nl.tile_size"


tile_size = TileSize()

__all__ = [
    "MemoryRegion",
    "hbm",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "private_hbm",
    "psum",
    "sbuf",
    "shared_hbm",
    "tile_size",
]
