"""How instructions and allocations look in IR text: operands, then the attributes that differ from their defaults."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.parse import Reader
from tilewright.ir.text import Printer


class InstructionAssembly:
    """`NAME operand, ... {attr = value, ...}`; absent optional operands at the end are not written."""

    __slots__ = ()

    def write(self, printer: Printer, op: Op) -> str:
        """The text after the name."""
        operands = op.operands
        while operands and operands[-1] is None:
            operands = operands[:-1]
        defaults = op.definition.defaults
        changed = {
            name: value for name, value in op.attrs.items() if name not in defaults or not _same(value, defaults[name])
        }
        return printer.operands(operands) + printer.attrs(changed)

    def read(self, reader: Reader, definition: Any, names: list[str | None]) -> Op:
        """Read what `write` wrote; attributes that were not written have their default."""
        if names:
            raise reader.error(f"{definition.name} writes into its operands and has no result")
        operands: list[Any] = []
        if not (reader.at("{") or reader.peek().kind in ("newline", "end") or reader.at(";")):
            operands.append(reader.operand())
            while reader.accept(","):
                operands.append(reader.operand())
        missing = len(definition.operands) - len(operands)
        if definition.many is None:
            operands += [None] * missing
        token = reader.peek()
        given = reader.attrs()
        unknown = [name for name in given if name not in definition.attrs]
        if unknown:
            raise reader.error(f"{definition.name} has no attribute {unknown[0]}", token)
        for name, value in given.items():
            if not definition.attrs[name].takes(value):
                raise reader.error(f"{definition.name}: {name} cannot be {value!r}", token)
        for name in definition.attrs:
            if name not in given and name not in definition.defaults:
                raise reader.error(f"{definition.name} needs the attribute {name}", token)
        self._check_operands(reader, definition, operands)
        return Op(definition, operands, (), definition.attributes(given))

    def _check_operands(self, reader: Reader, definition: Any, operands: list[Any]) -> None:
        specs = list(definition.operands.items())
        if len(operands) > len(specs) and definition.many is None:
            raise reader.error(f"{definition.name} takes {len(specs)} operands, the text gives {len(operands)}")
        for position, operand in enumerate(operands):
            name, spec = specs[min(position, len(specs) - 1)]
            is_tensor = hasattr(operand, "sizes")
            is_number = isinstance(operand, float) or (type(operand) is int and operand.bit_length() <= _MOST_BITS)
            is_register = isinstance(operand, Value) and operand.type == "register" and spec.register
            absent = operand is None and spec.optional
            if not (is_tensor or (is_number and spec.number) or is_register or absent):
                raise reader.error(f"{definition.name}: {name} cannot be {operand!r}")


# A whole number among the operands is an immediate of at most 32 bits; float32 holds larger ones, rounded.
_MOST_BITS = 64


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and a == b)


INSTRUCTION = InstructionAssembly()
