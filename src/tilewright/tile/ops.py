"""Ops of tile IR that no engine runs: alloc, dealloc, for and register.

`alloc` stands in the region that uses the buffer: each execution starts unwritten and unaccumulated. `depth` is how
many trips of the surrounding loop may have their copy alive at once (multi-buffering). `dealloc` ends a buffer's life.
`for %i in start..stop step n` runs its region once per index; bounds are constants.
`%r = register %a, %b {factors = (f, g), offset = c}` is a new register that holds c + f * a + g * b; without registers
the constant c, and with offset = none nothing yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.errors import Diagnostic
from tilewright.ir.assembly import RangeAssembly
from tilewright.ir.core import CONSTANTS, Op, Region, Value
from tilewright.ir.definition import Definition
from tilewright.ir.parse import Reader
from tilewright.ir.text import Printer
from tilewright.tile.memory import ON_CHIP, Address, Buffer, BufferType

INDEX = "index"
REGISTER_TYPE = "register"
_MOST_BITS = 32
"""Of the numbers of a loop, which engines count with."""


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
        token = reader.peek()
        depth = reader.integer() if reader.accept("depth") else 1
        if not 0 < depth.bit_length() <= _MOST_BITS or depth < 0:
            raise reader.error(f"a buffer has at least one copy, not {depth}", token)
        token = reader.peek()
        address = _read_address(reader) if reader.accept("address") else None
        if address is not None and type.memory not in ON_CHIP:
            raise reader.error("only buffers on chip have an address", token)
        buffer = Buffer(type.dtype, type.shape, type.memory, names[0], address, depth)
        return Op(definition, (), (buffer,))


def _read_address(reader: Reader) -> Address:
    token = reader.peek()
    place = reader.constant()
    if not (
        isinstance(place, tuple) and len(place) in (2, 3) and all(type(part) is int and part >= 0 for part in place)
    ):
        raise reader.error("an address is (partition, byte)", token)
    return Address(*place)


def _verify_dealloc(op: Op) -> Iterable[Diagnostic]:
    named = [value for operand in op.operands if operand.__class__ not in CONSTANTS for value in operand.values()]
    if not op.operands or len(named) < len(op.operands) or not all(isinstance(value, Buffer) for value in named):
        yield _ill_formed("dealloc takes buffers")
    if op.attrs or op.results:
        yield _ill_formed("dealloc has no attributes and no result")


ROLLED = "rolled"
"""An attribute of loops that were made of repeated instructions, for who writes source; text has none."""


def _verify_for(op: Op) -> Iterable[Diagnostic]:
    if not all(type(bound) is int and bound.bit_length() < _MOST_BITS for bound in op.operands):
        yield _ill_formed("the bounds of a loop are whole numbers of 32 bits")
    elif op.operands[2] == 0:
        yield _ill_formed("a loop has a step other than 0")
    unknown = [name for name in op.attrs if name != ROLLED]
    if unknown:
        yield _ill_formed(f"for has no attribute {unknown[0]}")


def _verify_register(op: Op) -> Iterable[Diagnostic]:
    factors, offset = op.attrs.get("factors"), op.attrs.get("offset")
    if set(op.attrs) != {"factors", "offset"} or [value.type for value in op.results] != [REGISTER_TYPE]:
        yield _ill_formed("a register has the attributes factors and offset")
    elif not all(isinstance(x, Value) and x.type == REGISTER_TYPE for x in op.operands):
        yield _ill_formed("a register is computed from registers")
    elif not isinstance(factors, tuple) or len(factors) != len(op.operands) or not all(map(_is_number, factors)):
        yield _ill_formed("a register has one factor, a number, for each register that it is computed from")
    elif not (offset is None or _is_number(offset)):
        yield _ill_formed("the offset of a register is a number or none")


def _is_number(x: Any) -> bool:
    return isinstance(x, float) or (type(x) is int and x.bit_length() <= 2 * _MOST_BITS)


def _ill_formed(message: str) -> Diagnostic:
    return Diagnostic("E220", message)


ALLOC = Definition(name="alloc", assembly=_AllocAssembly())
DEALLOC = Definition(name="dealloc", has_side_effects=True, verify=_verify_dealloc)
FOR = Definition(name="for", has_side_effects=True, region_count=1, verify=_verify_for, assembly=RangeAssembly(INDEX))
REGISTER = Definition(name="register", verify=_verify_register)

STRUCTURE = {definition.name: definition for definition in (ALLOC, DEALLOC, FOR, REGISTER)}


def loop(stop: int, start: int = 0, step: int = 1, name: str = "i") -> tuple[Op, Value]:
    """A `for` op with an empty region, and its index."""
    index = Value(INDEX, name)
    return Op(FOR, (start, stop, step), (), regions=(Region([index]),)), index


def trips(op: Op) -> range:
    """The index values of a `for`."""
    start, stop, step = op.operands
    return range(start, stop, step)
