"""Going through tile IR in order: allocations, loops, ends of life, registers, and what an engine runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from tilewright.ir.core import Op, Region, Value
from tilewright.tile.memory import Buffer
from tilewright.tile.ops import ALLOC, DEALLOC, FOR, REGISTER, trips


class Visitor(ABC):
    """Visits the ops of a region; subclasses say what each kind of op does. Loops iterate unless they say otherwise."""

    def region(self, region: Region) -> None:
        """Visit the ops of a region in order."""
        self.ops(region.ops)

    def ops(self, ops: Iterable[Op]) -> None:
        """Visit some ops in order."""
        for op in ops:
            definition = op.definition
            if definition is ALLOC:
                buffer = op.result
                assert isinstance(buffer, Buffer)
                self.alloc(op, buffer)
            elif definition is FOR:
                (index,) = op.regions[0].arguments
                self.loop(op, index, trips(op))
            elif definition is DEALLOC:
                for buffer in op.values():
                    assert isinstance(buffer, Buffer)
                    self.dealloc(op, buffer)
            elif definition is REGISTER:
                self.register(op)
            else:
                self.instruction(op)

    def loop(self, op: Op, index: Value, positions: range) -> None:
        """A loop over these values of its index."""
        for position in positions:
            self.trip(index, position)
            self.region(op.regions[0])

    @abstractmethod
    def alloc(self, op: Op, buffer: Buffer) -> None:
        """A buffer's life begins."""

    @abstractmethod
    def dealloc(self, op: Op, buffer: Buffer) -> None:
        """A buffer's life is over."""

    @abstractmethod
    def instruction(self, op: Op) -> None:
        """An instruction of the table."""

    @abstractmethod
    def trip(self, index: Value, position: int) -> None:
        """A loop begins a trip."""

    @abstractmethod
    def register(self, op: Op) -> None:
        """A new register is computed from others."""
