"""Rules of addresses: where a buffer may lie, whoever gave it its place."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any, NamedTuple

from tilewright.errors import fail
from tilewright.target import Target
from tilewright.tile.memory import PSUM, SBUF, Address, Buffer, usable_psum_banks


def read_address(given: Any) -> Address:
    """What a kernel gives as `address`: the first partition and a byte offset within it (R-tensor.address-01)."""
    if not isinstance(given, (tuple, list)) or len(given) != 2 or not all(isinstance(each, Integral) for each in given):
        raise fail("E108", f"address is {given!r}", hint="an address is (first partition, byte offset)")
    return Address(int(given[0]), int(given[1]))


class Fault(NamedTuple):
    """A broken rule; final: nothing can be done with such a buffer."""

    rule: str
    message: str
    hint: str | None = None
    final: bool = False


def address_faults(buffer: Buffer, place: Address, target: Target) -> Iterator[Fault]:
    """What is wrong with a place of an on-chip buffer."""
    name, byte = buffer.name, place.byte
    if buffer.memory is PSUM and byte % target["memory.psum_bank_bytes"]:
        yield Fault(
            "R-tensor.address-02",
            f"{name} starts at byte {byte} of psum, which is not the start of a bank",
            f"use a multiple of {target['memory.psum_bank_bytes']} bytes",
        )
    kind = "sbuf" if buffer.memory is SBUF else "psum"
    if byte % target[f"memory.{kind}_min_align"]:
        align = target[f"memory.{kind}_min_align"]
        yield Fault("R-tensor.address-05", f"{name} starts at byte {byte}; {kind} addresses are multiples of {align}")
    room = target["memory.sbuf_usable_bytes" if kind == "sbuf" else "memory.psum_bytes"]
    free = usable_psum_banks(target) * target["memory.psum_bank_bytes"]
    if kind == "psum" and byte + buffer.row_bytes > free >= byte and free < room:
        yield Fault(
            "R-tensor-12",
            f"{name} at byte {byte} of psum takes the bank that DMA transposes need",
            "use one of the first nl.tile_size.psum_num_banks banks",
        )
    outside = place.partition < 0 or place.partition + buffer.shape[0] > target["limits.partitions"]
    if byte < 0 or byte + buffer.row_bytes > room or outside:
        yield Fault(
            "R-tensor.address-06",
            f"{name} at partition {place.partition}, byte {byte} does not end inside {kind} "
            f"({target['limits.partitions']} partitions of {room} usable bytes)",
            final=True,
        )
