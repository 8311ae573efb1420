"""A small dialect for tests: tensors, buffers, a strided slice as operand, counted loops, a scan with a terminator."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.dtypes import DTYPES
from tilewright.errors import Diagnostic
from tilewright.ir import Definition, Graph, Op, Region, Value
from tilewright.ir.assembly import RangeAssembly, TypeAssembly
from tilewright.ir.dense import DENSE
from tilewright.ir.parse import Reader
from tilewright.ir.text import Dialect, Printer


class Mode(enum.Enum):
    """An enumeration whose members are bare words of the text."""

    FAST = 1
    EXACT = 2


@dataclass(frozen=True, slots=True)
class Type:
    """`dtype[shape]`, `dtype[shape]@memory` or, without a shape, a plain word."""

    dtype: str
    shape: tuple[int, ...] | None = None
    memory: str | None = None

    def __str__(self) -> str:
        shape = "" if self.shape is None else f"[{', '.join(map(str, self.shape))}]"
        return f"{self.dtype}{shape}" + (f"@{self.memory}" if self.memory else "")


INDEX = Type("index")
F32 = Type("f32", (4,))


def read_type(reader: Reader) -> Type:
    dtype = reader.expect_kind("word").text
    if not reader.accept("["):
        return Type(dtype)
    shape: list[int] = []
    while not reader.accept("]"):
        shape.append(reader.integer())
        if not reader.accept(",") and not reader.at("]"):
            raise reader.error("expected ',' or ']'")
    memory = reader.expect_kind("word").text if reader.accept("@") else None
    return Type(dtype, tuple(shape), memory)


@dataclass(frozen=True, slots=True)
class Part:
    """Elements `index * scale + start`, `size` of them, `step` apart."""

    index: Value | None
    scale: int
    start: int
    size: int
    step: int = 1


@dataclass(frozen=True, slots=True)
class Slice:
    """`%base[%i*scale + start : +size : step, ...]`: an operand that refers to several values."""

    base: Value
    parts: tuple[Part, ...]

    def values(self) -> tuple[Value, ...]:
        return (self.base, *(part.index for part in self.parts if part.index is not None))

    def substitute(self, mapping: Mapping[Value, Any]) -> Slice:
        if not any(value in mapping for value in self.values()):
            return self
        return Slice(
            mapping.get(self.base, self.base),
            tuple(
                Part(p.index and mapping.get(p.index, p.index), p.scale, p.start, p.size, p.step) for p in self.parts
            ),
        )


def write_operand(printer: Printer, operand: Slice) -> str:
    parts: list[str] = []
    for part in operand.parts:
        index = "" if part.index is None else f"{printer.name(part.index)}*{part.scale} + "
        step = "" if part.step == 1 else f" : {part.step}"
        parts.append(f"{index}{part.start} : +{part.size}{step}")
    return f"{printer.name(operand.base)}[{', '.join(parts)}]"


def read_operand(reader: Reader, value: Value) -> Slice | Value:
    if not reader.accept("["):
        return value
    parts: list[Part] = []
    while not reader.accept("]"):
        index, scale = None, 1
        if reader.peek().kind == "value":
            index = reader.value()
            reader.expect("*")
            scale = reader.integer()
            reader.expect("+")
        start = reader.integer()
        reader.expect(":")
        reader.expect("+")
        size = reader.integer()
        parts.append(Part(index, scale, start, size, reader.integer() if reader.accept(":") else 1))
        if not reader.accept(",") and not reader.at("]"):
            raise reader.error("expected ',' or ']'")
    return Slice(value, tuple(parts))


def same_types(op: Op) -> Iterable[Diagnostic]:
    """The operands that are values have the type of the result."""
    for index, operand in enumerate(op.operands):
        if isinstance(operand, Value) and operand.type != op.result.type:
            yield Diagnostic("E100", f"{op.name}: operand {index} is {operand.type}, not {op.result.type}")


ADD = Definition(name="add", verify=same_types)
MUL = Definition(name="mul", verify=same_types)
NEG = Definition(name="neg", verify=same_types)
CONST = Definition(name="const")
SPLIT = Definition(name="split")
ALLOC = Definition(name="alloc", assembly=TypeAssembly({"depth": 1}))
STORE = Definition(name="store", has_side_effects=True)
BARRIER = Definition(name="barrier", has_side_effects=True)
NOTHING = Definition(name="nothing")
FOR = Definition(name="for", region_count=1, assembly=RangeAssembly(INDEX))
SCAN = Definition(name="scan", region_count=1, terminator="yield")
YIELD = Definition(name="yield")
BRANCH = Definition(name="branch", region_count=2)

DEMO = Dialect(
    keyword="kernel",
    ops={d.name: d for d in (ADD, MUL, NEG, CONST, SPLIT, ALLOC, STORE, BARRIER, NOTHING, FOR, SCAN, YIELD, BRANCH)},
    read_type=read_type,
    write_operand=write_operand,
    read_operand=read_operand,
    words={**{d.short: d for d in DTYPES.values()}, "fast": Mode.FAST, "exact": Mode.EXACT},
    kinds=(DENSE,),
)


def new_graph(*inputs: str, name: str = "demo") -> Graph:
    """A graph with inputs of type F32."""
    return Graph(name, [Value(F32, i) for i in inputs], dialect=DEMO)


def add(x: Any, y: Any, name: str | None = None) -> Op:
    """A detached add."""
    return Op(ADD, (x, y), (Value(F32, name),))


def neg(x: Any, name: str | None = None) -> Op:
    """A detached neg."""
    return Op(NEG, (x,), (Value(F32, name),))


def loop(stop: Any, *ops: Op, index: Value | None = None) -> Op:
    """A detached counted loop over the given ops."""
    region = Region([index if index is not None else Value(INDEX, "i")])
    region.extend(ops)
    return Op(FOR, (0, stop, 1), (), None, (region,))
