"""Sizes by name: the partitions of a tile and the dims of a kernel's arrays, as constants at the head of its module.

P = 128  # partitions of a tile
X_ROWS = 4096

A number is replaced where it is a size, an index or a count of trips, never where it is an address or data. A size that
is the rows of one array and the columns of another stays a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tilewright.emit.names import identifier
from tilewright.ir.core import Graph
from tilewright.target import Target
from tilewright.tile.memory import Buffer

_LEAST = 32
"""Smaller sizes say more as numbers."""
_DIMS = {1: ("",), 2: ("_ROWS", "_COLS")}
_TOKEN = re.compile(r"[A-Za-z_][\w.]*|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\S|\s+")
_CALLS = ("ds", "reshape", "broadcast")
"""Calls whose numbers are sizes, or places that sizes lead to."""


class Sizes:
    """Names for sizes; those that were used are `lines` of the module's head."""

    def __init__(self, graph: Graph | None, target: Target, taken: Iterable[str]) -> None:
        """graph: whose sizes get names, if any do. taken: names that none of them gets."""
        self._names: dict[int, str] = {}
        self._why: dict[int, str] = {}
        self._used: set[int] = set()
        others = {*taken}
        self._partitions: int = target["limits.partitions"]
        if graph is None:
            return
        unclear = _unclear(graph)
        for size, name, why in self._wanted(graph):
            if size in unclear and size != self._partitions:
                continue
            if size not in self._names and name not in others and name not in self._names.values():
                self._names[size], self._why[size] = name, why

    def _wanted(self, graph: Graph) -> Iterator[tuple[int, str, str]]:
        yield self._partitions, "P", "partitions of a tile"
        first = next((value for value in graph.inputs if len(value.type.shape) == 2), None)
        if first is not None:
            named = zip(first.type.shape, ("ROWS", "COLS"), strict=True)
            yield from ((size, name, "") for size, name in named if size >= _LEAST)
        for value in (*graph.inputs, *graph.outputs):
            assert isinstance(value, Buffer)
            endings = _DIMS.get(len(value.shape)) or tuple(f"_DIM{dim}" for dim in range(len(value.shape)))
            for size, ending in zip(value.shape, endings, strict=True):
                if size >= _LEAST:
                    yield size, f"{identifier(value.name, 'x').upper()}{ending or '_SIZE'}", ""

    def lines(self) -> list[str]:
        """Assignments of what was used, in the order in which the sizes were named."""
        used = [(size, name) for size, name in self._names.items() if size in self._used]
        return [f"{name} = {size}{f'  # {self._why[size]}' if self._why[size] else ''}" for size, name in used]

    def shape(self, shape: tuple[int, ...], on_chip: bool = False) -> str:
        """The shape of a tensor; only the first dim of one on chip is its partitions."""
        comma = "," if len(shape) == 1 else ""
        texts = [self._dim(size, on_chip and not place) for place, size in enumerate(shape)]
        return f"({', '.join(texts)}{comma})"

    def _dim(self, size: int, is_partitions: bool) -> str:
        return self.number(size) if is_partitions or size != self._partitions else str(size)

    def number(self, size: int) -> str:
        """A size by its name, if it has one."""
        if size not in self._names:
            return str(size)
        self._used.add(size)
        return self._names[size]

    def trips(self, count: int) -> str:
        """How often a loop runs: by its name, or as parts of a size that has one."""
        whole = count * self._partitions
        if count not in self._names and count > 1 and whole in self._names and self._partitions in self._names:
            return f"{self.number(whole)} // {self.number(self._partitions)}"
        return self.number(count)

    def access(self, text: str) -> str:
        """An access as text, with names for the numbers that `_CALLS` take; those of a plain slice are places."""
        made: list[str] = []
        inside = [False]
        before = ""
        for token in _TOKEN.findall(text):
            if token in ("(", "["):
                a_tuple = token == "(" and before in ("(", ",")
                inside.append(inside[-1] if a_tuple else token == "(" and before.rpartition(".")[2] in _CALLS)
            elif token in (")", "]"):
                inside.pop()
            made.append(self.number(int(token)) if inside[-1] and token.isdigit() else token)
            before = before if token.isspace() else token
        return "".join(made)


def _unclear(graph: Graph) -> set[int]:
    """Sizes that are the rows of one array and the columns of another: no name would suit both."""
    roles: dict[int, set[int]] = {}
    for value in (*graph.inputs, *graph.outputs):
        shape = value.type.shape
        for place, size in enumerate(shape if len(shape) > 1 else ()):
            roles.setdefault(size, set()).add(place - len(shape))
    return {size for size, found in roles.items() if len(found) > 1}
