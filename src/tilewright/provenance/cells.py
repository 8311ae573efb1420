"""Cells: the bytes that an access touches, so that who reads a value finds who wrote it, whatever their views are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.ir.core import Value
from tilewright.sim.machine import Machine
from tilewright.tile.view import View


@dataclass(eq=False)
class Cells:
    """Elements in memory: `home` is the address of their storage, or a register.

    take: which rows or columns (axis) run-time indices chose, where they did.
    """

    home: Any
    name: str
    start: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    view: View | None = None
    take: tuple[np.ndarray, int] | None = None

    @cached_property
    def addresses(self) -> np.ndarray:
        """The address of every element, in the shape of the access."""
        found = np.full(self.sizes, self.start, np.int64)
        for axis, (size, stride) in enumerate(zip(self.sizes, self.strides, strict=True)):
            shape = [1] * len(self.sizes)
            shape[axis] = size
            found += (np.arange(size, dtype=np.int64) * stride).reshape(shape)
        return found if self.take is None else found.take(*self.take)

    @cached_property
    def span(self) -> tuple[int, int]:
        """All bytes lie in this range."""
        if self.take is not None:
            return int(self.addresses.min()), int(self.addresses.max()) + self.itemsize
        reach = [(size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True)]
        low = self.start + sum(each for each in reach if each < 0)
        return low, self.start + sum(each for each in reach if each > 0) + self.itemsize

    @cached_property
    def order(self) -> tuple[np.ndarray, np.ndarray]:
        """Addresses in ascending order, and the positions in the flattened access that they belong to."""
        flat = self.addresses.reshape(-1)
        positions = np.argsort(flat, kind="stable")
        return flat[positions], positions

    def read(self, data: np.ndarray) -> np.ndarray:
        """The elements as they are now, in the storage whose bytes are `data`."""
        assert self.view is not None
        array = np.ndarray(self.sizes, self.view.dtype.np, data, self.start - address_of(data), self.strides)
        return array if self.take is None else array.take(*self.take)

    def covering(self, addresses: np.ndarray) -> np.ndarray:
        """For each address the position of the element that holds it, -1 where none does."""
        known, positions = self.order
        at = np.searchsorted(known, addresses, "right") - 1
        inside = (at >= 0) & (addresses < known[at] + self.itemsize)
        return np.where(inside, positions[at], -1)


def cells_of(machine: Machine, operand: View | Value) -> Cells:
    """The cells of an operand that the present instruction reads or writes."""
    if not isinstance(operand, View):
        return register_cells(operand)
    storage = machine.storage[operand.buffer]
    home = address_of(storage.data)
    view, take = operand, None
    offset = 0
    if operand.dynamic is not None:
        chosen, valid = machine.lanes(operand, True, machine.location)
        if operand.dynamic.kind == "scalar":
            offset = int(chosen[0]) * operand.dynamic.stride if valid[0] else 0
        else:
            first = chosen[np.argmax(valid)] if valid.any() else 0
            take = (np.where(valid, chosen, first), 1 if operand.on_chip else 0)
            view = operand.choices()
    array = storage.array(view, machine.offset_of(view) + offset)
    name = operand.buffer.name or "tensor"
    return Cells(home, name, address_of(array), array.shape, array.strides, array.itemsize, operand, take)


def register_cells(register: Value) -> Cells:
    """A register as a place of one element."""
    return Cells(register, register.name or "register", 0, (1,), (8,), 8)


def address_of(array: np.ndarray) -> int:
    """Where the first element of an array lies."""
    return array.__array_interface__["data"][0]
