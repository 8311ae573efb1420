"""Ops of tile IR that no engine runs: alloc, dealloc, for and register.

`alloc` stands in the region that uses the buffer: each execution starts unwritten and unaccumulated. `depth` is how
many trips of the surrounding loop may have their copy alive at once (multi-buffering). `dealloc` ends a buffer's life.
`for %i in start..stop step n` runs its region once per index; bounds are constants.
`%r = register %a, %b {factors = (f, g), offset = c}` is a new register that holds c + f * a + g * b; without registers
the constant c, and with offset = none nothing yet.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.assembly import RangeAssembly
from tilewright.ir.core import Op, Region, Value
from tilewright.ir.definition import Definition
from tilewright.ir.parse import Reader
from tilewright.ir.text import Printer
from tilewright.tile.memory import Address, Buffer, BufferType

INDEX = "index"


class _AllocAssembly:
    """`%x = alloc type [depth n] [address (partition, byte[, bytes from one copy to the next])]`."""

    __slots__ = ()

    def write(self, printer: Printer, op: Op) -> str:
        buffer = op.result
        assert isinstance(buffer, Buffer)
        text = printer.type(buffer.type)
        if buffer.depth != 1:
            text += f" depth {buffer.depth}"
        if buffer.address is not None:
            place = tuple(buffer.address) if buffer.address.apart else buffer.address[:2]
            text += f" address {printer.constant(place)}"
        return text

    def read(self, reader: Reader, definition: Any, names: list[str | None]) -> Op:
        if len(names) != 1:
            raise reader.error(f"alloc has one result, the text names {len(names)}")
        token = reader.peek()
        type = reader.type()
        if not isinstance(type, BufferType):
            raise reader.error("alloc needs a tensor type", token)
        depth = reader.integer() if reader.accept("depth") else 1
        address = _read_address(reader) if reader.accept("address") else None
        buffer = Buffer(type.dtype, type.shape, type.memory, names[0], address, depth)
        return Op(definition, (), (buffer,))


def _read_address(reader: Reader) -> Address:
    token = reader.peek()
    place = reader.constant()
    if not (isinstance(place, tuple) and len(place) in (2, 3) and all(isinstance(part, int) for part in place)):
        raise reader.error("an address is (partition, byte)", token)
    return Address(*place)


ALLOC = Definition(name="alloc", assembly=_AllocAssembly())
DEALLOC = Definition(name="dealloc", has_side_effects=True)
FOR = Definition(name="for", has_side_effects=True, region_count=1, assembly=RangeAssembly(INDEX))
REGISTER = Definition(name="register")

STRUCTURE = {definition.name: definition for definition in (ALLOC, DEALLOC, FOR, REGISTER)}


def loop(stop: int, start: int = 0, step: int = 1, name: str = "i") -> tuple[Op, Value]:
    """A `for` op with an empty region, and its index."""
    index = Value(INDEX, name)
    return Op(FOR, (start, stop, step), (), regions=(Region([index]),)), index


def trips(op: Op) -> range:
    """The index values of a `for`."""
    start, stop, step = op.operands
    return range(start, stop, step)
