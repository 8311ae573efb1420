"""Memories, buffers and what the rest of the package asks about them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from math import prod
from typing import NamedTuple

from tilewright.dtypes import DType
from tilewright.errors import Location
from tilewright.ir.core import Value
from tilewright.target import Target
from tilewright.units import bytes_text


class MemoryRegion(Enum):
    """Where a tensor lives; the members are NKI's buffer objects."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    __hash__ = object.__hash__  # members are singletons; Enum's own hash is several times slower


SBUF, PSUM, HBM, SHARED_HBM = MemoryRegion
ON_CHIP = (SBUF, PSUM)
OFF_CHIP = (HBM, SHARED_HBM)


class Address(NamedTuple):
    """A fixed place on chip: start partition and byte offset within the partition (R-tensor.address-01).

    apart: bytes from one copy of a loop's buffer to the next; 0 when they follow each other without a gap.
    """

    partition: int
    byte: int
    apart: int = 0


class BufferType(NamedTuple):
    """The type of a buffer value: element type, shape, memory."""

    dtype: DType
    shape: tuple[int, ...]
    memory: MemoryRegion


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


class Buffer(Value):
    """An allocation. On chip, dim 0 of its shape is the partition dim and `row` counts the elements of a partition.

    A buffer is a name, not storage: the machine gives it storage while something can still use it.
    """

    __slots__ = (
        "address",
        "broken",
        "depth",
        "dtype",
        "location",
        "memory",
        "on_chip",
        "row",
        "row_bytes",
        "shape",
        "strides",
    )

    type: BufferType

    def __init__(
        self,
        dtype: DType,
        shape: tuple[int, ...],
        memory: MemoryRegion,
        name: str | None = None,
        address: Address | None = None,
        depth: int = 1,
        location: Location | None = None,
    ) -> None:
        super().__init__(BufferType(dtype, shape, memory), name=name)
        self.dtype = dtype
        self.shape = shape
        self.memory = memory
        self.on_chip = memory is SBUF or memory is PSUM
        self.row = prod(shape[1:]) if self.on_chip else prod(shape)
        # Bytes per partition on chip; all bytes of a tensor in HBM.
        self.row_bytes: int = self.row * dtype.itemsize
        self.strides = row_major(shape)
        self.address = address
        self.depth = depth
        self.location = location
        # Refused while diagnostics are collected: findings about what is done with it would only follow from that.
        self.broken = False

    def fresh(self) -> Buffer:
        """A new buffer like this one (ir.core: used when a graph is cloned)."""
        return Buffer(self.dtype, self.shape, self.memory, self.name, self.address, self.depth, self.location)

    @property
    def partitions(self) -> int:
        return self.shape[0] if self.on_chip else 1

    def place_of(self, turn: int) -> Address:
        """Where the copy lies that the allocation of this number uses: the copies take turns."""
        assert self.address is not None
        partition, byte, apart = self.address
        return Address(partition, byte + turn % self.depth * (apart or self.row_bytes))

    @property
    def start_partition(self) -> int:
        return self.address.partition if self.address is not None else 0


IN_PARTS = "work on parts of the arrays, one call for each"


def hbm_fault(needed: int, target: Target) -> str | None:
    """What is wrong with so many bytes in HBM: more than a chip has."""
    room = target["hbm.capacity_gib"] * 2**30
    if needed <= room:
        return None
    return f"take {bytes_text(needed)}; a chip of {target.name} has {bytes_text(room)} of HBM"


def usable_psum_banks(target: Target) -> int:
    """PSUM banks a kernel may use: one fewer where DMA transposes run on the Tensor engine (R-tensor-12)."""
    reserved = os.environ.get("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "").lower() == "true"
    return target["memory.psum_banks_with_pe_dma_transpose" if reserved else "memory.psum_banks"]
