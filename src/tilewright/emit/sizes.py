"""Sizes by name: the partitions of a tile and the dims of a kernel's arrays, as constants at the head of its module.

P = 128  # partitions of a tile
X_ROWS = 4096
CHUNK = 512  # columns at a time

A number is replaced where it is a size, an index or a count of trips, never where it is an address or data. A size that
is the rows of one array and the columns of another stays a number; one that is the rows of an array and the columns of
a tile has its name in arrays and loops only, because 512 columns are not the 512 rows. What a loop takes at a time has
its name in that loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tilewright.emit.chunks import LEAST, Chunk, chunk_names
from tilewright.emit.names import identifier
from tilewright.ir.core import Graph, Value
from tilewright.ir.walk import walk
from tilewright.target import Target
from tilewright.tile.memory import Buffer

_DIMS = {1: ("",), 2: ("_ROWS", "_COLS")}
_TOKEN = re.compile(r"[A-Za-z_][\w.]*|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\S|\s+")
_LAST = re.compile(r"\b(\d+):(\d+)\b")
"""A slice of which one place may be the last."""
_CALLS = ("ds", "reshape", "broadcast")
"""Calls whose numbers are sizes, or places that sizes lead to."""


class Sizes:
    """Names for sizes; those that were used are `lines` of the module's head."""

    def __init__(
        self,
        graph: Graph | None,
        target: Target,
        taken: Iterable[str],
        chunks: Iterable[Chunk] = (),
        arrays: Iterable[Value] = (),
    ) -> None:
        """graph: whose sizes get names, if any do. taken: names that none of them gets. chunks: what loops take.

        arrays: the function's own, whose dims have names; constants that the compiler adds have none.
        """
        self._names: dict[int, str] = {}
        self._why: dict[int, str] = {}
        self._used: set[int] = set()
        others = {*taken}
        self._partitions: int = target["limits.partitions"]
        self._not_on_chip: set[int] = set()
        self._columns: set[int] = set()
        self._chunks: dict[int, tuple[str, str]] = {}
        self._taken_so: list[int] = []
        if graph is None:
            return
        roles = _roles(graph)
        self._columns = {size for size, found in roles.items() if found == {-1}}
        unclear = {size for size, found in roles.items() if len(found) > 1}
        self._not_on_chip = {size for size in _columns_of_tiles(graph) if roles.get(size, {-1}) != {-1}}
        for size, name, why in self._wanted(graph, arrays):
            if size in unclear and size != self._partitions:
                continue
            if size not in self._names and name not in others and name not in self._names.values():
                self._names[size], self._why[size] = name, why
        others |= {*self._names.values()}
        self._chunks = chunk_names((each for each in chunks if each.size not in self._names), others)

    def _wanted(self, graph: Graph, arrays: Iterable[Value]) -> Iterator[tuple[int, str, str]]:
        yield self._partitions, "P", "partitions of a tile"
        first = next((value for value in graph.inputs if len(value.type.shape) == 2), None)
        if first is not None:
            named = zip(first.type.shape, ("ROWS", "COLS"), strict=True)
            yield from ((size, name, "") for size, name in named if size >= LEAST)
        for value in arrays:
            assert isinstance(value, Buffer)
            endings = _DIMS.get(len(value.shape)) or tuple(f"_DIM{dim}" for dim in range(len(value.shape)))
            for size, ending in zip(value.shape, endings, strict=True):
                if size >= LEAST:
                    yield size, f"{identifier(value.name, 'x').upper()}{ending or '_SIZE'}", ""

    @property
    def names(self) -> set[str]:
        """All names of sizes: no variable of the kernel may have one of them."""
        return {*self._names.values(), *(name for name, _ in self._chunks.values())}

    def lines(self) -> list[str]:
        """Assignments of what was used, in the order in which the sizes were named."""
        used = [(size, name) for size, name in self._names.items() if size in self._used]
        sizes = [f"{name} = {size}{f'  # {self._why[size]}' if self._why[size] else ''}" for size, name in used]
        chunks = [(size, *named) for size, named in self._chunks.items() if size in self._used]
        return sizes + [f"{name} = {size}  # {why}" for size, name, why in chunks]

    @contextmanager
    def taking(self, chunk: Chunk | None) -> Iterator[None]:
        """The body of a loop that takes so much at a time, if it does: there the size has its name."""
        inner = [chunk.size] if chunk is not None and chunk.size in self._chunks else []
        self._taken_so += inner
        yield
        del self._taken_so[len(self._taken_so) - len(inner) :]

    def shape(self, shape: tuple[int, ...], on_chip: bool = False) -> str:
        """The shape of a tensor; only the first dim of one on chip is its partitions."""
        comma = "," if len(shape) == 1 else ""
        texts = [self._dim(size, on_chip, not place) for place, size in enumerate(shape)]
        return f"({', '.join(texts)}{comma})"

    def _dim(self, size: int, on_chip: bool, is_first: bool) -> str:
        if size in self._taken_so:
            return self._piece(size)
        if on_chip and not is_first and size in self._not_on_chip:
            return str(size)
        return self.number(size) if (on_chip and is_first) or size != self._partitions else str(size)

    def number(self, size: int) -> str:
        """A size by its name, if it has one."""
        if size not in self._names:
            return str(size)
        self._used.add(size)
        return self._names[size]

    def _piece(self, size: int) -> str:
        self._used.add(size)
        return self._chunks[size][0]

    def trips(self, count: int, index: str, body: Iterable[str], chunk: Chunk | None = None) -> str:
        """How often a loop runs: by its name, or as blocks of a size that has one if its body steps by blocks."""
        if chunk is not None and chunk.size in self._chunks and count * chunk.size in self._names:
            return f"{self.number(count * chunk.size)} // {self._piece(chunk.size)}"
        whole = count * self._partitions
        if count in self._names or not {whole, self._partitions} <= {*self._names}:
            return self.number(count)
        block = re.compile(rf"\b{index} \* {self._names[self._partitions]}\b")
        if not any(block.search(line) for line in body):
            return str(count)
        return f"{self.number(whole)} // {self.number(self._partitions)}"

    def access(self, text: str, on_chip: bool = False) -> str:
        """An access as text, with names for the numbers that `_CALLS` take; those of a plain slice are places.

        on_chip: it is one of a tile, of whose new shape only the first dim is its partitions or rows.
        """
        text = _LAST.sub(self._last, text)
        made: list[str] = []
        inside = [False]
        before = function = ""
        shape = 0  # how deep in brackets the dims of a new shape are
        behind = False
        for token in _TOKEN.findall(text):
            if token in ("(", "["):
                a_tuple = token == "(" and before in ("(", ",")
                inside.append(inside[-1] if a_tuple else token == "(" and before.rpartition(".")[2] in _CALLS)
                shape = len(inside) if on_chip and a_tuple and function.endswith("reshape") else shape
                function = before if token == "(" and not a_tuple else function
            elif token in (")", "]"):
                if len(inside) == shape:
                    shape, behind = 0, False
                inside.pop()
            behind = behind or (token == "," and len(inside) == shape)
            named = inside[-1] and token.isdigit() and not (behind and self._is_chance(int(token)))
            made.append(self._size(int(token)) if named else token)
            before = before if token.isspace() else token
        return "".join(made)

    def _is_chance(self, size: int) -> bool:
        """Whether a dim of a tile behind its partitions has the size of other things only."""
        return size not in self._taken_so and (size == self._partitions or size not in self._columns)

    def _last(self, found: re.Match[str]) -> str:
        """The last place of what a loop takes at a time, by the name of that."""
        start, stop = map(int, found.groups())
        if start + 1 != stop or stop not in self._taken_so:
            return found.group()
        return f"{self._piece(stop)} - 1 : {self._piece(stop)}"

    def _size(self, size: int) -> str:
        if size in self._taken_so:
            return self._piece(size)
        return str(size) if size in self._not_on_chip else self.number(size)


def _roles(graph: Graph) -> dict[int, set[int]]:
    """Which dims of the kernel's arrays have a size, counted from the last."""
    roles: dict[int, set[int]] = {}
    for value in (*graph.inputs, *graph.outputs):
        shape = value.type.shape
        for place, size in enumerate(shape if len(shape) > 1 else ()):
            roles.setdefault(size, set()).add(place - len(shape))
    return roles


def _columns_of_tiles(graph: Graph) -> set[int]:
    """Sizes of what tiles on chip have in a partition."""
    values = (value for op in walk(graph.body) for value in op.results)
    return {size for value in values if isinstance(value, Buffer) and value.on_chip for size in value.shape[1:]}
