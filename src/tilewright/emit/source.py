"""The driver: a kernel in tile IR becomes the text of a Python module with one NKI kernel.

The text uses the part of Python that the NKI compiler accepts: assignments, calls, indexing, integer arithmetic on loop
indices and `for i in range(...)` (the compiler unrolls such loops, and its own ranges are deprecated names of it). Each
trip of a loop allocates its tiles anew. Where they have addresses, these say how many of them are alive at once;
otherwise that is the compiler's decision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath

from tilewright.emit.affine import Sum, Terms
from tilewright.emit.arrange import arrange
from tilewright.emit.calls import call
from tilewright.emit.chunks import Chunk, chunk_of
from tilewright.emit.filled import filled
from tilewright.emit.header import Header, describe
from tilewright.emit.helpers import Helpers, Repeated
from tilewright.emit.layout import INDENT, call_lines, comment_line
from tilewright.emit.lifetimes import lifetimes
from tilewright.emit.names import MODULES, Names, identifier, kernel_name
from tilewright.emit.places import address, moves
from tilewright.emit.remarks import remarks
from tilewright.emit.roll import is_rolled, roll
from tilewright.emit.shares import shares
from tilewright.emit.sizes import Sizes
from tilewright.emit.versions import get_api
from tilewright.emit.views import ViewWriter
from tilewright.errors import Location
from tilewright.ir.core import Graph, Op, Value
from tilewright.target import Target
from tilewright.tile.memory import SHARED_HBM, Buffer
from tilewright.tile.visit import Visitor

Lines = Callable[[Location], "str | None"]
"""The text of a source line, where it is to be had."""

_SHORT = 6
"""Lines of a loop that needs no empty line around it."""

IMPORTS = ("import nki", "import nki.isa as nisa", "import nki.language as nl")


def emit(
    graph: Graph,
    target: Target,
    header: Header | None = None,
    lines: Lines | None = None,
    api: str | None = None,
    addresses: bool = True,
) -> str:
    """NKI source of a kernel: its arguments are the inputs of `graph` in order, it returns the outputs.

    lines: gives the text of the source lines that instructions come from, for comments. api: the version of NKI, the
    newest when left out. addresses: tiles are where the kernel has them; otherwise where the compiler puts them.
    """
    written = roll(arrange(graph, addresses))
    first = _Writer(written, target, header or Header(), lines, api)
    text = first.module()
    # What loops take at a time, and calls that repeat themselves, are seen in the text: they have names when it is
    # written again.
    helpers = first.wanted_helpers()
    if not first.chunks and not helpers:
        return text
    return _Writer(written, target, header or Header(), lines, api, first.chunks, helpers).module()


class _Writer(Visitor):
    def __init__(
        self,
        graph: Graph,
        target: Target,
        header: Header,
        lines: Lines | None,
        api: str | None,
        chunks: Mapping[Op, Chunk] | None = None,
        helpers: Mapping[Repeated, str] | None = None,
    ) -> None:
        self._helpers = Helpers(helpers or {})
        self.chunks: dict[Op, Chunk] = {**(chunks or {})}
        self._graph = graph
        self._target = target
        self._header = header
        self._source = lines
        self._api = get_api(api)
        self._kernel = kernel_name(graph.name)
        self._results = {*graph.outputs}
        self._at, over = lifetimes(graph)
        others = [identifier(value.name, "x") for value in (*graph.inputs, *graph.outputs)]
        results = [each for name in header.results if name for each in (name, f"{name}_out")]
        # A kernel in tile IR is written as it is; one of a NumPy function is for people to keep.
        self._kept = header.function is not None
        self._taken = taken = [self._kernel, *MODULES, *others, *results]
        given = graph.inputs[: len(graph.inputs) - header.constants]
        arrays = (*given, *graph.outputs) if self._kept else ()
        self._sizes = Sizes(graph if self._kept else None, target, taken, self.chunks.values(), arrays)
        self._names = Names([self._kernel, *self._sizes.names, *self._helpers.named.values()], over)
        self._ranges: dict[Value, range] = {}
        self._loops: list[Op] = []
        self._views = ViewWriter(self._api, self._names, self._ranges)
        self._main = next((op.location.file for op in graph.ops if op.location is not None), None)
        self._lines: list[str] = []
        self._told: Location | None = None
        self._depth = 1
        self._in_hbm: set[str] = set()
        self._filled = filled(graph) if self._kept else {}
        self._shares = shares(graph.body, target) if self._kept else {}

    def module(self) -> str:
        """The whole text."""
        for value in self._graph.inputs:
            self._names.add_general(value, "x")
        parameters = [self._names[value] for value in self._graph.inputs]
        self._in_hbm = {*parameters}
        self._name_results()
        for value in self._graph.declared:
            self._names.add_general(value, "out")
        given = self._graph.inputs[: len(self._graph.inputs) - self._header.constants]
        if self._kept:
            self._lines += [f"{INDENT}{line}" for line in self._assumed(given)]
            self._gap()
        for value in self._graph.declared:
            assert isinstance(value, Buffer)
            self._allocate(value)
        self.region(self._graph.body)
        results = ", ".join(self._names[value] for value in self._graph.outputs)
        self._gap()
        self._lines.append(f"{INDENT}return {results}")
        signature = _with_colon(call_lines(f"def {self._kernel}", parameters, 0))
        named = self._sizes.lines()
        head = [*IMPORTS, "", *named, *([""] if named else []), ""]
        return "\n".join([*head, *self._helpers.lines(), "@nki.jit", *signature, *self._docstring(), *self._lines, ""])

    def wanted_helpers(self) -> dict[Repeated, str]:
        """Functions for calls that the text repeats, in one that people keep."""
        return self._helpers.wanted([*self._taken, *self._sizes.names]) if self._kept else {}

    def _name_results(self) -> None:
        """Results that the function has names for are called so, apart from its arguments."""
        own = [value for value in self._graph.outputs if value in self._graph.declared]
        if len(self._header.results) != len(self._graph.outputs) or len({*own}) != len(self._graph.outputs):
            return
        for value, name in zip(self._graph.outputs, self._header.results, strict=True):
            if name:
                value.name = f"{name}_out" if name in self._names.values() else name

    def _assumed(self, values: Sequence[Value]) -> Iterator[str]:
        """What the kernel takes for granted of its arguments."""
        for value in values:
            assert isinstance(value, Buffer)
            name, dtype = self._names[value], self._api.dtype(value.dtype)
            yield f"assert {name}.shape == {self._sizes.shape(value.shape)} and {name}.dtype == {dtype}"

    def _docstring(self) -> list[str]:
        lines = describe(self._graph, self._target, self._header, self._names, self._api.version)
        quotes = '"""'
        if len(lines) == 1:
            return [f"{INDENT}{quotes}{lines[0]}{quotes}"]
        made = [f"{quotes}{lines[0]}", *lines[1:], quotes]
        return [f"{INDENT}{line}" if line else "" for line in made]

    # The body.

    def alloc(self, op: Op, buffer: Buffer) -> None:
        self._tell(op.location)
        self._names.add(buffer, "tile", self._at[op], self._filled.get(buffer))
        self._allocate(buffer, moves(op))

    def instruction(self, op: Op) -> None:
        self._tell(op.location)
        said = [*([self._shares[op]] if op in self._shares else ()), *remarks(op)] if self._kept else []
        self._lines += [comment_line(words, self._depth) for words in said]
        self._put(*self._helpers.shortened(op, *call(op, self._api, self._views, self._names)))

    def _gap(self) -> None:
        """An empty line after a statement."""
        if self._lines and _is_statement(self._lines[-1]):
            self._lines.append("")

    def _put(self, head: str, arguments: list[str]) -> None:
        named = [self._sizes.access(each, _first_name(each) not in self._in_hbm) for each in arguments]
        self._lines += call_lines(head, named, self._depth)

    def _allocate(self, buffer: Buffer, moved: Terms = ()) -> None:
        # What a kernel returns is in shared HBM, whatever the IR says (R-tensor-15).
        memory = SHARED_HBM if buffer in self._results else buffer.memory
        dtype = self._api.dtype(buffer.dtype)
        self._in_hbm |= set() if buffer.on_chip else {self._names[buffer]}
        arguments = [self._sizes.shape(buffer.shape, buffer.on_chip), f"dtype={dtype}", f"buffer=nl.{memory.name}"]
        if buffer.address is not None:
            bank = self._target["memory.psum_bank_bytes"]
            arguments.append(f"address={address(buffer, moved, self._loops, self._names, bank)}")
        if self._kept and not buffer.on_chip and self._depth == 1:
            # Profilers show it. Names are unique in a kernel (R-tensor-20), so tiles of loops have none.
            arguments.append(f'name="{self._names[buffer]}"')
        self._put(f"{self._names[buffer]} = nl.ndarray", arguments)

    def loop(self, op: Op, index: Value, positions: range) -> None:
        self._tell(op.location)
        shown = [positions.start, positions.stop, positions.step]
        if positions.step == 1:
            shown.pop()
            shown = shown[1:] if positions.start == 0 else shown
        name = self._names.add(index, "i", self._at[op])
        self._ranges[index] = positions
        start = len(self._lines)
        self._lines.append("")
        self._depth += 1
        outer = self._loops
        if not is_rolled(op):
            self._loops = [*outer, op]
        chunk = self.chunks.get(op)
        with self._sizes.taking(chunk):
            self.region(op.regions[0])
        if self._kept and chunk is None and (found := chunk_of(name, self._lines[start:])) is not None:
            self.chunks[op] = found
        self._loops = outer
        self._depth -= 1
        bounds = [str(bound) for bound in shown]
        if len(shown) == 1:
            bounds = [self._sizes.trips(shown[0], name, self._lines[start:], chunk)]
        self._lines[start] = f"{INDENT * self._depth}for {name} in range({', '.join(bounds)}):"
        if len(self._lines) == start + 1:
            self._lines.append(f"{INDENT * (self._depth + 1)}pass")
        elif len(self._lines) - start > _SHORT and len(op.regions[0]) > 1:
            # A long loop stands by itself, with the comment before it.
            if start and _is_statement(self._lines[start - 1]):
                self._lines.insert(start, "")
            self._gap()

    def dealloc(self, op: Op, buffer: Buffer) -> None:
        """NKI finds the ends of lives."""

    def trip(self, index: Value, position: int) -> None:
        """Loops stay loops."""

    def register(self, op: Op) -> None:
        """A register that holds a constant, nothing yet, or what arithmetic makes of others."""
        self._tell(op.location)
        name = self._names.add(op.result, "register", self._at[op])
        offset = op.attrs["offset"]
        if not op.operands:
            self._put(f"{name} = nisa.register_alloc", [] if offset is None else [str(offset)])
            return
        total = Sum(offset, tuple(zip(op.operands, op.attrs["factors"], strict=True)))
        self._lines.append(f"{INDENT * self._depth}{name} = {total.text(self._names)}")

    # Where it comes from.

    def _tell(self, location: Location | None) -> None:
        """A comment with the source line, where that is another one than before."""
        if location is None or location == self._told:
            return
        self._told = location
        text = self._source(location) if self._source is not None else None
        if text is None:
            return
        place = f"line {location.line}"
        if location.file != self._main:
            place = f"{PurePath(location.file).name}, {place}"
        self._gap()
        self._lines.append(comment_line(f"{place}: {text.strip()}", self._depth))


def _first_name(argument: str) -> str:
    """The tensor of an argument such as dst=x[0:4]."""
    return re.match(r"(?:\w+=)?(\w*)", argument)[1]  # type: ignore[index]


def _is_statement(line: str) -> bool:
    """Whether a line ends a statement: it is not empty, no comment, and opens no loop."""
    text = line.strip()
    return bool(text) and not text.startswith(("#", "for "))


def _with_colon(lines: list[str]) -> list[str]:
    return [*lines[:-1], f"{lines[-1]}:"]
