"""Special forms in text that definitions of both levels use: counted loops, and ops that begin with their type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.parse import Reader
from tilewright.ir.text import Printer


@dataclass(frozen=True, slots=True)
class RangeAssembly:
    """`NAME %i in start..stop [step n] [attrs] { ... }`.

    The op has the operands (start, stop, step), each a constant or a value, no result, and one region whose argument
    is the index. A step of 1 is not written.
    """

    index_type: Any

    def write(self, printer: Printer, op: Op) -> str:
        """The loop's text after its name."""
        start, stop, step = op.operands
        assert len(op.regions) == 1 and len(op.regions[0].arguments) == 1 and not op.results
        bounds = f"{printer.operand(start)}..{printer.operand(stop)}"
        stride = "" if step == 1 else f" step {printer.operand(step)}"
        attrs = printer.attrs(op.attrs)
        names, block = printer.region(op.regions[0])
        return f"{names[0]} in {bounds}{stride}{attrs} {block}"

    def read(self, reader: Reader, definition: Any, names: list[str | None]) -> Op:
        """Read what `write` wrote."""
        index = reader.new_name()
        reader.expect("in")
        start = reader.operand()
        reader.expect("..")
        stop = reader.operand()
        step = reader.operand() if reader.accept("step") else 1
        attrs = reader.attrs()
        region = reader.region([(index, self.index_type)])
        return Op(definition, (start, stop, step), (), attrs, (region,))


@dataclass(frozen=True, slots=True)
class TypeAssembly:
    """`%x = NAME type [word constant ...] [attrs]`: an op without operands whose type says most of it.

    `words` are the attributes written as `word constant`, with the value that need not be written; `new_value` makes
    the result where it is another class than the dialect's usual one.
    """

    words: Mapping[str, Any] = field(default_factory=dict)
    new_value: Callable[[Any, str | None], Value] | None = None

    def write(self, printer: Printer, op: Op) -> str:
        """The op's text after its name."""
        assert not op.operands and not op.regions
        text = printer.type(op.result.type)
        for word, default in self.words.items():
            value = op.attrs.get(word, default)
            if value != default:
                text += f" {word} {printer.constant(value)}"
        return text + printer.attrs(op.attrs, skip=self.words)

    def read(self, reader: Reader, definition: Any, names: list[str | None]) -> Op:
        """Read what `write` wrote; attributes that were not written have their default."""
        if len(names) != 1:
            raise reader.error(f"{definition.name} has one result, the text names {len(names)}")
        type = reader.type()
        attrs = dict(self.words)
        while reader.peek().kind == "word" and reader.peek().text in self.words:
            word = reader.next().text
            attrs[word] = reader.constant()
        attrs |= reader.attrs()
        new_value = self.new_value or reader.dialect.new_value
        return Op(definition, (), (new_value(type, names[0]),), attrs)
