"""The driver: a kernel in tile IR becomes the text of a Python module with one NKI kernel.

The text uses the part of Python that the NKI compiler accepts: assignments, calls, indexing, integer arithmetic on loop
indices and `for i in range(...)` (the compiler unrolls such loops, and its own ranges are deprecated names of it). Each
trip of a loop allocates its tiles anew; how many of them are alive at once is the compiler's decision.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from tilewright.emit.affine import Sum
from tilewright.emit.arrange import arrange
from tilewright.emit.calls import call
from tilewright.emit.header import Header, describe
from tilewright.emit.layout import INDENT, call_lines, comment_line
from tilewright.emit.lifetimes import lifetimes
from tilewright.emit.names import Names, kernel_name
from tilewright.emit.rings import Ring, rings, turn
from tilewright.emit.roll import roll
from tilewright.emit.versions import get_api
from tilewright.emit.views import ViewWriter
from tilewright.errors import Location
from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.target import Target
from tilewright.tile.memory import SHARED_HBM, Buffer
from tilewright.tile.ops import ALLOC, FOR, INDEX, REGISTER, trips

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
    explicit_buffers: bool = False,
) -> str:
    """NKI source of a kernel: its arguments are the inputs of `graph` in order, it returns the outputs.

    lines: gives the text of the source lines that instructions come from, for comments. api: the version of NKI, the
    newest when left out. explicit_buffers: tiles of loops take turns in as many places as their depth says (`rings`);
    otherwise each trip allocates its own, and how many are alive at once is the compiler's decision.
    """
    return _Writer(roll(arrange(graph)), target, header or Header(), lines, api, explicit_buffers).module()


class _Writer:
    def __init__(
        self, graph: Graph, target: Target, header: Header, lines: Lines | None, api: str | None, explicit_buffers: bool
    ) -> None:
        self._graph = graph
        self._target = target
        self._header = header
        self._source = lines
        self._api = get_api(api)
        self._kernel = kernel_name(graph.name)
        self._results = {*graph.outputs}
        self._at, over = lifetimes(graph)
        self._over = dict(over)
        self._names = Names([self._kernel], self._over)
        self._explicit = explicit_buffers
        self._rings: dict[Buffer, Ring] = {}
        self._ranges: dict[Value, range] = {}
        self._loops: list[Op] = []
        self._views = ViewWriter(self._api, self._names, self._ranges)
        self._main = next((op.location.file for op in graph.ops if op.location is not None), None)
        self._lines: list[str] = []
        self._told: Location | None = None
        self._depth = 1

    def module(self) -> str:
        """The whole text."""
        for value in self._graph.inputs:
            self._names.add_general(value, "x")
        parameters = [self._names[value] for value in self._graph.inputs]
        for value in self._graph.declared:
            self._names.add_general(value, "out")
        for value in self._graph.declared:
            assert isinstance(value, Buffer)
            self._allocate(value)
        self._region(self._graph.body)
        results = ", ".join(self._names[value] for value in self._graph.outputs)
        self._gap()
        self._lines.append(f"{INDENT}return {results}")
        signature = call_lines(f"def {self._kernel}", parameters, 0)
        return "\n".join([*IMPORTS, "", "", "@nki.jit", *_with_colon(signature), *self._docstring(), *self._lines, ""])

    def _docstring(self) -> list[str]:
        lines = describe(self._graph, self._target, self._header, self._names, self._api.version)
        quotes = '"""'
        if len(lines) == 1:
            return [f"{INDENT}{quotes}{lines[0]}{quotes}"]
        made = [f"{quotes}{lines[0]}", *lines[1:], quotes]
        return [f"{INDENT}{line}" if line else "" for line in made]

    # The body.

    def _region(self, region: Region) -> None:
        for op in region.ops:
            self._tell(op.location)
            if op.definition is ALLOC:
                buffer = op.result
                assert isinstance(buffer, Buffer)
                if buffer in self._rings:
                    self._take_turn(self._rings[buffer], self._at[op])
                    continue
                self._names.add(buffer, "tile", self._at[op])
                self._allocate(buffer)
            elif op.definition is FOR:
                self._loop(op)
            elif op.definition is REGISTER:
                self._register(op)
            else:
                self._put(*call(op, self._api, self._views, self._names))

    def _gap(self) -> None:
        """An empty line after a statement."""
        if self._lines and _is_statement(self._lines[-1]):
            self._lines.append("")

    def _put(self, head: str, arguments: list[str]) -> None:
        self._lines += call_lines(head, arguments, self._depth)

    def _allocate(self, buffer: Buffer) -> None:
        self._put(f"{self._names[buffer]} = nl.ndarray", self._described(buffer))

    def _described(self, buffer: Buffer) -> list[str]:
        # What a kernel returns is in shared HBM, whatever the IR says (R-tensor-15).
        memory = SHARED_HBM if buffer in self._results else buffer.memory
        arguments = [str(buffer.shape), f"dtype={self._api.dtype(buffer.dtype)}", f"buffer=nl.{memory.name}"]
        if buffer.address is not None:
            place = str(buffer.address.byte)
            if buffer.depth > 1 and self._loops:
                # The copies of a loop's tile follow each other.
                step = f"{turn(self._loops, buffer.depth, self._names)} * {buffer.row_bytes}"
                place = f"{place} + {step}" if buffer.address.byte else step
            arguments.append(f"address=({buffer.address.partition}, {place})")
        return arguments

    def _allocate_rings(self, loop: Op) -> None:
        """The tiles that a loop and those inside of it take turns with."""
        end = self._over[loop.regions[0].arguments[0]]
        indent = INDENT * self._depth
        for ring in [ring for ring in rings(loop) if ring.buffer not in self._rings]:
            self._rings[ring.buffer] = ring
            if ring.count == 1:
                self._over[ring.buffer] = end
                self._names.add(ring.buffer, "tile", self._at[loop])
                self._allocate(ring.buffer)
                continue
            self._over[ring.tiles] = end
            tiles = self._names.add(ring.tiles, "tiles", self._at[loop])
            index = self._names.add(Value(INDEX, "i"), "i", self._at[loop])
            self._lines += [f"{indent}{tiles} = []", f"{indent}for {index} in range({ring.count}):"]
            self._lines.append(f"{indent}{INDENT}{tiles}.append(nl.ndarray({', '.join(self._described(ring.buffer))}))")

    def _take_turn(self, ring: Ring, at: int) -> None:
        """The tile of this trip."""
        if ring.count > 1:
            name, tiles = self._names.add(ring.buffer, "tile", at), self._names[ring.tiles]
            self._lines.append(f"{INDENT * self._depth}{name} = {tiles}[{turn(ring.loops, ring.count, self._names)}]")

    def _loop(self, op: Op) -> None:
        if self._explicit:
            self._allocate_rings(op)
        (index,) = op.regions[0].arguments
        bounds = trips(op)
        shown = [bounds.start, bounds.stop, bounds.step]
        if bounds.step == 1:
            shown.pop()
            shown = shown[1:] if bounds.start == 0 else shown
        name = self._names.add(index, "i", self._at[op])
        self._ranges[index] = bounds
        start = len(self._lines)
        self._put(f"for {name} in range", [str(bound) for bound in shown])
        self._lines[-1] += ":"
        self._depth += 1
        self._loops.append(op)
        self._region(op.regions[0])
        self._loops.pop()
        self._depth -= 1
        if len(self._lines) == start + 1:
            self._lines.append(f"{INDENT * (self._depth + 1)}pass")
        elif len(self._lines) - start > _SHORT and len(op.regions[0]) > 1:
            # A long loop stands by itself, with the comment before it.
            if start and _is_statement(self._lines[start - 1]):
                self._lines.insert(start, "")
            self._gap()

    def _register(self, op: Op) -> None:
        """A register that holds a constant, nothing yet, or what arithmetic makes of others."""
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


def _is_statement(line: str) -> bool:
    """Whether a line ends a statement: it is not empty, no comment, and opens no loop."""
    text = line.strip()
    return bool(text) and not text.startswith(("#", "for "))


def _with_colon(lines: list[str]) -> list[str]:
    return [*lines[:-1], f"{lines[-1]}:"]
