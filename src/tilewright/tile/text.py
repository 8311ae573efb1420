"""Tile IR as text: the dialect that prints and reads kernels.

A view is written in the shortest of three forms that gives it back exactly:

    %x                                    the whole buffer
    %x[:, %i*512 + 3 : +512 : 2]          one part per dim: everything, or start : +size [: step]
    %x@(5 + %i*64; [64, 128], [1, 32]; bf16)   offset; [step, count] pairs; element type when it is another than %x's

A run-time index follows the last form: `by scalar %r * 64 < 10 dim 0`, or `by vector` or `by columns` of a tensor.
"""

from __future__ import annotations

from collections import ChainMap
from math import prod
from typing import Any

from tilewright.dtypes import DTYPES
from tilewright.ir.core import Graph, Value
from tilewright.ir.parse import Reader
from tilewright.ir.parse import parse as parse_text
from tilewright.ir.text import Dialect, Printer
from tilewright.tile.memory import Buffer, BufferType, MemoryRegion
from tilewright.tile.ops import INDEX, REGISTER_TYPE, STRUCTURE
from tilewright.tile.record import TABLE
from tilewright.tile.view import Dynamic, View, row_major, whole

_ADDRESS_BITS = 60
_SHORT = {dtype.short: dtype for dtype in DTYPES.values()}
_MEMORIES = {"hbm": MemoryRegion.private_hbm} | {
    region.value: region for region in MemoryRegion if region is not MemoryRegion.private_hbm
}
_MEMORY_NAMES = {region: name for name, region in _MEMORIES.items()}


def write_type(type: Any) -> str:
    """f32[128, 64]@sbuf, index or register."""
    if isinstance(type, BufferType):
        return f"{type.dtype.short}[{', '.join(map(str, type.shape))}]@{_MEMORY_NAMES[type.memory]}"
    return str(type)


def read_type(reader: Reader) -> Any:
    """Read what `write_type` wrote."""
    token = reader.expect_kind("word")
    if token.text in (INDEX, REGISTER_TYPE):
        return token.text
    dtype = _SHORT.get(token.text)
    if dtype is None:
        raise reader.error(f"unknown element type {token.text}", token)
    reader.expect("[")
    shape: list[int] = []
    while not reader.accept("]"):
        shape.append(reader.integer())
        if not reader.accept(",") and not reader.at("]"):
            raise reader.error("expected ',' or ']'")
    reader.expect("@")
    token = reader.expect_kind("word")
    memory = _MEMORIES.get(token.text)
    if memory is None:
        raise reader.error(f"unknown memory {token.text}; there are {', '.join(_MEMORIES)}", token)
    # A tensor in HBM may be without elements; a tile is not. No address has more than 64 bits.
    least = 1 if memory.value in ("sbuf", "psum") else 0
    possible = (
        all(size >= least for size in shape) and prod(max(size, 1) for size in shape).bit_length() < _ADDRESS_BITS
    )
    if not possible or (least and not shape):
        raise reader.error(f"shape {shape} is not possible in {token.text}", token)
    return BufferType(dtype, tuple(shape), memory)


def new_value(type: Any, name: str | None) -> Value:
    """The value for a type read from text: a buffer, an index or a register."""
    if isinstance(type, BufferType):
        return Buffer(type.dtype, type.shape, type.memory, name)
    return Value(type, name)


# Views.

Part = tuple[list[tuple[Value, int]], int, int, int]
"""Loop terms, start, size and step along one dim."""


def _parts(view: View) -> list[Part] | None:
    """The view as one part per dim of its buffer, or None when it is not such a slice."""
    buffer = view.buffer
    if view.dynamic is not None or view.dtype is not buffer.dtype or view.ndim != len(buffer.shape):
        return None
    base = row_major(buffer.shape)
    if 0 in base:  # nothing can be reached in a tensor without elements
        return None
    terms: list[list[tuple[Value, int]]] = [[] for _ in base]
    for value, factor in view.terms:
        dim = next((d for d, stride in enumerate(base) if factor > 0 and factor % stride == 0), None)
        if dim is None:
            return None
        terms[dim].append((value, factor // base[dim]))
    parts: list[Part] = []
    rest = view.offset
    for dim, (stride, size, step) in enumerate(zip(base, view.sizes, view.strides, strict=True)):
        start, rest = divmod(rest, stride)
        if step % stride or (step == 0 and size != 1):
            return None
        parts.append((terms[dim], start, size, step // stride))
        if _leaves(parts[-1], buffer.shape[dim]):
            return None
    return parts if rest == 0 and _from_parts(buffer, parts) == _key(view) else None


def _leaves(part: Part, full: int) -> bool:
    """True for a part that reaches outside of its dim; where a loop moves it, `tile.verify` knows."""
    loops, start, size, step = part
    ends = (start, start + (size - 1) * step)
    return not loops and (min(ends) < 0 or max(ends) >= full)


def _from_parts(buffer: Buffer, parts: list[Part]) -> tuple:
    """The key of the view that parts stand for."""
    base = row_major(buffer.shape)
    offset, terms = 0, []
    for (loops, start, _, _), stride in zip(parts, base, strict=True):
        offset += start * stride
        terms += [(value, factor * stride) for value, factor in loops]
    strides = tuple(step * stride for (_, _, _, step), stride in zip(parts, base, strict=True))
    return offset, tuple(size for _, _, size, _ in parts), strides, tuple(terms)


def _key(view: View) -> tuple:
    return view.offset, view.sizes, view.strides, view.terms


def write_operand(printer: Printer, operand: View) -> str:
    """A view in the shortest form."""
    name = printer.name(operand.buffer)
    parts = _parts(operand)
    if parts is None:
        return f"{name}@({_pattern(printer, operand)})"
    shape = operand.buffer.shape
    if all(
        not loops and start == 0 and step == 1 and size == full
        for (loops, start, size, step), full in zip(parts, shape, strict=True)
    ):
        return name
    return f"{name}[{', '.join(_part(printer, part, full) for part, full in zip(parts, shape, strict=True))}]"


def _part(printer: Printer, part: Part, full: int) -> str:
    loops, start, size, step = part
    if not loops and start == 0 and size == full and step == 1:
        return ":"
    stride = "" if step == 1 else f" : {step}"
    return f"{_sum(printer, loops, start)} : +{size}{stride}"


def _sum(printer: Printer, loops: Any, start: int) -> str:
    terms = [f"{printer.name(value)}*{factor}" for value, factor in loops]
    return " + ".join([*terms, str(start)] if start or not terms else terms)


def _pattern(printer: Printer, view: View) -> str:
    pairs = ", ".join(f"[{step}, {count}]" for step, count in zip(view.strides, view.sizes, strict=True))
    text = f"{_sum(printer, view.terms, view.offset)}; {pairs}"
    if view.dtype is not view.buffer.dtype:
        text += f"; {view.dtype.short}"
    dynamic = view.dynamic
    if dynamic is not None:
        text += f" by {dynamic.kind} {printer.operand(dynamic.index)} * {dynamic.stride} < {dynamic.limit}"
        text += f" dim {dynamic.dim}"
    return text


def read_operand(reader: Reader, value: Value) -> View | Value:
    """Read what `write_operand` wrote after the name."""
    if not isinstance(value, Buffer):
        return value
    if reader.at("["):
        return _read_parts(reader, value)
    if reader.accept("@"):
        return _read_pattern(reader, value)
    return whole(value)


def _read_sum(reader: Reader) -> tuple[list[tuple[Value, int]], int]:
    loops: list[tuple[Value, int]] = []
    start = 0
    while True:
        if reader.peek().kind == "value":
            index = reader.value()
            loops.append((index, _signed(reader) if reader.accept("*") else 1))
        else:
            start += _signed(reader)
        if not reader.accept("+"):
            return loops, start


def _signed(reader: Reader) -> int:
    """An offset, a step or a size: no memory has more than 64 bits of address."""
    token = reader.peek()
    number = reader.integer()
    if number.bit_length() > _ADDRESS_BITS:
        raise reader.error(f"{number} is beyond every memory", token)
    return number


def _read_parts(reader: Reader, buffer: Buffer) -> View:
    token = reader.peek()
    reader.expect("[")
    parts: list[Part] = []
    while not reader.accept("]"):
        full = buffer.shape[len(parts)] if len(parts) < len(buffer.shape) else 1
        if reader.accept(":"):
            parts.append(([], 0, full, 1))
        else:
            loops, start = _read_sum(reader)
            reader.expect(":")
            reader.expect("+")
            size = _signed(reader)
            parts.append((loops, start, size, _signed(reader) if reader.accept(":") else 1))
        if not reader.accept(",") and not reader.at("]"):
            raise reader.error("expected ',' or ']'")
    if len(parts) != len(buffer.shape):
        raise reader.error(f"{len(parts)} parts for a tensor of {len(buffer.shape)} dims", token)
    for dim, (part, full) in enumerate(zip(parts, buffer.shape, strict=True)):
        if part[2] > 0 and _leaves(part, full):
            _, start, size, step = part
            last = start + (size - 1) * step
            message = f"dim {dim} has {full} elements, the slice goes from {start} to {last}"
            raise reader.error(message, token, "E301", "slices are not clipped: cut the last one to what is left")
    offset, sizes, strides, terms = _from_parts(buffer, parts)
    return _checked(reader, token, View(buffer, buffer.dtype, offset, sizes, strides, terms))


def _read_pattern(reader: Reader, buffer: Buffer) -> View:
    token = reader.peek()
    reader.expect("(")
    loops, offset = _read_sum(reader)
    reader.expect(";")
    sizes: list[int] = []
    strides: list[int] = []
    while True:
        reader.expect("[")
        strides.append(_signed(reader))
        reader.expect(",")
        sizes.append(_signed(reader))
        reader.expect("]")
        if not reader.accept(","):
            break
    dtype = buffer.dtype
    if reader.accept(";"):
        name = reader.expect_kind("word")
        if name.text not in _SHORT:
            raise reader.error(f"unknown element type {name.text}", name)
        dtype = _SHORT[name.text]
    dynamic = _read_dynamic(reader) if reader.accept("by") else None
    reader.expect(")")
    view = View(buffer, dtype, offset, tuple(sizes), tuple(strides), tuple(loops), dynamic)
    return _checked(reader, token, view)


def _read_dynamic(reader: Reader) -> Dynamic:
    kind = reader.expect_kind("word")
    if kind.text not in ("scalar", "vector", "columns"):
        raise reader.error("expected scalar, vector or columns", kind)
    token = reader.peek()
    index = reader.operand()
    if not isinstance(index, View) and not (isinstance(index, Value) and kind.text == "scalar"):
        raise reader.error(f"{kind.text} indices are held by a tensor", token)
    reader.expect("*")
    stride = _signed(reader)
    reader.expect("<")
    limit = _signed(reader)
    reader.expect("dim")
    return Dynamic(kind.text, index, stride, limit, _signed(reader))


def _checked(reader: Reader, token: Any, view: View) -> View:
    """Refuse patterns that no check downstream could make sense of; bounds over loops are checked by `tile.verify`."""
    if any(size < 1 for size in view.sizes):
        raise reader.error("a view needs positive sizes", token)
    if view.buffer.row_bytes % view.dtype.itemsize:
        raise reader.error(f"rows of the tensor are not whole elements of {view.dtype}", token)
    if any(value.type != INDEX for value, _ in view.terms):
        raise reader.error("only loop indices may stand in an offset", token)
    if view.dynamic is not None and view.dynamic.kind == "scalar" and not _is_scalar(view.dynamic.index):
        raise reader.error("a scalar index is a register or a tensor", token)
    if view.dynamic is not None and view.dynamic.kind == "columns" and not (view.on_chip and view.ndim == 2):
        raise reader.error("columns are chosen from two dims of a tensor on chip", token)
    return view


def _is_scalar(index: View | Value) -> bool:
    return isinstance(index, View) or index.type == REGISTER_TYPE


def reach(view: View, ranges: dict[Value, range]) -> tuple[int, int]:
    """The smallest and greatest element offset an access touches over all loop indices (and its own dims)."""
    low = high = view.offset
    spans = [(factor * (ranges[v][0]), factor * (ranges[v][-1])) for v, factor in view.terms if len(ranges[v])]
    spans += [(0, (size - 1) * stride) for size, stride in zip(view.sizes, view.strides, strict=True)]
    for a, b in spans:
        low += min(a, b)
        high += max(a, b)
    return low, high


TILE = Dialect(
    keyword="kernel",
    ops=ChainMap(STRUCTURE, TABLE),
    write_type=write_type,
    read_type=read_type,
    new_value=new_value,
    write_operand=write_operand,
    read_operand=read_operand,
)


def parse_tile(text: str, file: str = "<text>", locate: bool = False) -> Graph:
    """Read a kernel in tile IR. Nothing in the text is executed.

    locate: ops that do not say where they come from come from their line of this text.
    """
    return parse_text(text, TILE, file=file, locate=locate, check=True)


__all__ = ["TILE", "parse_tile", "reach"]
